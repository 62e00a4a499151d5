"""GATE's data sets from their own files: small ones in exactly their layouts, and what is wrong with them by name."""

from __future__ import annotations

import gzip
import importlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gate_data
from gate_data.cards import SHEETS
from gate_data.data import Data
from gate_data.original_files import Originals
from gate_data.readers.clips import read_clip
from gate_data.tables import read_table
from gate_runner.benchmarks import DataRequest
from gate_runner.errors import DataError

from . import _gate_files as write

OTHERS = {
    "chestxray14": "gate_data.originals.medical:chestxray14",
    "nyu-depth": "gate_data.originals.segmentation:nyu_depth",
    "voc20": "gate_data.originals.open_vocabulary:voc20",
    "voc21": "gate_data.originals.open_vocabulary:voc21",
    "context60": "gate_data.originals.open_vocabulary:context60",
    "coco-object": "gate_data.originals.open_vocabulary:coco_object",
}


def originals(name: str) -> Originals[Any]:
    module, _, attribute = (OTHERS.get(name) or SHEETS[name].local).partition(":")
    declared: Originals[Any] = getattr(importlib.import_module(module), attribute)
    return declared


def load(name: str, root: Path, **request: Any) -> Data:
    declared = originals(name)
    folder = declared.find(root)
    declared.check(folder)
    return declared.load(folder, DataRequest(root, **{"size": 8, **request}))


def sizes(data: Data) -> tuple[int, int, int]:
    return len(data.train), len(data.validation), len(data.test)


LAYOUTS: list[tuple[str, Callable[[Path], None], tuple[int, int, int]]] = [
    ("food101", write.food101, (8, 2, 4)),
    ("places365", write.places365, (6, 2, 4)),
    ("places365", write.places365_easy, (6, 2, 4)),
    ("happy", write.happy, (32, 2, 6)),
    ("dtextures", write.dtextures, (30, 42, 42)),
    ("aircraft", write.aircraft, (36, 90, 90)),
    ("vgg", write.vgg, (71 * 6, 15 * 6, 16 * 6)),
    ("cityscapes", write.cityscapes, (4, 2, 2)),
    ("coco-10k", write.coco_10k, (11, 1, 2)),
    ("coco-164k", write.coco_164k, (11, 1, 2)),
    ("pascal", write.pascal, (11, 1, 2)),
    ("voc20", write.voc, (11, 1, 2)),
    ("voc21", write.voc, (11, 1, 2)),
    ("context60", write.pascal, (11, 1, 2)),
    ("coco-object", write.coco_164k, (11, 1, 2)),
    ("chexpert", write.chexpert, (22, 2, 3)),
    ("chexpert", lambda root: write.chexpert(root, batches=True), (22, 2, 3)),
    ("chestxray14", write.chestxray14, (15, 1, 4)),
    ("diabetic", write.diabetic, (38, 2, 4)),
    ("ham10k", write.ham10k, (54, 2, 14)),
    ("ham10k", lambda root: write.ham10k(root, dataverse=True), (54, 2, 14)),
    ("clevr", write.clevr, (22, 2, 6)),
    ("flickr30k", write.flickr30k, (4, 2, 2)),
    ("flickr30k", lambda root: write.flickr30k(root, karpathy=False), (4, 2, 2)),
    ("nycc", write.nycc, (12, 2, 2)),
    ("winoground", write.winoground, (0, 0, 4)),
    ("hmdb51", write.hmdb51, (6, 4, 4)),
    ("ucf", write.ucf, (18, 2, 4)),
    ("kinetics", write.kinetics, (2, 10, 3)),
]


@pytest.mark.parametrize(("name", "layout", "expected"), LAYOUTS)
def test_a_layout_is_read(
    name: str, layout: Callable[[Path], None], expected: tuple[int, int, int], tmp_path: Path
) -> None:
    layout(tmp_path)
    data = load(name, tmp_path)
    assert sizes(data) == expected
    first = data.test.images[0:2]
    assert first.dtype == torch.uint8
    assert first.shape[-3:] == (3, 8, 8)


