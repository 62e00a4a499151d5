"""Readers of original files, on small files written in exactly the data sets' formats, and whole runs on them."""

from __future__ import annotations

import csv
import io
import json
import pickle
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from gate_data.data import Data
from gate_data.original_files import Sample, few_classes
from gate_data.originals import language, medical
from gate_data.pictures import Pictures
from gate_data.readers import held_out
from gate_data.readers.decode import decode, resized
from gate_runner.benchmarks import BENCHMARKS, DataRequest
from gate_runner.errors import DataError
from gate_runner.executors import run
from gate_runner.runs import RunRequest
from gate_runner.settings import Settings

RNG = np.random.default_rng(0)


def load(name: str, root: Path, **request: Any) -> Data:
    return BENCHMARKS[name].load("local", DataRequest(root, **request))


def check(name: str, root: Path) -> None:
    BENCHMARKS[name].check_files(root)


def write_image(path: Path, width: int = 40, height: int = 30, value: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)
    if value is not None:
        pixels[:] = value
    Image.fromarray(pixels).save(path, quality=95)


def write_cifar(root: Path, archive: bool) -> None:
    """The Python version: dicts of arrays and lists, pickled as Python 2's NumPy did."""

    def rows(count: int) -> dict[str, object]:
        return {
            "filenames": [f"{i}.png" for i in range(count)],
            "fine_labels": [i % 100 for i in range(count)],
            "coarse_labels": [0] * count,
            "data": RNG.integers(0, 256, (count, 3072), dtype=np.uint8),
        }

    files = {"train": rows(400), "test": rows(200), "meta": {"fine_label_names": [f"name{i}" for i in range(100)]}}
    raw = {
        name: pickle.dumps(value, protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
        for name, value in files.items()
    }
    if archive:
        with tarfile.open(root / "cifar-100-python.tar.gz", "w:gz") as tar:
            for name, content in raw.items():
                info = tarfile.TarInfo(f"cifar-100-python/{name}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    else:
        (root / "cifar-100-python").mkdir()
        for name, content in raw.items():
            (root / "cifar-100-python" / name).write_bytes(content)


def write_imagenet(root: Path) -> None:
    for split, count in (("train", 5), ("val", 3)):
        for wnid in ("n01440764", "n01443537", "n01484850"):
            for index in range(count):
                write_image(root / "imagenet1k" / split / wnid / f"{wnid}_{index}.JPEG")
    (root / "imagenet1k" / "LOC_synset_mapping.txt").write_text(
        "n01440764 tench, Tinca tinca\nn01443537 goldfish\nn01484850 great white shark, white shark\n"
    )


def write_kaggle_imagenet(root: Path) -> None:
    base = root / "ILSVRC" / "Data" / "CLS-LOC"
    answers = []
    for label, wnid in enumerate(("n01440764", "n01443537")):
        for index in range(3):
            write_image(base / "train" / wnid / f"{wnid}_{index}.JPEG")
            name = f"ILSVRC2012_val_{len(answers) + 1:08}"
            write_image(base / "val" / f"{name}.JPEG", value=label * 200)
            answers.append((name, f"{wnid} 1 2 3 4 "))
    with (root / "LOC_val_solution.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("ImageId", "PredictionString"), *answers])


def write_mini(root: Path) -> None:
    folder = root / "mini-imagenet"
    for name, first, count in (("train", 0, 6), ("val", 10, 5), ("test", 20, 5)):
        rows = [("filename", "label")]
        for label in range(first, first + count):
            for index in range(8):
                file = f"n{label:08}{index:08}.jpg"
                write_image(folder / "images" / file)
                rows.append((file, f"n{label:08}"))
        with (folder / f"{name}.csv").open("w", newline="") as file_:
            csv.writer(file_).writerows(rows)


def write_birds(root: Path, each: int = 6) -> None:
    """200 classes; in each image only a white box counts."""
    folder = root / "CUB_200_2011"
    names, images, labels, boxes = [], [], [], []
    for label in range(1, 201):
        name = f"{label:03}.Bird_{label}"
        names.append(f"{label} {name}")
        (folder / "images" / name).mkdir(parents=True)
        for index in range(each):
            number = len(images) + 1
            last = 55 if number == 3 else 100_000 + number  # 55 is in ImageNet, too
            file = f"{name}/Bird_{label}_{index:04}_{last}.png"
            pixels = np.zeros((8, 10, 3), np.uint8)
            pixels[2:6, 1:5] = 255
            Image.fromarray(pixels).save(folder / "images" / file)
            images.append(f"{number} {file}")
            labels.append(f"{number} {label}")
            boxes.append(f"{number} 1.0 2.0 4.0 4.0")
    for name, lines in (
        ("classes", names),
        ("images", images),
        ("image_class_labels", labels),
        ("bounding_boxes", boxes),
    ):
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")


def write_ade(root: Path, count: int = 14) -> None:
    folder = root / "ADEChallengeData2016"
    for split, number in (("training", count), ("validation", 4)):
        for index in range(number):
            stem = f"ADE_{split[:-3]}_{index:08}"
            write_image(folder / "images" / split / f"{stem}.jpg", 48, 36)
            (folder / "annotations" / split).mkdir(parents=True, exist_ok=True)
            values = np.zeros((36, 48), np.uint8)
            values[:, 12:], values[:, 36:] = 3, 150
            Image.fromarray(values).save(folder / "annotations" / split / f"{stem}.png")
    lines = ["Idx\tRatio\tTrain\tVal\tStuff\tName", *(f"{i}\t0\t1\t1\t0\tthing{i}, other" for i in range(1, 151))]
    (folder / "objectInfo150.txt").write_text("\n".join(lines) + "\n")


def write_clevr(root: Path) -> None:
    folder = root / "clevr-math"
    for split, count in (("train", 24), ("val", 8), ("test", 8)):
        questions = []
        for index in range(count):
            name = f"CLEVR_{split}_{index:06}.png"
            part_folder = folder / "clevr-math-test-images" if split == "test" else folder
            write_image(part_folder / "CLEVR_v1.0" / "images" / split / name, 48, 32)
            questions.append(
                {
                    "question": f"Subtract all {('red', 'blue')[index % 2]} cubes. How many objects are left?",
                    "answer": index % 4,
                    "image_filename": name,
                    "split": split,
                    "template_filename": "subtraction.json",
                }
            )
        (folder / f"clevr-math-{split}.json").write_text(json.dumps({"info": {}, "questions": questions}))


def write_acdc(root: Path, slices: tuple[int, ...] = (3, 5, 4, 3)) -> None:
    nibabel = pytest.importorskip("nibabel")
    for split, first in (("training", 1), ("testing", 101)):
        for index, depth in enumerate(slices):
            patient = f"patient{first + index:03}"
            folder = root / "ACDC" / "database" / split / patient
            folder.mkdir(parents=True)
            (folder / "Info.cfg").write_text("ED: 1\nES: 12\n")
            for frame in (1, 12):
                grey = RNG.integers(0, 900, (20, 24, depth)).astype(np.int16)
                truth = np.zeros((20, 24, depth), np.uint8)
                truth[4:10, 6:18], truth[10:14, 6:18], truth[14:17, 8:16] = 1, 2, 3
                for name, values in (("", grey), ("_gt", truth)):
                    image = nibabel.Nifti1Image(values, np.diag([1.5, 1.5, 10, 1]))
                    nibabel.save(image, folder / f"{patient}_frame{frame:02}{name}.nii.gz")


def write_iwildcam(root: Path) -> None:
    metadata = root / "iwildcam2022" / "metadata" / "metadata"
    metadata.mkdir(parents=True)
    images, counts = [], []
    for location in range(10):
        for sequence in range(3):
            identity = f"{location}-{sequence}"
            frames = (10, 3, 1)[sequence]
            for frame in reversed(range(frames)):
                name = f"{identity}-{frame}.jpg"
                write_image(root / "iwildcam2022" / "train" / "train" / name, 32, 24, value=frame * 20)
                images.append(
                    {
                        "id": name[:-4],
                        "file_name": name,
                        "seq_id": identity,
                        "seq_frame_num": frame,
                        "location": location,
                    }
                )
            if sequence < 2 or location < 8:
                counts.append((identity, sequence + 1))
    with (metadata / "train_sequence_counts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("seq_id", "count"), *counts])
    (metadata / "iwildcam2022_train_annotations.json").write_text(json.dumps({"images": images, "annotations": []}))


@pytest.mark.parametrize("archive", [False, True])
def test_cifar100_from_its_pickles(tmp_path: Path, archive: bool) -> None:
    write_cifar(tmp_path, archive)
    data = load("cifar100", tmp_path)
    assert (len(data.train), len(data.validation), len(data.test)) == (300, 100, 200)
    assert data.classes[7] == "name7"
    assert sorted(data.validation.targets.tolist()) == list(range(100))


def test_cifar100_runs_nothing_that_a_pickle_asks_for(tmp_path: Path) -> None:
    write_cifar(tmp_path, archive=False)
    (tmp_path / "cifar-100-python" / "meta").write_bytes(b"cos\nsystem\n(S'echo no'\ntR.")
    with pytest.raises(DataError, match=r"meta is no pickle of arrays: it asks for os\.system"):
        check("cifar100", tmp_path)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("meta", {"fine_label_names": None}, "meta has no list 'fine_label_names'"),
        ("train", {"fine_labels": [-1] * 400}, "train has the label -1, expected 0 to 99"),
        ("test", {"fine_labels": [10**30] * 200}, "test: fine_labels holds 1000000000000000000000000000000, expected"),
        ("test", {"fine_labels": [1.5] * 200}, "test: fine_labels holds 1.5, expected whole numbers"),
        ("test", {"fine_labels": [[1]] * 200}, "test: fine_labels holds a list, expected whole numbers"),
        ("test", {"fine_labels": [[1], [1, 2]] * 100}, "test: fine_labels holds a list"),
        ("train", {"fine_labels": []}, "for 0 labels"),
        ("train", {"data": [[1, 2], [3]]}, "train: data is a list, expected an array"),
    ],
)
def test_cifar100_of_wrong_values_names_them(
    tmp_path: Path, name: str, change: dict[str, object], message: str
) -> None:
    write_cifar(tmp_path, archive=False)
    file = tmp_path / "cifar-100-python" / name
    file.write_bytes(pickle.dumps({**pickle.loads(file.read_bytes()), **change}))
    with pytest.raises(DataError, match=message):
        load("cifar100", tmp_path)


def test_imagenet_folders(tmp_path: Path) -> None:
    write_imagenet(tmp_path)
    check("imagenet1k", tmp_path)
    data = load("imagenet1k", tmp_path, size=16)
    assert data.classes == ("tench", "goldfish", "great white shark")
    assert (len(data.train), len(data.validation), len(data.test)) == (12, 3, 9)
    assert data.test.images[0:2].shape == (2, 3, 16, 16)
    assert not {path for (path,) in data.train.images.files} & {path for (path,) in data.validation.images.files}


def test_imagenet_as_kaggle_packs_it(tmp_path: Path) -> None:
    write_kaggle_imagenet(tmp_path)
    data = load("imagenet1k", tmp_path, size=8)
    shades = data.test.images[0 : len(data.test)].float().mean(dim=(1, 2, 3))
    assert torch.equal((shades > 100).long(), data.test.targets)  # white files are of the second class


def test_imagenet_names_a_class_without_training_images(tmp_path: Path) -> None:
    write_imagenet(tmp_path)
    write_image(tmp_path / "imagenet1k" / "val" / "n99999999" / "a.JPEG")
    with pytest.raises(DataError, match="'n99999999' has test images but none to train on"):
        check("imagenet1k", tmp_path)


def test_mini_imagenet_lists(tmp_path: Path) -> None:
    write_mini(tmp_path)
    check("mini", tmp_path)
    data = load("mini", tmp_path, size=8)
    assert [len(torch.unique(split.targets)) for split in (data.train, data.validation, data.test)] == [6, 5, 5]
    (tmp_path / "mini-imagenet" / "val.csv").write_text("filename,label\nmissing.jpg,n1\n")
    with pytest.raises(DataError, match=r"val\.csv, line 2: .*missing\.jpg is not there"):
        check("mini", tmp_path)


def test_birds_are_dealt_as_meta_dataset_does_and_cut_to_their_boxes(tmp_path: Path) -> None:
    write_birds(tmp_path)
    data = load("cubirds", tmp_path, size=4)
    assert [len(torch.unique(split.targets)) for split in (data.train, data.validation, data.test)] == [140, 30, 30]
    assert data.classes[0] == "001.Bird_1"
    assert data.classes[140] == "044.Bird_44"
    assert data.classes[-1] == "194.Bird_194"
    assert len(data.train) + len(data.validation) + len(data.test) == 1199
    assert bool((data.test.images[:3] == 255).all())
    path = tmp_path / "CUB_200_2011" / "image_class_labels.txt"
    path.write_text(path.read_text().replace("\n3 1\n", "\n3 999\n", 1))
    with pytest.raises(DataError, match=r"image_class_labels\.txt, line 3: class '999' is in no list"):
        check("cubirds", tmp_path)


def test_ade20k_maps(tmp_path: Path) -> None:
    write_ade(tmp_path)
    data = load("ade20k", tmp_path, limit=4, size=16)
    assert (len(data.train), len(data.validation), len(data.test)) == (4, 1, 4)
    row = data.test.targets[0][0]
    assert row.shape == (256,)
    assert row.tolist() == [-100] * 64 + [2] * 128 + [149] * 64  # quarters of the width, nearest pixels
    assert data.classes[0] == "thing1"
    text = "14 / 4 samples to train on and to score, published are 20,210 / 2,000"
    assert load("ade20k", tmp_path, size=16).note == text


def test_ade20k_names_an_image_without_annotation(tmp_path: Path) -> None:
    write_ade(tmp_path)
    write_image(tmp_path / "ADEChallengeData2016" / "images" / "training" / "extra.jpg")
    with pytest.raises(DataError, match=r"extra\.jpg has no annotation"):
        check("ade20k", tmp_path)


def test_clevr_math_questions(tmp_path: Path) -> None:
    write_clevr(tmp_path)
    data = load("clevr-math", tmp_path, size=8)
    assert len(data.train) == 24
    assert data.classes == tuple(map(str, range(11)))
    assert data.train.texts is not None
    number = [int(Path(path).stem.rpartition("_")[2]) for (path,) in data.train.images.files]
    assert data.train.targets.tolist() == [index % 4 for index in number]
    assert all(("red", "blue")[index % 2] in text for index, text in zip(number, data.train.texts, strict=True))


def test_clevr_math_names_a_bad_answer(tmp_path: Path) -> None:
    write_clevr(tmp_path)
    path = tmp_path / "clevr-math" / "clevr-math-val.json"
    raw = json.loads(path.read_text())
    raw["questions"][5]["answer"] = 11
    path.write_text(json.dumps(raw))
    with pytest.raises(DataError, match=r"val\.json, entry 5: field 'answer' is '11', expected a number from 0 to"):
        load("clevr-math", tmp_path)


def test_acdc_volumes(tmp_path: Path) -> None:
    write_acdc(tmp_path)
    data = load("acdc", tmp_path, size=32)
    assert data.test.groups is not None
    assert torch.bincount(data.test.groups).tolist() == [3, 3, 5, 5, 4, 4, 3, 3]
    assert data.test.images.shape == (30, 3, 32, 32)
    # NIfTI's first axis is x: of 20 columns, 4 to 9 are the right ventricle, in rows 6 to 17 of 24.
    side = 256
    places = (np.arange(side) + 0.5) / side
    x, y = (places * 20).astype(int), (places * 24).astype(int)
    expected = ((x >= 4) & (x < 10))[None] & ((y >= 6) & (y < 18))[:, None]
    assert np.array_equal((data.test.targets[0] == 1).numpy(), expected)
    few = load("acdc", tmp_path, limit=4).test
    assert few.groups is not None
    assert all(count in (3, 4, 5) for count in torch.bincount(few.groups).tolist())  # whole volumes
    assert 4 <= len(few) <= 8


def test_acdc_names_a_damaged_file(tmp_path: Path) -> None:
    write_acdc(tmp_path)
    path = tmp_path / "ACDC" / "database" / "testing" / "patient101" / "patient101_frame01.nii.gz"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"patient101_frame01\.nii\.gz cannot be read as NIfTI"):
        load("acdc", tmp_path)


def test_iwildcam_sequences(tmp_path: Path) -> None:
    write_iwildcam(tmp_path)
    check("iwildcam", tmp_path)
    data = load("iwildcam", tmp_path, size=8)
    splits = (data.train, data.validation, data.test)
    assert sum(map(len, splits)) == 28
    cameras = [{Path(path).name.split("-")[0] for frames in split.images.files for path in frames} for split in splits]
    assert [len(camera) for camera in cameras] == [7, 1, 2]
    assert not cameras[0] & cameras[1] | cameras[0] & cameras[2] | cameras[1] & cameras[2]
    long = next(frames for split in splits for frames in split.images.files if len(set(frames)) > 3)
    assert [int(Path(path).stem.split("-")[2]) for path in long] == [
        0,
        1,
        3,
        4,
        5,
        6,
        8,
        9,
    ]
    assert data.train.images[0:2].shape == (2, 8, 3, 8, 8)


def test_pictures_are_scaled_and_cut_as_pillow_does(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", 60, 40)
    image = Image.open(tmp_path / "a.png").convert("RGB")
    expected = image.resize((30, 20), Image.Resampling.BICUBIC).crop((5, 0, 25, 20))
    assert np.array_equal(np.asarray(resized(decode(str(tmp_path / "a.png"), 20), 20)), np.asarray(expected))
    whole = image.resize((20, 20), Image.Resampling.BICUBIC)
    assert np.array_equal(np.asarray(resized(decode(str(tmp_path / "a.png"), 20), 20, "whole")), np.asarray(whole))


def test_an_unreadable_picture_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"a\.jpg cannot be read as an image"):
        Pictures.of([tmp_path / "a.jpg"], 8)[0:1]


def test_the_digest_sees_a_file_that_changed(tmp_path: Path) -> None:
    write_clevr(tmp_path)
    before = load("clevr-math", tmp_path).digest()
    assert load("clevr-math", tmp_path, size=8).digest() == before  # the size is the encoder's matter
    with next((tmp_path / "clevr-math").rglob("*.png")).open("ab") as file:
        file.write(b"more")
    assert load("clevr-math", tmp_path).digest() != before


def test_held_out_keeps_the_share_of_every_class() -> None:
    labels = [0] * 30 + [1] * 10 + [2]
    train, validation = held_out(labels, 0.1)
    assert sorted(train + validation) == list(range(41))
    assert sorted(labels[row] for row in validation) == [0, 0, 0, 1]


def test_a_limit_on_few_shot_keeps_drawn_classes_whole() -> None:
    samples = [Sample("a.jpg", label) for label in range(40) for _ in range(30)]
    targets = [sample.target for sample in few_classes(samples, 120)]
    assert sorted(np.unique(targets, return_counts=True)[1].tolist()) == [20] * 6
    assert sorted(set(targets)) != list(range(6))


def test_clevr_maths_test_is_not_asked_about_clevrs_own_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_clevr(tmp_path)
    monkeypatch.setattr(language, "_CLEVR_TEST", 8)
    with pytest.raises(DataError, match=r"holds CLEVR's own test images.*clevr-math-test-images"):
        check("clevr-math", tmp_path)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("acdc", write_acdc),
        ("ade20k", write_ade),
        ("cifar100", lambda root: write_cifar(root, archive=True)),
        ("clevr-math", write_clevr),
        ("cubirds", write_birds),
        ("imagenet1k", write_imagenet),
        ("iwildcam", write_iwildcam),
        ("mini", write_mini),
    ],
)
def test_a_whole_run_on_original_files(
    name: str, write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(medical, "MAP_SIDE", 32)  # the full 256 take seconds
    originals = BENCHMARKS[name].originals
    assert originals is not None
    monkeypatch.setitem(vars(originals.form), "map_side", 32)
    (tmp_path / "data").mkdir()
    write(tmp_path / "data")
    few = {"steps": 2, "batch_size": 4, "validate_every": 1, "episodes": 4}
    training = {key: few[key] for key in BENCHMARKS[name].training if key in few}
    benchmark = replace(BENCHMARKS[name], original_training=training)
    request = RunRequest(
        [benchmark],
        "micro-dense",
        tmp_path / "run",
        Settings(data_root=tmp_path / "data", limit=6 if name == "ade20k" else None),
    )
    (result,) = run(request)
    assert (result.status, result.source, result.name) == ("ok", "local", name), result.reason
    assert result.headline is not None
    assert np.isfinite(result.headline.value)
