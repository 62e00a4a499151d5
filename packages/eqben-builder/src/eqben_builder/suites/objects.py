"""Cola's single objects: pictures ranked for each of some hundred descriptions, such as "square white plate"."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from eqben_builder.scoring.intervals import check_sampling, share_of
from eqben_builder.scoring.similarity import unit_rows
from eqben_builder.suites.files import Files, Pixels
from eqben_builder.suites.retrieval import GalleryLine, GalleryTable
from eqben_builder.untrusted import load_json

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float64
    from numpy.typing import NDArray

    from eqben_builder.formats import Picture

#: The three files, by where their pictures come from.
COLA = ("GQA", "CLEVR", "PACO")
_FOLDERS = ("{}", "images/{}", "vg_gqa_images/{}", "VG_100K/{}", "VG_100K_2/{}", "train2017/{}", "val2017/{}")


@dataclass(frozen=True, eq=False)
class ObjectGallery:
    """Pictures, descriptions, and which of them fit.

    Args:
        name: "cola-objects GQA" and the like.
        images: The pictures.
        captions: The descriptions, one a class.
        fits: [pictures, classes]: whether the description is true of something in the picture.
        hard: [pictures, classes]: whether the picture counts for the class: it has some of the words.
        notes: What a reader of the scores should know.

    Example:
        >>> ones = np.ones((1, 1), bool)
        >>> ObjectGallery("cola-objects GQA", (None,), ("a square white plate",), ones, ones).captions
        ('a square white plate',)
    """

    name: str
    images: tuple[Picture, ...]
    captions: tuple[str, ...]
    fits: Bool[np.ndarray, "i c"]
    hard: Bool[np.ndarray, "i c"]
    notes: tuple[str, ...] = ()


def read_objects(root: str | Path, name: str, *, pixels: Pixels = "official") -> ObjectGallery:
    """Cola's `data/COLA_singleobjects_benchmark_NAME.json`: labels, and rows of picture, annotation, label, hard list.

    Args:
        root: The data root; the file lies in its folder `cola`, or in the root itself.
        name: "GQA", "CLEVR" or "PACO".
        pixels: How pictures are decoded, as in `read_suite`.

    Raises:
        ValueError: Another name; file, row and field that is wrong.
        FileNotFoundError: No such file; pictures that are missing, counted: a smaller gallery is an easier one.

    Example:
        >>> import json, tempfile
        >>> from PIL import Image
        >>> root = Path(tempfile.mkdtemp())
        >>> Image.new("RGB", (2, 2)).save(root / "1.jpg")
        >>> content = {"labels": ["red cup", "blue cup"], "data": [["x/1.jpg", {}, [1, 0], [1, 1]]]}
        >>> _ = (root / "COLA_singleobjects_benchmark_GQA.json").write_text(json.dumps(content))
        >>> read_objects(root, "GQA").fits.tolist()
        [[True, False]]

    Source:
        arijitray1993/COLA at 1fa52fb.
    """
    if name not in COLA:
        raise ValueError(f"Cola's single objects {name!r}: expected one of {', '.join(COLA)}")
    files = Files(Path(root), "cola", pixels)
    path = files.find(*(f"{folder}COLA_singleobjects_benchmark_{name}.json" for folder in ("data/", "")))
    labels, data = _two_parts(load_json(path), path)
    images: list[Picture] = []
    marks: list[tuple[list[int], list[int]]] = []
    for number, row in enumerate(data):
        where = f"{path}, row {number}"
        if not isinstance(row, list) or len(row) < 3 or not isinstance(row[0], str):
            raise ValueError(f"{where}: expected [picture, annotation, label, hard list], found {str(row)[:60]}")
        fits, hard = row[-2], row[-1]
        for kind, values in (("label", fits), ("hard list", hard)):
            if not isinstance(values, list) or len(values) != len(labels) or not set(values) <= {0, 1}:
                raise ValueError(f"{where}: the {kind} should be {len(labels)} times 0 or 1")
        base = PurePosixPath(row[0]).name
        picture = files.picture(*(form.format(base) for form in _FOLDERS))
        if isinstance(picture, str):
            files.missing[picture] += 1
            continue
        images.append(picture)
        marks.append((fits, hard))
    files.refuse_missing(len(data), f"Cola's single objects ({name})")
    if not images:
        raise ValueError(f"{path} holds no picture")
    fit, counted = (np.array([pair[k] for pair in marks], dtype=bool) for k in (0, 1))
    empty = int((~(fit & counted).any(axis=0)).sum())
    notes = (f"{empty} of {len(labels)} classes have no right picture among the hard ones, and do not count",)
    return ObjectGallery(f"cola-objects {name}", tuple(images), tuple(labels), fit, counted, notes if empty else ())


def _two_parts(content: object, path: Path) -> tuple[list[str], list[object]]:
    """The README says an object with labels and data, the authors' code takes a list of the two."""
    parts = [content.get("labels"), content.get("data")] if isinstance(content, dict) else content
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, list) and part for part in parts):
        raise ValueError(f"{path}: expected labels and data, found {str(content)[:60]}")
    if not all(isinstance(label, str) for label in parts[0]):
        raise ValueError(f"{path}: labels should be texts, found {str(parts[0])[:60]}")
    return parts[0], parts[1]