@pytest.mark.parametrize(("name", "layout", "expected"), LAYOUTS)
def test_a_name_and_a_root_give_three_torch_data_sets(
    name: str, layout: Callable[[Path], None], expected: tuple[int, int, int], tmp_path: Path
) -> None:
    layout(tmp_path)
    splits = gate_data.load(name, tmp_path, size=8)
    assert tuple(map(len, splits)) == expected
    assert all(isinstance(split, torch.utils.data.Dataset) for split in splits)
    image, *_, target = splits.test[len(splits.test) - 1]
    assert (image.dtype, image.shape[-3:]) == (torch.uint8, (3, 8, 8))
    assert np.asarray(target).size > 0
    with pytest.raises(IndexError):
        splits.test[len(splits.test)]


@pytest.mark.parametrize("name", sorted({name for name, *_ in LAYOUTS} | {"nyu", "fungi"}))
def test_without_its_files_it_says_what_it_expects(name: str, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "val").mkdir()
    with pytest.raises(DataError, match="does not hold its files"):
        originals(name).find(tmp_path)


def test_two_heads_have_their_own_classes(tmp_path: Path) -> None:
    write.happy(tmp_path)
    data = load("happy", tmp_path)
    assert data.classes[:3] == ("species/beluga", "species/killer_whale", "individual/whale0")
    assert set(data.test.targets[:, 1].tolist()) <= set(data.train.targets[:, 1].tolist())


def test_a_picture_is_cut_to_its_box(tmp_path: Path) -> None:
    write.aircraft(tmp_path)
    data = load("aircraft", tmp_path)
    assert data.train.images.files[0][0].box == (1, 0, 9, 7)  # type: ignore[union-attr]


def test_flowers_are_dealt_by_their_numbers(tmp_path: Path) -> None:
    write.vgg(tmp_path)
    data = load("vgg", tmp_path)
    assert data.classes[71:73] == ("flower 010", "flower 016")
    few = load("vgg", tmp_path, limit=120)
    assert torch.bincount(few.train.targets).tolist() == [6] * 6
    assert few.train.images.files != data.train.images.files[:36]


def test_fungi_are_joined_by_id(tmp_path: Path) -> None:
    write.fungi(tmp_path)
    data = load("fungi", tmp_path)
    assert sizes(data) == (15, 600, 600)
    assert data.classes[0] == "0001.same name"
    names = [data.classes[int(label)] for label in data.train.targets]
    folders = [int(Path(str(file)).parent.name) for (file,) in data.train.images.files]
    assert [int(name[:4]) for name in names] == folders


def test_maps_count_what_they_should(tmp_path: Path) -> None:
    for name, layout, left, right in (
        ("cityscapes", write.cityscapes, 0, -100),
        ("coco-10k", write.coco_10k, -100, 170),
        ("coco-164k", write.coco_164k, -100, 170),
        ("pascal", write.pascal, 58, -100),
        ("context60", write.pascal, 59, 0),
        ("coco-object", write.coco_164k, -100, 0),
    ):
        (tmp_path / name).mkdir()
        layout(tmp_path / name)
        row = load(name, tmp_path / name).test.targets[0][0]
        assert (int(row[0]), int(row[-1])) == (left, right), name
    assert SHEETS["pascal"].classes == len(read_table("pascal_context")["ids"])


def test_vocs_background_is_a_class_or_counts_nowhere_and_borders_never_count(tmp_path: Path) -> None:
    write.voc(tmp_path)
    with_background, things = (load(name, tmp_path).test.targets.map_of(0, whole=True) for name in ("voc21", "voc20"))
    assert with_background.shape == (10, 12)
    assert set(with_background[0]) == set(things[0]) == {-100}
    assert (with_background[1, 0], with_background[1, -1]) == (0, 20)
    assert (things[1, 0], things[1, -1]) == (-100, 19)


