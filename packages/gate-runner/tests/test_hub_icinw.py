"""``--source hub`` for ELEVATER's 20 data sets: each on a small copy in its repository's own form."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gate_data.cards import ICINW
from gate_data.data import Data
from gate_data.originals.icinw.elevater import class_names, plain
from gate_runner.benchmarks import BENCHMARKS, DataRequest
from gate_runner.errors import DataError

pytest.importorskip("datasets")

from . import _hub_folders as write
from .test_hub import run

AIRCRAFT, VOC = "fgvc-aircraft-2013b-variants102", "voc-2007-classification"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def read(name: str, root: Path, size: int = 8) -> Data:
    benchmark = BENCHMARKS[name]
    benchmark.choose_source("hub", root)
    return benchmark.load_undivided("hub", DataRequest(root, None, size))


def encoded(picture: Image.Image, form: str) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, form)
    return buffer.getvalue()


CALTECH = [
    {"airplane": "airplanes", "background": "background_google", "side of a car": "car_side",
     "body of a cougar cat": "cougar_body", "face of a cougar cat": "cougar_face",
     "head of a  crocodile": "crocodile_head", "centered face": "faces_easy", "off-center face": "faces",
     "head of a flamingo": "flamingo_head", "leopard": "leopards", "motorbike": "motorbikes",
     "snoopy (cartoon beagle)": "snoopy", "yin and yang symbol": "yin_yang"}.get(name, name.replace(" ", "_"))
    for name in class_names("caltech-101")
]  # fmt: skip
FLOWERS = [
    {"pink and yellow dahlia": "pink-yellow dahlia?", "air plant": "ball moss", "globe flower": "globe-flower"}.get(
        name, name
    )
    for name in class_names("oxford-flower-102")
]
EUROSAT = ["AnnualCrop", "Forest", "HerbaceousVegetation", "Highway", "Industrial", "Pasture", "PermanentCrop",
           "Residential", "River", "SeaLake"]  # fmt: skip
EMOTIONS = ["angry", "disgust", "fear", "happy", "neutral", "sad", "surprise"]
THEIRS: dict[str, Sequence[str]] = {
    "caltech-101": CALTECH,
    "cifar-100": [name.replace(" ", "_") for name in class_names("cifar-100")],
    "eurosat_clip": EUROSAT,
    "fer-2013": EMOTIONS,
    AIRCRAFT: [{"F-16A-B": "F-16A/B", "F-A-18": "F/A-18"}.get(name, name) for name in class_names(AIRCRAFT)],
    "food-101": [name.replace(" ", "_") for name in class_names("food-101")],
    "oxford-flower-102": FLOWERS,
    "oxford-iiit-pets": [name.lower().replace(" ", "_") for name in class_names("oxford-iiit-pets")],
    "resisc45_clip": [name.replace(" ", "_") for name in class_names("resisc45_clip")],
    "stanford-cars": [name.replace("Ram C V", "Ram C/V") for name in class_names("stanford-cars")],
    **{name: class_names(name) for name in ("cifar-10", "dtd", "gtsrb", "mnist", "rendered-sst2")},
}
"""Names of classes as the copies have them, in ELEVATER's order. Those that are not here have bare numbers."""
NAMED = tuple(THEIRS)
TRAIN, TEST = (0, 1, 1, 3, 5), (2, 0, 4)
"""Places of classes in ELEVATER's order, by rows; those of two classes lose what is above."""


def tables(root: Path, name: str, target: Any, of: Callable[[int], Any], splits: Mapping[str, Sequence[int]]) -> None:
    hub = ICINW[name].hub
    for split, labels in splits.items():
        values = {hub.image: [write.picture() for _ in labels], hub.target: [of(label) for label in labels]}
        write.write(root / hub.id, split, values, {hub.image: write.PICTURE, hub.target: target})


def labels(name: str) -> tuple[list[int], list[int]]:
    """Training and test labels of a copy, as places in ELEVATER's order."""
    count = ICINW[name].classes
    return [label for label in TRAIN if label < count], [label for label in TEST if label < count]


