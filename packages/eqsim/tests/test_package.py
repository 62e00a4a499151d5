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
    code = (
        "import json, sys, time, torch; before = set(sys.modules); start = time.process_time(); import eqsim;"
        "print(json.dumps([time.process_time() - start,"
        " sorted({name.partition('.')[0] for name in set(sys.modules) - before})]))"
    )
    measured = [json.loads(in_a_fresh_process(code)) for _ in range(3)]  # the first may compile the modules
    seconds, added = min(seconds for seconds, _ in measured), measured[0][1]
    assert "eqsim" in added
    assert not set(added) & set(OPTIONAL)
    assert set(added) - {"eqsim"} <= set(sys.stdlib_module_names)
    assert seconds < 0.05


def test_public_names() -> None:
    for name in eqsim.__all__:
        thing = getattr(eqsim, name)
        if name not in ("__version__", "functional"):
            assert "Example:" in thing.__doc__ or name in ("Diagnosis", "Multinomial"), name
    functional = importlib.import_module("eqsim.functional")
    for name in functional.__all__:
        assert "Example:" in getattr(functional, name).__doc__, name
