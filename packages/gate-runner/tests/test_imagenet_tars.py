"""ImageNet as its authors hand it out: an archive of archives, a flat archive, and the development kit."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gate_data.data import Data
from gate_runner.benchmarks import BENCHMARKS, DataRequest
from gate_runner.errors import DataError
from wary_files import archives

scipy_io = pytest.importorskip("scipy.io")

WNIDS = ("n01440764", "n01443537", "n01484850")
KIT = {"n01484850": 1, "n01440764": 2, "n01443537": 3}
"""The kit numbers classes in an order of its own."""


def tar(members: Iterable[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def picture(grey: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (9, 8), (grey, grey, grey)).save(buffer, "jpeg")
    return buffer.getvalue()


def write(root: Path) -> Path:
    """Three classes of grey 0, 100 and 200."""
    folder = root / "imagenet1k"
    folder.mkdir()
    inner = [
        (f"{wnid}.tar", tar((f"{wnid}_{index}.JPEG", picture(100 * label)) for index in range(5)))
        for label, wnid in enumerate(WNIDS)
    ]
    (folder / "ILSVRC2012_img_train.tar").write_bytes(tar(inner))
    order = [2, 0, 1, 1]
    tested = ((f"ILSVRC2012_val_{row + 1:08}.JPEG", picture(100 * label)) for row, label in enumerate(order))
    (folder / "ILSVRC2012_img_val.tar").write_bytes(tar(tested))
    data = folder / "ILSVRC2012_devkit_t12" / "data"
    data.mkdir(parents=True)
    (data / "ILSVRC2012_validation_ground_truth.txt").write_text("".join(f"{KIT[WNIDS[label]]}\n" for label in order))
    synsets = np.array(
        [(number, wnid, f"{wnid}, a thing", "", 0) for wnid, number in KIT.items()],
        dtype=[(name, object) for name in ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children")],
    )
    scipy_io.savemat(data / "meta.mat", {"synsets": synsets})
    return folder


def load(root: Path) -> Data:
    originals = BENCHMARKS["imagenet1k"].originals
    folder = originals.find(root)
    originals.check(folder)
    return originals.load(folder, DataRequest(root, size=8))


def test_pictures_are_read_in_place(tmp_path: Path) -> None:
    write(tmp_path)
    data = load(tmp_path)
    assert data.classes == WNIDS
    assert (len(data.train), len(data.validation), len(data.test)) == (12, 3, 4)
    assert data.test.targets.tolist() == [2, 0, 1, 1]
    for split in (data.train, data.validation, data.test):
        grey = split.images[:].float().mean(dim=(1, 2, 3)) / 100
        assert torch.equal(grey.round().long(), split.targets)


def test_one_part_may_be_unpacked(tmp_path: Path) -> None:
    folder = write(tmp_path)
    with tarfile.open(folder / "ILSVRC2012_img_val.tar") as archive:
        archive.extractall(folder / "val", filter="data")
    (folder / "ILSVRC2012_img_val.tar").unlink()
    data = load(tmp_path)
    assert data.test.targets.tolist() == [2, 0, 1, 1]
    assert len(data.train) == 12


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tar([("notes/a.JPEG", b"x")]), r"img_train\.tar: notes/a\.JPEG is in no archive of a class like n01440764"),
        (
            tar([("n01440764.tar", b"no archive" * 100)]),
            r"not a whole tar file: n01440764\.tar has no header at byte 0",
        ),
        (tar([("n01440764.tar", tar([("a.JPEG", b"x" * 5000)])[:2048])]), r"is not a whole tar file: a\.JPEG is cut"),
        (tar([]), r"img_train\.tar holds no \.jpg"),
    ],
)
def test_a_damaged_archive_is_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "ILSVRC2012_img_train.tar").write_bytes(content)
    with pytest.raises(DataError, match=message):
        load(tmp_path)


def test_a_truncated_archive_is_found_before_anything_is_trained(tmp_path: Path) -> None:
    path = write(tmp_path) / "ILSVRC2012_img_train.tar"
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(DataError, match=r"img_train\.tar is not a whole tar file"):
        load(tmp_path)


def test_names_in_archives_of_archives(tmp_path: Path) -> None:
    path = tmp_path / "outer.tar"
    path.write_bytes(tar([("./a/b.tar", tar([("./c.txt", b"first"), ("d/e.txt", b"second")])), ("f.txt", b"third")]))
    assert list(archives.members(path)) == ["a/b/c.txt", "a/b/d/e.txt", "f.txt"]
    assert [archives.read(path, name) for name in archives.members(path)] == [b"first", b"second", b"third"]
