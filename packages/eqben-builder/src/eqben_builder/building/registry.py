"""Which builder makes which subset, and which function checks it: names only, imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from eqben_builder.building.builder import Builder

#: Subset -> "module:class" of its builder, whose keyword arguments are the command line's options.
BUILDERS: dict[str, str] = {
    "micro": "eqben_builder.micro.builder:MicroBuilder",
    "kubric": "eqben_builder.kubric.builder:KubricBuilder",
    "sd": "eqben_builder.diffusion.builder:DiffusionBuilder",
    "ag": "eqben_builder.video.action_genome:ActionGenomeBuilder",
    "gebc": "eqben_builder.video.gebc:GebcBuilder",
    "youcook2": "eqben_builder.video.youcook2:YouCook2Builder",
}

#: Subset -> "module:function"; it takes a record, its two pictures and its mask or None, and returns the certificate
#: made again from them, or raises a ValueError that says what does not hold.
CERTIFIERS: dict[str, str] = {
    "micro": "eqben_builder.micro.builder:certificate_of",
    "kubric": "eqben_builder.kubric.builder:certificate_of",
    "sd": "eqben_builder.diffusion.builder:certificate_of",
    "ag": "eqben_builder.video.action_genome:certificate_of",
    "gebc": "eqben_builder.video.gebc:certificate_of",
    "youcook2": "eqben_builder.video.youcook2:certificate_of",
}


def builder_of(subset: str) -> Callable[..., Builder]:
    """The builder's class."""
    if subset not in BUILDERS:
        raise ValueError(f"no builder for {subset!r}: there are {', '.join(BUILDERS)}")
    return cast("Callable[..., Builder]", _load(BUILDERS[subset]))


def certifier_of(subset: str) -> Callable[..., dict[str, Any]] | None:
    """The function that checks a subset's pairs, or None where only what all pairs share can be checked."""
    return _load(CERTIFIERS[subset]) if subset in CERTIFIERS else None


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
