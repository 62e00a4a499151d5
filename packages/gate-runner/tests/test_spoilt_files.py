"""All 31 loaders on files that are missing, cut short, empty, changed, or another data set's.

Whatever is spoilt, one line says so and names the file, or the samples are the same, or the note says that they are
fewer than were published. What is published stands here for what the small data sets hold when they are whole.
"""

from __future__ import annotations

import importlib
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image
from torch import Tensor

from gate_data.cards import SHEETS, Sheet
from gate_data.maps import Maps
from gate_data.original_files import Originals, counted
from gate_data.originals import few_shot
from gate_data.pictures import Pictures
from gate_data.readers import arrays
from gate_data.readers.source import file_of
from gate_data.tables import read_table
from gate_runner.benchmarks import DataRequest
from gate_runner.errors import DataError

from . import _gate_files as write
from . import test_originals as own


def omniglot(root: Path) -> None:
    (root / "omniglot").mkdir()
    for part, alphabets in (("1", ("Greek", "Korean", "Latin")), ("2", ("Greek", "Sanskrit", "Tagalog"))):
        with zipfile.ZipFile(root / "omniglot" / f"images_background_small{part}.zip", "w") as packed:
            for alphabet in alphabets:
                for drawing in range(4):
                    write.picture(root / "a.png", 8, 8)
                    packed.write(root / "a.png", f"images/{alphabet}/character01/0001_{drawing:02}.png")
    (root / "a.png").unlink()


LAYOUTS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "cifar100": ("cifar100", partial(own.write_cifar, archive=False)),
    "cifar100, archive": ("cifar100", partial(own.write_cifar, archive=True)),
    "food101": ("food101", write.food101),
    "happy": ("happy", write.happy),
    "imagenet1k": ("imagenet1k", own.write_imagenet),
    "imagenet1k, flat": ("imagenet1k", own.write_kaggle_imagenet),
    "places365": ("places365", write.places365),
    "places365, easy": ("places365", write.places365_easy),
    "aircraft": ("aircraft", write.aircraft),
    "cubirds": ("cubirds", partial(own.write_birds, each=2)),
    "dtextures": ("dtextures", write.dtextures),
    "fungi": ("fungi", write.fungi),
    "mini": ("mini", own.write_mini),
    "omniglot": ("omniglot", omniglot),
    "vgg": ("vgg", write.vgg),
    "ade20k": ("ade20k", own.write_ade),
    "cityscapes": ("cityscapes", write.cityscapes),
    "coco-10k": ("coco-10k", write.coco_10k),
    "coco-164k": ("coco-164k", write.coco_164k),
    "nyu": ("nyu", write.nyu),
    "pascal": ("pascal", write.pascal),
    "acdc": ("acdc", partial(own.write_acdc, slices=(3, 4, 3))),
    "chexpert": ("chexpert", write.chexpert),
    "diabetic": ("diabetic", write.diabetic),
    "ham10k": ("ham10k", write.ham10k),
    "ham10k, dataverse": ("ham10k", partial(write.ham10k, dataverse=True)),
    "clevr": ("clevr", write.clevr),
    "clevr-math": ("clevr-math", own.write_clevr),
    "flickr30k": ("flickr30k", write.flickr30k),
    "flickr30k, lists": ("flickr30k", partial(write.flickr30k, karpathy=False)),
    "nycc": ("nycc", write.nycc),
    "winoground": ("winoground", write.winoground),
    "hmdb51": ("hmdb51", write.hmdb51),
    "ucf": ("ucf", write.ucf),
    "kinetics": ("kinetics", write.kinetics),
    "iwildcam": ("iwildcam", own.write_iwildcam),
}
FREE = {
    "winoground": ("collapsed_tag",),  # a breakdown of the score, whose values nobody lists
    "imagenet1k": ("'goldfish' is", "mapping.txt, missing"),  # words for a class, which need not be there
    "fungi": (".categories[].name",),  # likewise
    "chexpert": ("1.0' is ''",),  # a blank means: not mentioned
    "iwildcam": (".images[].seq_id @@",),  # sequences that were not counted are left out
}
"""By data set, what may be anything, and why."""
TEXTS = (".txt", ".csv", ".tab", ".token", ".json", ".jsonl")
MEDIA = (".jpg", ".jpeg", ".png", ".avi", ".mp4", ".mat", ".gz")
NONSENSE = "@@"


