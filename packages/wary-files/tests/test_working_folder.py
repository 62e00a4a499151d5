"""A named module comes from the working folder; what nobody named does not."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from wary_files.working_folder import import_named, made_by


def test_a_named_module_and_what_it_imports_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named_here.py").write_text("import beside_it\nvalue = beside_it.value\n")
    (tmp_path / "beside_it.py").write_text("value = 3\n")
    (tmp_path / "unnamed_here.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    try:
        assert import_named("named_here").value == 3
        with pytest.raises(ImportError):
            importlib.import_module("unnamed_here")
        with pytest.raises(ImportError):
            import_named("lacking_here")
    finally:
        for name in ("named_here", "beside_it"):
            sys.modules.pop(name, None)


def test_an_installed_module_goes_before_one_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "colorsys.py").write_text("raise AssertionError\n")
    monkeypatch.chdir(tmp_path)
    assert import_named("colorsys").__name__ == "colorsys"


OWN = """
class Model:
    make = staticmethod(lambda: "made inside")


def plain():
    return "made"


def on(device):
    return f"made on {device}"


def lenient(*parts, device="cpu", **more):
    return f"made on {device}"


def answer(images, captions, device="cpu"):
    return 0


def broken():
    raise KeyError("weights")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's in the working folder."""
    name = f"own_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(OWN)
    (tmp_path / f"{name}_syntax.py").write_text("def f(:\n")
    monkeypatch.chdir(tmp_path)
    return name


def test_what_a_user_names_is_made_with_the_device_where_it_takes_one(own: str) -> None:
    assert made_by(f"{own}:plain", "model", device="cuda") == "made"
    assert made_by(f"{own}:on", "model", device="cuda") == "made on cuda"
    assert made_by(f"{own}:lenient", "model", device="cuda") == made_by(f"{own}:on", "model", device="cuda")
    assert made_by(f"{own}:lenient", "model") == "made on cpu"
    assert made_by(f"{own}:Model.make", "model") == "made inside"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("OWN", "expected MODULE:FUNCTION"),
        (":plain", "expected MODULE:FUNCTION"),
        ("OWN:", "expected MODULE:FUNCTION"),
        ("OWN_gone:f", "cannot import 'OWN_gone': No module named 'OWN_gone'"),
        ("OWN.py:plain", "cannot import 'OWN.py': name the module, not its file: OWN:…"),
        ("OWN_syntax:f", "cannot import 'OWN_syntax': SyntaxError: "),
        ("OWN:absent", "module 'OWN' has no 'absent'"),
        ("OWN:answer", "answer takes images, captions; expected a function without arguments that returns the model"),
        ("OWN:on", "on takes device; expected a function without arguments that returns the model"),
        ("OWN:broken", "broken() raised KeyError: 'weights'"),
        ("OWN:OWN", "module 'OWN' has no 'OWN'"),
    ],
)
def test_what_cannot_be_made_is_one_line_of_the_callers_error(own: str, spec: str, message: str) -> None:
    with pytest.raises(LookupError) as caught:
        made_by(spec.replace("OWN", own), "model", error=LookupError)
    assert str(caught.value).startswith(f"model {spec.replace('OWN', own)!r}: {message.replace('OWN', own)}")
    assert "\n" not in str(caught.value)
