"""What a builder is, and what it makes of one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt8


@dataclass(frozen=True)
class Made:
    """One pair, in memory.

    Args:
        images: Two uint8 pictures [height, width, 3].
        captions: One for each.
        aspect: One of the builder's aspects.
        source: JSON-ready; what makes the pair again.
        certificate: JSON-ready; what was checked.
        mask: Where the change may show, bool [height, width]; stored beside the pictures as `masks/...png`.
        licence: Where it is not the builder's.
    """

    images: tuple[UInt8[np.ndarray, "h w 3"], UInt8[np.ndarray, "h w 3"]]
    captions: tuple[str, str]
    aspect: str
    source: Mapping[str, Any] = field(default_factory=dict)
    certificate: Mapping[str, Any] = field(default_factory=dict)
    mask: Bool[np.ndarray, "h w"] | None = None
    licence: str | None = None


@dataclass(frozen=True)
class Dropped:
    """A job, or a pair of it, that gives nothing; `reason` is counted, so it names the rule and not the case."""

    reason: str
    aspect: str | None = None


class Builder(Protocol):
    """Makes pairs, one job at a time; a job is a video, or the index of a random scene.

    `make` must depend on nothing but the builder's own parameters (the seed among them) and the index, so that the same
    build gives the same bytes whatever the number of worker processes. A builder is pickled once for each worker: it
    opens files and loads engines at the first `make`, and keeps them.
    """

    @property
    def subset(self) -> str:
        """One of `eqben_builder.records.SUBSETS`."""

    @property
    def licence(self) -> str:
        """Of what it makes."""

    @property
    def aspects(self) -> tuple[str, ...]:
        """What can change. A builder without end makes job i of aspect `aspects[i % len(aspects)]`."""

    @property
    def count(self) -> int | None:
        """Number of jobs; None where they never end."""

    @property
    def duplicate_bits(self) -> int | None:
        """Distance of perceptual hashes up to which two pairs are near-duplicates; None keeps them all."""

    def parameters(self) -> dict[str, Any]:
        """JSON-ready: everything that decides what is made. A build is continued only with the same parameters."""

    def versions(self) -> dict[str, str]:
        """Versions of the libraries that decide the bytes."""

    def make(self, index: int) -> Made | Dropped | Sequence[Made | Dropped]:
        """Do one job, 0 <= index < count."""
