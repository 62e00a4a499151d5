"""Folders of splits whose names only hold a split's word: they are no groups of classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from gate_data import load
from gate_data.errors import DataError
from gate_data.own import OwnBenchmark, guess
from gate_data.own.originals import originals_from


def pictures(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir(parents=True)
        for number in range(6):
            Image.new("RGB", (8, 8), (40 * number, len(name), 0)).save(root / name / f"{number}.png")


@pytest.mark.parametrize("form", ["seg_{}/seg_{}", "seg_{}", "{}_set", "birds-{}", "{}/{}"])
def test_splits_are_known_by_a_word_in_their_folders_names(tmp_path: Path, form: str) -> None:
    for split in ("train", "test"):
        pictures(tmp_path, *(f"{form.replace('{}', split)}/{name}" for name in ("owl", "wren")))
    splits = load(tmp_path, size=8)
    assert splits.classes == ("owl", "wren")
    assert len(splits.test) == 12


def test_folders_beside_such_splits_are_refused(tmp_path: Path) -> None:
    pictures(tmp_path, "seg_train/seg_train/owl", "seg_test/seg_test/owl", "seg_pred/seg_pred")
    with pytest.raises(DataError, match="look like splits, next to seg_pred"):
        guess(tmp_path)


def test_a_file_without_splits_over_such_folders_is_refused(tmp_path: Path) -> None:
    pictures(tmp_path, "seg_train/owl", "seg_train/wren", "seg_test/owl", "seg_test/wren")
    own = OwnBenchmark.model_validate({"benchmark": {"id": "a"}, "data": {"kind": "folders"}})
    with pytest.raises(DataError, match='write train = "seg_train", test = "seg_test" under'):
        originals_from(own, tmp_path / "benchmark.toml").check(tmp_path)


@pytest.mark.parametrize("names", [("train", "bus"), ("steam_train", "bus"), ("fast train/a", "slow train/b", "bus/c")])
def test_classes_that_are_called_like_a_split_stay_classes(tmp_path: Path, names: tuple[str, ...]) -> None:
    pictures(tmp_path, *names)
    if names[0] == "train":
        with pytest.raises(DataError, match="look like splits"):
            guess(tmp_path)
    else:
        assert "splits" not in guess(tmp_path).values
