"""The readers of CoOp's fifteen sets, on small files in exactly their form."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gate_data
from gate_data.coop import COOP, DOMAINS, ELEVEN, draw_shots, load_few_shot, read_split
from gate_data.coop.lists import read_class_names
from gate_data.coop.made_up import COLOURS, write_made_up
from gate_data.coop.originals import ORIGINALS
from gate_data.errors import DataError, UsageError
from gate_data.request import DataRequest

_NAMES = list(COLOURS)[:5]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_made_up(tmp_path_factory.mktemp("coop"), classes=5, images=4)


def _few(name: str, root: Path, **how: Any) -> Any:
    return load_few_shot(name, root, request=DataRequest(size=16, limit=how.pop("limit", None)), **how)


def test_there_are_eleven_sets_and_four_shifted_ones() -> None:
    assert len(ELEVEN) == 11
    assert len(DOMAINS) == 4
    assert all("{}" in sheet.template for sheet in COOP.values())


def test_published_sizes_are_those_of_the_published_lists() -> None:
    facts = json.loads((Path(__file__).parent / "coop_draws.json").read_text(encoding="utf-8"))["sets"]
    for name, lists in facts.items():
        sizes = [sum((last - first + 1) * count for first, last, count in lists[part]) for part in ("train", "val")]
        published = list(COOP[name].sizes[:2])
        assert (sizes if published[1] else [sum(sizes), 0]) == published, name  # ImageNet's list divides its training
        assert sum(last - first + 1 for first, last, _ in lists["train"]) == COOP[name].classes, name
    assert len(facts) == 10


@pytest.mark.parametrize("name", COOP)
def test_a_set_is_read_whole(name: str, root: Path) -> None:
    splits = gate_data.load(name, root, size=16)
    classes = _NAMES[::2] if name in ("coop-imagenet-a", "coop-imagenet-r") else _NAMES
    assert list(splits.classes) == classes
    assert len(splits.test) == 4 * len(classes)
    trained = 0 if name in DOMAINS else 20
    assert len(splits.train) == trained
    assert len(splits.validation) == (0 if name in (*DOMAINS, "coop-imagenet") else 10)
    assert splits.note == "synthetic stand-in, drawn images"
    (root / COOP[name].folders[0] / "MADE-UP.txt").rename(root / "mark")
    try:
        assert "classes; published" in gate_data.load(name, root, size=16).note
    finally:
        (root / "mark").rename(root / COOP[name].folders[0] / "MADE-UP.txt")


def test_names_with_the_collection_are_known(root: Path) -> None:
    assert gate_data.load("coop/dtd", root, size=16).classes == tuple(_NAMES)


def test_images_are_those_of_the_list_in_its_order(root: Path) -> None:
    parts: Any = ORIGINALS["coop-eurosat"].content(root / "eurosat")  # type: ignore[misc]  # it has lists
    listed = json.loads((root / "eurosat" / "split_zhou_EuroSAT.json").read_text())
    assert [(sample.source, sample.target) for sample in parts.train] == [
        (f"{root}/eurosat/2750/{path}", label) for path, label, _ in listed["train"]
    ]


def test_a_published_number_says_nothing_more(root: Path) -> None:
    assert COOP["coop-dtd"].differs((2820, 1128, 1692), 47) == ""
    assert "12 / 4 / 8" in COOP["coop-dtd"].differs((12, 4, 8), 47)


def _changed(root: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    shutil.copytree(root / "dtd", tmp_path / "dtd")
    path = tmp_path / "dtd" / "split_zhou_DescribableTextures.json"
    content = json.loads(path.read_text())
    replaced = change(content)
    path.write_text(json.dumps(content if replaced is None else replaced))
    return path


def _swap_names(content: dict[str, Any]) -> None:
    for row in content["test"]:
        row[1] = 4 - row[1]


def _set(part: str, at: int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content[part][at] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_swap_names, r"test\[0\]: label 4 is 'red', in train\[16\] 'purple'"),
        (_set("val", 1, ["red/val_0001.jpg", 7, "red"]), r"val\[1\]: class 'red' has the label 7, in train\[0\] 0:"),
        (_set("train", 1, ["red/train_0000.jpg", 1, "green"]), r"also train\[0\], with the labels 0 and 1"),
        (_set("test", 0, ["red/./train_0002.jpg", 0, "red"]), r"test\[0\]: red/train_0002.jpg is also train\[2\]"),
        (_set("train", 3, ["red/gone.jpg", 0, "red"]), r"1 of 50 images are not in .*images: red/gone.jpg; complete"),
        (_set("train", 3, ["../dtd/x.jpg", 0, "red"]), r"1 of 50 images are not in"),
        (_set("train", 3, ["red/a.jpg", 0]), r"train\[3\] is \['red/a.jpg', 0\], expected \[path, label, class name\]"),
        (_set("train", 3, ["red/a.jpg", -1, "red"]), r"the label is -1, expected a whole number"),
        (_set("train", 3, ["red/a.jpg", 1.5, "red"]), r"the label is 1.5, expected a whole number"),
        (_set("train", 3, ["red/a.jpg", 0, " "]), r"the class name is ' ', expected text"),
        (_set("train", 3, ["red/a.jpg", "1" * 5000, "red"]), r"train\[3\]: the label is '111.*, expected a whole"),
        (_set("train", 3, ["red/a.jpg", 0, "r\ud800"]), r"train\[3\]: the class name is .*, expected text"),
        (_set("train", 3, ["", 0, "red"]), r"the path is '', expected text"),
        (_set("train", 3, ["red/a\0.jpg", 0, "red"]), r"the path is .*, expected text"),
        (lambda content: content.pop("val") and None, r"the lists 'train', 'val' and 'test', got 'train', 'test'"),
        (lambda content: content["test"].clear(), "the list 'test' is empty"),
        (lambda content: [], "expected an object with the lists 'train', 'val' and 'test', got list"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_list_is_said(
    change: Callable[[dict[str, Any]], object], message: str, root: Path, tmp_path: Path
) -> None:
    path = _changed(root, tmp_path, change)
    with pytest.raises(DataError, match=message):
        read_split(path, path.parent / "images")


def test_a_label_without_images_is_named(root: Path, tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        for part in content:
            content[part] = [row for row in content[part] if row[1] != 2]

    path = _changed(root, tmp_path, change)
    with pytest.raises(DataError, match="label 4 of 4 classes; no image has the label 2"):
        read_split(path, path.parent / "images")


def test_missing_images_are_counted_and_the_first_are_named(root: Path, tmp_path: Path) -> None:
    path = _changed(root, tmp_path, lambda content: None)
    shutil.rmtree(path.parent / "images" / "blue")
    (path.parent / "images" / "red" / "val_0000.jpg").unlink()
    with pytest.raises(
        DataError, match=r"11 of 50 images are not in .*: blue/train_0000.jpg, .* …; complete the folder"
    ):
        read_split(path, path.parent / "images")


def test_labels_that_are_text_and_backslashes_are_read(root: Path, tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        for row in content["train"]:
            row[0], row[1] = row[0].replace("/", "\\"), str(row[1])

    path = _changed(root, tmp_path, change)
    assert [sample.target for sample in read_split(path, path.parent / "images").train][::4] == [0, 1, 2, 3, 4]


def test_variants_that_are_not_listed_are_refused(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "fgvc_aircraft", tmp_path / "fgvc_aircraft")
    (tmp_path / "fgvc_aircraft" / "variants.txt").write_text("red\ngreen\nblue\nyellow\n")
    with pytest.raises(DataError, match=r"images_variant_train.txt, line 17: variant 'purple' is not in variants.txt"):
        gate_data.load("coop-fgvc-aircraft", tmp_path)
    (tmp_path / "fgvc_aircraft" / "variants.txt").write_text("red\ngreen\nred\n")
    with pytest.raises(DataError, match="names 'red' twice"):
        gate_data.load("coop-fgvc-aircraft", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n00000002 a\nn00000001 b\n", "line 2: n00000001 after n00000002"),
        ("n00000001 a\nn00000001 b\n", "line 2: n00000001 after n00000001"),
        ("n00000001\n", "line 1 is 'n00000001', expected a folder and a name"),
        ("cat a\n", "line 1 is 'cat a'"),
    ],
)
def test_class_names_of_imagenet_are_checked(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "classnames.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        read_class_names(tmp_path / "classnames.txt")


def test_a_published_list_of_imagenet_divides_its_training_images(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "imagenet", tmp_path / "imagenet", ignore=shutil.ignore_patterns("MADE-UP.txt"))
    lists: dict[str, list[Any]] = {"train": [], "val": [], "test": []}
    for label, folder in enumerate(sorted((tmp_path / "imagenet/images/train").iterdir())):
        name = "missile" if label in (1, 3) else _NAMES[label]  # two of the real classes share a name, too
        for part, at in (("train", 0), ("train", 1), ("val", 2)):
            lists[part].append([f"train/{folder.name}/{at:04d}.JPEG", label, name])
        lists["test"].append([f"val/{folder.name}/0000.JPEG", label, name])
    (tmp_path / "imagenet" / "split_ImageNet.json").write_text(json.dumps(lists))
    data = _few("coop-imagenet", tmp_path, shots=1, seed=1)
    assert data.trained_classes.count("missile") == 2
    assert len(data.validation) == 5
    assert "split_ImageNet.json" not in data.note
    (tmp_path / "imagenet" / "split_ImageNet.json").unlink()
    assert "split_ImageNet.json" in _few("coop-imagenet", tmp_path, shots=1, seed=1).note


def test_shots_are_those_that_are_drawn(root: Path) -> None:
    data = _few("coop-eurosat", root, shots=2, seed=3)
    listed = json.loads((root / "eurosat" / "split_zhou_EuroSAT.json").read_text())
    drawn = draw_shots([row[1] for row in listed["train"]], [row[1] for row in listed["val"]], 2, 3)
    assert data.drawn == drawn
    assert data.train.targets.tolist() == [listed["train"][row][1] for row in drawn.train]
    assert len(data.validation) == 10
    assert data.columns == (0, 1, 2, 3, 4)


def test_zero_shots_draw_nothing(root: Path) -> None:
    data = _few("coop-dtd", root, shots=0)
    assert (len(data.train), len(data.validation), len(data.test)) == (0, 0, 20)


def test_the_first_half_of_the_classes_is_trained_rounded_up(root: Path) -> None:
    data = _few("coop-ucf101", root, shots=2, protocol="base-to-new")
    whole = _few("coop-ucf101", root, shots=2)
    assert data.base == 3
    assert data.trained_classes == tuple(_NAMES[:3])
    assert data.columns == (0, 1, 2, -1, -1)
    assert data.train.targets.tolist() == [target for target in whole.train.targets.tolist() if target < 3]
    assert list(data.train.images.files) == [
        file for file, target in zip(whole.train.images.files, whole.train.targets.tolist(), strict=True) if target < 3
    ]  # drawn from all classes, then halved
    assert len(data.test) == 20


def test_cross_trains_on_imagenet_and_tests_other_classes(root: Path) -> None:
    data = _few("coop-dtd", root, shots=1, protocol="cross")
    assert data.columns == (-1,) * 5
    assert "imagenet" in data.train.images.files[0][0]
    assert "dtd" in data.test.images.files[0][0]
    assert _few("coop-imagenet", root, shots=1, protocol="cross").columns == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("name", DOMAINS)
def test_shifted_sets_are_scored_among_their_own_classes(name: str, root: Path) -> None:
    data = _few(name, root, shots=1, protocol="domain")
    places = (0, 2, 4) if name in ("coop-imagenet-a", "coop-imagenet-r") else (0, 1, 2, 3, 4)
    assert data.columns == places
    assert tuple(data.trained_classes[place] for place in places) == data.classes
    first = data.test.images.files[0][0]
    assert ("imagenet-" in first) or ("imagenetv2" in first)
    assert len(data.trained_classes) == 5


def test_folders_that_are_numbered_follow_the_numbers(tmp_path: Path) -> None:
    write_made_up(tmp_path, classes=12, images=2, sets=["coop-imagenet", "coop-imagenet-v2"])
    data = _few("coop-imagenet-v2", tmp_path, shots=0, protocol="domain")
    assert data.classes == tuple(COLOURS)  # 2 before 10
    assert data.test.images.files[4][0].endswith("/2/0000.JPEG")


@pytest.mark.parametrize(
    ("name", "protocol", "message"),
    [
        ("coop-dtd", "domain", "coop-dtd is not a set of the protocol 'domain': --protocol few-shot"),
        ("coop-imagenet-a", "few-shot", "--protocol domain"),
        ("coop-imagenet-a", "cross", "--protocol domain"),
        ("coop-dtd", "few", "unknown protocol 'few'; nearest: few-shot"),
        ("coop-dt", "few-shot", "unknown data set 'coop-dt'; nearest: coop-dtd"),
    ],
)
def test_sets_and_protocols_that_do_not_fit_are_refused(name: str, protocol: str, message: str, root: Path) -> None:
    with pytest.raises(UsageError, match=message):
        _few(name, root, shots=1, protocol=protocol)


def test_a_limit_takes_test_images_of_each_class_and_leaves_the_draws(root: Path) -> None:
    data, whole = (_few("coop-dtd", root, shots=2, limit=limit) for limit in (5, None))
    assert sorted(data.test.targets.tolist()) == [0, 1, 2, 3, 4]
    assert data.train.images.files[:] == whole.train.images.files[:]
    assert "limit 5 takes test images alone" in data.note


def test_classes_with_too_few_images_are_named(root: Path, tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        del content["train"][1:4]
        content["train"] = [row for row in content["train"] if row[1] != 3]

    _changed(root, tmp_path, change)
    data = _few("coop-dtd", tmp_path, shots=2)
    assert data.drawn.short == (0, 3)
    assert "2 classes have fewer than 2 training images, all taken: 'red', 'yellow'" in data.note
    assert data.train.targets.tolist().count(0) == 1


def test_made_up_sets_overwrite_nothing(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is there already"):
        write_made_up(root, sets=["coop-dtd"])
    with pytest.raises(UsageError, match="classes must be 2 to 12, not 13"):
        write_made_up(tmp_path, classes=13)
    with pytest.raises(UsageError, match="unknown data set"):
        write_made_up(tmp_path, sets=["coop-x"])


def test_a_digest_is_that_of_every_seed_and_of_what_could_be_drawn(root: Path, tmp_path: Path) -> None:
    first, second = (_few("coop-dtd", root, shots=1, seed=seed) for seed in (1, 2))
    assert first.digest() == second.digest()
    assert first.drawn_digest() != second.drawn_digest()

    def change(content: dict[str, Any]) -> None:
        content["train"][:2] = content["train"][1::-1]

    _changed(root, tmp_path, change)
    assert _few("coop-dtd", tmp_path, shots=1, seed=1).digest() != first.digest()
    again = load_few_shot("coop-dtd", shutil.copytree(root, tmp_path / "moved"), shots=1, request=DataRequest(size=16))
    assert again.digest() == first.digest()


def test_any_folder_with_images_is_not_imagenet_sketch(tmp_path: Path) -> None:
    (tmp_path / "images" / "n10000000").mkdir(parents=True)
    with pytest.raises(DataError, match="does not hold its files"):
        ORIGINALS["coop-imagenet-sketch"].find(tmp_path)
    (tmp_path / "imagenet-sketch" / "sketch").mkdir(parents=True)  # as its archive unpacks
    assert ORIGINALS["coop-imagenet-sketch"].find(tmp_path) == tmp_path / "imagenet-sketch"


def test_a_check_counts_beside_the_published_sizes(root: Path, tmp_path: Path) -> None:
    here, missing = gate_data.check(root, ["coop-dtd", "coop/eurosat"])[0], gate_data.check(tmp_path, ["coop-dtd"])[0]
    assert (here.state, here.counts, here.expected) == ("incomplete", (30, 20), (3948, 1692))
    assert missing.state == "missing"
    assert "vgg/data/dtd" in missing.problems[0]


def test_a_limit_behind_the_loading_takes_classes_in_turn_and_keeps_the_protocol(root: Path) -> None:
    data = _few("coop-dtd", root, shots=1, protocol="base-to-new")
    few = data.limited(5)
    assert sorted(few.test.targets.tolist()) == [0, 1, 2, 3, 4]
    assert (len(few.train), few.columns, few.base) == (3, data.columns, 3)
    assert data.limited(None) is data
    assert data.limited(100) is data
