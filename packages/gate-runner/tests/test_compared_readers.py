"""One made-up tree in the official reader's layout, read by torchvision and by ours: the same images and classes."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision.datasets as official  # type: ignore[import-untyped]
from PIL import Image
from torchvision.datasets.folder import default_loader  # type: ignore[import-untyped]

from gate_data.boxes.files import read_coco
from gate_data.errors import DataError
from gate_data.original_files import Arrays, Parts
from gate_data.originals.icinw.elevater import ICINW, class_names, plain
from gate_data.own import originals_from
from gate_data.own.reading import read_benchmark
from gate_data.pictures import Pictures
from gate_data.readers import Cut
from gate_data.readers.decode import decode
from gate_runner.benchmarks import BENCHMARKS, DataRequest

from . import _gate_files as write
from .test_gate_files import load, originals
from .test_icinw_originals import WRITERS, sides

AIRCRAFT = "fgvc-aircraft-2013b-variants102"
Named = list[tuple[str, str]]
"""An image's path and its class, in words by which lists of classes are matched."""


@pytest.fixture(autouse=True)
def _made_up_files_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision compares digests of the published files; these are others."""
    for module in ("cifar", "fer2013", "flowers102", "places365"):
        module_of_readers = importlib.import_module(f"torchvision.datasets.{module}")
        monkeypatch.setattr(module_of_readers, "check_integrity", lambda path, md5=None: Path(path).exists())


def moved(source: str, target: str) -> Callable[[Path], None]:
    """Puts what a writer made where torchvision looks."""

    def move(root: Path) -> None:
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        aside = (root / source).rename(root / "aside")
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        aside.rename(root / target)

    return move


def stay(root: Path) -> None:
    """The layout is the same."""


def all_pets(root: Path) -> None:
    """torchvision takes its names from the listed images, so that each class needs one."""
    for split in ("trainval", "test"):
        stems = [f"{name.replace(' ', '_')}_{len(split)}" for name in class_names("oxford-iiit-pets")]
        lines = (f"{stem} {label} 1 1" for label, stem in enumerate(stems, start=1))
        write.text(root / "oxford-iiit-pet" / "annotations" / f"{split}.txt", lines)
        for stem in stems:
            write.picture(root / "oxford-iiit-pet" / "images" / f"{stem}.jpg")


def as_png(root: Path) -> None:
    """The ending that torchvision asks for."""
    for path in list((root / "rendered-sst2").rglob("*.jpg")):
        path.rename(path.with_suffix(".png"))


def by_lists(files: str, labels: str) -> Callable[[Any], Named]:
    return lambda data: [
        (str(path), data.classes[label])
        for path, label in zip(getattr(data, files), getattr(data, labels), strict=True)
    ]


def by_samples(attribute: str) -> Callable[[Any], Named]:
    return lambda data: [(str(path), data.classes[label]) for path, label in getattr(data, attribute)]


def numbered(attribute: str, name: str) -> Callable[[Any], Named]:
    """Of a reader without names, whose numbers are in ELEVATER's order."""
    return lambda data: [(str(path), class_names(name)[int(label)]) for path, label in getattr(data, attribute)]


SPLITS = ({"split": "train"}, {"split": "test"})
LISTED: dict[str, tuple[Callable[[Path], None], str, tuple[dict[str, Any], ...], Callable[[Any], Named]]] = {
    AIRCRAFT: (
        stay, "FGVCAircraft", tuple({**split, "annotation_level": "variant"} for split in SPLITS),
        by_lists("_image_files", "_labels"),
    ),
    "dtd": (moved("dtd", "dtd/dtd"), "DTD", SPLITS, by_lists("_image_files", "_labels")),
    "food-101": (stay, "Food101", SPLITS, by_lists("_image_files", "_labels")),
    "oxford-iiit-pets": (
        all_pets, "OxfordIIITPet", ({"split": "trainval"}, {"split": "test"}), by_lists("_images", "_labels"),
    ),
    "stanford-cars": (stay, "StanfordCars", SPLITS, by_samples("_samples")),
    "gtsrb": (moved("GTSRB", "gtsrb/GTSRB"), "GTSRB", SPLITS, numbered("_samples", "gtsrb")),
    "oxford-flower-102": (
        stay, "Flowers102", SPLITS,
        lambda data: [
            (str(path), class_names("oxford-flower-102")[label])
            for path, label in zip(data._image_files, data._labels, strict=True)
        ],
    ),
    "country211": (stay, "Country211", SPLITS, numbered("samples", "country211")),
    "rendered-sst2": (as_png, "RenderedSST2", SPLITS, numbered("_samples", "rendered-sst2")),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTED)
