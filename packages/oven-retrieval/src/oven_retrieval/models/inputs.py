"""What a training reads when a batch asks for it, and the features that it keeps on disk; needs the extra `torch`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oven_retrieval.encoding import as_array
from oven_retrieval.folder import FolderError
from oven_retrieval.models.trained import ReadPictures
from oven_retrieval.pictures import Size, height_width
from oven_retrieval.progress import Progress, Say
from oven_retrieval.vectors import VectorStore, build_vectors
from wary_files.durable import own_file
from wary_files.json_files import read_json


class Work:
    """`<output>.work`: the features that a killed training finds again."""

    def __init__(self, output: Path, identity: Mapping[str, Any], say: Say, progress: Progress | None = None) -> None:
        self.output, self.say, self.progress = output, say, progress
        self.path = own_file(output.with_name(output.name + ".work"))
        text = json.dumps(identity, sort_keys=True)
        self._hash = hashlib.sha256(text.encode()).hexdigest()
        file = own_file(self.path / "identity.json")
        if file.is_file():
            before = read_json(file)
            differing = [name for name in identity if before.get(name) != identity[name]]
            if differing:
                raise FolderError(
                    f"{self.path}: an unfinished training with other {', '.join(differing)} is there; remove it to "
                    "start again"
                )
            say(f"going on with {self.path}")
        elif self.path.is_dir() and any(self.path.iterdir()):  # what is left in it at the end is removed
            raise FolderError(f"{self.path}: expected the features of an unfinished training, it holds something else")
        self.path.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def encoded(
        self, name: str, count: int, encode: Callable[[int, int], Tensor], batch: int, *, kb: str = "",
        encoder: str = "features", dtype: str = "float32",
    ) -> VectorStore:  # fmt: skip
        """Vectors [count, d] of what `encode` encodes from row to row; what is there is not encoded again."""
        folder, kb, progress = self.path / name, kb or self._hash, self.progress
        if folder.is_dir():
            store = VectorStore(folder, kb=kb)
            if store.meta["encoder"] == encoder:
                return store

        def part(first: int, last: int) -> Any:
            with torch.no_grad():
                return as_array(encode(first, last))

        self.say(f"{name}: {count:,} to encode")
        return build_vectors(
            part,
            count,
            folder,
            kb=kb,
            encoder=encoder,
            dtype=dtype,
            chunk=batch,
            overwrite=True,
            progress=None if progress is None else lambda _, done, total: progress(name, done, total),
        )


class TextRows:
    """Texts as a model's inputs: rows are lists of texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __getitem__(self, rows: Any, /) -> list[str]:
        return [self._texts[row] for row in _numbers(rows, len(self._texts))]


class FeatureRows:
    """Stored features as a model's inputs, read from disk when they are asked for."""

    def __init__(self, stored: VectorStore, first: int, last: int) -> None:
        self._stored, self._first, self._last = stored, first, last

    def __getitem__(self, rows: Any, /) -> Tensor:
        numbers = np.array(_numbers(rows, self._last - self._first), dtype=np.int64) + self._first
        return torch.from_numpy(np.asarray(self._stored.array[numbers], dtype=np.float32))


class PictureRows:
    """Image files as a model's inputs, read when they are asked for; a black image where there is no file."""

    def __init__(self, files: Mapping[int, Path] | Sequence[Path], count: int, read: ReadPictures, size: Size) -> None:
        self._files = files if isinstance(files, Mapping) else dict(enumerate(files))
        self._count, self._read, self._size = count, read, size

    def __getitem__(self, rows: Any, /) -> Tensor:
        numbers = _numbers(rows, self._count)
        pictured = [i for i, row in enumerate(numbers) if row in self._files]
        read = self._read([self._files[numbers[i]] for i in pictured]) if pictured else None
        shape = (3, *height_width(self._size)) if read is None else tuple(read.shape[1:])
        batch = torch.zeros(len(numbers), *shape, dtype=torch.uint8 if read is None else read.dtype)
        if read is not None:
            batch[pictured] = read
        return batch


def _numbers(rows: Any, count: int) -> list[int]:
    """The rows of a slice, or of a tensor of numbers."""
    return list(range(*rows.indices(count))) if isinstance(rows, slice) else [int(row) for row in rows]