def named_copy(root: Path, name: str, names: Sequence[str] | None = None) -> None:
    """A copy whose column has names, in the reverse of ELEVATER's order unless they are given."""
    theirs = list(THEIRS[name]) if names is None else list(names)
    order = list(reversed(theirs)) if names is None else theirs
    kind = write.datasets.ClassLabel(names=order)
    hub, (train, test) = ICINW[name].hub, labels(name)
    splits = {hub.train: train, hub.test: test}
    if hub.validation:
        sizes = [size // ICINW[name].classes for size in ICINW[name].sizes]
        every = [index for index in range(ICINW[name].classes) for _ in range(sum(sizes) + 1)]
        third = len(every) // 3
        splits = {hub.train: every[:third], hub.validation: every[third : 2 * third], hub.test: every[2 * third :]}
    tables(root, name, kind, lambda index: order.index(theirs[index]), splits)


def numbered_copy(root: Path, name: str) -> None:
    hub, (train, test) = ICINW[name].hub, labels(name)
    if name == "fer-2013":  # its own numbers, which are not in ELEVATER's order
        tables(root, name, write.INTEGER, lambda label: hub.names.index(EMOTIONS[label]),
               {hub.train: train, hub.test: test})  # fmt: skip
    elif name == "patch-camelyon":
        tables(root, name, write.datasets.Value("bool"), bool, {hub.train: train, "valid": [0], hub.test: test})
    elif name == VOC:
        kind = write.datasets.Sequence(write.INTEGER)
        tables(root, name, kind, lambda label: [label, label, 19], {hub.train: train, hub.test: test})
    elif name == "hateful-memes":
        _memes(root, {"train": train, "dev_seen": test, "test_seen": [0]})
    else:
        _tars(root, name, "webp" if name == "kitti-distance" else "jpg", {"train": train, "test": test})


def _memes(root: Path, splits: Mapping[str, Sequence[int]]) -> None:
    folder = root / ICINW["hateful-memes"].hub.id
    (folder / "img").mkdir(parents=True)
    for number, (split, own) in enumerate(splits.items()):
        rows = [{"id": 100 * number + row, "img": f"img/{number}{row:04}.png", "label": label, "text": "made up"}
                for row, label in enumerate(own)]  # fmt: skip
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in rows))
        for record in rows:
            (folder / str(record["img"])).write_bytes(encoded(write.picture(), "png"))


def _tars(root: Path, name: str, ending: str, splits: Mapping[str, Sequence[int]]) -> None:
    """Tars with lists of texts beside them, which are more than the tars."""
    folder = root / ICINW[name].hub.id
    for split, own in splits.items():
        (folder / split).mkdir(parents=True)
        (folder / split / "nshards.txt").write_text("1")
        with tarfile.open(folder / split / "0.tar", "w") as tar:
            for row, label in enumerate(own):
                for inner, content in (("cls", str(label).encode()), (ending, encoded(write.picture(), "webp"))):
                    about = tarfile.TarInfo(f"s{row:07}.{inner}")
                    about.size = len(content)
                    tar.addfile(about, io.BytesIO(content))
    (folder / "classnames.txt").write_text("\n".join(class_names(name)))
    (folder / "zeroshot_classification_templates.txt").write_text("a photo of {c}")


COPIES: dict[str, Callable[[Path], None]] = {
    name: (lambda root, name=name: named_copy(root, name)) if name in NAMED and name != "fer-2013"  # type: ignore[misc]
    else (lambda root, name=name: numbered_copy(root, name))  # type: ignore[misc]
    for name in ICINW
}  # fmt: skip


def test_all_twenty_can_be_asked_for_and_are_in_the_page() -> None:
    assert set(COPIES) == set(ICINW)
    assert all("hub" in BENCHMARKS[name].sources for name in ICINW)
    page = (Path(__file__).parents[3] / "docs" / "icinw.md").read_text()
    assert [sheet.hub.id for sheet in ICINW.values() if f"`{sheet.hub.id}`" not in page] == []


@pytest.mark.parametrize("name", [name for name in ICINW if not ICINW[name].hub.validation])
def test_a_copy_gives_elevaters_classes(name: str, tmp_path: Path) -> None:
    COPIES[name](tmp_path)
    pair = read(name, tmp_path)
    for split, places in zip((pair.train, pair.test), labels(name), strict=True):
        if name == VOC:
            expected = [[int(at in (index, 19)) for at in range(20)] for index in places]
            assert split.targets.tolist() == expected
        else:
            assert split.targets.tolist() == places
        assert split.images[0:1].shape == (1, 3, 8, 8)
    assert pair.classes == class_names(name)
    assert f"from {ICINW[name].hub.id} on the Hugging Face hub; it holds {len(pair.train)} / " in pair.note
    assert ICINW[name].unsure in pair.note
    data = BENCHMARKS[name].load("hub", DataRequest(tmp_path, size=8))
    assert len(data.train) + len(data.validation) == len(pair.train)
    assert data.test.targets.tolist() == pair.test.targets.tolist()


