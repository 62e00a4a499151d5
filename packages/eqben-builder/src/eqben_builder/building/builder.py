"""What a builder is, what it makes of one job, and which builder makes which subset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Bool, UInt8


@dataclass(frozen=True, eq=False)
class Made:
    """One pair, in memory.

    Args:
        images: Two uint8 images [height, width, 3].
        captions: One for each.
        aspect: One of the builder's aspects.
        source: JSON-ready; what makes the pair again.
        certificate: JSON-ready; what was checked.
        mask: Where the change may show, bool [height, width]; stored beside the images as `masks/...png`.
        licence: Where it is not the builder's.

    Example:
        >>> dark, light = (np.full((2, 2, 3), tone, np.uint8) for tone in (40, 200))
        >>> made = Made((dark, light), ("a dark square", "a light square"), "tone", licence="CC0-1.0")
        >>> made.images[1].shape, made.captions[1], made.mask is None
        ((2, 2, 3), 'a light square', True)
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
    """A job, or a pair of it, that gives nothing; `reason` is counted, so it names the rule and not the case.

    Example:
        >>> Dropped("no such video", "ag").reason
        'no such video'
    """

    reason: str
    aspect: str | None = None


class Builder(Protocol):
    """Makes pairs, one job at a time; a job is a video, or the index of a random scene.

    `make` must depend on nothing but the builder's own parameters (the seed among them) and the index, so that the same
    build gives the same bytes whatever the number of worker processes. A builder is pickled once for each worker: it
    opens files and loads engines at the first `make`, and keeps them.

    Example:
        A builder of its own needs this much. Worker processes import its class, so it stands in a module.

        >>> import tempfile
        >>> from eqben_builder.building import Made, build
        >>> class Greys:
        ...     subset, licence, aspects, count, duplicate_bits = "own", "CC0-1.0", ("tone",), 1, None
        ...     def parameters(self):
        ...         return {"tones": [40, 200]}
        ...     def versions(self):
        ...         return {"numpy": np.__version__}
        ...     def make(self, index):
        ...         dark, light = (np.full((16, 16, 3), tone, np.uint8) for tone in (40, 200))
        ...         return Made((dark, light), ("a dark square", "a light square"), "tone")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     build(Greys(), folder)["counts"]
        {'tone': 1}
    """

    @property
    def subset(self) -> str:
        """One of `eqben_builder.building.folder.SUBSETS`."""

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


#: Subset -> "module:class" of its builder, whose keyword arguments are the command line's options.
BUILDERS: dict[str, str] = {
    "micro": "eqben_builder.micro.builder:MicroBuilder",
    "kubric": "eqben_builder.kubric.builder:KubricBuilder",
    "sd": "eqben_builder.diffusion.builder:DiffusionBuilder",
    "ag": "eqben_builder.video.action_genome:ActionGenomeBuilder",
    "gebc": "eqben_builder.video.gebc:GebcBuilder",
    "youcook2": "eqben_builder.video.youcook2:YouCook2Builder",
}


def builder_of(subset: str) -> Callable[..., Builder]:
    """The builder's class."""
    if subset not in BUILDERS:
        raise ValueError(f"no builder for {subset!r}: there are {', '.join(BUILDERS)}")
    return cast("Callable[..., Builder]", _load(BUILDERS[subset]))


def certifier_of(subset: str) -> Callable[..., dict[str, Any]] | None:
    """The function that checks a subset's pairs, or None where only what all pairs share can be checked.

    It takes a pair, its two images and its mask or None, and returns the certificate made again from them, or raises
    a ValueError that says what does not hold; it is `certificate_of`, beside the builder.
    """
    return _load(f"{BUILDERS[subset].partition(':')[0]}:certificate_of") if subset in BUILDERS else None


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
