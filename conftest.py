"""What every test process has: one compute thread, a cache of its own, and no limit on the time of an example."""

import atexit
import collections
import gc
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# Two processes with two threads each on two cores wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Features that a user's commands left must not be found by a test, nor a test's by a user.
if "GATE_RUNNER_CACHE" not in os.environ:
    os.environ["GATE_RUNNER_CACHE"] = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, os.environ["GATE_RUNNER_CACHE"], ignore_errors=True)

# The time of one example says how busy the machine is; pytest's own limit ends what hangs.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--first N``: a look at everything in a minute or two, as each wheel gets; ``--seed N``: any order.

    pytest-randomly would seed the generators before each test, too, and hide that a test draws from a global one.
    """
    parser.addoption("--first", type=int, default=0, help="run the first N tests of each file")
    parser.addoption("--seed", type=int, help="shuffle files, and tests within a file")


def pytest_configure() -> None:
    """Say which packages of the workspace an environment lacks that was made before they were."""
    abouts = sorted(Path(__file__).parent.glob("packages/*/src/*/__about__.py"))
    if missing := [about.parents[2].name for about in abouts if find_spec(about.parent.name) is None]:
        commands = "; ".join(f"uv pip install --no-deps -e packages/{folder}" for folder in missing)
        raise pytest.UsageError(f"not installed in this environment: {', '.join(missing)}; run: {commands}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle as ``--seed`` asks, a file's tests together for its fixtures, and keep what ``--first`` asks for."""
    seed = config.getoption("--seed")
    if seed is not None:
        shuffled = random.Random(seed)
        files = collections.defaultdict[object, list[pytest.Item]](list)
        for item in items:
            files[item.path].append(item)
        items[:] = []
        for path in shuffled.sample(list(files), len(files)):
            items += shuffled.sample(files[path], len(files[path]))
    limit, seen = config.getoption("--first"), collections.Counter[object]()
    if limit:
        rest = []
        for item in items:
            seen[item.path] += 1
            if seen[item.path] > limit:
                rest.append(item)
        config.hook.pytest_deselected(items=rest)
        items[:] = [item for item in items if item not in set(rest)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests and all that they import stay to the end: later collections of garbage pass them by."""
    gc.disable()
    try:
        return (yield)
    finally:
        _pass_by()
        gc.enable()


_MANY = 100
_imported = 0


def _pass_by() -> None:
    global _imported
    gc.collect()
    gc.freeze()
    _imported = len(sys.modules)


@pytest.fixture(scope="module", autouse=True)
def _imported_from_temporary_folders(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Drop what a file's tests imported from their folders: tests of another file have modules of the same names."""
    before = dict(sys.modules)
    yield
    folder = f"{tmp_path_factory.getbasetemp()}{os.sep}"
    for name, module in list(sys.modules.items()):
        if before.get(name) is module:
            continue
        values = getattr(module, "__dict__", {})
        places = [values.get("__file__"), *(values.get("__path__") or ())]
        if any(isinstance(place, str) and place.startswith(folder) for place in places):
            del sys.modules[name]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Libraries that a test imports stay, too: each collection that a run asks for takes 0.3 s of them."""
    try:
        return (yield)
    finally:
        if len(sys.modules) > _imported + _MANY:
            _pass_by()
