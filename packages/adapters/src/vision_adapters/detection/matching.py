"""COCO's greedy matching of detections with objects, all images and classes side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int

THRESHOLDS = np.linspace(0.5, 0.95, 10)
"""Overlaps (intersection over union) at which COCO's average precision is taken."""
MOST = 100
"""Detections of an image and class that count."""
_CELLS = 4_000_000


class PictureRows(Protocol):
    """Rows of several images, one image's after another's: columns by name, and how many rows each image has."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """By name, ``[m, ...]``."""
        ...

    @property
    def lengths(self) -> Any:
        """Of each image ``[n]``, summing to m."""
        ...


@dataclass(frozen=True, eq=False)
class Matches:
    """What became of detections and objects: columns by name ``[m]``, and the rows of each picture ``[n]``."""

    columns: Mapping[str, np.ndarray]
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)


def match_detections(truth: PictureRows, detections: PictureRows) -> Matches:
    """What became of each detection and object, from which average precision can be computed on any resample.

    For each image `truth` has a row per object: ``box`` (left, top, width, height), ``label``, ``crowd``;
    `detections` a row per detection: ``box``, ``label``, ``score``. The outcome has a row per detection and per object
    that counts: ``label``; ``score``, 0 for objects; ``hits`` and ``ignored``, one bit for each of the ten thresholds;
    ``truth``, True for objects. Of a class, the 100 best detections of an image are kept, best first.

    float64 throughout, in the order of pycocotools' operations, so that no overlap falls on another side of a
    threshold.

    Example:
        >>> truth = Matches({"box": np.array([[0.0, 0, 4, 4]]), "label": np.array([0]), "crowd": np.array([False])},
        ...                 np.array([1]))
        >>> detections = Matches({"box": np.array([[0.0, 0, 4, 3]]), "label": np.array([0]), "score": np.array([0.9])},
        ...                 np.array([1]))
        >>> [bin(int(hits)) for hits in match_detections(truth, detections).columns["hits"]]
        ['0b111111', '0b0']

    Source:
        pycocotools' ``evaluateImg``: detections by falling score, each takes the free object that it overlaps most; of
        equal overlaps the last; crowds only where nothing else fits, and as often as they are needed.
    """
    image = np.repeat(np.arange(len(truth.lengths)), detections.lengths)
    label, score, box = (np.asarray(detections.columns[name]) for name in ("label", "score", "box"))
    box = box.reshape(-1, 4).astype(np.float64)
    order = np.lexsort((-score, label, image))
    image, label, score, box = image[order], label[order].astype(np.int64), score[order].astype(np.float64), box[order]
    columns = truth.columns
    classes = int(max(label.max(initial=0), columns["label"].max(initial=0))) + 1
    keep = _places(image * classes + label) < MOST
    image, label, score, box = image[keep], label[keep], score[keep], box[keep]

    t_image = np.repeat(np.arange(len(truth.lengths)), truth.lengths)
    t_label, crowd = columns["label"], columns["crowd"].astype(bool)  # COCO writes 0 and 1
    t_order = np.lexsort((crowd, t_label, t_image))
    t_image, t_label, crowd, t_box = t_image[t_order], t_label[t_order], crowd[t_order], columns["box"][t_order]

    hits, ignored = _matched(image * classes + label, box, t_image * classes + t_label, t_box, crowd)
    counts = ~crowd
    rows = {
        "label": np.concatenate([label, t_label[counts]]).astype(np.int32),
        "score": np.concatenate([score, np.zeros(int(counts.sum()))]),
        "hits": np.concatenate([hits, np.zeros(int(counts.sum()), np.uint16)]),
        "ignored": np.concatenate([ignored, np.zeros(int(counts.sum()), np.uint16)]),
        "truth": np.concatenate([np.zeros(len(label), bool), np.ones(int(counts.sum()), bool)]),
    }
    truth_image = np.concatenate([image, t_image[counts]])
    by_image = np.argsort(truth_image, kind="stable")
    lengths = np.bincount(truth_image, minlength=len(truth.lengths))
    return Matches({name: column[by_image] for name, column in rows.items()}, lengths)


def overlaps(
    box: Float[np.ndarray, "*n 4"], rivals: Float[np.ndarray, "*n 4"], crowd: Bool[np.ndarray, "*n"]
) -> Float[np.ndarray, "*n"]:
    """Intersection over union; over the first box's own area where the other is a crowd."""
    ends = np.minimum(box[..., :2] + box[..., 2:], rivals[..., :2] + rivals[..., 2:])
    sides = ends - np.maximum(box[..., :2], rivals[..., :2])
    shared = np.where((sides > 0).all(axis=-1), sides[..., 0] * sides[..., 1], 0.0)
    own, its = box[..., 2] * box[..., 3], rivals[..., 2] * rivals[..., 3]
    union = np.where(crowd, own, own + its - shared)
    ratio: Float[np.ndarray, "*n"] = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return ratio


