"""`load`: from a name and a root, or a folder of one's own, to three splits."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

import gate_data
from gate_data import packaged
from gate_data.errors import DataError, UsageError, unknown
from gate_data.imports import named
from gate_data.originals_by_name import ORIGINALS
from gate_data.own import write_benchmark


def cifar100(root: Path, each: int = 20) -> np.ndarray:
    """CIFAR-100's Python version: two pickles of rows of 3,072 bytes, and the names; returns the training images."""
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    pictures: dict[str, Any] = {}
    for name, count in (("train", each), ("test", 2)):
        labels = [label for label in range(100) for _ in range(count)]
        pictures[name] = generator.integers(0, 256, (len(labels), 3072), np.uint8)
        content = {"data": pictures[name], "fine_labels": labels, "coarse_labels": [0] * len(labels)}
        (folder / name).write_bytes(pickle.dumps(content, 2))
    names = [f"class {label}" for label in range(100)]
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names, "coarse_label_names": []}, 2))
    return pictures["train"]


def photographs(folder: Path) -> Path:
    for label, colour in enumerate(("red", "lime", "blue")):
        for number in range(10):
            path = folder / colour / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (40 + label, 30), colour).save(path)
    return folder


def test_a_data_set_from_its_own_files_is_three_splits(tmp_path: Path) -> None:
    pictures = cifar100(tmp_path)
    splits = gate_data.load("cifar100", tmp_path)
    train, validation, test = splits
    assert (len(train), len(validation), len(test)) == (1800, 200, 200)  # a tenth of each class validates
    assert Counter(int(target) for _, target in validation) == dict.fromkeys(range(100), 2)
    assert splits.classes[0] == "class 0"
    assert "published are 50,000 / 10,000" in splits.note
    own = {picture.tobytes() for picture in pictures}
    shown = [image for image, _ in train] + [image for image, _ in validation]
    assert {image.numpy().tobytes() for image in shown} == own
    assert splits.digest == gate_data.load("cifar100", tmp_path).digest


def test_mini_imagenets_cached_arrays_are_rows_of_their_classes(tmp_path: Path) -> None:
    folder = tmp_path / "mini-imagenet"
    folder.mkdir()
    rng = np.random.default_rng(0)
    pixels = {part: rng.integers(0, 256, (36, 84, 84, 3), np.uint8) for part in ("train", "val", "test")}
    for part, values in pixels.items():
        rows = {f"{part}{label}": [6 * number + label for number in range(6)] for label in range(6)}
        content = {"image_data": values, "class_dict": rows}
        (folder / f"mini-imagenet-cache-{part}.pkl").write_bytes(pickle.dumps(content, protocol=2))
    splits = gate_data.load("mini", tmp_path)
    assert splits.classes == tuple(f"{part}{label}" for part in ("train", "val", "test") for label in range(6))
    for split, values in zip(splits, pixels.values(), strict=True):
        assert split.split.targets.tolist() == [label for label in range(6) for _ in range(6)]
        assert np.array_equal(split[7][0], values[7].transpose(2, 0, 1))
    assert len(torch.unique(gate_data.load("mini", tmp_path, limit=20).train.split.targets)) == 5
    (check,) = gate_data.check_data({"mini": named(ORIGINALS["mini"])}, tmp_path)
    assert (check.state, check.problems) == ("whole", ("its files are in one piece",))


def test_a_folder_of_ones_own_needs_no_file(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "photographs")
    splits = gate_data.load(folder, size=24)
    assert splits.classes == ("blue", "lime", "red")
    assert sum(map(len, splits)) == 30
    image, target = splits.test[-1]
    assert (image.shape, image.dtype) == ((3, 24, 24), torch.uint8)
    assert [int(value > 100) for value in image[:, 12, 12]] == {"red": [1, 0, 0], "lime": [0, 1, 0], "blue": [0, 0, 1]}[
        splits.classes[target]
    ]
    for index in (slice(0, 3), 1.5, "0"):
        with pytest.raises(TypeError, match=r"item: expected a whole number, got .*Subset"):
            splits.test[index]  # type: ignore[index]
    with pytest.raises(IndexError, match="item 99 of a split with"):
        splits.test[99]
    (folder / "benchmark.toml").write_text(
        '[benchmark]\nid = "mine"\n[data]\nkind = "folders"\n[classes.shown]\nred = "crimson"\n'
    )
    assert gate_data.load(folder).classes == ("blue", "lime", "crimson")
    assert gate_data.load(folder / "benchmark.toml", limit=2).test.split.targets.numel() == 2


