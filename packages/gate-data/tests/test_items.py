"""Items as people's transforms take them, the names of data sets, and shards."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

import gate_data
from gate_data.errors import DataError, MissingExtraError, UsageError
from gate_data.naming import resolve


def picture(path: Path, sides: tuple[int, int], seed: int) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (sides[1], sides[0], 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


def photographs(folder: Path, each: int = 10) -> Path:
    for label, number in itertools.product(range(3), range(each)):
        picture(folder / f"class{label}" / f"{number}.png", (30 + label, 40), 100 * label + number)
    return folder


def scenes(folder: Path) -> Path:
    """COCO's form: a 40 x 20 image with two boxes, of which one is a crowd, in each split."""
    for split in ("train", "val", "test"):
        images, notes = [], []
        for number in range(1, 4):
            picture(folder / split / f"{number}.png", (40, 20), number)
            images.append({"id": number, "file_name": f"{number}.png", "width": 40, "height": 20})
            for crowd, box in ((0, [4, 2, 10, 6]), (1, [20, 10, 8, 8])):
                about = {"image_id": number, "category_id": 7, "bbox": box, "iscrowd": crowd, "area": 60}
                notes.append({"id": len(notes) + 1, **about})
        content = {
            "images": images,
            "annotations": notes,
            "categories": [{"id": 3, "name": "a"}, {"id": 7, "name": "b"}],
        }
        (folder / f"instances_{split}.json").write_text(json.dumps(content))
    return folder


def masks(folder: Path) -> Path:
    for split in ("train", "val", "test"):
        for number in range(2):
            picture(folder / "images" / split / f"{number}.png", (24, 12), number)
            (folder / "masks" / split).mkdir(parents=True, exist_ok=True)
            values = np.zeros((12, 24), np.uint8)
            values[:4, :6] = 1
            Image.fromarray(values).save(folder / "masks" / split / f"{number}.png")
    (folder / "benchmark.toml").write_text(
        '[benchmark]\nid = "m"\ntask = "segmentation"\n[data]\nkind = "maps"\nroot = "images"\n'
        'annotations = "masks/{}/*.png"\n[splits]\ntrain = "train"\nvalidation = "val"\ntest = "test"\n'
        '[classes]\nnames = ["ground", "thing"]\n'
    )
    return folder


def test_the_words_of_torchvision_and_datasets(tmp_path: Path) -> None:
    splits = gate_data.load(photographs(tmp_path))
    assert splits["train"] is splits.train
    assert splits["val"] is splits["validation"] is splits.validation
    assert {name: len(part) for name, part in dict(splits).items()} == {"train": 21, "validation": 3, "test": 6}
    with pytest.raises(KeyError, match="'dev' is not a split: expected train, validation, test"):
        splits["dev"]
    assert splits.train.classes == ("class0", "class1", "class2") == splits.classes
    assert splits.train.class_to_idx == splits.class_to_idx == {"class0": 0, "class1": 1, "class2": 2}
    assert splits.train.targets == [int(target) for _, target in splits.train]
    assert type(splits.train.targets[0]) is int


def test_pil_images_are_those_of_their_files(tmp_path: Path) -> None:
    splits = gate_data.load(photographs(tmp_path), raw=True)
    for part in splits:
        for (image, label), (file,) in zip(part, part.split.images.files, strict=True):
            assert np.array_equal(np.asarray(image), np.asarray(Image.open(file)))
            assert image.size == (30 + int(label), 40)
    assert gate_data.load(tmp_path, size=16).train[0][0].shape == (3, 16, 16)


def of_library(name: str) -> Any:
    if name == "open_clip":
        return pytest.importorskip("open_clip").image_transform(32, is_train=False)
    if name == "timm":
        return pytest.importorskip("timm").data.create_transform((3, 32, 32))
    transforms = pytest.importorskip("torchvision.transforms")
    if name == "torchvision":
        return transforms.Compose([transforms.Resize(32), transforms.CenterCrop(32), transforms.ToTensor()])
    v2 = pytest.importorskip("torchvision.transforms.v2")
    return v2.Compose([v2.Resize(32), v2.CenterCrop(32), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])