def test_every_data_set_is_here() -> None:
    assert {name for name, _ in LAYOUTS.values()} == set(SHEETS)


class Seen(NamedTuple):
    """What a loader made of a folder: counts, what each sample is, and the note."""

    counts: tuple[int, int]
    classes: int
    samples: Counter[str]
    note: str


def originals(name: str) -> Originals[Any]:
    module, _, attribute = SHEETS[name].local.partition(":")
    declared: Originals[Any] = getattr(importlib.import_module(module), attribute)
    return declared


def load_and_read(name: str, root: Path, sheet: Sheet | None, touched: Path | None = None) -> Seen:
    """Load, and read the images and maps that lie in the touched file."""
    arrays._handles.clear()
    declared = originals(name)
    folder = declared.find(root)
    data = declared.load(folder, DataRequest(root, size=8, sheet=sheet))
    for split in (data.train, data.validation, data.test):
        if touched is not None and isinstance(split.images, Pictures):
            rows = [row for row, files in enumerate(split.images.files) if str(touched) in map(file_of, files)]
            _ = [split.images[row] for row in rows[:2]]
        if touched is not None and isinstance(split.targets, Maps):
            rows = [row for row, file in enumerate(split.targets.files) if str(touched) == file_of(file)]
            _ = [split.targets[row] for row in rows[:2]]
    arrays_alone = name == "mini" and not (root / "mini-imagenet" / "train.csv").exists()
    parts = None if declared.parts is None or arrays_alone else declared.parts(folder)
    if parts is None:
        counts = Counter(
            str(hash(row)) for split in (data.train, data.test) for row in pixels(split.images, split.targets)
        )
        return Seen((len(data.train) + len(data.validation), len(data.test)), len(data.classes), counts, data.note)
    samples = [*parts.train, *(parts.validation or ()), *parts.test]
    sample_counts = Counter(f"{sample.source} {named(sample.target, parts.classes)}" for sample in samples)
    return Seen(counted(parts), len(parts.classes), sample_counts, data.note)


def pixels(images: Any, targets: Any) -> list[tuple[bytes, bytes]]:
    assert isinstance(images, Tensor)
    return [(image.numpy().tobytes(), target.numpy().tobytes()) for image, target in zip(images, targets, strict=True)]


def named(target: Any, classes: tuple[str, ...]) -> str:
    return classes[target] if type(target) is int and classes else str(target)


def is_free(name: str, what: str) -> bool:
    return any(part in what for part in FREE.get(name, ()))


def published(name: str, whole: Seen) -> Sheet:
    sheet = SHEETS[name]
    return replace(sheet, sizes=whole.counts, classes=whole.classes if sheet.classes else 0)


def fault(name: str, root: Path, sheet: Sheet, whole: Seen, touched: Path, where: tuple[str, ...] = ()) -> str:
    """What is wrong with how a loader takes a spoilt file; nothing where it is well taken."""
    try:
        loaded = load_and_read(name, root, sheet, touched)
    except DataError as error:
        text = str(error)
        names = {touched.name, touched.stem, touched.parent.name, *where}
        if "does not hold its files" not in text and not any(word in text for word in names):
            return f"the message does not name it: {text}"
        return "more than a line: " + text if "\n" in text else ""
    except Exception as error:  # noqa: BLE001 - whatever else comes is what this test is for
        return f"{type(error).__name__}: {error}"
    if loaded.note != whole.note and loaded.note:
        return ""
    if loaded.counts != whole.counts:
        return f"{loaded.counts} samples instead of {whole.counts}, and nothing is said"
    if loaded.samples != whole.samples:
        return f"others in silence: {list((loaded.samples - whole.samples).items())[:1]}"
    return ""


