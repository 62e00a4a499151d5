"""Splits as shards of WebDataset: tar archives that many machines read, each from its beginning."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_data.errors import DataError, StorageError, UsageError
from gate_data.pictures import Pictures
from gate_data.readers.folders import PICTURES
from gate_data.readers.source import Clip, Member, Source, read_bytes
from wary_files.durable import replacing

if TYPE_CHECKING:
    from gate_data.loading import SplitDataset, Splits

_LIST = "dataset.json"


def write_webdataset(
    splits: Splits, folder: str | PathLike[str], *, shard_size: int = 500_000_000, shard_count: int = 10_000
) -> list[Path]:
    """Write three splits as tar archives, ``train-000000.tar`` and so on, and the classes in ``dataset.json``.

    A still image keeps the bytes of its file (``.jpg``, ``.png``, …), a clip those of its video; a part of an image, a
    row of an array and what is in memory become ``.png``. Frames are numbered: ``.0.jpg``. A class index is ``.cls``,
    a value, labels or boxes are ``.json``, maps ``.npy``, texts ``.txt``, a line each. Equal splits give equal bytes.

    Args:
        splits: of `load`; their transforms are not applied.
        folder: where the archives come; it is made, or is empty.
        shard_size: bytes of one archive, at least those of one sample.
        shard_count: samples of one archive, at most.

    Returns:
        The archives in order. None is there under its name before it is whole.

    Raises:
        DataError: the folder holds files already, or an image cannot be read.
        StorageError: the folder cannot be written.

    Example:
        >>> import tempfile
        >>> from gate_data import load
        >>> [path.name for path in write_webdataset(load("digits", limit=30), tempfile.mkdtemp())]
        ['train-000000.tar', 'validation-000000.tar', 'test-000000.tar']
    """
    if shard_size < 1 or shard_count < 1:
        raise UsageError(f"shard_size and shard_count must be at least 1, not {shard_size} and {shard_count}")
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise DataError(f"{target} is not empty: shards are written to a new folder")
        written, counts = [], {}
        for name in ("train", "validation", "test"):
            paths = list(_shards(splits[name], name, target, shard_size, shard_count))
            counts[name] = len(splits[name])
            written += paths
        about = {"classes": list(splits.classes), "note": splits.note, "samples": counts}
        (target / _LIST).write_text(json.dumps(about, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise StorageError.about(target, error) from error
    return written


def _shards(split: SplitDataset, name: str, folder: Path, size: int, count: int) -> Iterator[Path]:
    position = number = 0
    while position < len(split):
        path = folder / f"{name}-{number:06d}.tar"
        with replacing(path) as partial, tarfile.open(partial, mode="x") as tar:
            start, held = position, 0
            while position < len(split) and position - start < count and (held < size or position == start):
                for ending, content in _parts(split, position):
                    info = tarfile.TarInfo(f"{position:09d}.{ending}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
                    held += len(content)
                position += 1
        number += 1
        yield path


def _parts(split: SplitDataset, position: int) -> Iterator[tuple[str, bytes]]:
    """The files of one sample: ending and content."""
    images = split.split.images
    if isinstance(images, Pictures):
        sources = images.files[position]
        for number, source in enumerate(sources):
            ending, content = _file(images, position, number, source)
            yield (ending if len(sources) == 1 else f"{number}.{ending}"), content
    else:
        from gate_data.items import as_pictures

        shown = as_pictures(images, position)
        frames = shown if isinstance(shown, tuple) else (shown,)
        for number, frame in enumerate(frames):
            yield ("png" if len(frames) == 1 else f"{number}.png"), _png(frame)
    texts = split.split.texts
    if texts:
        per_sample = len(texts) // len(split)
        lines = [" ".join(text.split()) for text in texts[per_sample * position : per_sample * (position + 1)]]
        yield "txt", "\n".join(lines).encode()
    yield from _target(split, position)


def _file(images: Pictures, position: int, number: int, source: Source) -> tuple[str, bytes]:
    file = source.source if isinstance(source, Clip) else source
    if isinstance(file, str | Member):
        ending = (file if isinstance(file, str) else file.name).lower().rpartition(".")[2]
        if isinstance(source, Clip) or f".{ending}" in PICTURES:
            return ending, read_bytes(file)
    return "png", _png(images.decoded(position)[number])


def _png(image: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _target(split: SplitDataset, position: int) -> Iterator[tuple[str, bytes]]:
    import torch

    from gate_data.boxes.objects import Objects

    targets = split.split.targets
    if isinstance(targets, Objects):
        rows = {name: column.tolist() for name, column in targets.rows[position].items()}
        yield "json", json.dumps({**rows, "size": targets.sizes[position].tolist()}).encode()
        return
    value = targets[position] if isinstance(targets, torch.Tensor) else targets.collate(torch.tensor([position]))
    if isinstance(value, dict):  # ragged answers
        yield "json", json.dumps({name: column[0].tolist() for name, column in value.items()}).encode()
    elif value.ndim > 1:
        file = io.BytesIO()
        np.save(file, (value[0] if value.ndim > 2 else value).numpy(), allow_pickle=False)
        yield "npy", file.getvalue()
    elif value.ndim == 0 and not value.is_floating_point():
        yield "cls", str(int(value)).encode()
    else:
        yield "json", json.dumps(value.tolist()).encode()
