"""Eq-Kubric as a builder: rendered pairs that differ in an attribute, in a count or in a place; and their check."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL
from numpy.typing import NDArray

from eqben_builder.building.builder import Dropped, Made
from eqben_builder.building.evidence import colour_distance, pixel_change, token_edits
from eqben_builder.engines.scene import SIZES, FloorScene, scene_changes
from eqben_builder.kubric.pairs import ASPECTS, CHANGEABLE, Choices, check_pair, scene_pair
from eqben_builder.micro.minimal import Difference, Pair, generator_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eqben_builder.engines.scene import Engine
    from eqben_builder.formats import PairRow

ENGINES: tuple[str, ...] = ("mitsuba", "raster")
#: Share of the mask that must move visibly, and share of the rest that a change of colour may move.
LEAST_INSIDE, MOST_OUTSIDE = 0.25, 0.01
#: How far apart the two images must look on average where they may differ, in CIE L*a*b*; below it, thin objects of
#: glass and metal, or of black and brown, could hardly be told apart in a look at 30 pairs on contact sheets.
LEAST_CONTRAST = 9.0
#: Share of the pixels that a change of colour must leave as they were, before the denoiser.
LEAST_UNTOUCHED = 0.80
#: The mask is widened by so many pixels: edges are shared with what lies behind them.
_MARGIN = 2


def engine_of(
    name: str, *, meshes: str | os.PathLike[str] | None = None, samples: int | None = None, denoise: bool = True
) -> Engine:
    """An engine by its name."""
    if name == "mitsuba":
        from eqben_builder.engines.mitsuba_engine import MitsubaEngine

        return MitsubaEngine(meshes=meshes, samples=samples, denoise=denoise)
    if name == "raster":
        from eqben_builder.engines.raster_engine import RasterEngine

        if meshes is not None:
            raise ValueError("the raster engine draws no meshes: take the mitsuba engine")
        return RasterEngine()
    raise ValueError(f"engine {name!r} is not one of {', '.join(ENGINES)}")


class KubricBuilder:
    """Pairs of rendered scenes of objects on a floor.

    Args:
        aspects: Some of "attribute", "counting", "location"; all by default.
        engine: "mitsuba" (path traced; extra `mitsuba`), "raster" (flat silhouettes, a hundred times as fast), or one
            of your own.
        seed: At least 0.
        size: Side of the images in pixels, 64 to 2048.
        meshes: Folder of OBJ or PLY objects for an engine that renders, such as Google Scanned Objects.
        samples: Paths for each pixel; by default 12, and 256 without the denoiser.
        denoise: Whether Open Image Denoise cleans the images.
        shapes: Nouns to choose from; all of the engine's by default.
        colours: Colours to choose from.
        materials: Materials to choose from; all of the engine's by default.
        fields: What an attribute pair may change: some of "size", "colour", "material"; all by default.
        duplicate_bits: As in `PairHashes`; None keeps near-duplicates.

    Raises:
        ValueError: The argument that is out of range or unknown, or a choice in which nothing can change.
        ImportError: The extra that is not installed.

    Example:
        >>> made = KubricBuilder(engine="raster", aspects=["counting"], size=64, seed=1).make(0)
        >>> made.aspect
        'counting'

    Source:
        Section 5.3 and appendix B.4 of the EqBen paper: three aspects, captions of which only one part changes. Its
        templates are in a figure; ours are in `captions`. Google Scanned Objects are used there, and here where
        `meshes` names a folder of them. The paper's certificates are visual inspection; ours are measured.
    """

    subset = "kubric"
    licence = "CC0-1.0"
    count = None

    def __init__(
        self,
        *,
        aspects: Sequence[str] | None = None,
        engine: str | Engine = "mitsuba",
        seed: int = 0,
        size: int = 224,
        meshes: str | os.PathLike[str] | None = None,
        samples: int | None = None,
        denoise: bool = True,
        shapes: Sequence[str] | None = None,
        colours: Sequence[str] | None = None,
        materials: Sequence[str] | None = None,
        fields: Sequence[str] | None = None,
        duplicate_bits: int | None = 4,
    ) -> None:
        unknown = [name for name in aspects or () if name not in ASPECTS]
        if unknown:
            raise ValueError(f"aspect {unknown[0]!r} is not one of {', '.join(ASPECTS)}")
        if not isinstance(seed, int) or seed < 0 or not 64 <= size <= 2048:
            raise ValueError(f"seed = {seed!r}, size = {size!r}: expected at least 0, and 64 to 2048")
        self.aspects = tuple(name for name in ASPECTS if name in (aspects or ASPECTS))
        self.seed, self.size, self.duplicate_bits = seed, size, duplicate_bits
        self.engine: Engine = (
            engine_of(engine, meshes=meshes, samples=samples, denoise=denoise) if isinstance(engine, str) else engine
        )
        known = {
            "shapes": self.engine.shapes, "colours": self.engine.colours, "materials": self.engine.materials,
            "fields": CHANGEABLE,
        }  # fmt: skip
        given = {"shapes": shapes, "colours": colours, "materials": materials, "fields": fields}
        chosen = {name: tuple(values or known[name]) for name, values in given.items()}
        for name, values in chosen.items():
            strange = [value for value in values if value not in known[name]]
            if strange:
                of_engine = f"{self.engine.name} engine's {name}: {', '.join(known[name])}"
                raise ValueError(f"{strange[0]!r} is none of the {of_engine}")
        self.choices = Choices(textured=self.engine.textured, **chosen)

        options = {"size": tuple(SIZES), "colour": self.choices.colours, "material": self.choices.materials}
        if "attribute" in self.aspects and all(len(options[field]) < 2 for field in self.choices.fields):
            single = ", ".join(f"{field} {' '.join(options[field])}" for field in self.choices.fields)
            raise ValueError(f"no attribute can change: of {single} there is one each; give another value, or fields")

    def parameters(self) -> dict[str, Any]:
        """Everything that decides what is made."""
        return {
            "aspects": list(self.aspects),
            "engine": self.engine.name,
            **self.engine.parameters(),
            "seed": self.seed,
            "size": self.size,
            "shapes": list(self.choices.shapes),
            "colours": list(self.choices.colours),
            "materials": list(self.choices.materials),
            "fields": list(self.choices.fields),
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> KubricBuilder:
        """The builder that has these `parameters`; a `ValueError` where they speak of a folder of meshes."""
        if "meshes" in parameters:
            raise ValueError("the pairs show objects of a folder of meshes, which the parameters do not hold")
        return cls(**{name: value for name, value in parameters.items() if name != "objects"})

    def versions(self) -> dict[str, str]:
        """NumPy's, Pillow's and the engine's."""
        return {"numpy": np.__version__, "pillow": PIL.__version__, **self.engine.versions()}

    def make(self, index: int) -> Made | Dropped:
        """The pair of this index, or why its scenes cannot be used."""
        aspect = self.aspects[index % len(self.aspects)]
        rng = generator_at(self.seed, index)
        pair = scene_pair(rng, aspect, self.choices)
        if pair is None:
            return Dropped("these choices give no scene", aspect)
        drawn = self.engine.draw((pair.scene0, pair.scene1), self.size, int(rng.integers(1 << 31)))
        if isinstance(drawn, str):
            return Dropped(drawn, aspect)
        change = scene_changes(pair.scene0, pair.scene1)[0]  # the only one: `scene_pair` has checked the pair
        if change.field == "colour" and drawn.notes.get("untouched_before_denoising", 1.0) < LEAST_UNTOUCHED:
            return Dropped("a change of colour reaches too far", aspect)
        mask = _mask(change, pair, drawn.seen)
        pixels = pixel_change(*drawn.images, mask)
        contrast = round(float(colour_distance(*drawn.images)[mask].mean()), 2)
        reason = _flaw(change, pixels, contrast)
        if reason is not None:
            return Dropped(reason, aspect)
        source = {
            "seed": self.seed,
            "index": index,
            "scene0": pair.scene0.to_dict(),
            "scene1": pair.scene1.to_dict(),
            "render": {"engine": self.engine.name, **drawn.notes},
        }
        captions = pair.captions
        return Made(drawn.images, captions, aspect, source, _certificate(change, captions, pixels, contrast), mask)


