"""ELEVATER's 20 data sets, each from small files in its authors' format, and from ELEVATER's index files and zips."""

from __future__ import annotations

import gzip
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from PIL import Image

from gate_data.cards import ICINW
from gate_data.checking import check_data
from gate_data.original_files import Arrays, Originals
from gate_data.originals.icinw.arrays import cifar_10
from gate_data.originals.icinw.elevater import class_names, places_by_name
from gate_data.originals.icinw.lists import nearest_vehicle
from gate_data.readers import Cut, Stored
from gate_data.readers.decode import decode
from gate_runner.benchmarks import BENCHMARKS, PACKS, DataRequest
from gate_runner.errors import DataError


def picture(path: Path, width: int = 8, height: int = 6) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), (9, 90, 200)).save(path)


def text(path: Path, message: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(message)


def touch(folder: Path, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for at in range(count):
        (folder / f"image_{at:04}.jpg").touch()


def sides(name: str, root: Path):  # type: ignore[no-untyped-def]  # lists or arrays
    originals = BENCHMARKS[name].originals
    assert isinstance(originals, Originals)
    assert originals.content is not None
    folder = originals.find(root)
    originals.check(folder)
    return originals.content(folder)


def caltech(root: Path) -> None:
    names = ["BACKGROUND_Google", "Faces", "Faces_easy", "Leopards", "Motorbikes", "accordion", "airplanes", "zzz"]
    for at in range(102 - len(names)):
        names.append(f"b{at:03}")
    for name in names:
        touch(root / "caltech-101" / "101_ObjectCategories" / name, 32)


def cifar(root: Path, name: str) -> None:
    folder = root / {"cifar-10": "cifar-10-batches-py", "cifar-100": "cifar-100-python"}[name]
    folder.mkdir(parents=True)
    names = sorted(class_names(name))
    rng = np.random.default_rng(0)
    key = "labels" if name == "cifar-10" else "fine_labels"
    files = [f"data_batch_{at}" for at in range(1, 6)] + ["test_batch"] if name == "cifar-10" else ["train", "test"]
    for file in files:
        labels = list(range(len(names)))
        rows = {"data": rng.integers(0, 256, (len(labels), 3072), dtype=np.uint8), key: labels}
        (folder / file).write_bytes(pickle.dumps(rows, protocol=2))
    meta = {"label_names" if name == "cifar-10" else "fine_label_names": [entry.replace(" ", "_") for entry in names]}
    (folder / ("batches.meta" if name == "cifar-10" else "meta")).write_bytes(pickle.dumps(meta, protocol=2))


def country(root: Path) -> None:
    codes = ["AD", *(f"B{at:03}" for at in range(210))]
    for split in ("train", "test"):
        for code in codes:
            touch(root / "country211" / split / code, 1)


def dtd(root: Path) -> None:
    for split in ("train", "test"):
        text(root / "dtd" / "labels" / f"{split}1.txt", f"banded/banded_{split}.jpg\npolka-dotted/dots_{split}.jpg\n")
        for file in (f"banded/banded_{split}.jpg", f"polka-dotted/dots_{split}.jpg"):
            picture(root / "dtd" / "images" / file)


def drawn(root: Path, folder: str, names: list[str], count: int) -> None:
    for name in names:
        touch(root / folder / name, count)


def eurosat(root: Path) -> None:
    names = "AnnualCrop Forest HerbaceousVegetation Highway Industrial Pasture PermanentCrop Residential River SeaLake"
    drawn(root, "2750", names.split(), 503)


def resisc(root: Path) -> None:
    drawn(root, "NWPU-RESISC45", [name.replace(" ", "_") for name in class_names("resisc45_clip")], 72)


def sst2(root: Path) -> None:
    for split in ("train", "test"):
        for name in ("negative", "positive"):
            touch(root / "rendered-sst2" / split / name, 2)


def fer(root: Path) -> None:
    pixels = " ".join(["7"] * 2304)
    rows = [f"{label}, {use}, {pixels}" for use in ("Training", "PublicTest", "PrivateTest") for label in range(7)]
    text(root / "fer2013" / "icml_face_data.csv", "\n".join(["emotion, Usage, pixels", *rows]) + "\n")


def aircraft(root: Path) -> None:
    folder = root / "fgvc-aircraft-2013b" / "data"
    theirs = sorted(name.replace("F-16A-B", "F-16A/B").replace("F-A-18", "F/A-18") for name in class_names(_AIRCRAFT))
    text(folder / "variants.txt", "\n".join(theirs) + "\n")
    for split in ("train", "test"):
        text(folder / f"images_variant_{split}.txt", f"100{split} F/A-18\n200{split} BAE 146-200\n")
        for number in ("100", "200"):
            picture(folder / "images" / f"{number}{split}.jpg", 30, 50)


def food(root: Path) -> None:
    folder = root / "food-101"
    names = sorted(name.replace(" ", "_") for name in class_names("food-101"))
    for split in ("train", "test"):
        text(folder / "meta" / f"{split}.json", json.dumps({name: [f"{name}/{split}1"] for name in names}))
        for name in names:
            (folder / "images" / name).mkdir(parents=True, exist_ok=True)
            (folder / "images" / name / f"{split}1.jpg").touch()


def gtsrb(root: Path) -> None:
    head = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n"
    for label in range(43):
        folder = root / "GTSRB" / "Training" / f"{label:05}"
        text(folder / f"GT-{label:05}.csv", f"{head}00000_00000.ppm;8;6;1;1;5;5;{label}\n")
        picture(folder / "00000_00000.ppm")
    images = root / "GTSRB" / "Final_Test" / "Images"
    text(root / "GT-final_test.csv", f"{head}00000.ppm;8;6;1;1;5;5;16\n")
    picture(images / "00000.ppm")


def memes(root: Path) -> None:
    folder = root / "hateful_memes"
    for name, labels in (("train", (0, 1, 1)), ("dev_seen", (1, 0))):
        rows = []
        for at, label in enumerate(labels):
            picture(folder / "img" / f"{name}{at}.png")
            rows.append(json.dumps({"id": at, "img": f"img/{name}{at}.png", "label": label, "text": "made up"}))
        text(folder / f"{name}.jsonl", "\n".join(rows) + "\n")


def kitti(root: Path) -> None:
    line = "Car 0.00 0 -1.57 600.0 170.0 650.0 210.0 1.50 1.60 3.90 1.00 1.60 {z} -1.60\n"
    for image in range(20):
        picture(root / "kitti" / "training" / "image_2" / f"{image:06}.png")
        text(root / "kitti" / "training" / "label_2" / f"{image:06}.txt", line.format(z=float(image)))
    text(root / "kitti" / "mapping" / "train_rand.txt", ",".join(str(at + 1) for at in range(20)))
    rows = [f"2011_09_26 drive_{at % 10:04} {at:010}" for at in range(20)]
    text(root / "kitti" / "mapping" / "train_mapping.txt", "\n".join(rows) + "\n")


def mnist(root: Path) -> None:
    (root / "mnist").mkdir()
    for stem, count in (("train", 12), ("t10k", 10)):
        images = bytes([0, 0, 8, 3]) + b"".join(int(n).to_bytes(4, "big") for n in (count, 28, 28)) + bytes(784 * count)
        labels = bytes([0, 0, 8, 1]) + count.to_bytes(4, "big") + bytes(at % 10 for at in range(count))
        (root / "mnist" / f"{stem}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (root / "mnist" / f"{stem}-labels-idx1-ubyte").write_bytes(labels)


def flowers(root: Path) -> None:
    folder = root / "flowers-102"
    for at in range(1, 7):
        picture(folder / "jpg" / f"image_{at:05}.jpg")
    scipy.io.savemat(folder / "imagelabels.mat", {"labels": np.array([[77, 1, 102, 77, 1, 102]])})
    scipy.io.savemat(folder / "setid.mat", {"trnid": [[1, 2]], "valid": [[3]], "tstid": [[4, 5, 6]]})


def pets(root: Path) -> None:
    for split, at in (("trainval", 1), ("test", 2)):
        rows = [f"Abyssinian_{at} 1 1 1", f"yorkshire_terrier_{at} 37 2 25"]
        text(root / "oxford-iiit-pet" / "annotations" / f"{split}.txt", "\n".join(rows) + "\n")
        for row in rows:
            picture(root / "oxford-iiit-pet" / "images" / f"{row.split()[0]}.jpg")


def pcam(root: Path) -> None:
    h5py = pytest.importorskip("h5py")
    (root / "pcam").mkdir()
    for split in ("train", "test"):
        for key, shape in (("x", (4, 96, 96, 3)), ("y", (4, 1, 1, 1))):
            with h5py.File(root / "pcam" / f"camelyonpatch_level_2_split_{split}_{key}.h5", "w") as file:
                values = np.zeros(shape, np.uint8)
                values[1::2] = 1
                file[key] = values


def cars(root: Path) -> None:
    folder = root / "stanford_cars"
    (folder / "devkit").mkdir(parents=True)
    ours = list(class_names("stanford-cars"))
    theirs = sorted(name.replace("Ram C V", "Ram C/V") for name in ours if "Acura" not in name)
    theirs[1:1] = [name for name in ours if "Acura" in name]  # the official list begins with an AM General
    names = np.array(theirs, dtype=object)[None]
    scipy.io.savemat(folder / "devkit" / "cars_meta.mat", {"class_names": names})
    kind = [("bbox_x1", object), ("class", object), ("fname", object)]
    for file, pictures in (
        ("devkit/cars_train_annos.mat", "cars_train"), ("cars_test_annos_withlabels.mat", "cars_test"),
    ):  # fmt: skip
        rows = [(39, number, f"{at:05}.jpg") for at, number in enumerate((1, 2, 196), start=1)]
        scipy.io.savemat(folder / file, {"annotations": np.array(rows, dtype=kind)[None]})
        for at in range(1, 4):
            picture(folder / pictures / f"{at:05}.jpg")


def voc(root: Path) -> None:
    folder = root / "VOCdevkit" / "VOC2007"
    for split, first in (("train", 1), ("test", 3)):
        for name in class_names("voc-2007-classification"):
            value = {"dog": ("1", "-1"), "cat": ("0", "1")}.get(name, ("-1", "-1"))
            rows = [f"{first + at:06} {entry:>2}" for at, entry in enumerate(value)]
            text(folder / "ImageSets" / "Main" / f"{name}_{split}.txt", "\n".join(rows) + "\n")
        for at in range(2):
            picture(folder / "JPEGImages" / f"{first + at:06}.jpg")


_AIRCRAFT = "fgvc-aircraft-2013b-variants102"
WRITERS: dict[str, Callable[[Path], None]] = {
    "caltech-101": caltech,
    "cifar-10": lambda root: cifar(root, "cifar-10"),
    "cifar-100": lambda root: cifar(root, "cifar-100"),
    "country211": country,
    "dtd": dtd,
    "eurosat_clip": eurosat,
    "fer-2013": fer,
    _AIRCRAFT: aircraft,
    "food-101": food,
    "gtsrb": gtsrb,
    "hateful-memes": memes,
    "kitti-distance": kitti,
    "mnist": mnist,
    "oxford-flower-102": flowers,
    "oxford-iiit-pets": pets,
    "patch-camelyon": pcam,
    "rendered-sst2": sst2,
    "resisc45_clip": resisc,
    "stanford-cars": cars,
    "voc-2007-classification": voc,
}
# how many to train on and to test, and the classes of the first and the last image to test
EXPECTED = {
    "caltech-101": (3060, 204, 0, 101),
    "cifar-10": (50, 10, 0, 9),
    "cifar-100": (100, 100, 24, 46),
    "country211": (211, 211, 0, 210),
    "dtd": (2, 2, 0, 30),
    "eurosat_clip": (5000, 30, 0, 9),
    "fer-2013": (7, 7, 0, 4),
    _AIRCRAFT: (2, 2, 73, 37),
    "food-101": (101, 101, 0, 100),
    "gtsrb": (43, 1, 16, 16),
    "hateful-memes": (3, 2, 1, 0),
    "kitti-distance": (16, 2, None, None),
    "mnist": (12, 10, 0, 9),
    "oxford-flower-102": (2, 3, 76, 101),
    "oxford-iiit-pets": (2, 2, 0, 36),
    "patch-camelyon": (4, 4, 0, 1),
    "rendered-sst2": (4, 4, 0, 1),
    "resisc45_clip": (3150, 90, 0, 44),
    "stanford-cars": (3, 3, None, None),
    "voc-2007-classification": (2, 2, None, None),
}


@pytest.mark.parametrize("name", list(ICINW))
def test_the_authors_own_files_are_read_in_elevaters_order(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path)
    read_sides = sides(name, tmp_path)
    train, test, first, last = EXPECTED[name]
    if isinstance(read_sides, Arrays):
        assert (len(read_sides.train.images), len(read_sides.test.images)) == (train, test)
        assert read_sides.train.images.shape[1] == 3
        labels = read_sides.test.labels.tolist()
    else:
        assert (len(read_sides.train), len(read_sides.test)) == (train, test)
        assert read_sides.classes == class_names(name)
        assert len(read_sides.classes) == ICINW[name].classes
        labels = [sample.target for sample in read_sides.test]
    if first is not None:
        assert (labels[0], labels[-1]) == (first, last)


def test_caltechs_faces_are_named_by_where_they_are(tmp_path: Path) -> None:
    """``Faces_easy`` holds faces cut out, ``Faces`` people in rooms; CLIP, whose names these are, pairs them so."""
    root = tmp_path / "caltech-101" / "101_ObjectCategories"
    # as many folders stand before and behind the faces as in the archive
    for name in (
        "accordion",
        *(f"b{at:02}" for at in range(36)),
        "Faces",
        "Faces_easy",
        *(f"g{at}" for at in range(63)),
    ):
        touch(root / name, 32)
    names = class_names("caltech-101")
    named = {Path(str(entry.source)).parent.name: names[entry.target] for entry in sides("caltech-101", tmp_path).train}
    assert (named["Faces_easy"], named["Faces"]) == ("centered face", "off-center face")
    assert (named["accordion"], named["b35"], named["g0"]) == ("accordion", names[36], names[39])


def test_every_set_of_the_pack_has_a_writer_a_sheet_and_a_metric() -> None:
    assert tuple(WRITERS) == PACKS["icinw"] == tuple(ICINW)
    metrics = {name: sheet.metric for name, sheet in ICINW.items() if sheet.metric != "accuracy"}
    assert metrics == {
        "caltech-101": "mean_per_class", _AIRCRAFT: "mean_per_class", "oxford-flower-102": "mean_per_class",
        "oxford-iiit-pets": "mean_per_class", "hateful-memes": "roc_auc",
        "voc-2007-classification": "map_11point_elevater",
    }  # fmt: skip
    assert BENCHMARKS["voc-2007-classification"].metrics == ("map_11point", "map_11point_elevater")


def test_orders_of_classes_that_differ_are_mapped_by_name(tmp_path: Path) -> None:
    assert [class_names("cifar-100")[at] for at in (0, 24, 99)] == ["chimpanzee", "apple", "bicycle"]
    assert sorted(class_names("cifar-100")) == sorted(_alphabetical("cifar-100"))
    food = sorted(name.replace(" ", "_") for name in class_names("food-101"))
    places = places_by_name("food-101", food, "classes")
    assert [at for at, position in enumerate(places) if at != position] == [16, 17]
    ascii_order = sorted(class_names(_AIRCRAFT))
    moved = [at for at, position in enumerate(places_by_name(_AIRCRAFT, ascii_order, "variants")) if at != position]
    assert moved == [34, 35, 36, *range(44, 52), 62, 63, 68, 69, 70, *range(92, 96)]
    with pytest.raises(DataError, match="'pizza pie' / 'pizza'"):
        places_by_name("food-101", [name.replace("pizza", "pizza pie") for name in food], "classes")
    cars(tmp_path)
    first = sides("stanford-cars", tmp_path).test[0]
    assert class_names("stanford-cars")[first.target].startswith("AM General")
    assert first.target != 0
    fer(tmp_path)
    assert sides("fer-2013", tmp_path).test.labels.tolist() == [0, 1, 2, 3, 5, 6, 4]


def _alphabetical(name: str) -> list[str]:
    from knowledge_prompts import load_class_prompts

    return list(load_class_prompts(name).classes)


def test_check_data_knows_the_sizes(tmp_path: Path) -> None:
    dtd(tmp_path)
    [check, missing] = check_data({name: BENCHMARKS[name].originals for name in ("dtd", "mnist")}, tmp_path)
    assert (check.counts, check.expected) == ((2, 2), (1880, 1880))
    assert check.state != "whole"
    assert missing.state == "missing"


def test_details_of_the_authors_formats(tmp_path: Path) -> None:
    voc(tmp_path)
    dog, cat = (class_names("voc-2007-classification").index(entry) for entry in ("dog", "cat"))
    first, second = sides("voc-2007-classification", tmp_path).train
    assert [first.target[dog], first.target[cat]] == [1, 0]  # only difficult counts as absent
    assert second.target[cat] == 1
    aircraft(tmp_path)
    cut = sides(_AIRCRAFT, tmp_path).train[0].source
    assert isinstance(cut, Cut)
    assert decode(cut).size == (30, 30)  # without its banner of 20 rows
    pcam(tmp_path)
    assert isinstance(sides("patch-camelyon", tmp_path).test[1].source, Stored)
    line = "{kind} 0 0 0 0 0 0 0 1 1 1 1 1 {z} 0\n"
    for message, expected in (
        ([("Car", 8.0), ("Van", 30)], 0), ([("Truck", 8.01)], 1), ([("Car", 20.5)], 2), ([("Tram", 3)], 3), ([], 3),
    ):  # fmt: skip
        text(tmp_path / "labels.txt", "".join(line.format(kind=kind, z=z) for kind, z in message))
        assert nearest_vehicle(tmp_path / "labels.txt") == expected
    kitti(tmp_path)
    read_sides = sides("kitti-distance", tmp_path)
    drives = [
        {int(Path(str(entry.source)).stem) % 10 for entry in side} for side in (read_sides.train, read_sides.test)
    ]
    assert len(drives[0]) == 8
    assert len(drives[1]) == 1
    assert not drives[0] & drives[1]


def write_elevater(root: Path, name: str, rows: list[tuple[str, str]], labels: list[str] | None = None) -> Path:
    """A copy with images in stored zips: ``rows`` are member and label of each split alike."""
    sheet = ICINW[name]
    folder = root / "classification" / sheet.folder
    folder.mkdir(parents=True)
    picture(root / "one.jpg")
    with zipfile.ZipFile(folder / "train.zip", "w") as file:
        for member, _ in rows:
            file.write(root / "one.jpg", member)
    for index in sheet.index:
        text(folder / index, "".join(f"train.zip@{member} {label}\n" for member, label in rows))
    if labels is not None:
        text(folder / "labels.txt", "\n".join(labels) + "\n")
    return folder


def test_elevaters_index_files_give_their_order_and_win_over_the_authors_files(tmp_path: Path) -> None:
    dtd(tmp_path)
    write_elevater(
        tmp_path, "dtd", [("train/4/001 b.jpg", "7"), ("train/4/000.jpg", "46"), ("c.jpg", "7"), ("d.jpg", "46")]
    )
    read_sides = sides("dtd", tmp_path)
    assert [sample.target for sample in read_sides.train] == [7, 46, 7, 46]
    assert str(read_sides.train[0].source.name) == "train/4/001 b.jpg"
    data = BENCHMARKS["dtd"].load("local", DataRequest(tmp_path, size=8))
    assert data.test.images[:].shape == (4, 3, 8, 8)


def test_an_index_of_several_labels_one_without_zips_and_names_in_another_order(tmp_path: Path) -> None:
    write_elevater(tmp_path, "voc-2007-classification", [("a.jpg", "0,14"), ("b.jpg", "3")])
    first, second = (sample.target for sample in sides("voc-2007-classification", tmp_path).train)
    assert [sum(first), first[0], first[14], second[3]] == [2, 1, 1, 1]
    names = sorted(_alphabetical("cifar-100"))
    folder = write_elevater(tmp_path, "cifar-100", [("a b/1.jpg", "0"), ("2.jpg", "99")], names)
    with zipfile.ZipFile(folder / "train.zip") as file:
        file.extractall(folder / "train")
    (folder / "train.zip").unlink()
    read_sides = sides("cifar-100", tmp_path)
    assert [class_names("cifar-100")[sample.target] for sample in read_sides.test] == ["apple", "worm"]
    assert read_sides.test[0].source == str(folder / "train" / "a b" / "1.jpg")


def test_an_index_as_json(tmp_path: Path) -> None:
    folder = tmp_path / ICINW["resisc45_clip"].folder
    folder.mkdir()
    picture(tmp_path / "one.jpg")
    with zipfile.ZipFile(folder / "images.zip", "w") as file:
        file.write(tmp_path / "one.jpg", "airport_007.jpg")
    raw = {
        "images": [{"id": 12, "file_name": "airport_007.jpg", "zip_file": "images.zip"}],
        "annotations": [{"id": 1, "image_id": 12, "category_id": 20}],
        "categories": [{"id": 10 * (at + 1), "name": str(at)} for at in range(45)],
    }
    for index in ("train.json", "test.json"):
        text(folder / index, json.dumps(raw))
    assert [sample.target for sample in sides("resisc45_clip", tmp_path).train] == [1]
    raw["annotations"] = []
    text(folder / "train.json", json.dumps(raw))
    with pytest.raises(DataError, match="images, entry 0: 0 annotations"):
        sides("resisc45_clip", tmp_path)


def test_pictures_of_an_index_as_json_stand_by_their_ids(tmp_path: Path) -> None:
    """vision-datasets sorts them so, and few-shot subsets are places in that order."""
    folder = tmp_path / ICINW["resisc45_clip"].folder
    ids = [31, 4, 15, 9]
    for entry in ids:
        picture(folder / f"{entry}.jpg")
    raw = {
        "images": [{"id": entry, "file_name": f"{entry}.jpg"} for entry in ids],
        "annotations": [{"id": entry, "image_id": entry, "category_id": 1 + entry} for entry in ids],
        "categories": [{"id": 1 + at, "name": str(at)} for at in range(45)],
    }
    for index in ("train.json", "test.json"):
        text(folder / index, json.dumps(raw))
    read_sides = sides("resisc45_clip", tmp_path)
    assert (
        [sample.target for sample in read_sides.train] == [sample.target for sample in read_sides.test] == sorted(ids)
    )
    assert [Path(str(sample.source)).stem for sample in read_sides.train] == [str(entry) for entry in sorted(ids)]
    raw["images"].append({"id": 4, "file_name": "9.jpg"})
    text(folder / "train.json", json.dumps(raw))
    with pytest.raises(DataError, match="entry 4: field 'id' is '4', expected another than that of images, entry 1"):
        sides("resisc45_clip", tmp_path)


def test_a_line_without_labels_is_of_no_class_where_several_can_be(tmp_path: Path) -> None:
    write_elevater(tmp_path, "voc-2007-classification", [("a.jpg", "0,14"), ("b.jpg", ""), ("c.jpg", "3")])
    train = sides("voc-2007-classification", tmp_path).train
    assert [sum(sample.target) for sample in train] == [2, 0, 1]
    assert [str(sample.source.name) for sample in train] == ["a.jpg", "b.jpg", "c.jpg"]
    folder = write_elevater(tmp_path, "dtd", [("a.jpg", "3")])
    text(folder / "train.txt", "train.zip@a.jpg\n")
    with pytest.raises(DataError, match="expected a path, a space and one label"):
        sides("dtd", tmp_path)


def test_what_is_wrong_with_an_index_is_named(tmp_path: Path) -> None:
    folder = write_elevater(tmp_path, "dtd", [("a.jpg", "3")])
    text(folder / "labels.txt", "".join(f"one {at}\n" for at in range(8)))
    with pytest.raises(DataError, match=r"8 classes, the templates 47.*'one 0' / 'banded'"):
        sides("dtd", tmp_path)
    text(folder / "labels.txt", "banded\n" + "".join(f"one {at}\n" for at in range(46)))
    with pytest.raises(DataError, match="46 of 47 class names are not the templates'"):
        sides("dtd", tmp_path)
    (folder / "labels.txt").unlink()
    for line, message in (
        ("train.zip@a.jpg 47", "line 1: field 'label' is '47', expected a number from 0 to 46"),
        ("train.zip@b.jpg 1", "train.zip/b.jpg is not there"),
        ("train.zip@a.jpg 1,2", "expected a path, a space and one label"),
        ("other/a.jpg 1", "is not there"),
    ):
        text(folder / "train.txt", line + "\n")
        with pytest.raises(DataError, match=message):
            sides("dtd", tmp_path)
    (folder / "test.txt").unlink()
    with pytest.raises(DataError, match=r"is there in part: it lacks test\.txt"):
        sides("dtd", tmp_path)


def test_what_is_wrong_with_the_authors_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"does not hold its files.*classification/dtd_20211007"):
        sides("dtd", tmp_path)
    dtd(tmp_path)
    text(tmp_path / "dtd" / "labels" / "test1.txt", "banded/banded_test.jpg\nshiny/1.jpg\n")
    picture(tmp_path / "dtd" / "images" / "shiny" / "1.jpg")
    with pytest.raises(DataError, match=r"test1\.txt, line 2: field 'class' is 'shiny', expected one of banded"):
        sides("dtd", tmp_path)
    mnist(tmp_path)
    path = tmp_path / "mnist" / "t10k-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="t10k-labels-idx1-ubyte has 17 bytes, expected 18"):
        sides("mnist", tmp_path)
    fer(tmp_path)
    csv = tmp_path / "fer2013" / "icml_face_data.csv"
    csv.write_text(csv.read_text().replace(" 7\n", " 256\n", 1))
    with pytest.raises(DataError, match="line 2: field 'pixels'"):
        sides("fer-2013", tmp_path)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("batches.meta", {"label_names": None}, "batches.meta has no list 'label_names'"),
        ("test_batch", {"labels": [-1] * 10}, "test_batch has the label -1, expected 0 to 9"),
        ("test_batch", {"labels": []}, "test_batch holds uint8 .* for 0 labels"),
        ("data_batch_2", {"labels": [10**30] * 10}, "data_batch_2: labels holds 1000000000000000000000000000000"),
        ("data_batch_2", {"labels": ["a"] * 10}, "data_batch_2: labels holds 'a', expected whole numbers"),
        ("data_batch_2", {"labels": [None] * 10}, "data_batch_2: labels holds None"),
        ("data_batch_2", {"data": [[1], [2, 3]]}, "data_batch_2: data is a list, expected an array"),
    ],
)
def test_cifar_of_wrong_values_names_them(tmp_path: Path, file: str, change: dict[str, object], message: str) -> None:
    cifar(tmp_path, "cifar-10")
    path = tmp_path / "cifar-10-batches-py" / file
    path.write_bytes(pickle.dumps({**pickle.loads(path.read_bytes()), **change}))
    with pytest.raises(DataError, match=message):
        cifar_10.load(cifar_10.find(tmp_path), DataRequest())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 0.5, 0, 1], r"test_y\.h5: labels are \[0\.0, 0\.5, 1\.0\], expected 0 and 1"),
        ([0, np.nan, 0, 1], r"test_y\.h5: labels are \[0\.0, 1\.0, nan\]"),
        ([], r"test_x\.h5 holds no images"),
    ],
)
def test_patches_whose_labels_are_no_classes_are_refused(tmp_path: Path, labels: list[float], message: str) -> None:
    h5py = pytest.importorskip("h5py")
    pcam(tmp_path)
    for key, values in (("x", np.zeros((len(labels), 96, 96, 3), np.uint8)), ("y", np.array(labels, float))):
        with h5py.File(tmp_path / "pcam" / f"camelyonpatch_level_2_split_test_{key}.h5", "w") as file:
            file[key] = values.reshape(-1, 1, 1, 1) if key == "y" else values
    with pytest.raises(DataError, match=message):
        sides("patch-camelyon", tmp_path)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([77, 1.5, 102, 77, 1, 102], r"imagelabels\.mat has the label 1\.5, expected 1 to 102"),
        ([77, 1, np.nan, 77, 1, 102], "has the label nan"),
        ([77, 1, 103, 77, 1, 102], "has the label 103"),
        ([], "has no labels, expected 1 to 102"),
    ],
)
def test_flowers_whose_labels_are_no_classes_are_refused(tmp_path: Path, labels: list[float], message: str) -> None:
    flowers(tmp_path)
    scipy.io.savemat(tmp_path / "flowers-102" / "imagelabels.mat", {"labels": np.array([labels])})
    with pytest.raises(DataError, match=message):
        sides("oxford-flower-102", tmp_path)


@pytest.mark.parametrize(
    ("name", "write", "file", "content", "message"),
    [
        ("kitti-distance", kitti, "kitti/mapping/train_rand.txt", "1,2,1\x062", r"train_rand\.txt, line 1: field"),
        ("kitti-distance", kitti, "kitti/training/label_2/000000.txt", " ".join(["Car", *"abcdefghijklmn"]),
         r"000000\.txt, line 1: field 'z' is 'm'"),
        ("kitti-distance", kitti, "kitti/training/label_2/000000.txt", "Car " + " ".join(["nan"] * 14),
         r"000000\.txt, line 1: field 'z' is 'nan'"),
        ("dtd", dtd, "dtd/labels/test1.txt", "ban\0ded/1.jpg\n", r"test1\.txt, line 1"),
    ],
)  # fmt: skip
def test_lists_that_hold_something_else_name_line_and_field(
    tmp_path: Path, name: str, write: Callable[[Path], None], file: str, content: str, message: str
) -> None:
    write(tmp_path)
    text(tmp_path / file, content)
    with pytest.raises(DataError, match=message):
        sides(name, tmp_path)