@pytest.mark.parametrize("name", ["eurosat_clip", pytest.param("resisc45_clip", marks=pytest.mark.again)])
def test_a_copy_with_another_split_is_drawn_anew_by_class(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = {"bytes": encoded(write.picture("L"), "PNG"), "path": None}
    monkeypatch.setattr(write, "picture", lambda: image)
    COPIES[name](tmp_path)
    sheet, pair = ICINW[name], read(name, tmp_path)
    assert (len(pair.train), len(pair.test)) == sheet.sizes
    for split, size in zip((pair.train, pair.test), sheet.sizes, strict=True):
        assert split.targets.bincount().tolist() == [size // sheet.classes] * sheet.classes
    assert "it holds" not in pair.note
    files = [{source for (source,) in split.images.files} for split in (pair.train, pair.test)]
    assert not files[0] & files[1]


def test_emotions_by_name_where_the_column_has_names(tmp_path: Path) -> None:
    named_copy(tmp_path, "fer-2013")
    assert read("fer-2013", tmp_path).train.targets.tolist() == list(TRAIN)


def test_objects_by_name_where_the_list_has_names(tmp_path: Path) -> None:
    order = ["TV/monitor", *reversed(class_names(VOC)[:-1])]
    kind = write.datasets.Sequence(write.datasets.ClassLabel(names=order))
    tables(tmp_path, VOC, kind, lambda label: [0, 20 - 1 - label], {"train": [0, 3], "test": [5]})
    assert read(VOC, tmp_path).test.targets.nonzero().tolist() == [[0, 5], [0, 19]]


def test_aircraft_lose_their_banner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tall = Image.new("RGB", (30, 50))
    tall.paste((255, 255, 255), (0, 30, 30, 50))
    monkeypatch.setattr(write, "picture", lambda: tall)
    named_copy(tmp_path, AIRCRAFT)
    assert int(read(AIRCRAFT, tmp_path, size=30).train.images[0:1].max()) == 0


def test_names_of_classes_stay_apart() -> None:
    """No two classes of a data set are one once case, spaces and marks are left out."""
    for name, sheet in ICINW.items():
        keys = {plain(class_name).replace(" ", "").strip("?") for class_name in class_names(name)}
        assert len(keys) == sheet.classes, name


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    wrong = [*class_names("dtd")[:-1], "furry"]
    cases: list[tuple[str, Callable[[Path], None], str]] = [
        ("dtd", lambda root: named_copy(root, "dtd", wrong),
         r"mcimpoi/dtd_split_1: column 'label': 47 class names do not match .*'furry' / 'zigzagged'"),
        ("dtd", lambda root: named_copy(root, "dtd", class_names("dtd")[:10]), r"10 class names do not match"),
        ("mnist", lambda root: tables(root, "mnist", write.INTEGER, int, {"train": [0], "test": [10]}),
         r"ylecun/mnist/test, row 1: field 'label' is '10', expected a number from 0 to 9"),
        ("fer-2013", lambda root: tables(root, "fer-2013", write.INTEGER, int, {"train": [0], "publicTest": [1]}),
         r"the split 'privateTest' cannot be read through datasets"),
        (VOC, lambda root: tables(root, VOC, write.INTEGER, int, {"train": [0], "test": [1]}),
         r"mteb/VOC2007/train, row 1: field 'classes' is '0', expected a list of numbers from 0 to 19"),
        ("stanford-cars", write.labelled(ICINW["stanford-cars"].hub.id, None, {"train": [0], "test": [1]},
                                         ("image", "model")),
         r"tanganke/stanford_cars: the split 'train' has no column 'label'; it has image, model"),
        ("kitti-distance", lambda root: _tars(root, "kitti-distance", "tiff", {"train": [0], "test": [1]}),
         r"has no column 'png\|jpg\|webp'; it has "),
        ("resisc45_clip", lambda root: tables(root, "resisc45_clip", write.datasets.ClassLabel(
            names=list(class_names("resisc45_clip"))), int, {"train": [0], "validation": [1], "test": [2]}),
         r"timm/resisc45: class 'airplane' has 1 images, expected more than 70"),
    ]  # fmt: skip
    for number, (name, layout, message) in enumerate(cases):
        root = tmp_path / str(number)
        root.mkdir()
        layout(root)
        with pytest.raises(DataError, match=message) as caught:
            read(name, root)
        assert "\n" not in str(caught.value)


def test_memes_that_are_not_there_or_point_elsewhere(tmp_path: Path) -> None:
    _memes(tmp_path, {"train": [0, 1], "dev_seen": [1]})
    folder = tmp_path / ICINW["hateful-memes"].hub.id
    (folder / "img" / "00001.png").unlink()
    with pytest.raises(DataError, match=r"hateful_memes/train, row 2: the image img/00001.png of column 'img'"):
        read("hateful-memes", tmp_path)
    lines = (folder / "train.jsonl").read_text().replace("img/00001.png", "../../secret.png")
    (folder / "train.jsonl").write_text(lines)
    with pytest.raises(DataError, match=r"row 2: '\.\./\.\./secret\.png' of column 'img' is no path inside"):
        read("hateful-memes", tmp_path)


def test_a_grid_from_the_hub(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "icinw", "--source", "hub", "--data-root", str(tmp_path), "--shots", "0"]) == 2
    assert "hf download --repo-type dataset mteb/Caltech101 --local-dir" in capsys.readouterr().err
    for name in ("rendered-sst2", "patch-camelyon"):
        COPIES[name](tmp_path)
    command = [
        "run",
        "rendered-sst2",
        "patch-camelyon",
        "--source",
        "hub",
        "--data-root",
        str(tmp_path),
        "--shots",
        "0",
        "--isolate",
        "none",
    ]
    assert run([*command, "--output", str(tmp_path / "out")]) == 0
    results = [json.loads(path.read_text()) for path in (tmp_path / "out" / "results").glob("*.json")]
    states = {(result["benchmark"].partition("@")[0], result["source"], result["status"]) for result in results}
    assert states == {("rendered-sst2", "hub", "ok"), ("patch-camelyon", "hub", "ok")}
