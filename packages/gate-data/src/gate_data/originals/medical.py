"""Medical pictures: ACDC's hearts, findings in chest radiographs, grades of retinopathy, skin lesions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gate_data.errors import DataError
from gate_data.original_files import MAP_SIDE, Originals, Parts, Sample, counted, original
from gate_data.readers import ClassMap, Files, Row, by_stem, dealt, first_of, lines, nifti, place, table
from gate_data.readers.source import File
from gate_data.readers.splits import shuffled
from gate_data.request import DataRequest, height_width

if TYPE_CHECKING:  # they import torch, which whoever only lists files does without
    from torch import Tensor

    from gate_data.data import Data, Split

_HEARTS = "ACDC/database/training/patient001/patient001_frame01.nii.gz with _gt.nii.gz … and database/testing/"
_HEART = ("background", "right ventricle", "myocardium", "left ventricle")
_HEART_MAPS = ClassMap({value: value for value in range(4)})


def acdc_parts(folder: Path) -> Parts:
    """Volumes and their annotations, two frames of each patient."""
    nifti.library()
    lists = []
    for split in ("training", "testing"):
        samples = []
        for volume in sorted((folder / split).glob("patient*/patient*_frame[0-9]*.nii*")):
            name, _, ending = volume.name.partition(".")
            if not name.endswith("_gt") and not volume.with_name(f"{name}_gt.{ending}").is_file():
                raise DataError(f"{volume} has no annotation {name}_gt.{ending} beside it")
        for truth in sorted((folder / split).glob("patient*/patient*_frame*_gt.nii*")):
            name, _, ending = truth.name.partition("_gt")
            volume = truth.with_name(name + ending)
            if not volume.is_file():
                raise DataError(f"{truth} has no volume {volume.name} beside it")
            samples.append(Sample(str(volume), str(truth), group=truth.parent.name))
        if not samples:
            raise DataError(f"{folder / split} holds no patient*/patient*_frame*_gt.nii.gz")
        lists.append(samples)
    return Parts(lists[0], lists[1], classes=_HEART)


def _load_acdc(folder: Path, request: DataRequest) -> Data:
    """Slices, grouped by volume; a tenth of the training patients validates.

    Grey values go from a volume's 1st percentile to its 99th; slices are scaled to a square, their maps to 256 px by
    the nearest pixel. A limit is in slices: whole volumes are kept.
    """
    from gate_data.data import Data

    volumes = acdc_parts(folder)
    train, validation, test = (_slices(samples, request) for samples in volumes.splits(0.1, grouped=True).values())
    return Data(train, validation, test, _HEART, request.compared("", *counted(volumes)))


def _slices(volumes: Sequence[Sample], request: DataRequest) -> Split:
    import torch

    from gate_data.data import Split

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

    grey, labels = nifti.volume(Path(str(sample.source))), nifti.volume(Path(sample.target))
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


acdc = Originals(
    _HEARTS,
    place(_HEARTS, ("ACDC/database", "acdc/database", "ACDC", "acdc", "database"), "training/patient001"),
    acdc_parts,
    _load_acdc,
    acdc_parts,
)

_FINDINGS = ("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Pleural Effusion")
_UNCERTAIN = {"Atelectasis": 1, "Edema": 1}
"""What -1 counts as, where it is not 0: a common choice."""
_BATCHES = ("batch 1 (validate & csv)", "batch 2 (train 1)", "batch 3 (train 2)", "batch 4 (train 3)")
_CHEXPERT = ("", *(f"CheXpert-v1.0 {batch}/" for batch in _BATCHES))


@original(
    "CheXpert-v1.0-small/{train,valid}/ with train.csv and valid.csv, "
    "or CheXpert-v1.0 in one folder or its four batches",
    ("CheXpert-v1.0-small", "CheXpert-v1.0", "chexpert"),
    *((f"{inner}train.csv", f"{inner}valid.csv") for inner in _CHEXPERT),
    target="labels",
    share=0.05,
    grouped=True,
)
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
    """NIH's pictures with one of the five findings of the paper's CheXpert; the official lists, apart by patient."""
    entries = folder / "Data_Entry_2017_v2020.csv"
    if not entries.is_file() and (folder / "Data_Entry_2017.csv").is_file():
        entries = folder / "Data_Entry_2017.csv"
    pictures = by_stem([folder / "images", *(folder / f"images_{part:03}" / "images" for part in range(1, 13))])
    about = {}
    for row in table(entries, ["Image Index", "Finding Labels", "Patient ID"]):
        findings = row.text("Finding Labels").split("|")
        about[row.text("Image Index")] = (tuple(int(name in findings) for name in _FIVE), row.text("Patient ID"))
    lists = []
    for name in _NIH_SPLITS:
        samples = []
        for line, image in lines(folder / name):
            if image not in about:
                raise DataError(f"{folder / name}, line {line}: {image} is not in {entries.name}")
            labels, patient = about[image]
            if any(labels):
                if Path(image).stem not in pictures:
                    raise DataError(f"{folder / name}, line {line}: {image} is not there")
                samples.append(Sample(pictures[Path(image).stem], labels, group=patient))
        lists.append(samples)
    return Parts(lists[0], lists[1], classes=_FIVE, note="pictures without any of the five findings are left out")


def _one_hot(label: int, count: int) -> tuple[int, ...]:
    return tuple(int(label == index) for index in range(count))


_GRADES = ("none", "mild", "moderate", "severe", "proliferative")
_EYES = ("train", "resized_train/resized_train", "resized_train", "resized_train_cropped/resized_train_cropped")


@original(
    "diabetic/trainLabels.csv and train/ (or resized_train/resized_train/); "
    "for the official test retinopathy_solution.csv and test/",
    ("diabetic", "diabetic-retinopathy-detection", "diabetic-retinopathy-resized"),
    "trainLabels.csv",
    "trainLabels_cropped.csv",
    target="labels",
    share=0.05,
    grouped=True,
)
def diabetic(folder: Path) -> Parts:
    """EyePACS' grades: the official solution tests where it is there, else 80, 5 and 15 % of the training patients."""
    samples = _graded(first_of(folder, ("trainLabels.csv", "trainLabels_cropped.csv")), folder, _EYES)
    if (solution := folder / "retinopathy_solution.csv").is_file():
        return Parts(samples, _graded(solution, folder, ("test", "resized_test")), classes=_GRADES)
    rows = dealt([sample.group for sample in samples], (0.8, 0.05), [sample.target.index(1) for sample in samples])
    train, validation, test = ([samples[row] for row in part] for part in rows)
    return Parts(train, test, validation, _GRADES, "15 % of the training patients test: the official test is not here")