@pytest.mark.parametrize("name", ["open_clip", "timm", "torchvision", "v2"])
def test_transforms_of_libraries_work_as_they_come(tmp_path: Path, name: str) -> None:
    preprocess = of_library(name)
    splits = gate_data.load(
        photographs(tmp_path), transform=preprocess, target_transform=lambda target: int(target) + 5
    )
    wanted = [preprocess(Image.open(file).convert("RGB")) for (file,) in splits.test.split.images.files]
    for (image, target), expected, label in zip(splits.test, wanted, splits.test.targets, strict=True):
        torch.testing.assert_close(image, expected, rtol=0, atol=0)
        assert target == label + 5
    images, _ = next(iter(DataLoader(splits.train, batch_size=4)))
    assert images.shape == (4, 3, 32, 32)
    digits = gate_data.load("digits", limit=20, transform=preprocess)
    assert digits.train[0][0].shape == (3, 32, 32)


def test_boxes_move_with_the_image(tmp_path: Path) -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    scenes(tmp_path)
    plain = gate_data.load(tmp_path, tv_tensors=True, raw=True)
    image, target = plain.train[0]
    assert image.size == (40, 20)
    assert isinstance(target["boxes"], tv_tensors.BoundingBoxes)
    assert (target["boxes"].tolist(), target["labels"].tolist()) == ([[4, 2, 14, 8]], [1])  # left, top, right, bottom
    assert target["boxes"].canvas_size == (20, 40)
    flipped = gate_data.load(tmp_path, transforms=v2.RandomHorizontalFlip(1.0))
    moved, target = flipped.train[0]
    assert np.array_equal(np.asarray(moved), np.asarray(image)[:, ::-1])
    assert target["boxes"].tolist() == [[26, 2, 36, 8]]
    square, target = gate_data.load(tmp_path, tv_tensors=True, size=80).train[0]
    assert isinstance(square, tv_tensors.Image)
    assert (tuple(square.shape), target["boxes"].tolist()) == ((3, 80, 80), [[8, 8, 28, 32]])
    batch = next(
        iter(DataLoader(flipped.train, batch_size=2, collate_fn=lambda items: tuple(zip(*items, strict=True))))
    )
    assert len(batch[1][1]["boxes"]) == 1


def test_class_maps_move_with_the_image(tmp_path: Path) -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    masks(tmp_path)
    image, mask = gate_data.load(tmp_path, transforms=v2.RandomVerticalFlip(1.0)).train[0]
    assert (image.size, tuple(mask.shape)) == ((24, 12), (12, 24))  # the map is of its file, not of a square
    expected = torch.zeros(12, 24, dtype=torch.int16)
    expected[8:, :6] = 1
    assert torch.equal(mask.as_subclass(torch.Tensor), expected)
    square, mask = gate_data.load(tmp_path, tv_tensors=True, size=48).train[0]
    assert tuple(square.shape[1:]) == tuple(mask.shape) == (48, 48)
    assert int(mask.sum()) == 16 * 12


def test_two_kinds_of_transforms_exclude_one_another(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="transforms takes both the image and its target"):
        gate_data.load(photographs(tmp_path), transform=str, transforms=lambda image, target: (image, target))


def test_tensors_need_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision.tv_tensors", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gate-data\[torchvision\]'"):
        gate_data.load(photographs(tmp_path), tv_tensors=True).train[0]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("CIFAR100", "cifar100"), ("gate/cifar100", "cifar100"), ("elevater/cifar-100", "cifar-100"),
        ("Elevater/CIFAR-10", "cifar-10"), ("odinw/aquarium", "odinw-aquarium"), ("packaged/digits", "digits"),
        ("ADE20K", "ade20k"), ("patch_camelyon", "patch-camelyon"), ("food-101", "food-101"), ("food101", "food101"),
    ],
)  # fmt: skip
def test_names_in_any_case_with_and_without_their_collection(name: str, known: str) -> None:
    assert resolve(name) == known


def test_each_data_set_has_one_id_with_its_collection() -> None:
    names = gate_data.data_sets(qualified=True)
    assert len(set(names)) == len(names) == len(gate_data.data_sets())
    assert [resolve(name) for name in names] == list(gate_data.data_sets())


