"""Targets that are maps (a class or a number for each pixel) and stay in their files until they are looked at."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Shaped

from gate_data.path_list import PathList, packed
from gate_data.pictures import content_digests
from gate_data.readers.source import Source, name_bytes, stamp

if TYPE_CHECKING:  # whoever only lists files does without torch
    import torch
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Maps:
    """Square maps, indexed like a tensor ``[n, side, side]``, and read from their annotations at that moment.

    Args:
        files: the annotation of each sample.
        side: of the maps that come out, in pixels.
        read: from an annotation and a side to a map; raises DataError, which names the file and the value.
        pictures: the picture of each annotation, where they are compared: `read` takes it as ``picture``.
    """

    files: Sequence[Source]
    side: int
    read: Callable[..., np.ndarray]
    pictures: Sequence[Source] = ()

    def __post_init__(self) -> None:
        """Keep paths in one piece: as objects, each worker of a loader would copy them."""
        object.__setattr__(self, "files", packed(self.files))
        object.__setattr__(self, "pictures", packed(self.pictures))

    @property
    def shape(self) -> torch.Size:
        """What indexing all of them would give."""
        import torch

        return torch.Size((len(self.files), self.side, self.side))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int | slice | Tensor) -> Shaped[Tensor, "*n s s"]:
        """Read one map, or those of a slice or of a vector of numbers."""
        import torch

        if not isinstance(index, slice | torch.Tensor):
            return torch.from_numpy(self.map_of(index))
        chosen = self.take(range(len(self))[index] if isinstance(index, slice) else index.tolist())
        if not len(chosen):
            return torch.empty(0, self.side, self.side, dtype=torch.int16)
        with ThreadPoolExecutor() as pool:
            return torch.from_numpy(np.stack(list(pool.map(chosen.map_of, range(len(chosen))))))

    def map_of(self, position: int, *, whole: bool = False) -> np.ndarray:
        """Read the map of a sample, of `side` or as large as its file has it, as it is on the image that is seen."""
        about = {"picture": self.pictures[position]} if len(self.pictures) else {}
        return self.read(self.files[position], None if whole else self.side, **about)

    def take(self, index: Sequence[int]) -> Maps:
        """Those of the samples at these positions; nothing is read."""
        return replace(self, files=_taken(self.files, index), pictures=_taken(self.pictures, index))

    @cached_property
    def contents(self) -> tuple[bytes, ...]:
        """A digest of what each annotation's file holds, and of the place in it; read once."""
        return tuple(
            name_bytes(f"{digest} {source[1:]}") for digest, source in zip(self._digests, self.files, strict=True)
        )

    @cached_property
    def _digests(self) -> tuple[str, ...]:
        """Of the annotations' files; no file is opened that did not change since they were remembered."""
        return content_digests(self.files, b"maps")

    def note_in(self, digest: hashlib._Hash) -> None:
        """Add every annotation's folder, name, size and content to a digest."""
        for source, content in zip(self.files, self._digests, strict=True):
            digest.update(name_bytes(f"{stamp(source)} {content}\n"))

    def collate(self, index: Any) -> Tensor:
        """Those of the samples at these positions, as a loss takes them."""
        import torch

        return self[torch.as_tensor(index)]


def _taken(sources: Sequence[Source], index: Sequence[int]) -> Sequence[Source]:
    if isinstance(sources, PathList):
        taken: Sequence[Source] = sources.take(index)
        return taken
    return tuple(sources[at] for at in index) if len(sources) else ()
