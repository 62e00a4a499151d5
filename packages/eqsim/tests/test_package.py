"""The package needs torch and nothing else, and is quick to import."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from typing import Any

import pytest

import eqsim

OPTIONAL = ("numpy", "triton", "open_clip", "transformers", "lightning", "jaxtyping", "sentence_transformers")


_FRESH = """
import json, sys, torch

before, calls = set(sys.modules), 0
def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
import eqsim
sys.setprofile(None)
added = sorted(set(sys.modules) - before)

files = set()
def enter(frame, event, argument):
    name = frame.f_code.co_filename.replace(chr(92), "/")
    if event == "call" and "/eqsim/" in name:
        files.add(name.rpartition("/eqsim/")[2])
image, text = torch.randn(2, 300, 8, requires_grad=True)
sys.setprofile(enter)
eqsim.ClipEqSimLoss()(image, text, 10.0).backward()
sys.setprofile(None)

image, text = torch.randn(2, 300, 8)
loss = eqsim.ClipEqSimLoss(mode="v1")
for name in [name for name in sys.modules if name.partition(".")[0] == "eqsim"]:
    del sys.modules[name]
import eqsim
again = eqsim.ClipEqSimLoss(mode="v1")
is_another = type(again) is not type(loss)
print(json.dumps({
    "calls": calls, "added": added, "files": sorted(files),
    "is_another": is_another, "is_equal": float(loss(image, text, 10.0)) == float(again(image, text, 10.0)),
}))
"""


@pytest.fixture(scope="module")
def fresh() -> dict[str, Any]:
    """What a fresh process sees of an import, a first step, and a second import."""
    command = [sys.executable, "-W", "ignore", "-c", _FRESH]
    seen: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return seen


def test_import_brings_nothing_but_torch_and_is_quick(fresh: dict[str, Any]) -> None:
    """Its cost is counted in function calls, which no other work on the machine changes: 19,500 take .02 s."""
    own = {name for name in fresh["added"] if name.partition(".")[0] == "eqsim"}
    assert "eqsim" in own
    others = {name.partition(".")[0] for name in set(fresh["added"]) - own}
    assert not others & set(OPTIONAL)
    assert "torch" not in others  # not even a part of torch that `import torch` leaves out
    assert others <= set(sys.stdlib_module_names)
    assert fresh["calls"] < 40_000


def test_public_names() -> None:
    for name in eqsim.__all__:
        thing = getattr(eqsim, name)
        if name not in ("__version__", "functional"):
            assert "Example:" in thing.__doc__ or name in ("Diagnosis", "Multinomial"), name
    functional = importlib.import_module("eqsim.functional")
    for name in functional.__all__:
        assert "Example:" in getattr(functional, name).__doc__, name


def test_a_step_passes_few_files(fresh: dict[str, Any]) -> None:
    assert "backends/tiled.py" in fresh["files"]
    assert len(fresh["files"]) <= 16, fresh["files"]


def test_the_package_can_be_imported_again(fresh: dict[str, Any]) -> None:
    """As notebooks do that drop it from `sys.modules`; a loss of the first import still works."""
    assert fresh["is_another"]
    assert fresh["is_equal"]
