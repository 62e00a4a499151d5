"""CLIP_benchmark's shards, as its exporter writes them: recognised, read, refused with the member's name."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gate_data.errors import DataError, UsageError
from gate_data.hub import shards
from gate_data.own import OwnBenchmark, guess, originals_from
from gate_data.own.originals import parts_of
from gate_data.request import DataRequest


def png(seed: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (8, 8, 3), np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def shard(path: Path, members: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def exported(folder: Path, splits: tuple[str, ...] = ("train", "test")) -> Path:
    """A set of three classes, two of which have one name, in two shards a split."""
    for split in splits:
        for number in range(2):
            members = {}
            for at in range(6):
                key = f"s{number * 6 + at:07d}"
                members |= {f"{key}.cls": str(at % 3).encode(), f"{key}.webp" if at == 5 else f"{key}.png": png(at)}
            shard(folder / split / f"{number}.tar", members)
        (folder / split / "nshards.txt").write_text("2")
    (folder / "classnames.txt").write_text("missile\nsorrel horse\nmissile\n")
    (folder / "zeroshot_classification_templates.txt").write_text("a photo of a {c}.\na sketch of the {c}.\n")
    return folder


def guessed(folder: Path) -> OwnBenchmark:
    return OwnBenchmark.model_validate(guess(folder).values)


def test_splits_classes_and_templates_are_read(tmp_path: Path) -> None:
    own = guessed(exported(tmp_path / "set"))
    assert own.benchmark.task == "image-classification"
    assert own.classes.templates == ("a photo of a {}.", "a sketch of the {}.")
    parts = parts_of(own, tmp_path / "set")
    assert parts.classes == ("missile", "sorrel horse", "missile")
    assert len(parts.test) == 12
    assert len(parts.train) + len(parts.validation or ()) == 12
    assert [sample.target for sample in parts.test] == [0, 1, 2] * 4
    data = originals_from(own, tmp_path / "set" / "benchmark.toml").load(tmp_path / "set", DataRequest(size=8))
    assert data.test.images[0:1].shape == (1, 3, 8, 8)
    assert data.test.targets.tolist() == [0, 1, 2] * 4


def test_a_set_without_training_is_scored_by_its_texts(tmp_path: Path) -> None:
    own = guessed(exported(tmp_path / "set", ("test",)))
    assert own.benchmark.task == "zero-shot"
    assert len(parts_of(own, tmp_path / "set").test) == 12


def test_captions_are_those_of_the_lines(tmp_path: Path) -> None:
    members: dict[str, bytes] = {}
    for at in range(4):
        members |= {f"{at}.jpg": png(at), f"{at}.txt": f"first {at}\nsecond {at}\n".encode()}
    shard(tmp_path / "set" / "test" / "0.tar", members)
    shard(tmp_path / "set" / "train" / "0.tar", members)
    (tmp_path / "set" / "dataset_type.txt").write_text("retrieval\n")
    own = guessed(tmp_path / "set")
    assert own.benchmark.task == "image-text"
    assert [sample.text for sample in parts_of(own, tmp_path / "set").test][:2] == [
        ("first 0", "second 0"),
        ("first 1", "second 1"),
    ]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"a.png": png(0)}, "0.tar: a has no .cls next to its .png; it has png"),
        ({"a.png": png(0), "a.cls": b"one"}, "a.cls holds 'one', expected the number of a class"),
        ({"a.png": png(0), "a.cls": b"3"}, "a.cls holds 3, and 3 classes have names"),
        ({"a.png": png(0), "a.cls": b"\xff"}, "a.cls is not UTF-8 text"),
        ({"a.png": png(0), "a.jpg": png(1), "a.cls": b"0"}, r"a has two images, a\.png and a\.jpg: keep one"),
        ({"a.png": png(0), "a.PNG": png(1), "a.cls": b"0"}, r"a\.png and a\.PNG are one member of one sample"),
    ],
)
def test_what_is_wrong_in_a_shard_is_named(tmp_path: Path, members: dict[str, bytes], expected: str) -> None:
    folder = exported(tmp_path / "set")
    own = guessed(folder)
    shard(folder / "test" / "0.tar", members)
    with pytest.raises(DataError, match=expected):
        parts_of(own, folder)


def test_a_missing_shard_and_other_types_are_refused(tmp_path: Path) -> None:
    folder = exported(tmp_path / "set")
    (folder / "test" / "1.tar").unlink()
    with pytest.raises(DataError, match=r"test holds 1 shards, and nshards.txt says '2'"):
        guess(folder)
    (folder / "dataset_type.txt").write_text("multilabel")
    (folder / "test" / "nshards.txt").write_text("1")
    with pytest.raises(DataError, match=r"'multilabel' is not read; expected classification or retrieval"):
        guess(folder)
    (folder / "dataset_type.txt").unlink()
    (folder / "zeroshot_classification_templates.txt").write_text("a photo\n")
    with pytest.raises(DataError, match=r"template 'a photo' has no \{c\}"):
        guess(folder)


def test_samples_without_an_image_are_counted_and_other_endings_are_read(tmp_path: Path) -> None:
    """Both were passed over without a word: two thirds of a set of bitmaps among others."""
    folder = exported(tmp_path / "set")
    bitmap = io.BytesIO()
    Image.open(io.BytesIO(png(0))).save(bitmap, "BMP")
    members = {f"b{at}.{end}": content for at in range(6) for end, content in
               (("bmp", bitmap.getvalue()), ("cls", str(at % 3).encode()))}  # fmt: skip
    shard(folder / "test" / "2.tar", members)
    (folder / "test" / "nshards.txt").write_text("3")
    parts = parts_of(guessed(folder), folder)
    assert (len(parts.test), parts.note) == (18, "")
    shard(folder / "test" / "2.tar", {**members, "a.01.png": png(1), "a.01.cls": b"0", "c.cls": b"1", "d.json": b"{}"})
    parts = parts_of(guessed(folder), folder)
    assert len(parts.test) == 18
    assert parts.note.startswith("2 samples of shards left out")
    assert "2.tar: a (01.cls, 01.png)" in parts.note
    for number in range(3):
        shard(folder / "test" / f"{number}.tar", {"a.01.png": png(1), "a.01.cls": b"0"})
        shard(folder / "train" / f"{number}.tar", {"a.01.png": png(1), "a.01.cls": b"0"})
    (folder / "train" / "nshards.txt").write_text("3")
    with pytest.raises(DataError, match="all 6 samples of shards have no image by their key"):
        parts_of(guessed(folder), folder)


def test_a_shard_that_is_passed_over_or_called_otherwise_is_missed(tmp_path: Path) -> None:
    """Without a list of shards 0.tar and 2.tar were the set, and a folder of other names was no split at all."""
    folder = exported(tmp_path / "set")
    (folder / "test" / "nshards.txt").unlink()
    (folder / "test" / "1.tar").rename(folder / "test" / "2.tar")
    with pytest.raises(DataError, match=r"test holds 2 shards up to 2.tar, and not 1.tar"):
        guess(folder)
    (folder / "test" / "2.tar").unlink()
    (folder / "train" / "0.tar").rename(folder / "train" / "train-000000.tar")
    with pytest.raises(DataError, match=r"train holds .*tar and no 0.tar: call its shards"):
        guess(folder)


def test_line_n_of_the_class_names_is_class_n(tmp_path: Path) -> None:
    """Lines that all begin with numbers were laid by these."""
    folder = exported(tmp_path / "set")
    for lines in (("2 dollars", "0 cents", "1 euro"), ("2", "0", "1"), ("b, c", "a", "c")):
        (folder / "classnames.txt").write_text("\n".join(lines) + "\n")
        assert parts_of(guessed(folder), folder).classes == lines
    (folder / "classnames.txt").write_text("a\n\nb\n")
    with pytest.raises(DataError, match="line 2 is empty"):
        parts_of(guessed(folder), folder)


def test_a_set_is_fetched_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Any] = []

    def snapshot(repository: str, **how: Any) -> str:
        requests.append((repository, how["repo_type"]))
        return str(exported(how["local_dir"]))

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    monkeypatch.setattr(shards, "why_silent", lambda: "")
    folder = shards.fetch_shards("wds/vtab/cifar10", tmp_path / "set")
    assert requests == [("clip-benchmark/wds_vtab-cifar10", "dataset")]
    assert guessed(folder).benchmark.task == "image-classification"
    monkeypatch.setattr(shards, "why_silent", lambda: "the hub does not answer")
    with pytest.raises(DataError, match="wds/cifar10: the hub does not answer"):
        shards.fetch_shards("wds/cifar10", tmp_path / "other")
    for name in ("wds/../x", "cifar10", "wds/"):
        with pytest.raises(UsageError, match="expected wds/NAME"):
            shards.repository_of(name)
