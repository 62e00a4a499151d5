"""A module that the user names is imported from the working folder; nothing else ever is, in any package."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"


def _runner(spec: str) -> Any:
    from vision_features.errors import EncoderError
    from wary_files.working_folder import made_by

    return made_by(spec, "encoder", error=EncoderError)


def _eevee(spec: str) -> Any:
    from eevee.scorers.named import named_scorer

    return named_scorer(spec)


def _eqben(spec: str) -> Any:
    from eqben_builder.commands.models import encoder_by

    return encoder_by(spec, "cpu")


def _faces(spec: str) -> Any:
    from eqben_builder.video.youcook2 import face_detector

    return face_detector(spec)


def _oven(spec: str) -> Any:
    from oven_retrieval.commands.encoders import load_own

    return load_own(spec, "cpu")


def _prompts(spec: str) -> Any:
    from knowledge_prompts.cli import text_encoder

    return text_encoder(spec, "cpu")


DOORS: tuple[Callable[[str], Any], ...] = (_runner, _eevee, _eqben, _faces, _oven, _prompts)
OWN = """
import beside


class Made:
    name = objective = "all"
    score = predict = encode_image = encode_text = lambda self, *given: 0

    def late(self):
        import importlib
        from pack import inner
        importlib.import_module("latest")
        return inner.value + beside.value


def make(device=None):
    import json
    json.dumps(1)
    return Made()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder that holds the user's module, what that imports, and what nobody named."""
    for name, text in {
        "own_model.py": OWN,
        "beside.py": "value = 1",
        "latest.py": "",
        "pack/inner.py": "value = 2",  # a package without __init__
        "umap.py": "from pathlib import Path\nPath('RAN').touch()",
        "plugged.py": "from pathlib import Path\nPath('RAN').touch()",
        "plugged-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n",
        "plugged-1.0.dist-info/entry_points.txt": "[torch.backends]\nx = plugged:x\n[some.group]\nx = plugged:x\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    yield tmp_path
    for name in ("own_model", "beside", "latest", "pack", "pack.inner", "umap", "plugged", "installed_model"):
        if name not in before:
            sys.modules.pop(name, None)


def _nothing_else(folder: Path) -> None:
    assert str(folder) not in sys.path
    assert not list(importlib.metadata.entry_points(group="some.group"))
    for name in ("umap", "plugged"):
        with pytest.raises(ImportError):
            importlib.import_module(name)
    assert not (folder / "RAN").exists()


@pytest.mark.parametrize("door", DOORS)
def test_the_folder_stays_closed_behind_the_named_module(door: Callable[[str], Any], folder: Path) -> None:
    made = door("own_model:make")
    _nothing_else(folder)
    if door is not _faces and door is not _prompts:
        assert (made._encoder if door is _oven else made).late() == 3  # what it imports while it runs is found, too
    _nothing_else(folder)


@pytest.mark.parametrize("door", DOORS)
def test_an_installed_module_opens_nothing(
    door: Callable[[str], Any], folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    site = tmp_path_factory.mktemp("site")
    text = OWN.replace("import beside\n", "try:\n    import umap\nexcept ImportError:\n    pass\n")
    (site / "installed_model.py").write_text(text)
    sys.path.append(str(site))  # the fixture's list, which the test's end takes away
    door("installed_model:make")
    _nothing_else(folder)


@pytest.mark.parametrize("door", DOORS)
def test_an_installed_module_goes_before_one_of_the_folder(door: Callable[[str], Any], folder: Path) -> None:
    (folder / "colorsys.py").write_text("from pathlib import Path\nPath('RAN').touch()")
    with pytest.raises(Exception, match="make"):
        door("colorsys:make")
    assert not (folder / "RAN").exists()


def test_torch_takes_no_plug_in_from_the_folder(folder: Path) -> None:
    """Importing torch loads its plug-ins, which are looked for on the whole path."""
    (folder / "with_torch.py").write_text("import torch\n\ndef make():\n    return torch\n")
    code = "from wary_files.working_folder import made_by; made_by('with_torch:make', 'model')"
    subprocess.run([sys.executable, "-P", "-c", code], cwd=folder, check=True, timeout=300, env=dict(os.environ))
    assert not (folder / "RAN").exists()


def test_nothing_else_touches_the_path() -> None:
    files = [file for file in PACKAGES.glob("*/src/**/*.py") if file.name != "working_folder.py"]
    assert len(files) > 300
    for file in files:
        text = file.read_text()
        for words in ("sys.path.append", "sys.path.insert", "sys.path +=", "sys.path.extend", "addsitedir"):
            assert words not in text, file