def test_things_of_coco_are_counted_from_1(tmp_path: Path) -> None:
    write.coco_164k(tmp_path)
    path = tmp_path / "coco" / "annotations" / "val2017" / f"{0:012}.png"
    write.class_map(path, write.halves(0, 89))
    data = load("coco-object", tmp_path)
    row = data.test.targets.map_of(0, whole=True)[0]
    assert (row[0], row[-1]) == (1, 80)
    assert (data.classes[1], data.classes[80], len(data.classes)) == ("person", "toothbrush", 81)
    context = load("context60", (write.pascal(tmp_path), tmp_path)[1])
    assert (len(context.classes), context.classes[0]) == (60, "background")


def test_whole_cities_validate(tmp_path: Path) -> None:
    write.cityscapes(tmp_path)
    data = load("cityscapes", tmp_path)
    cities = [
        {Path(str(file)).parent.name for (file,) in split.images.files} for split in (data.train, data.validation)
    ]
    assert not cities[0] & cities[1]


def test_nyu_is_read_row_by_row(tmp_path: Path) -> None:
    write.nyu(tmp_path)
    data = load("nyu", tmp_path, limit=700)
    index = [files[0].row for files in data.test.images.files].index(0)  # type: ignore[union-attr]
    assert data.test.images[index][0].float().mean(dim=0).gt(100).tolist() == [False] * 4 + [True] * 4
    assert set(data.test.targets[index][:, -1].tolist()) == {0}  # id 21 is "wall"
    assert set(data.test.targets[index][:, 0].tolist()) == {-100}
    depth = load("nyu-depth", tmp_path, limit=700)
    assert float(depth.test.targets[index][3, -1]) == 2.5


def test_what_was_uncertain_counts_as_is_usual(tmp_path: Path) -> None:
    write.chexpert(tmp_path)
    data = load("chexpert", tmp_path)
    assert data.classes == ("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Pleural Effusion")
    assert data.train.targets[0].tolist() == [1, 0, 0, 0, 1]
    patients = [
        {Path(str(file)).parts[-3] for (file,) in split.images.files} for split in (data.train, data.validation)
    ]
    assert not patients[0] & patients[1]


def test_without_the_official_labels_whole_patients_test(tmp_path: Path) -> None:
    write.diabetic(tmp_path, solution=False)
    data = load("diabetic", tmp_path)
    assert "official test is not here" in data.note
    sides = [
        {Path(str(file)).stem.partition("_")[0] for (file,) in split.images.files}
        for split in (data.train, data.validation, data.test)
    ]
    assert sum(map(len, sides)) == 20
    assert torch.equal(data.test.targets.sum(dim=1), torch.ones(len(data.test)))


def test_answers_know_their_type(tmp_path: Path) -> None:
    write.clevr(tmp_path)
    data = load("clevr", tmp_path)
    assert len(data.classes) == 28
    assert data.classes[int(data.test.targets[0])] == "colour: blue"


def test_all_captions_of_a_picture_are_kept(tmp_path: Path) -> None:
    write.flickr30k(tmp_path)
    data = load("flickr30k", tmp_path)
    texts = data.test.texts
    assert texts is not None
    assert len(texts) == 10
    assert texts[0] == "A dog number 0 runs 6 times ."


def test_pairs_have_two_pictures_and_two_captions(tmp_path: Path) -> None:
    write.winoground(tmp_path)
    data = load("winoground", tmp_path)
    assert data.test.images[0:2].shape == (2, 2, 3, 8, 8)
    assert data.test.texts is not None
    assert data.test.texts[:2] == ("a b", "b a")
    assert data.classes == ("Object", "Relation")


def test_frames_come_from_the_middles(tmp_path: Path) -> None:
    write.ucf(tmp_path)
    data = load("ucf", tmp_path)
    assert data.test.images.shape == (4, 8, 3, 8, 8)
    index = [str(files[0].source) for files in data.test.images.files].index(  # type: ignore[union-attr]
        str(tmp_path / "ucf101" / "UCF-101" / "ApplyEyeMakeup" / "v_ApplyEyeMakeup_g01_c01.avi")
    )
    shades = data.test.images[index].float().mean(dim=(1, 2, 3))
    assert bool((shades.diff() > 10).all())
    assert len(read_clip(data.test.images.files[index][0])) == 8  # type: ignore[arg-type]


