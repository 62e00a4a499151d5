"""Loaders on real files of the data sets: labels counted over whole tables, images, maps and clips as they are."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from gate_data.originals import language, medical
from gate_data.readers import Clip, lines
from gate_data.readers.clips import read_clip
from gate_data.readers.decode import decode, resized
from gate_data.tables import read_table
from gate_runner.benchmarks import DataRequest

from . import _gate_files as write
from .test_gate_files import originals


class Everything:
    """Stands for a folder that holds every file: a quarter of a million of them need not be made."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __contains__(self, name: str) -> bool:
        return True

    def get(self, name: str, where: str) -> str:
        return name


def unpacked(packed: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(gzip.decompress(packed.read_bytes()))
    return to


@pytest.fixture
def samples(shared_data: Path) -> Path:
    return shared_data / "samples"


def test_every_label_of_chexpert(samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "CheXpert-v1.0-small"
    content = unpacked(samples / "chest" / "chexpert_train.csv.gz", folder / "train.csv").read_bytes()
    (folder / "valid.csv").write_bytes(b"\n".join(content.split(b"\n")[:235]))
    monkeypatch.setattr(medical, "Files", Everything)
    read = medical.chexpert.parts(folder)
    assert (len(read.train), len(read.test)) == (223_414, 234)
    assert len({sample.group for sample in read.train}) == 64_540
    positive, uncertain = {"Atelectasis": 33_376, "Edema": 52_246}, {"Atelectasis": 33_739, "Edema": 12_984}
    certain = {"Cardiomegaly": 27_000, "Consolidation": 14_783, "Pleural Effusion": 86_187}
    counts = dict(zip(read.classes, np.sum([sample.target for sample in read.train], axis=0).tolist(), strict=True))
    assert counts == {**certain, **{name: positive[name] + uncertain[name] for name in positive}}


def test_every_label_of_chestxray14(samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = unpacked(samples / "chest" / "Data_Entry_2017_v2020.csv.gz", tmp_path / "Data_Entry_2017_v2020.csv")
    names = [line.partition(",")[0] for _, line in lines(entries)][1:]
    assert len(names) == 112_120
    monkeypatch.setattr(medical, "by_stem", lambda folders: {Path(name).stem: name for name in names})
    write.text(tmp_path / "train_val_list.txt", names[:86_524])
    write.text(tmp_path / "test_list.txt", names[86_524:])
    read = medical.chestxray14.parts(tmp_path)
    assert len(read.train) + len(read.test) == 20_266


def test_a_real_chest_picture(samples: Path, tmp_path: Path) -> None:
    write.chestxray14(tmp_path)
    folder = tmp_path / "nih" / "images_001" / "images"
    path = next(iter(sorted(folder.iterdir())))
    shutil.copy(samples / "chest" / "tb0005.png", path)
    assert_shows("chestxray14", tmp_path, path)


def assert_shows(name: str, root: Path, path: Path) -> None:
    """That the loader gives the image of a file as it is, and that there is something to see."""
    declared = originals(name)
    data = declared.load(declared.find(root), DataRequest(root, size=32))
    images = [
        split.images[row]
        for split in (data.train, data.validation, data.test)
        for row, files in enumerate(split.images.files)
        if files[0] == str(path)
    ]
    assert images
    expected = np.asarray(resized(decode(str(path), 32), 32, declared.form.fit)).transpose(2, 0, 1)
    assert np.array_equal(images[0].numpy(), expected)
    assert expected.std() > 5


@pytest.mark.parametrize("number", range(1, 5))
def test_real_scenes_of_clevr(number: int, samples: Path, tmp_path: Path) -> None:
    write.clevr(tmp_path)
    scene = samples / "clevr" / f"img{number}.png"
    path = tmp_path / "CLEVR_v1.0" / "images" / "val" / "CLEVR_val_000001.png"
    shutil.copy(scene, path)
    assert_shows("clevr", tmp_path, path)
    with Image.open(scene) as image:
        assert image.mode == "RGBA"
        plain = np.asarray(image.convert("RGB").resize((32, 32), Image.Resampling.BICUBIC), dtype=float)
    assert (
        np.abs(np.asarray(resized(decode(str(path), 32), 32, "whole"), dtype=float) - plain).mean() < 3
    )  # opaque: nothing is lost


@pytest.mark.parametrize("number", range(6))
def test_real_pictures_of_ham10000(number: int, samples: Path, tmp_path: Path) -> None:
    write.ham10k(tmp_path)
    path = tmp_path / "ham10k" / "HAM10000_images_part_1" / "ISIC_0000000.jpg"
    shutil.copy(samples / "ham10k" / f"ISIC_{number:07}.jpg", path)
    assert_shows("ham10k", tmp_path, path)


def test_a_real_room_of_nyu(samples: Path, tmp_path: Path) -> None:
    """MATLAB's axes are turned: what comes out stands upright."""
    h5py = pytest.importorskip("h5py")
    write.nyu(tmp_path)
    with Image.open(samples / "nyu" / "image.png") as image:
        room = np.asarray(image.convert("RGB").resize((640, 480)))
    with h5py.File(tmp_path / "nyu" / "nyu_depth_v2_labeled.mat", "r+") as file:
        file["images"][0] = room.transpose(2, 1, 0)
    declared = originals("nyu")
    data = declared.load(declared.find(tmp_path), DataRequest(tmp_path, size=48))
    row = [files[0].row for files in data.test.images.files].index(0)
    expected = np.asarray(Image.fromarray(room).resize((48, 48), Image.Resampling.BICUBIC), dtype=float)
    assert np.abs(data.test.images[row].permute(1, 2, 0).numpy() - expected).mean() < 3


def test_the_real_names_of_coco_stuff(samples: Path) -> None:
    names = {}
    for _, line in lines(samples / "cocostuff" / "cocostuff-labels.txt"):
        number, _, name = line.partition(":")
        names[int(number)] = name.strip()
    ours = read_table("coco_stuff")
    assert [names[number] for number in ours["ids"]] == ours["classes"]
    assert len(ours["ids"]) == 171


def test_the_real_lists_of_flickr30k_entities(samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "flickr30k"
    (folder / "flickr30k-images").mkdir(parents=True)
    stems = []
    for name in ("train", "val", "test"):
        shutil.copy(samples / "flickr30k" / f"{name}.txt", folder)
        stems += [stem for _, stem in lines(folder / f"{name}.txt")]
    captions = (f"{stem}.jpg#{number}\tA caption ." for stem in stems for number in range(5))
    write.text(folder / "results_20130124.token", captions)
    monkeypatch.setattr(language, "Files", Everything)
    read = language.flickr30k.parts(language.flickr30k.find(tmp_path))
    assert (len(read.train), len(read.validation or ()), len(read.test)) == (29_783, 1_000, 1_000)
    assert len({sample.source for sample in (*read.train, *(read.validation or ()), *read.test)}) == 31_783


@pytest.mark.parametrize("name", ["test.avi", "test.mp4", "demo.mp4", "part_0.mp4"])
def test_real_clips(name: str, samples: Path, tmp_path: Path) -> None:
    write.ucf(tmp_path)
    clip = tmp_path / "ucf101" / "UCF-101" / "ApplyEyeMakeup" / "v_ApplyEyeMakeup_g01_c01.avi"
    shutil.copy(samples / "video" / name, clip)  # FFmpeg looks into the file, not at its ending
    declared = originals("ucf")
    data: Any = declared.load(declared.find(tmp_path), DataRequest(tmp_path, size=32))
    row = [files[0].source for files in data.test.images.files].index(str(clip))
    shown = data.test.images[row]
    assert shown.shape == (8, 3, 32, 32)
    expected = [np.asarray(frame.resize((32, 32), Image.Resampling.BICUBIC)) for frame in read_clip(Clip(str(clip)))]
    assert float((shown.permute(0, 2, 3, 1).float() - torch.from_numpy(np.stack(expected)).float()).abs().mean()) < 3
