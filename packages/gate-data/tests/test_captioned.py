"""Captioned images of shards, and how they are divided and checked, without a training."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
import torch
from PIL import Image

from gate_data.caption_shards import caption_shards, read_caption_shards
from gate_data.captioned import Captioned, CaptionedSplit, checked, divided
from gate_data.errors import DataError


def write_shard(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def png(level: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (6, 4), (level, 0, 0)).save(file, "PNG")
    return file.getvalue()


def test_both_forms_of_a_caption_and_false_ones_are_read(tmp_path: Path) -> None:
    about = json.dumps({"caption": " a dog ", "negatives": ["a fox", "a hen"]}).encode()
    write_shard(tmp_path / "0.tar", {"a.png": png(10), "a.txt": b"a cat\n", "b.png": png(20), "b.json": about})
    write_shard(tmp_path / "1.tar", {"c.png": png(30), "c.txt": b"an owl", "alone.txt": b"nothing"})
    split, notes = read_caption_shards(caption_shards(tmp_path))
    assert split.captions == [[("a cat",)], [("a dog",)], [("an owl",)]]
    assert split.negatives == [(), ("a fox", "a hen"), ()]
    assert notes[0] == "2 shards, 3 images"
    assert "alone.txt" in notes[1]
    assert caption_shards(tmp_path / "1.tar") == [tmp_path / "1.tar"]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.png": png(1)}, "0.tar, sample 'a': its caption is missing"),
        ({"a.png": png(1), "a.txt": b"\xff"}, "sample 'a': a.txt is not UTF-8"),
        ({"a.png": png(1), "a.json": b"{"}, "sample 'a': a.json is no JSON"),
        ({"a.png": png(1), "a.jpg": png(1), "a.txt": b"x"}, "sample 'a' has two images"),
        ({"a.txt": b"x"}, "no images among its members"),
    ],
)
def test_a_shard_that_cannot_be_read_is_one_line(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_caption_shards([write_shard(tmp_path / "0.tar", members)])


def test_samples_are_divided_by_the_seed_alone() -> None:
    split = CaptionedSplit(torch.zeros(30, 3, 2, 2), [[(f"image {number}",)] for number in range(30)])
    first, again, other = (divided(split, (), seed) for seed in (0, 0, 1))
    assert first.validation.captions == again.validation.captions != other.validation.captions
    together = [*first.train.captions, *first.validation.captions]
    assert len(together) == 30
    assert {forms[0] for forms in together} == {forms[0] for forms in split.captions}
    with pytest.raises(DataError, match="1 sample is too few"):
        divided(split.take([0]), (), 0)


def test_one_caption_for_all_images_is_refused() -> None:
    split = CaptionedSplit(torch.zeros(2, 3, 2, 2), [[("a photo",)], [("a photo",)]])
    with pytest.raises(DataError, match="mine: all 2 images have the one caption 'a photo'"):
        checked(Captioned(split, split), "mine")
