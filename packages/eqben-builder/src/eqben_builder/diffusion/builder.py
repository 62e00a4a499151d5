"""Eq-SD as a builder: prompts that differ in one value, pairs drawn by prompt-to-prompt, and their check."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import PIL
from numpy.typing import NDArray

from eqben_builder.building.builder import Dropped, Made
from eqben_builder.building.evidence import pixel_change, token_edits
from eqben_builder.micro.minimal import generator_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eqben_builder.formats import PairRow

ASPECTS: tuple[str, ...] = ("object", "scene", "attribute")


class Kin(NamedTuple):
    """Objects that may stand for one another, and the scenes and attributes that suit all of them."""

    objects: tuple[str, ...]
    scenes: tuple[str, ...]
    attributes: tuple[str, ...]


#: The first entry's objects and scenes are the paper's own example (appendix B.5); the others follow its rule.
KINDRED: dict[str, Kin] = {
    "large animals": Kin(
        ("horse", "cattle", "elephant", "goat", "deer", "camel", "zebra"),
        ("standing on the grass", "in the desert", "near the river", "in the zoo"),
        ("with a saddle", "with a bell", "with a red scarf", "with a flower wreath"),
    ),
    "pets": Kin(
        ("dog", "cat", "rabbit", "hamster"),
        ("sitting on the sofa", "in the garden", "on the beach", "in the snow"),
        ("with sunglasses", "with a hat", "with a bow tie", "with a red scarf"),
    ),
    "birds": Kin(
        ("parrot", "owl", "eagle", "crow", "pigeon"),
        ("sitting on a branch", "on the roof", "in the snow", "near the lake"),
        ("with a hat", "with a bow tie", "with a golden crown"),
    ),
    "vehicles": Kin(
        ("car", "bus", "truck", "van", "tractor"),
        ("on the street", "in the desert", "on the beach", "in the snow"),
        ("with white stripes", "with a ladder on the roof", "with a flag"),
    ),
    "boats": Kin(
        ("ship", "boat", "canoe", "yacht"),
        ("on the lake", "in the harbour", "on the stormy sea", "at sunset"),
        ("with a red sail", "with a flag", "with a lantern"),
    ),
    "sweets": Kin(
        ("cake", "pie", "muffin", "donut"),
        ("on a wooden table", "on a white plate", "in a paper box", "on a picnic blanket"),
        ("with strawberries", "with candles", "with chocolate sauce", "with nuts"),
    ),
    "furniture": Kin(
        ("chair", "sofa", "bed", "bench"),
        ("in the living room", "in the garden", "in an empty hall", "on the beach"),
        ("with a striped cushion", "with a blue blanket", "with a sleeping cat"),
    ),
}


class PromptPair(NamedTuple):
    """Two prompts that differ in one part, which are the captions too.

    aspect: One of `ASPECTS`.
    kin: Key of `KINDRED`.
    prompts: Source and target.
    values: What stands in the changed place in each.
    """

    aspect: str
    kin: str
    prompts: tuple[str, str]
    values: tuple[str, str]


def _two(rng: np.random.Generator, values: Sequence[str]) -> tuple[str, str]:
    first, second = rng.permutation(len(values))[:2]
    return values[int(first)], values[int(second)]


def prompt_pair(rng: np.random.Generator, aspect: str) -> PromptPair:
    """Draw two prompts that differ in an object, a scene or an attribute.

    Section 5.3, appendix B.5. The paper changes a scene or an attribute by adding it to the first caption ("in the
    winter"), which leaves that caption true of the second image as well. Here one scene or attribute takes the place
    of another, so that each caption is false of the other image.
    """
    if aspect not in ASPECTS:
        raise ValueError(f"aspect {aspect!r} is not one of {', '.join(ASPECTS)}")
    names = list(KINDRED)
    name = names[int(rng.random() * len(names))]
    kin = KINDRED[name]
    noun = kin.objects[int(rng.random() * len(kin.objects))]
    scene = kin.scenes[int(rng.random() * len(kin.scenes))]
    # One article for both objects of a pair: "the" never changes with the noun.
    if aspect == "object":
        values = _two(rng, kin.objects)
        texts = [f"a photo of the {value} {scene}" for value in values]
    else:
        values = _two(rng, kin.scenes if aspect == "scene" else kin.attributes)
        texts = [f"a photo of the {noun} {value}" for value in values]
    return PromptPair(aspect, name, (texts[0], texts[1]), values)


#: Share of the pixels that must move visibly for the edit to count as one.
LEAST_MOVED = 0.01


class DiffusionBuilder:
    """Pairs that Stable Diffusion draws from one noise; the second image keeps the first one's attention.

    Args:
        model: A folder as `diffusers` saves it, or a name on the hub, which is then downloaded.
        aspects: Some of "object", "scene", "attribute"; all by default.
        seed: At least 0.
        size: Side of the images, a multiple of 8; the model's own by default.
        steps: Denoising steps.
        guidance: Classifier-free guidance.
        cross: Share of the steps in which cross-attention is edited.
        self_share: Share of the steps in which self-attention is taken over.
        device: A torch device.
        duplicate_bits: As in `PairHashes`.

    Raises:
        ValueError: The argument that is out of range or unknown.
        ImportError: The extra that is not installed.

    Numerics:
        The same bytes on the same machine, device and versions; not between a CPU and a GPU.

    Example:
        Nothing is loaded, or downloaded, before the first `make`:

        >>> builder = DiffusionBuilder("CompVis/stable-diffusion-v1-4", aspects=["scene"], size=512)
        >>> builder.parameters()["steps"], builder.aspects
        (50, ('scene',))

    Source:
        Section 5.3, appendix B.5: Stable Diffusion 1.4 with prompt-to-prompt. The paper's last step is a person who
        sorts out poor images: that is not done here, and a model's mistakes are in what it draws.
    """

    subset = "sd"
    count = None

    def __init__(
        self,
        model: str,
        *,
        aspects: Sequence[str] | None = None,
        seed: int = 0,
        size: int | None = None,
        steps: int = 50,
        guidance: float = 7.5,
        cross: float = 0.8,
        self_share: float = 0.4,
        device: str = "cpu",
        duplicate_bits: int | None = 4,
        licence: str | None = None,
    ) -> None:
        unknown = [name for name in aspects or () if name not in ASPECTS]
        if unknown:
            raise ValueError(f"aspect {unknown[0]!r} is not one of {', '.join(ASPECTS)}")
        if not isinstance(seed, int) or seed < 0 or steps < 1 or (size is not None and size % 8):
            raise ValueError(f"seed = {seed!r}, steps = {steps!r}, size = {size!r}: expected 0, 1, a multiple of 8")
        if not (0 <= cross <= 1 and 0 <= self_share <= 1):
            raise ValueError(f"cross = {cross!r}, self_share = {self_share!r}: expected shares in [0, 1]")
        for library in ("torch", "diffusers", "transformers"):
            if find_spec(library) is None:
                raise ImportError(f"{library} is not installed: pip install 'eqben-builder[diffusion]'")
        self.model, self.device, self.seed, self.size = str(model), device, seed, size
        self.steps, self.guidance, self.cross, self.self_share = steps, guidance, cross, self_share
        self.aspects: tuple[str, ...] = tuple(name for name in ASPECTS if name in (aspects or ASPECTS))
        self.duplicate_bits = duplicate_bits
        own = "CreativeML-OpenRAIL-M" if "stable-diffusion-v1" in self.model.lower() else "unknown"
        self.licence = licence or own
        self._pipeline: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # A worker process loads the model itself.
        return self.__dict__ | {"_pipeline": None}

    def parameters(self) -> dict[str, Any]:
        """Everything that decides what is made; a local model is known by its files' names and sizes."""
        return {
            "model": Path(self.model).name if Path(self.model).is_dir() else self.model,
            "model_files": _files_of(Path(self.model)) if Path(self.model).is_dir() else None,
            "aspects": list(self.aspects),
            "seed": self.seed,
            "size": self.size,
            "steps": self.steps,
            "guidance": self.guidance,
            "cross": self.cross,
            "self_share": self.self_share,
            "device": self.device,
        }

    def versions(self) -> dict[str, str]:
        """Of the libraries that draw."""
        versions = {"numpy": np.__version__, "pillow": PIL.__version__}
        for name in ("torch", "diffusers", "transformers"):
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                versions[name] = "unknown"
        return versions

    def make(self, index: int) -> Made | Dropped:
        """The pair of this index, or why it cannot be used."""
        from eqben_builder.diffusion.pipeline import edited_pair, load_pipeline, refine_prompt, replace_words

        if self._pipeline is None:
            self._pipeline = load_pipeline(self.model, self.device)
        aspect = self.aspects[index % len(self.aspects)]
        rng = generator_at(self.seed, index)
        pair = prompt_pair(rng, aspect)
        same_length = len(pair.prompts[0].split()) == len(pair.prompts[1].split())
        edit = (replace_words if same_length else refine_prompt)(self._pipeline.tokenizer, *pair.prompts)
        noise = int(rng.integers(1 << 31))
        drawn = edited_pair(
            self._pipeline, pair.prompts, edit, seed=noise, size=self.size, steps=self.steps,
            guidance=self.guidance, cross=self.cross, self_share=self.self_share,
        )  # fmt: skip
        if drawn.refused:
            return Dropped("the model's safety checker objects", aspect)
        pixels = pixel_change(*drawn.images)
        if pixels["moved"] < LEAST_MOVED:
            return Dropped("the edit changes nothing", aspect)
        captions = (f"{pair.prompts[0].capitalize()}.", f"{pair.prompts[1].capitalize()}.")
        source = {
            "seed": self.seed,
            "index": index,
            "noise_seed": noise,
            "prompts": list(pair.prompts),
            "kin": pair.kin,
            "values": list(pair.values),
            "edit": "replace" if same_length else "refine",
        }
        certificate = {"token_edits": token_edits(*captions), "pixels": pixels}
        return Made(drawn.images, captions, aspect, source, certificate)


def _files_of(folder: Path) -> str:
    rows = [f"{p.relative_to(folder).as_posix()} {p.stat().st_size}" for p in sorted(folder.rglob("*")) if p.is_file()]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def certificate_of(
    record: PairRow, image0: NDArray[np.uint8], image1: NDArray[np.uint8], mask: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """The certificate made again from a record and its images."""
    captions = record.captions
    prompts, values = record.source["prompts"], record.source["values"]
    if [f"{prompt.capitalize()}." for prompt in prompts] != list(captions):
        raise ValueError(f"the captions {captions} are not the prompts {prompts}")
    if values[0] == values[1] or prompts[0].replace(values[0], "\0") != prompts[1].replace(values[1], "\0"):
        raise ValueError(f"the prompts {prompts} do not differ in {values} alone")
    kin = KINDRED.get(record.source["kin"])
    choices = {} if kin is None else {"object": kin.objects, "scene": kin.scenes, "attribute": kin.attributes}
    if not set(values) <= set(choices.get(record.aspect, ())):
        raise ValueError(f"{values} are not two {record.aspect}s of {record.source['kin']!r}")
    pixels = pixel_change(image0, image1)
    if pixels["moved"] < LEAST_MOVED:
        raise ValueError(f"the images hardly differ: {pixels}")
    return {"token_edits": token_edits(*captions), "pixels": pixels}
