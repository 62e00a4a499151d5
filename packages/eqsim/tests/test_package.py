"""The package needs torch and nothing else, and is quick to import."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import eqsim

OPTIONAL = ("numpy", "triton", "open_clip", "transformers", "lightning", "jaxtyping", "sentence_transformers")


def in_a_fresh_process(code: str) -> str:
    finished = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return finished.stdout


def test_import_brings_nothing_but_torch_and_is_quick() -> None:
    """Its cost is counted in function calls, which no other work on the machine changes: 19,500 take .02 s."""
    code = """
import json, sys, torch
before, calls = set(sys.modules), 0
def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
import eqsim
sys.setprofile(None)
print(json.dumps([calls, sorted(set(sys.modules) - before)]))
"""
    calls, added = json.loads(in_a_fresh_process(code))
    own = {name for name in added if name.partition(".")[0] == "eqsim"}
    assert "eqsim" in own
    others = {name.partition(".")[0] for name in set(added) - own}
    assert not others & set(OPTIONAL)
    assert "torch" not in others  # not even a part of torch that `import torch` leaves out
    assert others <= set(sys.stdlib_module_names)
    assert calls < 40_000


def test_public_names() -> None:
    for name in eqsim.__all__:
        thing = getattr(eqsim, name)
        if name not in ("__version__", "functional"):
            assert "Example:" in thing.__doc__ or name in ("Diagnosis", "Multinomial"), name
    functional = importlib.import_module("eqsim.functional")
    for name in functional.__all__:
        assert "Example:" in getattr(functional, name).__doc__, name


def test_a_step_passes_few_files() -> None:
    code = """
import sys, torch
from eqsim import ClipEqSimLoss
files = set()
def enter(frame, event, argument):
    name = frame.f_code.co_filename.replace(chr(92), "/")
    if event == "call" and "/eqsim/" in name:
        files.add(name.rpartition("/eqsim/")[2])
image, text = torch.randn(2, 300, 8, requires_grad=True)
sys.setprofile(enter)
ClipEqSimLoss()(image, text, 10.0).backward()
sys.setprofile(None)
print(*sorted(files))
"""
    files = in_a_fresh_process(code).split()
    assert "backends/tiled.py" in files
    assert len(files) <= 16, files


def test_the_package_can_be_imported_again() -> None:
    """As notebooks do that drop it from `sys.modules`; a loss of the first import still works."""
    code = """
import sys, torch
image, text = torch.randn(2, 300, 8)
def first():
    import eqsim
    return eqsim.ClipEqSimLoss(mode="v1")
loss = first()
for name in [name for name in sys.modules if name.partition(".")[0] == "eqsim"]:
    del sys.modules[name]
again = first()
assert type(again) is not type(loss)
print(float(loss(image, text, 10.0)) == float(again(image, text, 10.0)))
"""
    assert in_a_fresh_process(code) == "True\n"