def _places(key: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    """The place of each row among those, one after another, that have its key."""
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    ranks: Int[np.ndarray, " m"] = np.arange(len(key)) - np.repeat(starts, np.diff(np.append(starts, len(key))))
    return ranks


def _matched(
    key: np.ndarray, box: np.ndarray, t_key: np.ndarray, t_box: np.ndarray, crowd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bits of hits and of ignored ones for each detection; keys are of image and class, and sorted."""
    hits, ignored = np.zeros(len(key), np.uint16), np.zeros(len(key), np.uint16)
    groups, first, sizes = np.unique(key, return_index=True, return_counts=True)
    t_groups, t_first, t_sizes = np.unique(t_key, return_index=True, return_counts=True)
    _, mine, theirs = np.intersect1d(groups, t_groups, assume_unique=True, return_indices=True)
    order = np.lexsort((-sizes[mine], t_sizes[theirs]))  # alike ones together, so that little is padded
    mine, theirs = mine[order], theirs[order]
    start = 0
    while start < len(mine):
        widest = int(t_sizes[theirs[start]])
        stop = start
        while stop < len(mine) and t_sizes[theirs[stop]] <= max(widest + 1, 1.25 * widest):
            stop += 1
        stop = min(stop, start + max(1, _CELLS // (len(THRESHOLDS) * int(t_sizes[theirs[stop - 1]]))))
        part, t_part = mine[start:stop], theirs[start:stop]
        _match_groups(box, first[part], sizes[part], t_box, crowd, t_first[t_part], t_sizes[t_part], hits, ignored)
        start = stop
    return hits, ignored


def _match_groups(
    box: np.ndarray,
    first: np.ndarray,
    sizes: np.ndarray,
    t_box: np.ndarray,
    crowd: np.ndarray,
    t_first: np.ndarray,
    t_sizes: np.ndarray,
    hits: np.ndarray,
    ignored: np.ndarray,
) -> None:
    """Match some images' detections of a class with its objects; ``hits`` and ``ignored`` are written to."""
    falling = np.argsort(-sizes, kind="stable")
    first, sizes, t_first, t_sizes = first[falling], sizes[falling], t_first[falling], t_sizes[falling]
    widest = int(t_sizes.max())
    truth_row = t_first[:, None] + np.minimum(np.arange(widest), t_sizes[:, None] - 1)
    real = np.arange(widest) < t_sizes[:, None]
    many = crowd[truth_row] & real
    free = np.repeat(real[:, None, :], len(THRESHOLDS), axis=1)
    least = np.minimum(THRESHOLDS, 1 - 1e-10)[None, :, None]
    bits = (1 << np.arange(len(THRESHOLDS))).astype(np.uint16)
    for step in range(int(sizes.max())):
        running = int(np.searchsorted(-sizes, -step, side="left"))  # groups with more than `step` detections
        if running == 0:
            break
        share = overlaps(box[first[:running] + step][:, None, :], t_box[truth_row[:running]], many[:running])
        able = free[:running] & (share[:, None, :] >= least)
        single = able & ~many[:running, None, :]
        chosen = np.where(single.any(axis=2, keepdims=True), single, able)
        value = np.where(chosen, share[:, None, :], -1.0)
        last = widest - 1 - np.argmax(value[:, :, ::-1], axis=2)
        matched = np.take_along_axis(chosen, last[..., None], axis=2)[..., 0]
        on_crowd = matched & np.take_along_axis(many[:running], last, axis=1)
        group, threshold = np.nonzero(matched & ~on_crowd)
        free[group, threshold, last[group, threshold]] = False
        rows = first[:running] + step
        hits[rows] = ((matched & ~on_crowd) * bits).sum(axis=1)
        ignored[rows] = (on_crowd * bits).sum(axis=1)