def _graded(path: Path, folder: Path, folders: tuple[str, ...]) -> list[Sample]:
    """A list's pictures; a patient's two eyes are one group."""
    pictures = by_stem(folder / name for name in folders)
    samples = []
    for row in table(path, ["image", "level"]):
        name = row.text("image")
        if name not in pictures:
            raise DataError(f"{row.where}: {name}.jpeg is in none of {', '.join(folders)}")
        grade = _one_hot(row.integer("level", 0, 4), len(_GRADES))
        samples.append(Sample(pictures[name], grade, group=name.partition("_")[0]))
    return samples


_LESIONS = ("bkl", "nv", "df", "mel", "vasc", "bcc", "akiec")
"""In the order of the paper's table."""
_METADATA = ("HAM10000_metadata.csv", "HAM10000_metadata.tab", "HAM10000_metadata")


@original(
    "ham10k/HAM10000_images_part_1/, HAM10000_images_part_2/ (folders or .zip) and HAM10000_metadata.csv or .tab",
    ("ham10k", "HAM10000", "skin-cancer-mnist-ham10000"),
    *_METADATA,
    target="labels",
)
def ham10k(folder: Path) -> Parts:
    """80, 5 and 15 % of the lesions, with the same shares of every class; a lesion's pictures stay on one side."""
    pictures = by_stem(
        folder / f"{name}_images_part_{part}{ending}"
        for name in ("HAM10000", "ham10000")
        for part in (1, 2)
        for ending in ("", ".zip")
    )
    index_of = {name: index for index, name in enumerate(_LESIONS)}
    samples, labels = [], []
    for row in table(first_of(folder, _METADATA), ["lesion_id", "image_id", "dx"]):
        label, name = row.one_of("dx", index_of), row.text("image_id")
        if name not in pictures:
            raise DataError(f"{row.where}: {name}.jpg is not there")
        samples.append(Sample(pictures[name], _one_hot(label, len(_LESIONS)), group=row.text("lesion_id")))
        labels.append(label)
    rows = dealt([sample.group for sample in samples], (0.8, 0.05), labels)
    train, validation, test = ([samples[row] for row in part] for part in rows)
    return Parts(train, test, validation, _LESIONS)