def chosen(root: Path) -> list[Path]:
    """Every file that is no image, map or clip, and of these one in each of a few folders."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    plain = [path for path in files if not path.name.lower().endswith(MEDIA) or path.name.endswith(".tar.gz")]
    media: dict[Path, Path] = {}
    for path in files:
        if path not in plain:
            media.setdefault(path.parent, path)
    few = [*media.values()]
    return [*plain, *few[:3], *few[3:][-3:]]


@pytest.fixture(scope="module", autouse=True)
def few_fungi() -> Iterator[None]:
    """Of 200 and 200 species that are held out a tenth: each of 100 faults is met by a loader that reads all."""
    read = read_table
    species = {part: numbers[:20] for part, numbers in few_shot._SPLITS["fungi"].items()}
    few = {**few_shot._SPLITS, "fungi": species}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_shot, "_SPLITS", few)
        patch.setattr(write, "read_table", lambda name: {"splits": few} if name == "class_splits" else read(name))
        yield


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[str, Path]]:
    """A layout's folder, written when it is first asked for; who changes it puts it back."""
    folders: dict[str, Path] = {}

    def get(layout: str) -> tuple[str, Path]:
        name, layer = LAYOUTS[layout]
        if layout not in folders:
            root = tmp_path_factory.mktemp("data") / "root"
            root.mkdir()
            layer(root)  # skips where a library is missing, and again when it is asked for again
            folders[layout] = root
        return name, folders[layout]

    return get


