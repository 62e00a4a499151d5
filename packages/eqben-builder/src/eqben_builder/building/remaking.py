"""Whether pairs are what their parameters make: some are made anew and compared, which new hashes cannot deceive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from eqben_builder.building.builder import Made
from eqben_builder.building.evidence import pixel_change
from eqben_builder.building.registry import builder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import UInt8

    from eqben_builder.building.builder import Builder
    from eqben_builder.records import PairRecord

    Pictures = Callable[[PairRecord], tuple[UInt8[np.ndarray, "h w 3"], UInt8[np.ndarray, "h w 3"]]]

#: With other versions than the manifest's, this share of the pixels may differ visibly.
TOLERANCE = 0.02


def maker_of(manifest: dict[str, Any]) -> Builder:
    """The builder that the manifest's parameters describe."""
    subset = str(manifest.get("subset"))
    kind: Any = builder_of(subset)
    if not hasattr(kind, "from_parameters"):
        raise ValueError(f"pairs of the subset {subset!r} are not made from parameters alone")
    try:
        made: Builder = kind.from_parameters(manifest.get("parameters"))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the manifest's parameters are not those of {subset!r}: {error}") from error
    return made


def differences(
    manifest: dict[str, Any], records: Sequence[PairRecord], pictures: Pictures, count: int, seed: int | None
) -> Iterator[tuple[str, str, str]]:
    """Make `count` pairs again; of what is not in the folder as it should be: where, which check, what was found."""
    builder = maker_of(manifest)
    said, meant = manifest.get("parameters") or {}, json.loads(json.dumps(builder.parameters()))
    for name in sorted({*said, *meant}):
        if said.get(name) != meant.get(name):
            yield "manifest.json", "parameters", f"{name} is {said.get(name)!r}, the builder's is {meant.get(name)!r}"
    versions = {name: manifest.get("versions", {}).get(name) for name in builder.versions()}
    tolerance = 0.0 if versions == builder.versions() else TOLERANCE
    drawn = np.random.default_rng(seed).permutation(len(records))[:count]
    for record in (records[k] for k in sorted(drawn.tolist())):
        job = record.id.rpartition("-")[2]
        made = builder.make(int(job)) if job.isdecimal() else None
        if not isinstance(made, Made):
            yield record.id, "render", "these parameters make no such pair"
            continue
        if (record.caption0, record.caption1) != made.captions:
            yield record.id, "render", f"the captions would be {made.captions}"
        if json.loads(json.dumps(made.source)) != dict(record.source):
            yield record.id, "render", "the source is not what these parameters make"
        for side, (stored, again) in enumerate(zip(pictures(record), made.images, strict=True)):
            if stored.shape != again.shape:
                yield record.id, "render", f"picture {side} would be {again.shape[:2]}, it is {stored.shape[:2]}"
                continue
            found = pixel_change(stored, again)
            if found["moved" if tolerance else "changed"] > tolerance:
                share = f"{found['changed']:.1%} of the pixels differ, {found['moved']:.1%} visibly"
                yield record.id, "render", f"picture {side} is not that of its scene: {share}"