def test_lost_videos_are_counted(tmp_path: Path) -> None:
    write.kinetics(tmp_path)
    data = load("kinetics", tmp_path)
    assert "2 of 18 listed videos are not there" in data.note
    assert "1 video of test cannot be decoded" in data.note
    assert data.classes == ("abseiling", 'eating, "fast"')


def test_kinetics_in_the_folders_that_torchvision_makes(tmp_path: Path) -> None:
    from torchvision.datasets import Kinetics  # type: ignore[import-untyped]

    folder = tmp_path / "kinetics400"
    labels = ("petting animal (not cat)", "massaging person's head", "abseiling")
    for split, count in (("train", 7), ("val", 2)):
        lines = [
            f"{label},{label[:3]}{clip:08},{clip},{clip + 10},{split}" for label in labels for clip in range(count)
        ]
        write.text(folder / "annotations" / f"{split}.csv", ["label,youtube_id,time_start,time_end,split", *lines])
        for label in labels:
            for clip in range(count):
                path = folder / split / f"{label[:3]}{clip:08}_{clip:06}_{clip + 10:06}.mp4"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        official = Kinetics.__new__(
            Kinetics
        )  # the constructor opens every video; this only moves them to their classes
        official.root, official.split = str(folder), split
        official.split_folder = str(folder / split)
        official.annotations = str(folder / "annotations")
        official._make_ds_structure()
    parts = originals("kinetics").parts
    assert parts is not None
    read = parts(folder)
    assert read is not None
    assert [len(read.train), len(read.validation or ()), len(read.test), read.note] == [6, 15, 6, ""]


