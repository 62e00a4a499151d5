"""A data set as ELEVATER's protocol takes it: all training images in the order of their list, none held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gate_data.cards import ICINW
from gate_data.data import Data, Split
from gate_data.errors import DataError
from gate_data.original_files import Arrays, Originals, Parts, Sample
from gate_data.pictures import Pictures
from gate_data.request import DataRequest


def without_validation(data: Data[Any]) -> Data[Any]:
    """The same training and test images, and no others, as ELEVATER's protocol takes a data set."""
    return replace(data, validation=data.train.take(torch.arange(0)))


def load_undivided(name: str, originals: Originals[Any] | None, request: DataRequest) -> Data[Any]:
    """One of the 20 sets in both of its own splits, in the order of their lists, from which shots are drawn."""
    content: Parts | Arrays
    if originals is None:
        from gate_data.hub.icinw import icinw_parts

        content = icinw_parts(name, request.root)
    elif request.root is None:
        raise DataError(f"data set {name!r} reads original files: give the folder that holds them (root, --data-root)")
    else:
        assert originals.content is not None
        content = originals.content(originals.find(request.root))

    lists = content.rows if isinstance(content, Arrays) else content

    def split(samples: Sequence[Sample]) -> Split:
        targets = torch.tensor([sample.target for sample in samples])
        if isinstance(content, Arrays):
            return Split(content.images(samples), targets).limited(request.limit)
        sources: list[Any] = [sample.source for sample in samples]  # stills
        images = Pictures.of(sources, request.size, ICINW[name].fit, transparency="drop")  # as vision-datasets has it
        return Split(images, targets).limited(request.limit)

    train, test = split(lists.train), split(lists.test)
    return Data(train, train.take(torch.arange(0)), test, content.classes, content.note)
