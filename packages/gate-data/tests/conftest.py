"""The project's real data, where the checkout has it beside it, and a cache of the tests' own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def shared_data() -> Path:
    """The folder with real data; the test is skipped where it is not there."""
    value = os.environ.get("VLB_SHARED_DATA")
    root = Path(value) if value else Path(__file__).parents[4] / "shared" / "data"
    if not root.is_dir():
        pytest.skip("the project's shared data is not here")
    return root


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is fetched or unpacked lies where the test can see it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GATE_RUNNER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
