"""Several sets of captioned images as one to train on: Flickr30k and COCO, or shards of many sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gate_data.captioned import Captioned, CaptionedSplit
from gate_data.pictures import Pictures
from gate_runner.errors import DataError
from gate_runner.finetuning.pairs import read_captioned


def read_several(names: Sequence[str], **how: Any) -> Captioned:
    """Read sets one by one, as `read_captioned` does with ``how``, and put their splits behind one another.

    Args:
        names: folders, tables, shards or benchmarks, at least one.
        how: further arguments of `read_captioned`, which hold for each set: ``limit`` counts in each.

    Raises:
        DataError: sets that cannot be in one batch: known pairs beside single images, files beside images in
            memory, or files that are read in another way; or a file that one set trains on and another holds out. The
            message has both names.
    """
    sets = [read_captioned(name, **how) for name in names]
    if len(sets) == 1:
        return sets[0]
    train = _joined(names, [captioned.train for captioned in sets])
    validation = _joined(names, [captioned.validation for captioned in sets])
    _check_apart(names, sets)
    notes = [f"{name}: {note}" for name, captioned in zip(names, sets, strict=True) for note in captioned.notes]
    counts = ", ".join(f"{len(captioned.train):,} of {name}" for name, captioned in zip(names, sets, strict=True))
    return Captioned(train, validation, (f"samples to train on: {counts}", *notes))


def _joined(names: Sequence[str], splits: Sequence[CaptionedSplit]) -> CaptionedSplit:
    first = splits[0]
    for name, split in zip(names[1:], splits[1:], strict=True):
        if split.pictures_each != first.pictures_each:
            raise DataError(
                f"{names[0]} has {first.pictures_each} images a sample, and {name} {split.pictures_each}: train on "
                "known pairs and on single images apart"
            )
        if _kind(split) != _kind(first):
            raise DataError(
                f"images of {names[0]} are {_kind(first)}, those of {name} {_kind(split)}: write both as files, read "
                "alike"
            )
    captions = [forms for split in splits for forms in split.captions]
    negatives = [false for split in splits for false in (split.negatives or [()] * len(split))]
    return CaptionedSplit(_pictures(splits), captions, negatives if any(negatives) else ())


def _kind(split: CaptionedSplit) -> str:
    pictures = split.pictures
    if isinstance(pictures, Pictures):
        return f"files (fit {pictures.fit}, transparency {pictures.transparency})"
    return f"in memory at {pictures.shape[-2]} x {pictures.shape[-1]} pixels"


def _pictures(splits: Sequence[CaptionedSplit]) -> Any:
    pictures = [split.pictures for split in splits]
    if isinstance(pictures[0], Pictures):
        files = [sources for each in pictures if isinstance(each, Pictures) for sources in each.files]
        return replace(pictures[0], files=files)
    import torch

    return torch.cat([each for each in pictures if isinstance(each, torch.Tensor)])


def _check_apart(names: Sequence[str], sets: Sequence[Captioned]) -> None:
    """Refuse a file that one set trains on and another chooses by."""
    held = {
        source: name
        for name, captioned in zip(names, sets, strict=True)
        if isinstance(captioned.validation.pictures, Pictures)
        for sources in captioned.validation.pictures.files
        for source in sources
    }
    for name, captioned in zip(names, sets, strict=True):
        if not isinstance(captioned.train.pictures, Pictures):
            continue
        for sources in captioned.train.pictures.files:
            for source in sources:
                if held.get(source, name) != name:
                    raise DataError(f"{source} is trained on in {name}, and held out of {held[source]}: leave one out")