def test_lists_of_pictures_are_torchvisions(name: str, tmp_path: Path) -> None:
    """The same images in the same order where a list gives one, each of the class of the same name."""
    arrange, reader, splits, named = LISTED[name]
    WRITERS[name](tmp_path)
    arrange(tmp_path)
    if name == "gtsrb":
        shutil.move(tmp_path / "GT-final_test.csv", tmp_path / "gtsrb" / "GT-final_test.csv")
    read = sides(name, tmp_path)
    assert isinstance(read, Parts)
    for samples, options in zip((read.train, read.test), splits, strict=True):
        theirs = [(path, key(label)) for path, label in named(getattr(official, reader)(str(tmp_path), **options))]
        ours = [(path_of(sample.source), key(class_names(name)[sample.target])) for sample in samples]
        assert sorted(ours) == sorted(theirs)
        assert len(ours) == len(set(ours)) > 0
        if name not in ("country211", "rendered-sst2", "food-101"):  # sorted by class in ELEVATER's order
            assert ours == theirs


def key(name: str) -> str:
    return plain(name).replace(" ", "")


def path_of(source: Any) -> str:
    return str(source.source if isinstance(source, Cut) else source)


@pytest.mark.parametrize(("name", "reader"), [("cifar-10", "CIFAR10"), ("cifar-100", "CIFAR100")])
def test_cifar_is_torchvisions(name: str, reader: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path)
    if name == "cifar-100":  # torchvision wants the names as they lie in the archive
        assert (tmp_path / "cifar-100-python" / "meta").is_file()
    read = sides(name, tmp_path)
    assert isinstance(read, Arrays)
    for side, train in ((read.train, True), (read.test, False)):
        theirs = getattr(official, reader)(str(tmp_path), train=train)
        assert np.array_equal(side.images.transpose(0, 2, 3, 1), theirs.data)
        ours = [key(class_names(name)[label]) for label in side.labels]
        assert ours == [key(theirs.classes[label]) for label in theirs.targets]


def test_mnist_is_torchvisions(tmp_path: Path) -> None:
    WRITERS["mnist"](tmp_path)
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for path in (tmp_path / "mnist").iterdir():
        content = path.read_bytes()
        (raw / path.name.removesuffix(".gz")).write_bytes(gzip.decompress(content) if path.suffix == ".gz" else content)
    shutil.rmtree(tmp_path / "mnist")
    read = sides("mnist", tmp_path)
    assert isinstance(read, Arrays)
    for side, train in ((read.train, True), (read.test, False)):
        theirs = official.MNIST(str(tmp_path), train=train)
        assert np.array_equal(side.images[:, 0], theirs.data.numpy())
        assert side.labels.tolist() == theirs.targets.tolist()


