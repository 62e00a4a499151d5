"""Medical images: ACDC's hearts, findings in chest radiographs, grades of retinopathy, skin lesions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gate_data.data import Data, Split
from gate_data.errors import DataError
from gate_data.original_files import MAP_SIDE, Parts, Sample, counted, of_card, original
from gate_data.readers import ClassMap, Files, Row, by_stem, dealt, first_of, lines, nifti, table
from gate_data.readers.source import File
from gate_data.readers.splits import shuffled
from gate_data.request import DataRequest, height_width

if TYPE_CHECKING:  # whoever only lists files does without torch
    from torch import Tensor

_HEART = ("background", "right ventricle", "myocardium", "left ventricle")
_HEART_MAPS = ClassMap({value: value for value in range(4)})


@of_card("acdc")
def _acdc(folder: Path) -> Parts:
    """Volumes and their annotations, two frames of each patient."""
    nifti.library()
    lists = []
    for split in ("training", "testing"):
        files = sorted((folder / split).glob("patient*/patient*_frame[0-9]*.nii*"))
        for file in files:
            name, _, ending = file.name.partition(".")
            other = name.removesuffix("_gt") if name.endswith("_gt") else f"{name}_gt"
            if not file.with_name(f"{other}.{ending}").is_file():
                raise DataError(f"{file} has no {other}.{ending} next to it")
        truths = [file for file in files if "_gt." in file.name]
        if not truths:
            raise DataError(f"{folder / split} holds no patient*/patient*_frame*_gt.nii.gz")
        volumes = [str(truth.with_name(truth.name.replace("_gt.", "."))) for truth in truths]
        pairs = zip(volumes, truths, strict=True)
        lists.append([Sample(volume, str(truth), group=truth.parent.name) for volume, truth in pairs])
    return Parts(lists[0], lists[1], classes=_HEART)


def _load_acdc(folder: Path, request: DataRequest) -> Data:
    """Slices, grouped by volume; a tenth of the training patients validates.

    Grey values go from a volume's 1st percentile to its 99th; slices are scaled to a square, their maps to 256 px by
    the nearest pixel. A limit is in slices: whole volumes are kept.
    """
    assert _acdc.parts is not None
    volumes = _acdc.parts(folder)
    train, validation, test = (_slices(samples, request) for samples in volumes.splits(0.1, grouped=True).values())
    return Data(train, validation, test, _HEART, request.compared("", *counted(volumes)))


def _slices(volumes: Sequence[Sample], request: DataRequest) -> Split:
    import torch

    images, maps, groups = [], [], []
    count = 0
    for number, sample in enumerate(volumes if request.limit is None else shuffled(volumes)):
        if request.limit is not None and count >= request.limit:
            break
        picture, truth = _volume(sample, height_width(request.size))
        images.append(picture)
        maps.append(truth)
        groups.append(torch.full((len(picture),), number))
        count += len(picture)
    return Split(torch.cat(images), torch.cat(maps), groups=torch.cat(groups))


def _volume(sample: Sample, side: tuple[int, int]) -> tuple[Tensor, Tensor]:
    import torch
    from torch.nn import functional as F

    paths = Path(str(sample.source)), Path(sample.target)
    grey, labels = map(nifti.volume, paths)
    if not np.isfinite(grey).all():
        raise DataError(f"{sample.source} holds NaN or infinity in {int((~np.isfinite(grey)).sum()):,} places")
    first, second = map(nifti.orientation, paths)
    if first and second and first != second:
        raise DataError(
            f"{sample.target} has its axes to {', '.join(second)}, its volume to {', '.join(first)}; expected the same"
        )
    if grey.shape != labels.shape:
        raise DataError(f"{sample.target} has the shape {labels.shape}, its volume {grey.shape}; expected the same")
    if not np.array_equal(labels, labels.round()):
        raise DataError(f"{sample.target} has values that are no whole numbers")
    flat = _HEART_MAPS.apply(labels.astype(np.int64).reshape(len(labels), -1), sample.target).reshape(labels.shape)
    low, high = np.percentile(grey, (1, 99))
    scaled = torch.from_numpy(nifti.slices(np.clip((grey - low) / max(high - low, 1e-6), 0, 1)))[:, None]
    truths = torch.from_numpy(nifti.slices(flat))[:, None]
    picture = F.interpolate(scaled, side, mode="bicubic", antialias=True, align_corners=False).clamp(0, 1)
    maps = F.interpolate(truths, (MAP_SIDE, MAP_SIDE), mode="nearest-exact")[:, 0].to(torch.int16)
    return picture.mul(255).round().byte().expand(-1, 3, -1, -1), maps


acdc = replace(_acdc, load=_load_acdc)

_FINDINGS = ("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Pleural Effusion")
_UNCERTAIN = {"Atelectasis": 1, "Edema": 1}
"""What -1 counts as, where it is not 0: a common choice."""
_BATCHES = ("batch 1 (validate & csv)", "batch 2 (train 1)", "batch 3 (train 2)", "batch 4 (train 3)")
_CHEXPERT = ("", *(f"CheXpert-v1.0 {batch}/" for batch in _BATCHES))


@of_card("chexpert")
def chexpert(folder: Path) -> Parts:
    """Patients of ``train.csv``; the test is ``valid.csv``, or the official test where its labels are there."""
    lists = first_of(folder, [f"{inner}train.csv" for inner in _CHEXPERT]).parent
    places = [Files(folder / inner) for inner in _CHEXPERT]
    official = next((path for root in (folder, lists) if (path := root / "groundtruth.csv").is_file()), None)
    train, test = (
        [_chexpert_sample(row, places) for row in table(path, ["Path", *_FINDINGS])]
        for path in (lists / "train.csv", official or lists / "valid.csv")
    )
    note = "not what the paper calls CheXpert: its rows are NIH ChestX-ray14"
    return Parts(train, test, classes=_FINDINGS, note=note if official is None else f"official test labels; {note}")


def _chexpert_sample(row: Row, places: list[Files]) -> Sample:
    steps = row.text("Path").split("/")
    patient = next((step for step in steps if step.startswith("patient")), "")
    if not patient:
        raise row.error("Path", "a path with the patient's folder")
    labels = []
    for finding in _FINDINGS:
        value = row.number(finding, -1, 1, blank=0)
        labels.append(_UNCERTAIN.get(finding, 0) if value == -1 else int(value))
    return Sample(_radiograph(row, steps, places), tuple(labels), group=patient)


def _radiograph(row: Row, steps: list[str], places: list[Files]) -> File:
    """The path less the archive's name; in the batches, whose folders begin with the patients, less the split's too."""
    for less in (1, 2, 0):
        name = "/".join(steps[less:])
        for files in places:
            if name in files:
                return files.get(name, row.where)
    raise DataError(f"{row.where}: {'/'.join(steps)} is not there")


_FIVE = ("Cardiomegaly", "Mass", "Nodule", "Pneumothorax", "Edema")
_NIH_SPLITS = ("train_val_list.txt", "test_list.txt")


@original(
    "nih/images_001/images/ … or images/, Data_Entry_2017_v2020.csv, train_val_list.txt and test_list.txt",
    ("nih", "NIH", "chestxray14", "ChestX-ray14"),
    _NIH_SPLITS,
    target="labels",
    share=0.05,
    grouped=True,
)
def chestxray14(folder: Path) -> Parts:
    """NIH's images with one of the five findings of the paper's CheXpert; the official lists, apart by patient."""
    entries = folder / "Data_Entry_2017_v2020.csv"
    if not entries.is_file() and (folder / "Data_Entry_2017.csv").is_file():
        entries = folder / "Data_Entry_2017.csv"
    pictures = by_stem([folder / "images", *(folder / f"images_{part:03}" / "images" for part in range(1, 13))])
    about = {}
    for row in table(entries, ["Image Index", "Finding Labels", "Patient ID"]):
        findings = row.text("Finding Labels").split("|")
        about[row.text("Image Index")] = (tuple(int(name in findings) for name in _FIVE), row.text("Patient ID"))
    lists: list[list[Sample]] = []
    for name in _NIH_SPLITS:
        lists.append([])
        for line, image in lines(folder / name):
            where = f"{folder / name}, line {line}"
            if image not in about:
                raise DataError(f"{where}: {image} is not in {entries.name}")
            labels, patient = about[image]
            if any(labels):
                lists[-1].append(Sample(_picture(pictures, Path(image).stem, where), labels, group=patient))
    return Parts(lists[0], lists[1], classes=_FIVE, note="images without any of the five findings are left out")


def _picture(pictures: Mapping[str, File], stem: str, where: str) -> File:
    if stem not in pictures:
        raise DataError(f"{where}: the image {stem} is not there")
    return pictures[stem]


def _one_hot(label: int, count: int) -> tuple[int, ...]:
    return tuple(int(label == index) for index in range(count))


_GRADES = ("none", "mild", "moderate", "severe", "proliferative")
_EYES = ("train", "resized_train/resized_train", "resized_train", "resized_train_cropped/resized_train_cropped")


@of_card("diabetic")
def diabetic(folder: Path) -> Parts:
    """EyePACS' grades: the official solution tests where it is there, else 80, 5 and 15 % of the training patients."""
    samples = _graded(first_of(folder, ("trainLabels.csv", "trainLabels_cropped.csv")), folder, _EYES)
    if (solution := folder / "retinopathy_solution.csv").is_file():
        return Parts(samples, _graded(solution, folder, ("test", "resized_test")), classes=_GRADES)
    rows = dealt([sample.group for sample in samples], (0.8, 0.05), [sample.target.index(1) for sample in samples])
    train, validation, test = ([samples[row] for row in part] for part in rows)
    return Parts(train, test, validation, _GRADES, "15 % of the training patients test: the official test is not here")