FolderOf = Callable[[str], tuple[str, Path]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_that_are_missing_cut_short_or_empty(layout: str, folder_of: FolderOf) -> None:
    name, root = folder_of(layout)
    whole = load_and_read(name, root, None)
    sheet = published(name, whole)
    assert load_and_read(name, root, sheet) == whole
    wrong = {}
    for path in chosen(root):
        content = path.read_bytes()
        for how in ("missing", "half", "empty"):
            if how == "missing":
                path.unlink()
            else:
                path.write_bytes(content[: len(content) // 2] if how == "half" else b"")
            what = f"{path.relative_to(root)}, {how}"
            if (problem := fault(name, root, sheet, whole, path)) and not is_free(name, what):
                wrong[what] = problem
            path.write_bytes(content)
    folders = sorted({path.parent for path in root.rglob("*") if path.is_file()} - {root})
    for folder in [*folders[:2], *folders[2:][-2:]]:
        aside = folder.with_name(f"{folder.name} aside")
        folder.rename(root.parent / aside.name)
        folder.mkdir()
        if problem := fault(name, root, sheet, whole, folder):
            wrong[f"{folder.relative_to(root)}, emptied"] = problem
        folder.rmdir()
        (root.parent / aside.name).rename(folder)
    assert not wrong, "\n".join(f"{what}: {problem}" for what, problem in wrong.items())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_annotations_that_say_something_else(layout: str, folder_of: FolderOf) -> None:
    name, root = folder_of(layout)
    whole = load_and_read(name, root, None)
    sheet = published(name, whole)
    wrong, tried = {}, 0
    for path in chosen(root):
        if path.suffix not in TEXTS:
            continue
        content = path.read_text()
        for what, changed in changes(path, content):
            if is_free(name, what):
                continue
            path.write_text(changed)
            tried += 1
            if problem := fault(name, root, sheet, whole, path):
                wrong[f"{path.relative_to(root)}, {what}"] = problem
        path.write_text(content)
    assert not wrong, "\n".join(f"{what}: {problem}" for what, problem in wrong.items())
    assert tried or not any(path.suffix in TEXTS for path in chosen(root))


def changes(path: Path, content: str) -> Iterator[tuple[str, str]]:
    """What may go wrong in a list: a line that is gone, and a field that holds nonsense."""
    if path.suffix == ".json":
        yield from json_changes(json.loads(content))
        return
    listed = content.splitlines(keepends=True)
    at = len(listed) // 2
    yield f"without line {at + 1}", "".join(listed[:at] + listed[at + 1 :])
    if path.suffix == ".jsonl":
        row = json.loads(listed[at])
        for field in row:
            for value in (NONSENSE, None, []):
                line = json.dumps({**row, field: value}) + "\n"
                yield f"line {at + 1}, {field} {value}", "".join([*listed[:at], line, *listed[at + 1 :]])
        return
    for match in list(re.finditer(r"[^,\t |#\n]+", listed[at]))[:24]:
        for value in (NONSENSE, ""):
            line = listed[at][: match.start()] + value + listed[at][match.end() :]
            yield f"line {at + 1}, {match[0]!r} is {value!r}", "".join([*listed[:at], line, *listed[at + 1 :]])


def json_changes(whole: Any) -> Iterator[tuple[str, str]]:
    """Each kind of leaf once, in the middle of its list: nonsense, null, a list, and gone; and an entry."""
    kinds: dict[str, list[Any]] = {}

    def walk(value: Any, steps: list[Any], kind: str) -> None:
        if isinstance(value, dict):
            kinds.setdefault(kind, steps)
            for key, inner in value.items():
                walk(inner, [*steps, key], f"{kind}.{key}")
        elif isinstance(value, list) and value:
            middle = len(value) // 2
            walk(value[middle], [*steps, middle], f"{kind}[]")
        else:
            kinds.setdefault(kind, steps)

    walk(whole, [], "")
    for kind, steps in kinds.items():
        for value in (NONSENSE, None, [], "gone"):
            if not steps or (kind.endswith("[]") and value == "gone"):
                continue
            parent, last = whole, steps[-1]
            for step in steps[:-1]:
                parent = parent[step]
            before = parent[last]
            if value == "gone":
                del parent[last]
            else:
                parent[last] = value
            changed = json.dumps(whole)  # a copy of all takes longer than a data set's reader
            parent[last] = before
            yield f"{kind} {value}", changed


@pytest.mark.parametrize("layout", [layout for layout, (name, _) in LAYOUTS.items() if layout == name])
def test_another_data_set_under_the_right_name(layout: str, folder_of: FolderOf, tmp_path: Path) -> None:
    name, root = folder_of(layout)
    tops = [path.name for path in root.iterdir() if path.is_dir()]
    wrong = {}
    for other in LAYOUTS:
        kind, foreign = folder_of(other)
        if kind == name or {kind, name} == {"clevr", "clevr-math"}:
            continue
        for number, inside in enumerate(sorted(foreign.iterdir())):
            folder = tmp_path / f"{other} {number}"
            folder.mkdir()
            for top in tops:
                (folder / top).symlink_to(inside)
            try:
                loaded = load_and_read(name, folder, SHEETS[name])
                wrong[f"{other}: {inside.name}"] = f"{loaded.counts} samples"
            except DataError as error:
                if "\n" in str(error):
                    wrong[f"{other}: {inside.name}"] = str(error)
            except Exception as error:  # noqa: BLE001 - likewise
                wrong[f"{other}: {inside.name}"] = f"{type(error).__name__}: {error}"
    assert not wrong, "\n".join(f"{what}: {problem}" for what, problem in wrong.items())


def test_maps_of_a_value_that_is_no_class_are_named(folder_of: FolderOf) -> None:
    for layout, path, value in (
        ("ade20k", "ADEChallengeData2016/annotations/validation/ADE_validat_00000000.png", 151),
        ("coco-164k", "coco/annotations/val2017/000000000000.png", 200),
    ):
        name, root = folder_of(layout)
        content = (root / path).read_bytes()
        Image.fromarray(np.full((4, 4), value, np.uint8)).save(root / path)
        with pytest.raises(DataError, match=f"{Path(path).name} has the value {value}"):
            load_and_read(name, root, None, root / path)
        (root / path).write_bytes(content)