def test_fer_is_torchvisions_but_for_the_public_test(tmp_path: Path) -> None:
    """torchvision's test is both tests; ELEVATER's, and ours, is the private one."""
    pixels = [" ".join(map(str, write.RNG.integers(0, 256, 2304))) for _ in range(21)]
    uses = ("Training", "PublicTest", "PrivateTest")
    rows = [(row % 7, pixels[row], uses[row // 7]) for row in range(21)]
    write.rows(tmp_path / "fer2013" / "fer2013.csv", ("emotion", "pixels", "Usage"), *rows)
    read = sides("fer-2013", tmp_path)
    assert isinstance(read, Arrays)
    emotions = ("angry", "disgusted", "fearful", "happy", "sad", "surprised", "neutral")
    for side, split in ((read.train, "train"), (read.test, "test")):
        theirs = official.FER2013(str(tmp_path), split=split)._samples[-len(side.labels) :]
        assert np.array_equal(side.images[:, 0], np.stack([pixels.numpy() for pixels, _ in theirs]))
        ours = [class_names("fer-2013")[label] for label in side.labels]
        assert ours == [emotions[label] for _, label in theirs]


def test_patch_camelyon_is_torchvisions(tmp_path: Path) -> None:
    WRITERS["patch-camelyon"](tmp_path)
    read = sides("patch-camelyon", tmp_path)
    assert isinstance(read, Parts)
    for samples, split in ((read.train, "train"), (read.test, "test")):
        theirs = official.PCAM(str(tmp_path), split=split)
        assert len(theirs) == len(samples)
        for sample, (picture, label) in zip(samples, (theirs[row] for row in range(len(theirs))), strict=True):
            assert np.array_equal(np.asarray(decode(sample.source)), np.asarray(picture))  # type: ignore[arg-type]
            assert sample.target == label


@pytest.mark.parametrize("name", ["eurosat_clip", "caltech-101"])
def test_sets_without_a_split_have_torchvisions_classes(name: str, tmp_path: Path) -> None:
    """Every image that we draw is of the class of its folder; torchvision's order of Caltech's is another."""
    WRITERS[name](tmp_path)
    read = sides(name, tmp_path)
    assert isinstance(read, Parts)
    ours = {(Path(path_of(sample.source)).parent.name, sample.target) for sample in (*read.train, *read.test)}
    if name == "eurosat_clip":
        moved("2750", "eurosat/2750")(tmp_path)
        theirs = official.EuroSAT(str(tmp_path))
        assert ours == {(Path(path).parent.name, label) for path, label in theirs.samples}
    else:
        moved("caltech-101", "caltech101")(tmp_path)
        (tmp_path / "caltech101" / "Annotations").mkdir()
        categories = set(official.Caltech101(str(tmp_path), target_type="category").categories)
        assert {folder for folder, _ in ours} == {*categories, "BACKGROUND_Google"}  # ELEVATER asks for it, too
        assert sorted(label for _, label in ours) == list(range(102))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB"])
def test_transparent_pictures_as_torchvision_loads_them(mode: str, tmp_path: Path) -> None:
    """A grid of ELEVATER's sets shows what lies under alpha, as its toolkit; elsewhere white lies below."""
    values = write.RNG.integers(0, 256, (6, 8, len(mode) if mode in ("RGBA", "LA", "RGB") else 1), dtype=np.uint8)
    picture = Image.fromarray(values.squeeze(), "RGB" if mode == "P" and values.shape[2] == 3 else None)
    picture = picture.convert(mode) if picture.mode != mode else picture
    path = tmp_path / "a.png"
    picture.save(path, **({"transparency": 3} if mode == "P" else {}))
    theirs = np.asarray(default_loader(str(path)))
    assert np.array_equal(np.asarray(decode(str(path), transparency="drop")), theirs)
    if mode != "P":
        assert np.array_equal(np.asarray(decode(str(path))), theirs) == (mode == "RGB")
    shown = [Pictures.of([path], 8, transparency=text).note_in for text in ("white", "drop")]
    digests = [hashlib.sha256() for _ in shown]
    for note, digest in zip(shown, digests, strict=True):
        note(digest)
    assert digests[0].digest() != digests[1].digest()


def test_grids_of_elevaters_sets_drop_alpha(tmp_path: Path) -> None:
    WRITERS["hateful-memes"](tmp_path)
    clear = Image.new("RGBA", (8, 8), (200, 10, 10, 0))
    for path in (tmp_path / "hateful_memes" / "img").iterdir():
        clear.save(path)
    benchmark = BENCHMARKS["hateful-memes"]
    undivided = benchmark.load_undivided("local", DataRequest(tmp_path, size=8))
    assert undivided.train.images[0][:, 0, 0].tolist() == [200, 10, 10]
    data = benchmark.load("local", DataRequest(tmp_path, size=8))
    assert data.train.images[0][:, 0, 0].tolist() == [255, 255, 255]


def test_food_of_gate_is_torchvisions(tmp_path: Path) -> None:
    write.food101(tmp_path)
    declared = originals("food101")
    parts = declared.parts
    assert parts is not None
    read = parts(declared.find(tmp_path))
    assert read is not None
    for samples, split in ((read.train, "train"), (read.test, "test")):
        theirs = official.Food101(str(tmp_path), split=split)
        assert [(str(sample.source), sample.target) for sample in samples] == sorted(
            (str(path), label) for path, label in zip(theirs._image_files, theirs._labels, strict=True)
        )


def test_places_are_torchvisions(tmp_path: Path) -> None:
    write.places365(tmp_path)
    declared = originals("places365")
    parts = declared.parts
    assert parts is not None
    read = parts(declared.find(tmp_path))
    assert read is not None
    folder = tmp_path / "places365"
    (folder / "data_256_standard").symlink_to(folder / "data_256")
    reader = importlib.import_module("torchvision.datasets.places365").Places365
    theirs = object.__new__(reader)  # the constructor counts 1.8 million images; these are its own readers of the lists
    theirs.root, theirs.small = str(folder), True
    for samples, split in ((read.train, "train-standard"), (read.test, "val")):
        theirs.split = split
        classes, _ = theirs.load_categories(download=False)
        listed, _ = theirs.load_file_list(download=False)
        ours = [(Path(path_of(sample.source)).relative_to(folder).parts[1:], sample.target) for sample in samples]
        assert ours == [(Path(path).relative_to(folder).parts[1:], label) for path, label in listed]
    assert [plain(name) for name in read.classes or ()] == [plain(name[3:]) for name in classes]  # behind "/a/"


def test_cityscapes_are_torchvisions(tmp_path: Path) -> None:
    write.cityscapes(tmp_path)
    data = load("cityscapes", tmp_path, size=8)
    train = official.Cityscapes(str(tmp_path / "cityscapes"), split="train", target_type="semantic")
    test = official.Cityscapes(str(tmp_path / "cityscapes"), split="val", target_type="semantic")
    training_files = [*data.train.images.files, *data.validation.images.files]  # type: ignore[union-attr]
    assert sorted(str(files[0]) for files in training_files) == sorted(train.images)
    assert sorted(str(files[0]) for files in data.test.images.files) == sorted(test.images)  # type: ignore[union-attr]
    ids = {
        class_name.id: class_name.train_id
        for class_name in official.Cityscapes.classes
        if not class_name.ignore_in_eval
    }
    names = {
        class_name.train_id: class_name.name
        for class_name in official.Cityscapes.classes
        if not class_name.ignore_in_eval
    }
    assert [plain(name) for name in data.classes] == [plain(names[label]) for label in sorted(names)]
    whole = np.asarray(test[0][1])  # ids 7 (road) and 4 (static, which counts nowhere)
    expected = np.vectorize(lambda value: ids.get(value, -100))(whole)
    ours = np.asarray(data.test.targets[0:1][0])
    assert set(np.unique(ours)) == set(np.unique(expected))


def test_cocos_boxes_are_torchvisions(tmp_path: Path) -> None:
    pytest.importorskip("pycocotools")
    for number in (7, 3):
        write.picture(tmp_path / f"{number}.jpg", 12, 10)
    content = {
        "images": [{"id": number, "file_name": f"{number}.jpg", "width": 12, "height": 10} for number in (7, 3)],
        "categories": [{"id": 5, "name": "cat"}, {"id": 2, "name": "dog"}],
        "annotations": [
            {"id": 1, "image_id": 3, "category_id": 5, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0},
            {"id": 2, "image_id": 7, "category_id": 2, "bbox": [0, 0, 5, 5], "area": 20, "iscrowd": 0},
            {"id": 3, "image_id": 3, "category_id": 2, "bbox": [4, 1, 2, 2], "area": 4, "iscrowd": 1},
        ],
    }
    write.dump(tmp_path / "a.json", content)
    theirs = official.CocoDetection(str(tmp_path), str(tmp_path / "a.json"))
    names = {category["id"]: category["name"] for category in content["categories"]}  # type: ignore[index]
    expected = {
        theirs.coco.loadImgs(number)[0]["file_name"]: sorted(
            (names[annotation["category_id"]], *annotation["bbox"], annotation["area"], bool(annotation["iscrowd"]))
            for annotation in theirs.coco.loadAnns(theirs.coco.getAnnIds(number))
        )
        for number in theirs.ids
    }
    listed = read_coco(tmp_path / "a.json")
    ours = {
        Path(file).name: sorted(
            (listed.classes[label], *map(float, box), float(area), bool(crowd))
            for box, label, area, crowd in zip(
                *(row[field] for field in ("box", "label", "area", "crowd")), strict=True
            )
        )
        for file, row in zip(listed.files, listed.objects.rows, strict=True)
    }
    assert ours == expected


@pytest.mark.parametrize("name", ["hateful-memes", "kitti-distance", "resisc45_clip"])
@pytest.mark.parametrize("packed", [True, False])
def test_elevaters_coco_copies_are_those_of_vision_datasets(tmp_path: Path, name: str, packed: bool) -> None:
    """The same images and classes in the order of ids, whatever the file's order is."""
    theirs = pytest.importorskip("vision_datasets")
    sheet, count = ICINW[name], len(class_names(name))
    folder = tmp_path / "classification" / sheet.folder
    for index, split in zip(sheet.index, ("train", "test"), strict=True):
        numbers = range(2 * count, 0, -1)
        categories = list(range(10, 10 + 3 * count, 3))
        content = {
            "images": [{"id": number, "file_name": f"{split}/{number}.png"} for number in numbers],
            "categories": [{"id": label, "name": f"class {label}"} for label in categories],
            "annotations": [
                {"id": number, "image_id": number, "category_id": categories[(number - 1) % count]}
                for number in numbers
            ],
        }
        for number in numbers:
            write.picture(folder / split / f"{number}.png", 4, 4)
        if packed:
            shutil.make_archive(str(folder / split), "zip", folder, split)
            shutil.rmtree(folder / split)
            content["images"] = [{**image, "zip_file": f"{split}.zip"} for image in content["images"]]  # type: ignore[dict-item]
        write.dump(folder / index, content)
    ours = sides(name, tmp_path)
    for index, samples in zip(sheet.index, (ours.train, ours.test), strict=True):
        adaptor = theirs.CocoManifestAdaptorFactory.create(theirs.DatasetTypes.IMAGE_CLASSIFICATION_MULTICLASS)
        manifest = adaptor.create_dataset_manifest(index, str(folder))
        expected = [
            (str(Path(image.img_path).relative_to(folder)), image.labels[0].label_data) for image in manifest.images
        ]
        listed = [(str(sample.source).removeprefix(f"{folder}/"), sample.target) for sample in samples]
        if packed:
            listed = [(f"{Path(sample.source.archive).name}@{sample.source.name}", sample.target) for sample in samples]
        assert listed == expected


WILDS = """
[benchmark]
id = "iwildcam-wilds"
[data]
kind = "table"
table = "three.csv"
root = "train"
image = "filename"
target = "y"
[splits]
column = "split"
train = "train"
validation = "val"
test = "test"
"""


def test_wilds_iwildcam_is_read_as_a_table_of_ones_own(tmp_path: Path) -> None:
    """Images, classes and the three splits of WILDS' metadata.csv that other places test, in its order."""
    wilds = pytest.importorskip("wilds.datasets.iwildcam_dataset")
    folder = tmp_path / "iwildcam_v2.0"
    lines = [",split,location_remapped,sequence_remapped,datetime,y,filename"]
    for number in range(30):
        split = ("train", "val", "test", "id_val", "id_test")[number % 5]
        date = f"2013-06-05 05:44:{number:02}.000"
        lines.append(f"{number},{split},{number % 4},{number // 3},{date},{7 * number % 3},{number:05x}.jpg")
        write.picture(folder / "train" / f"{number:05x}.jpg", 8, 6)
    write.text(folder / "metadata.csv", lines)
    write.text(folder / "three.csv", (line for line in lines if ",id_" not in line))
    write.text(folder / "RELEASE_v2.0.txt", ["2.0"])
    write.text(folder / "benchmark.toml", WILDS.splitlines())
    theirs = wilds.IWildCamDataset(root_dir=str(tmp_path))
    own = read_benchmark(folder / "benchmark.toml")
    reader = originals_from(own, folder / "benchmark.toml").parts
    assert reader is not None
    ours = reader(folder)
    for split, samples in (("train", ours.train), ("val", ours.validation), ("test", ours.test)):
        rows = theirs.get_subset(split).indices
        expected = [(str(theirs._input_array[row]), str(int(theirs.y_array[row]))) for row in rows]
        assert [(Path(sample.source).name, ours.classes[sample.target]) for sample in samples] == expected
    with pytest.raises(DataError, match="iwildcam2022/metadata/"):  # GATE's files and task are others
        load("iwildcam", tmp_path)


def made_ucf(root: Path) -> list[str]:
    folder = root / "ucf101"
    names = ("ApplyEyeMakeup", "YoYo")
    clips = [f"{name}/v_{name}_g{group:02}_c01.avi" for name in names for group in range(1, 5)]
    for clip in clips:
        (folder / "UCF-101" / clip).parent.mkdir(parents=True, exist_ok=True)
        (folder / "UCF-101" / clip).touch()
    lists = folder / "ucfTrainTestlist"
    write.text(lists / "classInd.txt", (f"{label} {name}" for label, name in enumerate(names, start=1)))
    write.text(lists / "testlist01.txt", clips[::2])
    write.text(lists / "trainlist01.txt", (f"{clip} {1 + clip.startswith('Y')}" for clip in clips[1::2]))
    return [str(folder / "UCF-101" / clip) for clip in clips]


def made_hmdb(root: Path) -> list[str]:
    folder, clips = root / "hmdb51", []
    for name in ("brush_hair", "cartwheel"):
        lines = [f"Film#{film}_(a&b;)_{name}_u_nm_np1_fr_med_0.avi {film % 3} " for film in range(6)]
        write.text(folder / "testTrainMulti_7030_splits" / f"{name}_test_split1.txt", lines)
        for line in lines:
            clips.append(str(folder / name / line.split()[0]))
            Path(clips[-1]).parent.mkdir(parents=True, exist_ok=True)
            Path(clips[-1]).touch()
    return clips


@pytest.mark.parametrize(
    ("name", "write_clips", "reader", "lists"),
    [
        ("ucf", made_ucf, "UCF101", "ucf101/ucfTrainTestlist"),
        ("hmdb51", made_hmdb, "HMDB51", "hmdb51/testTrainMulti_7030_splits"),
    ],
)
def test_folds_of_videos_are_torchvisions(
    name: str, write_clips: Callable[[Path], list[str]], reader: str, lists: str, tmp_path: Path
) -> None:
    """By torchvision's own rule of folds; its constructor decodes every video."""
    clips = write_clips(tmp_path)
    declared = originals(name)
    assert declared.parts is not None
    read = declared.parts(declared.find(tmp_path))
    assert read is not None
    theirs = object.__new__(getattr(official, reader))
    theirs.root = str(tmp_path / "ucf101" / "UCF-101")
    for samples, train in ((read.train, True), (read.test, False)):
        chosen = theirs._select_fold(clips, str(tmp_path / lists), 1, train)
        ours = {str(sample.source[0].source): key(read.classes[sample.target]) for sample in samples}  # type: ignore[index,union-attr]
        assert ours == {clips[row]: key(Path(clips[row]).parent.name) for row in chosen}
        assert ours


def test_captions_of_flickr_are_torchvisions(tmp_path: Path) -> None:
    write.flickr30k(tmp_path, karpathy=False)
    data = load("flickr30k", tmp_path)
    folder = tmp_path / "flickr30k"
    theirs = official.Flickr30k(str(folder / "flickr30k-images"), str(folder / "results_20130124.token"))
    ours = {}
    for split in (data.train, data.validation, data.test):
        names = [Path(str(files[0])).name for files in split.images.files]  # type: ignore[union-attr]
        each = len(split.texts or ()) // len(names)
        ours |= {name: list((split.texts or ())[row * each : (row + 1) * each]) for row, name in enumerate(names)}
    assert ours == dict(theirs.annotations)


def test_lists_of_pascal_are_torchvisions(tmp_path: Path) -> None:
    write.pascal(tmp_path)
    data = load("pascal", tmp_path)
    training_files = [*data.train.images.files, *data.validation.images.files]  # type: ignore[union-attr]
    for files, image_set in ((training_files, "train"), (data.test.images.files, "val")):  # type: ignore[union-attr]
        theirs = official.VOCDetection(str(tmp_path), year="2010", image_set=image_set)
        assert sorted(str(pictures[0]) for pictures in files) == sorted(theirs.images)


def test_characters_of_omniglot_are_torchvisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "omniglot-py"
    for part, alphabets in (("background", ("Greek", "Tagalog")), ("evaluation", ("Oriya",))):
        for alphabet in alphabets:
            for number in range(1, 7):
                for drawing in range(2):
                    path = folder / f"images_{part}" / alphabet / f"character{number:02}" / f"{number:04}_{drawing}.png"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    Image.new("1", (105, 105), (number + drawing) % 2).save(path)
        shutil.make_archive(str(folder / f"images_{part}"), "zip", folder, f"images_{part}")
    folder.rename(tmp_path / "omniglot")
    data = load("omniglot", tmp_path)
    monkeypatch.setattr(official.Omniglot, "folder", "omniglot")
    monkeypatch.setattr(official.Omniglot, "_check_integrity", lambda self: True)
    names: list[str] = []
    for split, part, first in (
        (data.train, "background", "Greek"), (data.validation, "background", "Tagalog"), (data.test, "evaluation", "")
    ):  # fmt: skip
        theirs = official.Omniglot(str(tmp_path), background=part == "background")  # in no fixed order
        own = sorted(name for name in theirs._characters if name.startswith(first))
        expected = sorted(
            (own.index(theirs._characters[label]), np.asarray(theirs[row][0]).tobytes())
            for row, (_, label) in enumerate(theirs._flat_character_images)
            if theirs._characters[label] in own
        )
        shown = 255 - split.images[:, 0].numpy()
        assert sorted(zip(split.targets.tolist(), [row.tobytes() for row in shown], strict=True)) == expected
        names += own
    assert list(data.classes) == names


def test_archives_of_imagenet_are_torchvisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from . import test_imagenet_tars as archives

    folder = archives.write(tmp_path)
    data = archives.load(tmp_path)
    reader = importlib.import_module("torchvision.datasets.imagenet")
    monkeypatch.setattr(reader, "_verify_archive", lambda root, file, md5: None)
    monkeypatch.setattr(reader, "check_integrity", lambda path, md5=None: Path(path).exists())
    shutil.make_archive(str(folder / "ILSVRC2012_devkit_t12"), "gztar", folder, "ILSVRC2012_devkit_t12")
    for split, samples in (("train", (data.train, data.validation)), ("val", (data.test,))):
        theirs = official.ImageNet(str(folder), split=split)
        assert tuple(theirs.wnids) == data.classes
        expected = sorted((round(float(np.asarray(image).mean()) / 100), label) for image, label in theirs)
        ours = sorted(
            (round(float(image.float().mean()) / 100), int(label))
            for part in samples
            for image, label in zip(part.images[:], part.targets, strict=True)
        )
        assert ours == expected