def _graded(path: Path, folder: Path, folders: tuple[str, ...]) -> list[Sample]:
    """A list's images; a patient's two eyes are one group."""
    pictures = by_stem(folder / name for name in folders)
    named = ((row.text("image"), row) for row in table(path, ["image", "level"]))
    return [
        Sample(
            _picture(pictures, name, row.where),
            _one_hot(row.integer("level", 0, 4), len(_GRADES)),
            group=name.partition("_")[0],
        )
        for name, row in named
    ]


_LESIONS = ("bkl", "nv", "df", "mel", "vasc", "bcc", "akiec")
"""In the order of the paper's table."""
_METADATA = ("HAM10000_metadata.csv", "HAM10000_metadata.tab", "HAM10000_metadata")


@of_card("ham10k")
def ham10k(folder: Path) -> Parts:
    """80, 5 and 15 % of the lesions, with the same shares of every class; a lesion's images stay on one side."""
    pictures = by_stem(
        folder / f"{name}_images_part_{part}{ending}"
        for name in ("HAM10000", "ham10000")
        for part in (1, 2)
        for ending in ("", ".zip")
    )
    index_of = {name: index for index, name in enumerate(_LESIONS)}
    samples, labels = [], []
    for row in table(first_of(folder, _METADATA), ["lesion_id", "image_id", "dx"]):
        labels.append(row.one_of("dx", index_of))
        picture = _picture(pictures, row.text("image_id"), row.where)
        samples.append(Sample(picture, _one_hot(labels[-1], len(_LESIONS)), group=row.text("lesion_id")))
    rows = dealt([sample.group for sample in samples], (0.8, 0.05), labels)
    train, validation, test = ([samples[row] for row in part] for part in rows)
    return Parts(train, test, validation, _LESIONS)