def object_table(
    gallery: ObjectGallery,
    images: Float[np.ndarray, "i d"],
    texts: Float[np.ndarray, "c d"],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> GalleryTable:
    """Mean over classes of the average precision with which their hard pictures are ranked, as Cola has it.

    AP = sum over thresholds of (recall_k - recall_{k-1}) precision_k; equal scores are one threshold.

    Args:
        gallery: What `read_objects` gave.
        images: Features of its pictures; cosines are taken.
        texts: Features of its descriptions.
        level: Of the interval, in (0, 1).
        resamples: Bootstrap samples of classes, at least 1.
        seed: Of the bootstrap.

    Returns:
        A `GalleryTable` with two lines: over hard pictures (the authors' score) and over all.

    Raises:
        ValueError: Other numbers of features; features that are all zero or not finite.

    Example:
        >>> fits = np.eye(2, dtype=bool)
        >>> gallery = ObjectGallery("cola-objects GQA", (None, None), ("a", "b"), fits, np.ones((2, 2), bool))
        >>> object_table(gallery, np.eye(2), np.eye(2)).lines[0].score.value
        1.0
    """
    check_sampling(level, resamples)
    if (len(images), len(texts)) != gallery.fits.shape:
        raise ValueError(f"{len(images)} and {len(texts)} features for {gallery.fits.shape} pictures and classes")
    unit = [unit_rows(rows, len(rows), kind, None) for rows, kind in ((images, "pictures"), (texts, "classes"))]
    similar = unit[0] @ unit[1].T
    lines = []
    for name, counted in (("hard", gallery.hard), ("all", np.ones_like(gallery.hard))):
        queries = np.flatnonzero((gallery.fits & counted).any(axis=0))
        if not len(queries):
            raise ValueError(f"{gallery.name}: no class has a right picture among the {name} ones")
        rows = [(similar[counted[:, k], k], gallery.fits[counted[:, k], k]) for k in queries]
        values = np.array([average_precision(scores, right) for scores, right in rows])
        chance = float(np.mean([_chance(len(right), int(right.sum())) for _, right in rows]))
        drawn = np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))
        share = share_of(float(values.mean()), values[drawn].mean(axis=1), chance, len(values), (1 - level) / 2)
        lines.append(GalleryLine(name, "text to image", "mAP", share, len(values), {}))
    return GalleryTable(gallery.name, len(images), len(texts), tuple(lines), gallery.notes)


def average_precision(scores: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> float:
    """Area under precision and recall as a sum of steps; equal scores are one step."""
    order = np.argsort(-scores, kind="stable")
    hits: Float64[NDArray[np.float64], " n"] = np.cumsum(right[order], dtype=np.float64)
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    gained = np.diff(hits[last], prepend=0.0)
    return float((gained * hits[last] / (last + 1)).sum() / hits[-1])


def _chance(count: int, right: int) -> float:
    """Of a random order: rank r is right with R / N, and then (r - 1)(R - 1)/(N - 1) more are expected before it."""
    if count == 1:
        return 1.0
    harmonic = float((1 / np.arange(1, count + 1)).sum())
    return (right - 1) / (count - 1) + (count - right) / (count - 1) * harmonic / count
