"""A data set as ELEVATER's protocol takes it: all training pictures in the order of their list, none held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from gate_data.cards.icinw import ICINW
from gate_data.data import Data, Split
from gate_data.errors import DataError
from gate_data.originals.icinw.form import Arrays, IcinwOriginals, as_split, class_names
from gate_data.pictures import Pictures

if TYPE_CHECKING:
    from gate_data.original_files import Originals, Parts, Sample
    from gate_data.readers.decode import Fit
    from gate_data.request import DataRequest


def without_validation(data: Data[Any]) -> Data[Any]:
    """The same training and test pictures, and no others."""
    return _undivided(data.train, data.test, data.classes, data.note)


def load_icinw(name: str, originals: Originals[Any] | None, request: DataRequest) -> Data[Any]:
    """One of ELEVATER's 20 sets in both of its own splits, as they are."""
    parts = _parts(name, originals, request)
    if isinstance(parts, Arrays):
        train, test = (as_split(side).limited(request.limit) for side in (parts.train, parts.test))
        return _undivided(train, test, class_names(name), ICINW[name].note)
    train, test = (
        _split(side, request.size, ICINW[name].fit).limited(request.limit) for side in (parts.train, parts.test)
    )
    return _undivided(train, test, parts.classes, parts.note)


def _undivided(train: Split, test: Split, classes: tuple[str, ...], note: str) -> Data[Any]:
    return Data(train, train.take(torch.arange(0)), test, classes, note)


def _parts(name: str, originals: Originals[Any] | None, request: DataRequest) -> Parts | Arrays:
    """Both splits as files, or as arrays."""
    if originals is None:
        from gate_data.hub.icinw import icinw_parts

        return icinw_parts(name, request.root)
    if request.root is None:
        raise DataError(f"data set {name!r} reads original files: give --data-root")
    assert isinstance(originals, IcinwOriginals)
    assert originals.sides is not None
    return originals.sides(originals.find(request.root))


def _split(samples: Sequence[Sample], size: int, fit: Fit) -> Split:
    """Samples in the order of their list, which is what shots are drawn from; no picture is read."""
    targets = torch.tensor([sample.target for sample in samples])
    sources: list[Any] = [sample.source for sample in samples]  # stills
    return Split(Pictures.of(sources, size, fit, transparency="drop"), targets)  # as vision-datasets reads them