def test_torchs_loader_takes_a_split_with_a_transform(tmp_path: Path) -> None:
    splits = gate_data.load(photographs(tmp_path), size=16, transform=lambda image: image.float() / 255, raw=False)
    images, targets = next(iter(DataLoader(splits.train, batch_size=5, num_workers=1)))
    assert (images.shape, images.dtype, targets.shape) == ((5, 3, 16, 16), torch.float32, (5,))


def test_texts_stand_beside_the_image(tmp_path: Path) -> None:
    folder = photographs(tmp_path)
    rows = [f"red/{number}.png,what colour?,{'red' if number % 2 else 'pink'}" for number in range(10)]
    (folder / "questions.csv").write_text("\n".join(["image,question,answer", *rows]))
    splits = gate_data.load(folder)
    _, texts, target = splits.train[0]
    assert texts == ("what colour?",)
    assert splits.classes[target] in ("red", "pink")


def test_what_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown data set 'ade20'; nearest: ade20k"):
        gate_data.load("ade20", tmp_path)
    with pytest.raises(DataError, match="read from its own files: give the folder that holds"):
        gate_data.load("ade20k")
    with pytest.raises(DataError, match=r"does not hold|expected"):
        gate_data.load("ade20k", tmp_path)
    with pytest.raises(UsageError, match="unknown source 'web'"):
        gate_data.load("ade20k", tmp_path, source="web")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="limit must be at least 1, not 0"):
        gate_data.load("digits", limit=0)


def test_cards_are_read_without_torch() -> None:
    code = (
        "import sys, gate_data; gate_data.SHEETS, gate_data.ICINW; sys.exit(bool({'torch', 'numpy'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_data_set_has_a_card_or_a_table() -> None:
    names = gate_data.data_sets()
    assert len(names) == len(set(names)) == 31 + 20 + 35 + 15 + 4 + 2 + 3
    assert set(gate_data.SHEETS) | set(gate_data.ICINW) <= set(names)


def test_an_unknown_name_among_a_thousand_is_one_short_line() -> None:
    names = [f"model_{number}" for number in range(1200)]
    assert len(str(unknown("model", "zzz", names))) < 200
    assert "there are 1,200, e.g. " in str(unknown("model", "zzz", names))
    assert str(unknown("model", "zzz", names[:3])).endswith("there are: model_0, model_1, model_2")


def calls_of_load(folder: Path, files: int) -> tuple[int, list[str]]:
    """Python calls of a load, and the folders that it lists."""
    for part, label, number in product(("train", "test"), "ab", range(files)):
        path = folder / part / label / f"{number:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    calls, listed = 0, []
    scandir = os.scandir

    def scanned(path: Any) -> Any:
        listed.append(str(path))
        return scandir(path)

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", scanned)
        gate_data.load(folder)  # imports
        listed.clear()
        sys.setprofile(count)
        try:
            splits = gate_data.load(folder)
        finally:
            sys.setprofile(None)
    assert len(splits.test) == 2 * files
    return calls, listed


def test_a_load_lists_each_folder_once_and_makes_few_calls_for_each_file(tmp_path: Path) -> None:
    few, listed = calls_of_load(tmp_path / "few", 25)
    many, again = calls_of_load(tmp_path / "many", 525)
    assert many - few <= 2.2 * 2000  # of generators; it was 30 for each of the 2,000 files
    for folders in (listed, again):
        of_classes = Counter(path[-2:] for path in folders if path[-2:] in ("/a", "/b"))
        assert of_classes == {"/a": 2, "/b": 2}  # in train and in test


def test_paths_may_be_texts(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "birds")
    made = gate_data.guess(str(folder))
    assert made == gate_data.guess(folder)
    write_benchmark(made.values, folder / "benchmark.toml")
    file = folder / "benchmark.toml"
    assert gate_data.read_benchmark(str(file)) == gate_data.read_benchmark(file)


def test_a_limit_that_is_not_whole_is_refused() -> None:
    with pytest.raises(UsageError, match=r"limit is 2\.5; expected a whole number"):
        gate_data.load("digits", limit=2.5)  # type: ignore[arg-type]


def test_digits_are_the_same_wherever_scikit_learn_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    table = packaged._digits_table()
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    assert np.array_equal(packaged._digits_table(), table)
