"""Near copies: each change that is planted is noticed, other images are not, and what cannot be compared is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from gate_data import near
from gate_data.near import near_copies
from gate_data.near_splits import NEAR, near_column, near_in_splits, near_known, without_near
from gate_data.original_files import Sample
from gate_data.own import OwnBenchmark, guess, originals_from
from gate_data.request import DataRequest

CHANGES = {
    "jpeg": lambda image: image,  # the file's quality is all that differs
    "crop": lambda image: image.crop((2, 5, 2 + round(0.95 * image.width), 5 + round(0.95 * image.height))),
    "resize": lambda image: image.resize((image.width * 2 // 3, image.height * 2 // 3)),
    "stretched": lambda image: image.resize((image.width, image.height * 3 // 4)),
    "flip": lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "brightness": lambda image: ImageEnhance.Brightness(image).enhance(1.3),
}


def drawn(seed: int, side: int = 120) -> Image.Image:
    """Make an image whose power falls with frequency as that of photographs does."""
    rng = np.random.default_rng(seed)
    squared = np.fft.fftfreq(side)[:, None] ** 2 + np.fft.rfftfreq(side)[None] ** 2
    squared[0, 0] = 1
    phases = np.exp(2j * np.pi * rng.random((3, *squared.shape)))
    waves = np.fft.irfft2(squared**-0.55 * phases, s=(side, side))
    waves = (waves - waves.mean(axis=(1, 2), keepdims=True)) / waves.std()
    return Image.fromarray((120 + 40 * waves).clip(0, 255).astype(np.uint8).transpose(1, 2, 0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed in range(30):
        drawn(seed).save(tmp_path / f"{seed:02}.png")
    return tmp_path


@pytest.mark.parametrize("change", CHANGES)
def test_a_planted_copy_is_noticed_and_nothing_else(folder: Path, change: str) -> None:
    files = [str(path) for path in sorted(folder.glob("*.png"))]
    for seed in (3, 17):
        CHANGES[change](drawn(seed)).save(folder / f"copy{seed}.jpg", quality=70)
        files.append(str(folder / f"copy{seed}.jpg"))
    assert near_copies(files).groups == ((3, 30), (17, 31))


def test_images_of_one_scene_that_differ_in_detail_are_no_copies(tmp_path: Path) -> None:
    """A camera that stands still: one background, another texture in front of it."""
    background = np.asarray(drawn(0).resize((6, 6)).resize((120, 120)), dtype=float)
    files = []
    for seed in range(1, 12):
        detail = np.asarray(drawn(seed), dtype=float)
        Image.fromarray((0.7 * background + 0.3 * detail).astype(np.uint8)).save(tmp_path / f"{seed}.png")
        files.append(str(tmp_path / f"{seed}.png"))
    assert near_copies(files).groups == ()


def test_what_cannot_be_compared_is_named(folder: Path) -> None:
    Image.new("RGB", (40, 40), (10, 90, 30)).save(folder / "flat.png")
    Image.new("RGB", (50, 50), (10, 90, 30)).save(folder / "flat2.png")
    (folder / "broken.png").write_bytes((folder / "00.png").read_bytes()[:300])
    files = [str(folder / name) for name in ("flat.png", "00.png", "broken.png", "flat2.png", "01.png")]
    copies = near_copies(files)
    assert (copies.groups, copies.compared, copies.unreadable, copies.flat) == ((), 2, (2,), (0, 3))
    assert near_copies([]).compared == 0


def test_copies_across_splits_are_said_and_left_out(folder: Path) -> None:
    drawn(3).save(folder / "again.jpg", quality=70)
    drawn(4).save(folder / "twice.jpg", quality=70)
    train = [Sample(str(folder / f"{seed:02}.png"), seed % 2) for seed in range(10)] + [
        Sample(str(folder / "twice.jpg"), 0)
    ]
    splits = {"train": train, "validation": [], "test": [Sample(str(folder / "again.jpg"), 1)]}
    near = near_in_splits(splits)
    assert [len(group) for group in near.groups] == [2, 2]
    assert near.copied == {str(folder / "03.png")}
    assert near.leaked == {str(folder / "again.jpg")}
    assert "1 test image is a near copy of others trained or validated on, such as" in near.sentence
    assert near_known(splits) == near
    assert near_column(splits["test"], near) == {NEAR: ("yes",)}
    lists, remark = without_near(splits)
    assert [len(lists[name]) for name in splits] == [10, 0, 1]
    assert remark == "left out as near copies of test images: 1 of train, 0 of validation"
    assert near_in_splits(lists).sentence == ""
    assert near_known({"test": lists["test"]}) is None


def test_images_of_pairs_are_compared_one_by_one(folder: Path) -> None:
    drawn(3).save(folder / "again.jpg", quality=70)
    pair = Sample((str(folder / "00.png"), str(folder / "03.png")))
    near = near_in_splits({"train": [pair], "test": [Sample((str(folder / "again.jpg"), str(folder / "05.png")))]})
    assert near.copied == {str(folder / "03.png")}


@pytest.mark.parametrize("how", ["drop_near", "skip_unreadable"])
def test_a_class_that_loses_all_its_training_images_is_told(tmp_path: Path, how: str) -> None:
    """Its test images can only be wrong, and the score said nothing of it."""
    for split, seeds in (("train", range(8)), ("test", range(8, 12))):
        for name, start in (("owl", 0), ("wren", 100)):
            (tmp_path / split / name).mkdir(parents=True)
            for seed in seeds:
                path = tmp_path / split / name / f"{seed}.png"
                drawn(start + (seed % 4 if how == "drop_near" and name == "wren" else seed)).save(path)
                if how == "skip_unreadable" and split == "train" and name == "wren":
                    path.write_bytes(b"no image")
    own = OwnBenchmark.model_validate(guess(tmp_path).values)
    originals = originals_from(own, tmp_path / "benchmark.toml")
    data = originals.load(tmp_path, DataRequest(size=32, **{how: True}))
    assert set(data.train.targets.tolist()) == {0}
    assert "1 of 2 in test are never trained, such as 'wren'" in data.note
    if how == "drop_near":
        assert "never trained" not in originals.load(tmp_path, DataRequest(size=32)).note


def test_the_same_sketches_are_grouped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, plain = [], near.groups_of
    monkeypatch.setattr(near, "_GROUPS", {})
    monkeypatch.setattr(near, "groups_of", lambda sketches: (compared.append(len(sketches)), plain(sketches))[1])
    sketches = np.random.default_rng(0).integers(0, 255, (20, near.SIDE, near.SIDE)).astype(np.uint8)
    sketches[2] = sketches[0]
    for same in (sketches, sketches.copy()):
        assert near._groups_once(same) == ((0, 2),)
    assert near._groups_once(sketches[1:]) == ()
    assert compared == [20, 19]
    for count in range(2, 12):
        near._groups_once(sketches[:count])
    assert len(near._GROUPS) == near._KEPT_GROUPS
