"""Outputs among folders of classes: refused before anything is written, for the next look would take them for one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gate_runner import api
from gate_runner.choosing.choice import choose
from gate_runner.errors import UsageError
from gate_runner.settings import Settings
from knowledge_prompts import ClassWords


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for split in ("train", "test"):
        for number in range(8):
            path = tmp_path / "photos" / split / "ab"[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.integers(0, 256, (16, 16, 3), np.uint8)).save(path)
    return tmp_path / "photos"


def adapted(photos: Path, **places: Any) -> None:
    api.adapt(photos, "zeroshot", encoder="micro-clip/random", words=ClassWords(("a {}",)), **places)


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("option", ["output", "save"])
@pytest.mark.parametrize("inside", ["train/o", "train/a/o", "test/o/p", "train"])
def test_among_classes_is_refused_and_nothing_written(photos: Path, tmp_path: Path, option: str, inside: str) -> None:
    before = everything(photos)
    expected = r"is among the class folders of .*, where it would be taken for a class|holds something else than a head"
    with pytest.raises(UsageError, match=expected):
        adapted(photos, **{"output": tmp_path / "elsewhere", option: photos / inside})
    assert everything(photos) == before


@pytest.mark.parametrize("inside", ["train/runs/o", "o", "train/.o"])
def test_places_that_are_never_a_class_are_taken(photos: Path, inside: str) -> None:
    for _ in range(2):
        adapted(photos, output=photos / inside)
    assert (photos / inside / "manifest.json").is_file()


def test_the_folder_itself_is_refused_where_its_folders_are_classes(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos / "train")
    with pytest.raises(UsageError, match="among the class folders"):
        adapted(Path(), output=".")
    assert [path.name for path in sorted((photos / "train").iterdir())] == ["a", "b"]


def test_run_and_choose_refuse_it_too(photos: Path) -> None:
    file = photos / "benchmark.toml"
    file.write_text('[benchmark]\nid = "shots"\n[data]\nkind = "folders"\n[splits]\ntrain = "train"\ntest = "test"\n')
    before = everything(photos)
    with pytest.raises(UsageError, match="among the class folders"):
        api.run(str(file), encoder="micro-clip/random", output=photos / "train" / "o", isolate="none", show=False)
    how = Settings(isolate="none", readout=("last",))
    for places in ((photos / "train" / "o", None), (photos.parent / "c", photos / "test" / "h")):
        with pytest.raises(UsageError, match="among the class folders"):
            choose(str(file), ("micro-clip/random",), places[0], how, save=places[1])
    assert everything(photos) == before
