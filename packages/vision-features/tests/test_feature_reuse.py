"""What is encoded and what is taken from the feature cache: counted, in each way that rows are kept."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gate_data.pictures import Pictures
from vision_features.encoders import load_encoder
from vision_features.encoders.encoder import Encoder
from vision_features.features import FeatureCache, at_once, digests_of, encode_pictures
from vision_features.features.unfinished import note, noted, take_over
from wary_files.errors import UsageError

Cold = Callable[[], Path]

TEXTS = digests_of([f"text {number}" for number in range(10)])


def encode(rows: torch.Tensor) -> torch.Tensor:
    return rows[:, None] * torch.ones(3)


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 0})())


@pytest.mark.parametrize(("in_memory", "place"), [(120, "memory"), (119, "encoded again")])
def test_without_a_disk_memory_is_given_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int, place: str
) -> None:
    full_disk(monkeypatch)
    features = FeatureCache(tmp_path / "encoder", in_memory=in_memory)
    sizes: list[int] = []

    def noting(numbers: torch.Tensor) -> torch.Tensor:
        sizes.append(len(numbers))
        return encode(numbers)

    rows = features.rows("a", "text", TEXTS, 5, noting)  # 10 rows of 3 float32: 120 bytes
    assert features.placed == {"a": place}
    assert sizes[1] == 1  # after the batch that found the disk full: one row, to see how large it is
    assert torch.equal(rows[:], encode(torch.arange(10)))


def test_without_a_disk_rows_that_are_held_count_against_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_disk(monkeypatch)
    features = FeatureCache(tmp_path / "encoder", in_memory=100)
    for name, texts in (("a", TEXTS[:5]), ("b", TEXTS[5:])):  # 60 bytes each
        features.rows(name, "text", texts, 5, encode)
    assert features.placed == {"a": "memory", "b": "encoded again"}


def test_in_memory_inputs_that_are_equal_are_one_row_and_others_stay_a_tensor() -> None:
    order = torch.tensor([4, 4, 1, 4, 0])
    features = FeatureCache()
    rows = features.rows("a", "text", TEXTS[order.numpy()], 2, lambda numbers: encode(order[numbers]))
    assert torch.equal(rows[:], encode(order))
    assert features.encoded["text"] == 3
    assert isinstance(features.rows("b", "text", TEXTS, 4, encode), torch.Tensor)


def test_files_whose_content_was_encoded_under_other_names_are_read_and_not_encoded(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.png" for number in range(9)]
    for number, file in enumerate(files):
        Image.new("RGB", (12, 8), (number,) * 3).save(file)
    seen: list[int] = []

    def greys(images: torch.Tensor) -> torch.Tensor:
        seen.append(len(images))
        return images.mean(dim=(2, 3)) * 255

    encoder = Encoder("greys", 8, greys, mean=(0, 0, 0), std=(1, 1, 1))
    every = Pictures.of(files, side=8)
    for shown, encoded in ((replace(every, files=every.files[:6]), 6), (replace(every), 9)):
        rows = encode_pictures(FeatureCache(tmp_path / "encoder"), encoder, shown, "pooled", "test", 4)
        torch.testing.assert_close(rows[:, 0], torch.arange(encoded).float(), rtol=0, atol=1e-4)
        assert sum(seen) == encoded


def test_pooled_features_are_columns_of_readouts_that_are_there(tmp_path: Path) -> None:
    encoder = load_encoder("micro-clip/random", device="cpu")
    images = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    features = FeatureCache.of(encoder, "weights", root=tmp_path)
    encode_pictures(features, encoder, images, "readouts", "test", 3)
    for kind, alone in (("pooled", encoder.encode_image), ("backbone", encoder.encode_backbone)):
        rows = encode_pictures(features, encoder, images, kind, "test", 3)
        torch.testing.assert_close(rows[:], alone(images), rtol=1e-4, atol=1e-5)
    assert features.encoded == {"readouts": 3}


def test_tokens_are_those_of_the_block_that_is_named(tmp_path: Path) -> None:
    encoder = load_encoder("micro-clip/random", device="cpu")
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    blocks = encoder.encode_blocks(images).blocks
    for number in (1, len(blocks)):
        rows = encode_pictures(FeatureCache(), encoder, images, f"tokens:{number}", "test", 2)
        torch.testing.assert_close(rows[:], blocks[number - 1].places.float(), rtol=1e-4, atol=1e-5)
    for kind, words in (("1", "unknown kind of features '1'"), (f"tokens:{len(blocks) + 1}", "blocks, so no block:")):
        with pytest.raises(UsageError, match=words):
            encode_pictures(FeatureCache(), encoder, images, kind, "test", 2)


def test_the_features_before_the_projection_come_with_those_behind_it(tmp_path: Path) -> None:
    encoder = load_encoder("micro-clip/random", device="cpu")
    assert encoder.backbone is not None
    assert encoder.projection is not None
    images = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    features = FeatureCache(tmp_path / "encoder")
    pooled = encode_pictures(features, encoder, images, "pooled", "test", 3)
    before = encode_pictures(features, encoder, images, "backbone", "test", 3)
    torch.testing.assert_close(pooled[:], encoder.encode_image(images), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(before[:], encoder.encode_backbone(images), rtol=1e-4, atol=1e-5)
    assert features.encoded == {"both": 3}


def test_of_a_damaged_segment_beside_others_the_sound_batches_are_kept(tmp_path: Path) -> None:
    first = FeatureCache(tmp_path / "encoder")
    first.rows("a", "text", TEXTS[:4], 2, encode)
    first.rows("b", "text", TEXTS[4:], 3, lambda numbers: encode(4 + numbers))
    (damaged,) = [file for file in tmp_path.rglob("*.npy") if "digests" not in file.name and len(np.load(file)) == 6]
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1  # of the second batch
    damaged.write_bytes(content)
    features = FeatureCache(tmp_path / "encoder")
    assert torch.equal(features.rows("all", "text", TEXTS, 5, encode)[:], encode(torch.arange(10)))
    assert features.encoded["text"] == 3


def test_rows_are_won_only_where_a_writer_left_some(tmp_path: Path) -> None:
    assert not take_over(tmp_path, but="")
    np.save(tmp_path / "ab.npy", np.zeros((2, 3)))
    note(tmp_path / "ab.part", 0, [b"x"])
    assert not take_over(tmp_path, but="")
    assert not list(tmp_path.iterdir())


def test_a_note_takes_the_place_of_those_behind_it(tmp_path: Path) -> None:
    log = tmp_path / "ab.part"
    note(log, 0, [b"a", b"b", b"c"])
    note(log, 1, [b"d"])
    assert noted(log, 2) == [b"a", b"d"]
    assert noted(log, 3) == []


@pytest.mark.parametrize(("threads", "most"), [(1, 16), (2, 16), (8, 64), (64, 100)])
def test_a_cpu_is_given_parts_of_a_batch_and_the_features_are_the_same(
    threads: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def image(pixels: torch.Tensor) -> torch.Tensor:
        sizes.append(len(pixels))
        return pixels.float().flatten(1)

    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    images = torch.randint(0, 256, (100, 3, 2, 2), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    images = images.unique(dim=0)  # each is encoded once
    encoder = Encoder("own", 2, image)
    rows = encode_pictures(FeatureCache(), encoder, images, "pooled", "test", 128)
    given = len(images)
    assert sizes == [most] * (given // most) + [given % most] * (given % most > 0)
    assert torch.equal(rows[:], encoder.encode_image(images))
    assert (at_once(128, "cuda:1"), at_once(3, "cpu")) == (128, 3)