def spoil(path: Path, old: str, new: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        content = (root / path).read_text()
        assert old in content
        (root / path).write_text(content.replace(old, new, 1))

    return change


def gone(path: str) -> Callable[[Path], None]:
    return lambda root: (root / path).unlink()


MAPS_10K = "cocostuff-10k-v1.1/annotations"
BAD: list[tuple[str, Callable[[Path], None], Callable[[Path], None], str]] = [
    (
        "food101",
        write.food101,
        gone("food-101/images/waffles/test1.jpg"),
        r"test\.json: .*test1\.jpg is not there",
    ),
    ("food101", write.food101, spoil(Path("food-101/meta/test.json"), "waffles", "eggs"), "name different classes"),
    (
        "places365",
        write.places365,
        spoil(Path("places365/places365_val.txt"), "jpg 1", "jpg 7"),
        r"val\.txt, line 2: field 'label' is '7', expected a number from 0 to 1",
    ),
    (
        "places365",
        write.places365,
        spoil(Path("places365/places365_val.txt"), ".jpg 1", ".jpg"),
        "line 2: expected the fields file, label",
    ),
    (
        "happy",
        write.happy,
        spoil(Path("happy-whale-and-dolphin/train.csv"), "individual_id", "who"),
        "no field 'individual_id'",
    ),
    (
        "aircraft",
        write.aircraft,
        spoil(Path("fgvc-aircraft-2013b/data/images_box.txt"), "2 1 9 7", "2 1 x 7"),
        r"images_box\.txt, line 1: field 'xmax' is 'x', expected a number",
    ),
    (
        "dtextures",
        write.dtextures,
        lambda root: shutil.rmtree(root / "dtd/images/woven"),
        "class 'woven' of the published",
    ),
    ("vgg", write.vgg, gone("flowers-102/jpg/image_00007.jpg"), r"mat, label 7: .*image_00007\.jpg is not there"),
    (
        "vgg",
        write.vgg,
        lambda root: write.picture(root / "flowers-102/jpg/image_00700.jpg"),
        "has 612 labels, expected 613",
    ),
    (
        "fungi",
        write.fungi,
        spoil(Path("fungi/val.json"), '"category_id": 1379', '"category_id": 4000'),
        r"val\.json, entry \d+: field 'category_id' is '4000', expected the id of a category",
    ),
    (
        "cityscapes",
        write.cityscapes,
        lambda root: write.class_map(
            root / "cityscapes/gtFine/val/lindau/lindau_000000_000019_gtFine_labelIds.png", write.halves(7, 40)
        ),
        "has the value 40, expected 0 to 33",
    ),
    (
        "coco-10k",
        write.coco_10k,
        gone("cocostuff-10k-v1.1/annotations/COCO_train2014_test000000000001.mat"),
        r"test\.txt, line 2",
    ),
    (
        "coco-164k",
        write.coco_164k,
        lambda root: write.class_map(root / "coco/annotations/val2017/000000000001.png", write.halves(11, 0)),
        "has the value 11, which is no class",  # a street sign, which nobody drew
    ),
    (
        "chexpert",
        write.chexpert,
        spoil(Path("CheXpert-v1.0-small/valid.csv"), "-1.0", "2.0"),
        r"valid\.csv, line 2: field 'Cardiomegaly' is '2.0', expected a number from -1 to 1",
    ),
    (
        "diabetic",
        write.diabetic,
        spoil(Path("diabetic/trainLabels.csv"), "1_left,2", "1_left,5"),
        "field 'level' is '5'",
    ),
    (
        "ham10k",
        write.ham10k,
        spoil(Path("ham10k/HAM10000_metadata.csv"), "akiec", "wart"),
        r"HAM10000_metadata\.csv, line 14: field 'dx' is 'wart', expected one of akiec, bcc",
    ),
    (
        "clevr",
        write.clevr,
        spoil(Path("CLEVR_v1.0/questions/CLEVR_val_questions.json"), '"answer": "cube"', '"answer": "cone"'),
        r"CLEVR_val_questions\.json, entry 1: field 'answer' is 'cone'",
    ),
    (
        "flickr30k",
        write.flickr30k,
        spoil(Path("flickr30k/dataset_flickr30k.json"), '"raw": "A', '"RAW": "A'),
        r"dataset_flickr30k\.json, entry 0: field 'sentences'",
    ),
    (
        "nycc",
        write.nycc,
        spoil(Path("nycc/tasks/contest_matching_split=0_cleaned.json"), '"correct_idx": 0', '"correct_idx": 5'),
        "entry 0: field 'correct_idx' is '5', expected a number from 0 to 4",
    ),
    (
        "winoground",
        write.winoground,
        spoil(Path("winoground/examples.jsonl"), "ex_1_img_1", "ex_9_img_1"),
        r"examples\.jsonl, line 2: ex_9_img_1 is not there",
    ),
    (
        "hmdb51",
        write.hmdb51,
        spoil(Path("hmdb51/testTrainMulti_7030_splits/cartwheel_test_split1.txt"), "avi 2 ", "avi 3 "),
        "field 'side' is '3', expected a number from 0 to 2",
    ),
    (
        "ucf",
        write.ucf,
        spoil(Path("ucf101/ucfTrainTestlist/testlist01.txt"), "HandstandPushups/v", "HandStandPushups/v"),
        r"testlist01\.txt, line 3: field 'class' is 'HandStandPushups', expected one of",
    ),
    (
        "kinetics",
        write.kinetics,
        spoil(Path("kinetics400/annotations/val.csv"), ",95,", ",ninety,"),
        r"val\.csv, line 2: field 'time_start' is 'ninety'",
    ),
]


@pytest.mark.parametrize(("name", "layout", "spoilt", "message"), BAD)
def test_what_is_wrong_is_named(
    name: str, layout: Callable[[Path], None], spoilt: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    layout(tmp_path)
    spoilt(tmp_path)
    with pytest.raises(DataError, match=message):
        read_maps(load(name, tmp_path))


def read_maps(data: Data) -> None:
    """Maps stay in their files until they are looked at: `targets_of` does, before anything is encoded."""
    for split in (data.train, data.validation, data.test):
        split.targets[:]


def test_a_wrong_nyu_file_is_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "nyu_depth_v2_labeled.mat", "w") as file:
        file["images"] = np.zeros((3, 3, 4, 4), np.uint8)
    with pytest.raises(DataError, match=r"images has the shape \(3, 3, 4, 4\), expected \(1449, 3, 640, 480\)"):
        load("nyu", tmp_path)


@pytest.mark.parametrize(("table", "total"), [("chexpert_train", 223_414), ("Data_Entry_2017_v2020", 112_120)])
def test_real_tables_of_chest_pictures(table: str, total: int, shared_data: Path, tmp_path: Path) -> None:
    """Every label of CheXpert's and NIH's own tables is read, and a sample of the images is looked for."""
    (packed,) = (shared_data / "samples" / "chest").glob(f"{table}.csv*")
    content = gzip.decompress(packed.read_bytes()) if packed.suffix == ".gz" else packed.read_bytes()
    assert content.count(b"\n") == total + 1
    head = b"".join(line + b"\n" for line in content.split(b"\n")[:400])
    if table == "chexpert_train":
        folder = tmp_path / "CheXpert-v1.0-small"
        folder.mkdir()
        for name in ("train", "valid"):
            (folder / f"{name}.csv").write_bytes(head)
        for line in head.decode().splitlines()[1:]:
            path = tmp_path / line.split(",")[0]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        parts = originals("chexpert").parts
        assert parts is not None
        read = parts(folder)
        assert len(read.train) == 399
        assert sum(sample.target[4] for sample in read.train) > 50
    else:
        folder = tmp_path / "nih"
        (folder / "images").mkdir(parents=True)
        (folder / "Data_Entry_2017_v2020.csv").write_bytes(head)
        names = [line.split(",")[0] for line in head.decode().splitlines()[1:]]
        for name in names:
            (folder / "images" / name).touch()
        write.text(folder / "train_val_list.txt", names[:200])
        write.text(folder / "test_list.txt", names[200:])
        parts = originals("chestxray14").parts
        assert parts is not None
        read = parts(folder)
        assert 20 < len(read.train) + len(read.test) < 200


def test_real_maps_of_coco_stuff(shared_data: Path) -> None:
    pytest.importorskip("scipy.io")
    from gate_data.readers.arrays import read_matlab

    paths = sorted((shared_data / "samples" / "cocostuff").glob("*.mat"))
    assert paths
    for path in paths:
        matlab = np.asarray(read_matlab(str(path), "labelMapThings"))
        assert matlab.ndim == 2
        assert set(np.unique(matlab)) - {0} <= set(read_table("coco_stuff")["ids"])
        with pytest.raises(DataError, match="has no variable 'S'; it has labelMapThings"):
            read_matlab(str(path), "S")


def test_real_tables_of_nyu(shared_data: Path) -> None:
    from gate_data.readers.arrays import read_matlab

    folder = shared_data / "samples" / "nyu"
    mapped = read_matlab(str(folder / "classMapping40.mat"), "mapClass").ravel()
    assert mapped.tolist() == read_table("nyu")["class_of_id"][1:]
    assert sorted(read_matlab(str(folder / "splits.mat"), "trainNdxs").ravel()) == read_table("nyu")["train"]


def test_real_splits_of_flickr30k_entities(shared_data: Path) -> None:
    from gate_data.readers import lines

    counts = [
        sum(1 for _ in lines(shared_data / "samples" / "flickr30k" / f"{name}.txt"))
        for name in ("train", "val", "test")
    ]
    assert counts == [29_783, 1_000, 1_000]


def test_no_two_splits_share_a_class() -> None:
    splits = read_table("class_splits")["splits"]
    for name, total in (("aircraft", 100), ("cubirds", 200), ("dtextures", 47), ("fungi", 1394), ("vgg", 102)):
        held_out = splits[name]
        assert not set(held_out["validation"]) & set(held_out["test"])
        assert len(held_out["validation"]) + len(held_out["test"]) < total
    assert json.dumps(splits)