def _mask(
    change: Difference, pair: Pair[FloorScene], visible: tuple[NDArray[np.int16], NDArray[np.int16]]
) -> NDArray[np.bool_]:
    """Where the changed objects are seen, in either image, and a margin."""
    mask = np.zeros(visible[0].shape, dtype=bool)
    for scene, who in zip((pair.scene0, pair.scene1), visible, strict=True):
        fewer = change.kind == "counting" and len(scene.things) < max(len(pair.scene0.things), len(pair.scene1.things))
        if not fewer:
            mask |= np.isin(who, change.items)
    for axis in (0, 1):
        wide = mask.copy()
        for step in range(1, _MARGIN + 1):
            ahead = [slice(None), slice(None)]
            behind = [slice(None), slice(None)]
            ahead[axis], behind[axis] = slice(step, None), slice(None, -step)
            wide[tuple(ahead)] |= mask[tuple(behind)]
            wide[tuple(behind)] |= mask[tuple(ahead)]
        mask = wide
    return mask


def _flaw(change: Difference, pixels: dict[str, float], contrast: float | None) -> str | None:
    if pixels["moved_inside"] < LEAST_INSIDE or (contrast is not None and contrast < LEAST_CONTRAST):
        return "the change is hardly seen"
    if change.field == "colour" and pixels["moved_outside"] > MOST_OUTSIDE:
        return "a change of colour shows elsewhere"
    return None


def _certificate(
    change: Difference, captions: tuple[str, str], pixels: dict[str, float], contrast: float | None
) -> dict[str, Any]:
    # Folders from before contrasts were measured hold none, and stay as valid as they were.
    return ({} if contrast is None else {"contrast": contrast}) | {
        "difference": {"kind": change.kind, "field": change.field, "things": list(change.items)},
        "token_edits": token_edits(*captions),
        "pixels": pixels,
    }


def certificate_of(
    record: PairRow, image0: NDArray[np.uint8], image1: NDArray[np.uint8], mask: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """The certificate made again from a record, its images and its mask.

    A set that was filtered or converted may come without masks: the shares inside and outside them are then taken as
    they stand in the row, and everything else is made again.
    """
    scenes = [FloorScene.from_dict(record.source.get(name)) for name in ("scene0", "scene1")]
    captions = record.captions
    change = check_pair(Pair(scenes[0], scenes[1], *captions, record.aspect))
    edits = token_edits(*captions)
    if len(edits) != 1:
        raise ValueError(f"the captions differ in {len(edits)} runs of words, expected one: {edits}")
    pixels = pixel_change(image0, image1, mask)
    if mask is None:
        pixels = dict(record.certificate["pixels"]) | pixels
    contrast = record.certificate.get("contrast")
    if contrast is not None and mask is not None:
        contrast = round(float(colour_distance(image0, image1)[mask].mean()), 2)
    flaw = _flaw(change, pixels, contrast)
    if flaw is not None:
        raise ValueError(f"{flaw}: {pixels}")
    return _certificate(change, captions, pixels, contrast)