def test_what_is_no_name_says_so(tmp_path: Path) -> None:
    for path in ("/no/such", "./birds", "~/no such folder", "birds/benchmark.toml", str(tmp_path / "gone")):
        with pytest.raises(DataError, match="no such folder or file: "):
            gate_data.load(path)
    with pytest.raises(UsageError, match="'cifar_100' may be gate/cifar100 or elevater/cifar-100: say which"):
        gate_data.load("cifar_100")
    with pytest.raises(UsageError, match="unknown data set 'gate/cifar10'; nearest: gate/cifar100"):
        gate_data.load("gate/cifar10")
    with pytest.raises(UsageError, match="unknown data set 'ADE20'; nearest: ade20k"):
        gate_data.load("ADE20")
    assert len(gate_data.load(str(photographs(tmp_path / "CIFAR_100"))).classes) == 3


def test_check_takes_names(tmp_path: Path) -> None:
    (row,) = gate_data.check(tmp_path, "CIFAR100")
    assert (row.benchmark, row.state) == ("cifar100", "missing")
    with pytest.raises(UsageError, match="'digits' has no files of its own"):
        gate_data.check(tmp_path, ["digits"])


def test_what_is_heavy_is_imported_where_it_is_used(tmp_path: Path) -> None:
    heavy = "{'torch', 'sklearn', 'scipy', 'pydantic', 'torchvision', 'datasets', 'h5py'} & {*sys.modules}"
    folder = photographs(tmp_path)
    each: dict[str, set[str]] = {  # one after another in one process, what brings most comes last
        "gate_data.data_sets(); gate_data.SHEETS; gate_data.check": set(),
        "import gate_data.loading, gate_data.originals.icinw.arrays": {"torch"},
        f"gate_data.load({str(folder)!r}, size=16).train[0]": {"torch", "pydantic"},
    }
    code = "\n".join(["import sys, gate_data", *(f"{lines}; print(*{heavy})" for lines in each)])
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert len(shown.splitlines()) == len(each)
    for line, allowed in zip(shown.splitlines(), each.values(), strict=True):
        assert set(line.split()) <= allowed


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {info.name: archive.extractfile(info).read() for info in archive}  # type: ignore[union-attr]


def test_shards_keep_files_as_they_are(tmp_path: Path) -> None:
    splits = gate_data.load(photographs(tmp_path / "p"))
    paths = gate_data.write_webdataset(splits, tmp_path / "shards", shard_count=8)
    assert [path.name for path in paths] == [
        *("train-000000.tar", "train-000001.tar", "train-000002.tar"), "validation-000000.tar", "test-000000.tar"
    ]  # fmt: skip
    content: dict[str, bytes] = {}
    for path in paths[:3]:
        content |= members(path)
    assert list(content)[:3] == ["000000000.png", "000000000.cls", "000000001.png"]
    for position, (file,) in enumerate(splits.train.split.images.files):
        assert content[f"{position:09d}.png"] == Path(file).read_bytes()
        assert int(content[f"{position:09d}.cls"]) == splits.train.targets[position]
    about = json.loads((tmp_path / "shards" / "dataset.json").read_text())
    assert (about["classes"], about["samples"]["train"]) == (["class0", "class1", "class2"], 21)
    again = gate_data.write_webdataset(splits, tmp_path / "again", shard_count=8)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]
    with pytest.raises(DataError, match="is not empty"):
        gate_data.write_webdataset(splits, tmp_path / "again")
    assert not [path for path in (tmp_path / "again").iterdir() if path.name.startswith(".")]


def test_shards_hold_boxes_maps_texts_and_rows(tmp_path: Path) -> None:
    boxes = members(gate_data.write_webdataset(gate_data.load(scenes(tmp_path / "b")), tmp_path / "bs")[0])
    assert json.loads(boxes["000000000.json"])["box"] == [[4, 2, 10, 6], [20, 10, 8, 8]]
    maps = members(gate_data.write_webdataset(gate_data.load(masks(tmp_path / "m")), tmp_path / "ms")[0])
    assert maps["000000000.npy"].startswith(b"\x93NUMPY")
    digits = members(gate_data.write_webdataset(gate_data.load("digits", limit=12), tmp_path / "ds")[0])
    assert digits["000000000.png"].startswith(b"\x89PNG")
