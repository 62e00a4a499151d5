"""The files of one's own test images, beside what was predicted of each: a result's rows by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_data.pictures import Pictures
from gate_data.readers.source import file_of, named_from

if TYPE_CHECKING:
    from gate_data.data import Data
    from gate_runner.tasks.job import Outcome


def rows_by_file(
    data: Data[Any], outcome: Outcome, root: Path, order: Sequence[int] | None = None
) -> dict[str, np.ndarray]:
    """Return the arrays that tell whose outcomes a result holds; empty if they are not one for each image file.

    Args:
        data: what was tested.
        outcome: its samples and predictions.
        root: the folder that names start from; the folder of all images, if they lie elsewhere.
        order: positions in the test split, if not all of it was tested.

    Returns:
        ``files`` ``[n]``; of classifications ``truth`` ``[n]``, an index into ``classes`` ``[k]``, too, and
        ``confidence`` ``[n]``, the probability of the predicted class; ``distributions`` ``[n, k]``, those of all
        classes in half precision, if they are not too many.
    """
    import torch

    test = data.test if order is None else data.test.take(torch.tensor(order))
    if not isinstance(test.images, Pictures) or len(test) != len(outcome.samples):
        return {}
    from gate_runner.runs.slicing import as_rows

    start = _start(data, root)
    names = [named_from(tuple(sources), start) for sources in test.images.files]
    rows: dict[str, np.ndarray] = {"files": np.array(names), **as_rows(test.columns)}
    if "by_class" in outcome.training or outcome.confidence is not None:
        rows |= {"truth": np.asarray(test.targets).astype(np.int32), "classes": np.array(list(data.classes))}
        if outcome.confidence is not None:
            rows["confidence"] = outcome.confidence
        if outcome.distributions is not None:
            rows["distributions"] = outcome.distributions
    return rows


def wrong(rows: Mapping[str, np.ndarray], predicted: np.ndarray) -> list[tuple[str, str, str, float | str]]:
    """Return file, truth, prediction and confidence of what was predicted wrongly, the surest first."""
    classes, truth, files = rows["classes"], rows["truth"], rows["files"]
    confidence = rows.get("confidence")
    places = np.flatnonzero(predicted != truth)
    if confidence is not None:
        places = places[np.argsort(-confidence[places], kind="stable")]
    return [
        (str(files[at]), str(classes[truth[at]]), str(classes[predicted[at]]),
         "" if confidence is None else float(confidence[at]))
        for at in places
    ]  # fmt: skip


def _start(data: Data[Any], root: Path) -> str:
    """The folder that all images are named from."""
    start = os.path.abspath(root)  # noqa: PTH100 - links stay
    splits = [split.images.files for split in (data.train, data.validation, data.test)
              if isinstance(split.images, Pictures)]  # fmt: skip
    folders = {os.path.dirname(os.path.abspath(file_of(source)))  # noqa: PTH100, PTH120 - for a million of them
               for files in splits for sources in files for source in sources}  # fmt: skip
    if all(folder == start or folder.startswith(start + os.sep) for folder in folders):
        return start
    return os.path.commonpath(folders)
