"""What the benchmarks see of a model: pooled features, patch features, and a text side where there is one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn

from gate_data.request import Size, height_width, size_of
from vision_features.encoders.blocks import Blocks, GiveBlocks, layout, summary
from vision_features.encoders.contexts import Contexts
from vision_features.encoders.memory import is_out_of_memory
from vision_features.encoders.spec import agree
from vision_features.errors import EncoderError, MissingCapabilityError
from wary_files.errors import UsageError

if TYPE_CHECKING:
    from vision_features.encoders.detectors import Detector
    from vision_features.encoders.transforms import OwnTransform

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


_WITH_BLOCKS = {"pooled": ("last", "image", "blocks"), "backbone": ("before-projection", "backbone", "blocks:before")}
"""Of a kind of features: their name among read-outs, and those of their probes alone and with the blocks."""


class PatchFeatures(NamedTuple):
    """Features of an image's places: tokens in row order, and how many rows and columns they form."""

    tokens: Float[Tensor, "n t d"]
    grid: tuple[int, int]


class TextTokens(NamedTuple):
    """Features of a text's words, before pooling; ``mask`` is True where a token is real."""

    tokens: Float[Tensor, "n l e"]
    mask: Bool[Tensor, "n l"]


def fingerprint_of(weights: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, value in sorted(weights.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@contextmanager
def evaluating(module: nn.Module | None) -> Iterator[None]:
    """Put a module into evaluation mode while a block runs, and each of its parts back into its own."""
    training = [] if module is None else [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@dataclass
class Encoder:
    """A frozen model behind four functions, of which only the first must be there.

    The module computes in evaluation mode and without gradients whenever it is asked, and is left in its own mode.

    Args:
        spec: the string that it was made from.
        image_size: side in pixels of the square images that the model takes, or their height and width.
        image: prepared images ``[n, 3, h, w]`` to pooled features ``[n, d]``.
        backbone: prepared images to pooled features before the projection into the texts' space ``[n, b]``, or None
            where there is no such projection, or the model does not show it.
        projection: the matrix that takes what ``backbone`` gives to what ``image`` gives, or None.
        patches: prepared images to `PatchFeatures`, or None.
        text: texts to features in the same space as the images' ``[n, d]``, or None.
        text_tokens: texts to `TextTokens`, or None.
        module: the torch module that holds the weights, or None where there is none to see.
        mean: channel means of the model's training data, on a 0 to 1 scale.
        std: channel standard deviations likewise.
        transform: the model's own way from an image to its pixels; None takes the middle square, scaled.
        logit_scale: factor on cosines that the model was trained with, or None.
        outputs: what it gave on fixed probes, from when it was checked; see `vision_features.encoders.spec`.
        blocks: prepared images to what every block gives in one pass, or None where the model shows none.
        precision: of what it computes of images; features are float32 all the same.
        detector: what finds boxes in whole images, where the model is a detector; it then gives no features.
        code: a digest of what its answers rest on beside its weights: its source files, or its tokenizer's and
            configuration's; empty where these come with a library.
        context_length: most tokens of a text that its text side reads; None where it is not known.
        count_tokens: texts to their numbers of tokens, start and end among them and nothing cut off, or None.
        contexts: what prompt learning needs of the text side, or None where it does not show it.
        opened: the encoder whose module answers, where this one stands before it (a plan's, which asks it less often).
        taxonomy: ELEVATER's ``language``, ``knowledge``, ``data`` and ``track``, where the spec does not tell.

    Example:
        >>> means = Encoder("channel means", image_size=32, image=lambda images: images.mean(dim=(2, 3)))
        >>> means.encode_image(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).shape
        torch.Size([2, 3])
        >>> means.provides()
        []
    """

    spec: str
    image_size: Size
    image: Callable[[Float[Tensor, "n 3 h w"]], Float[Tensor, "n d"]]
    backbone: Callable[[Float[Tensor, "n 3 h w"]], Float[Tensor, "n b"]] | None = field(default=None, kw_only=True)
    projection: Float[Tensor, "b d"] | None = field(default=None, kw_only=True)
    patches: Callable[[Float[Tensor, "n 3 h w"]], PatchFeatures] | None = None
    text: Callable[[Sequence[str]], Float[Tensor, "n d"]] | None = None
    text_tokens: Callable[[Sequence[str]], TextTokens] | None = None
    module: nn.Module | None = None
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    logit_scale: float | None = None
    blocks: GiveBlocks | None = field(default=None, kw_only=True)
    transform: OwnTransform | None = field(default=None, kw_only=True)
    detector: Detector | None = field(default=None, kw_only=True)
    precision: Literal["float32", "bfloat16"] = field(default="float32", kw_only=True)
    code: str = field(default="", kw_only=True)
    context_length: int | None = field(default=None, kw_only=True)
    count_tokens: Callable[[Sequence[str]], Sequence[int]] | None = field(default=None, kw_only=True)
    taxonomy: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    contexts: Contexts | None = field(default=None, repr=False, kw_only=True)
    opened: Encoder | None = field(default=None, repr=False, kw_only=True)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    outputs: dict[str, Any] = field(default_factory=dict, repr=False)
    _readouts: dict[str, int] = field(default_factory=dict, repr=False, init=False)
    _looked: bool = field(default=False, repr=False, init=False)
    """Whether floats on another device than the CPU were looked at: once, for each look waits for the device."""

    def __post_init__(self) -> None:
        try:
            self.image_size = size_of(self.image_size)
        except UsageError as error:
            raise EncoderError(f"encoder {self.spec!r}: image_size: {error}") from error

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the images that the model takes."""
        return 3, *height_width(self.image_size)

    def to(self, device: str) -> None:
        """Move the weights, and from now on also the images, to a device."""
        self.device = torch.device(device)
        if self.module is not None:
            self.module.to(self.device).eval().requires_grad_(False)

    def prepare(self, images: UInt8[Tensor, "n 3 h w"] | Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 3 h w"]:
        """Images of any one size, ``uint8`` or floats in 0 to 1, as the model takes them: float32, on its device.

        Raises:
            EncoderError: other whole numbers than ``uint8``, another shape or no tensor; outside of training, floats
                far outside of 0 to 1, such as 0 to 255 or normalised ones: any batch on the CPU, the first on a GPU.
        """
        self._check_pixels(images)
        pixels = images.to(self.device, non_blocking=True)
        whole = pixels.dtype == torch.uint8
        pixels = pixels.to(torch.float32, copy=True)  # changed in place from here on: fresh memory costs as much
        if whole:
            pixels.div_(255)
        size = height_width(self.image_size)
        if pixels.shape[-2:] != size:
            pixels = F.interpolate(pixels, size, mode="bicubic", antialias=True, align_corners=False).clamp_(0, 1)
        mean = torch.tensor(self.mean, device=self.device).view(3, 1, 1)
        std = torch.tensor(self.std, device=self.device).view(3, 1, 1)
        return pixels.sub_(mean).div_(std)

    @torch.no_grad()
    def encode_image(self, images: UInt8[Tensor, "n 3 h w"] | Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
        """Pooled features, in float32, not normalised."""
        return self._floats("encode_image", self._given("encode_image", self.image, self.prepare(images)))

    @torch.no_grad()
    def encode_backbone(self, images: UInt8[Tensor, "n 3 h w"] | Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n b"]:
        """Pooled features before the projection into the texts' space, in float32: often the better ones to probe."""
        if self.backbone is None:
            raise MissingCapabilityError(f"encoder {self.spec!r} shows no features before its projection")
        name = "the features before the projection"
        return self._floats(name, self._given(name, self.backbone, self.prepare(images)))

    @torch.no_grad()
    def encode_blocks(self, images: UInt8[Tensor, "n 3 h w"] | Float[Tensor, "n 3 h w"]) -> Blocks:
        """What every block gives, with the pooled output, in one pass."""
        if self.blocks is None:
            raise MissingCapabilityError(f"encoder {self.spec!r} shows no blocks to read out; its last output is there")
        blocks: Blocks = self._given("encode_blocks", self.blocks, self.prepare(images))
        if not blocks.blocks:
            raise MissingCapabilityError(f"encoder {self.spec!r}: its blocks give neither tokens nor maps")
        return blocks

    def encode_readouts(self, images: UInt8[Tensor, "n 3 h w"] | Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n w"]:
        """The vectors of `readouts` side by side."""
        return self._floats("encode_blocks", summary(self.encode_blocks(images)))

    def readouts(self) -> dict[str, int]:
        """Vectors that one pass gives, by name, and their widths: the last output alone where no block is shown."""
        if not self._readouts:
            picture = torch.zeros(1, *self.shape, dtype=torch.uint8)
            try:
                self._readouts = layout(self.encode_blocks(picture))
            except MissingCapabilityError:
                self._readouts = {"last": self.encode_image(picture).shape[1]}
        return self._readouts

    def remember_readouts(self, given: Blocks) -> None:
        """Take the names and widths of `readouts` from a pass that was made anyway."""
        self._readouts = layout(given)

    def gives_with_blocks(self, kind: str) -> slice | None:
        """The columns of `encode_readouts` that are features of a kind, where the probe saw that they are the same."""
        name, alone, together = _WITH_BLOCKS[kind]
        same = agree({"": self.outputs.get(alone, ())}, {"": self.outputs.get(together, ())})
        if alone not in self.outputs or not same or name not in self._readouts:
            return None
        names = list(self._readouts)
        start = sum(self._readouts[before] for before in names[: names.index(name)])
        return slice(start, start + self._readouts[name])

    @torch.no_grad()
    def encode_patches(self, images: UInt8[Tensor, "n 3 h w"] | Float[Tensor, "n 3 h w"]) -> PatchFeatures:
        """Features of the places in each image."""
        if self.patches is None:
            raise MissingCapabilityError(
                f"encoder {self.spec!r} gives pooled features only; this needs patch features: an encoder of your own "
                "offers them as encode_patches(images) -> (tokens [n, t, d], (rows, columns))"
            )
        patches = self._given("encode_patches", self.patches, self.prepare(images))
        return PatchFeatures(self._floats("encode_patches", patches.tokens), patches.grid)

    @torch.no_grad()
    def encode_text(self, texts: Sequence[str]) -> Float[Tensor, "n d"]:
        """Features of texts in the same space as the images', not normalised."""
        if self.text is None:
            raise MissingCapabilityError(f"encoder {self.spec!r} has no text side; this needs one")
        listed = _texts("encode_text", texts, self.spec)
        return self._floats("encode_text", self._given("encode_text", self.text, listed))

    @torch.no_grad()
    def encode_text_tokens(self, texts: Sequence[str]) -> TextTokens:
        """Features of the words of texts, before pooling."""
        if self.text_tokens is None:
            raise MissingCapabilityError(f"encoder {self.spec!r} shows no text tokens; this needs them")
        listed = _texts("encode_text_tokens", texts, self.spec)
        words = self._given("encode_text_tokens", self.text_tokens, listed)
        return TextTokens(self._floats("encode_text_tokens", words.tokens), words.mask)

    @torch.no_grad()
    def computed(self, name: str, function: Callable[[Any], Any], inputs: Any) -> Any:
        """Return what a function of the model gives, in evaluation mode; errors name the encoder."""
        return self._given(name, function, inputs)

    def cut_texts(self, texts: Iterable[str]) -> str:
        """Return how many of some texts are longer than the text side reads, in words; empty where none is known to be.

        Example:
            >>> words = Encoder("words", 32, lambda images: images.mean(dim=(2, 3)), context_length=4,
            ...                 count_tokens=lambda texts: [len(text.split()) for text in texts])
            >>> words.cut_texts(["one two three four five six"]).partition(",")[0]
            '1 of 1 texts have more than the 4 tokens that this encoder reads'
        """
        if self.count_tokens is None or self.context_length is None:
            return ""
        different = list(dict.fromkeys(_texts("cut_texts", texts, self.spec)))
        # a token has a byte at least, and most texts are short
        long = [text for text in different if len(text.encode("utf-8", "replace")) + 2 > self.context_length]
        counts = self.count_tokens(long) if long else ()
        cut = {text: count for text, count in zip(long, counts, strict=True) if count > self.context_length}
        if not cut:
            return ""
        text, count = max(cut.items(), key=lambda item: item[1])
        return (
            f"{len(cut)} of {len(different)} texts have more than the {self.context_length} tokens that this encoder "
            f"reads, and what is behind them is cut off: {text[:60]!r}{'…' if len(text) > 60 else ''} has {count}"
        )

    def _check_pixels(self, images: Any) -> None:
        """Refuse pixels of another shape or scale; floats on a GPU are looked at once, those of a training never."""
        if not isinstance(images, Tensor):
            raise EncoderError(
                f"encoder {self.spec!r}: images are a {type(images).__module__}.{type(images).__name__}, expected a "
                "torch.Tensor [n, 3, h, w]"
            )
        if images.ndim != 4 or images.shape[1] != 3:
            raise EncoderError(f"encoder {self.spec!r}: images have shape {tuple(images.shape)}, expected [n, 3, h, w]")
        if not (images.is_floating_point() or images.dtype in (torch.uint8, torch.bool)):
            raise EncoderError(f"encoder {self.spec!r}: images are {images.dtype}, expected uint8 or floats in 0 to 1")
        if not _looks_now(images, self._looked):
            return
        low, high = (float(end) for end in torch.stack(images.detach().aminmax()).tolist())
        if low < -_OVERSHOOT or high > 1 + _OVERSHOOT:
            raise EncoderError(
                f"encoder {self.spec!r}: images hold floats from {low:.4g} to {high:.4g}, expected 0 to 1: give uint8, "
                "or divide by 255; do not normalise them before"
            )
        self._looked = self._looked or _waits(images)

    def _given(self, name: str, function: Callable[[Any], Any], inputs: Any) -> Any:
        """What a model returns; what it raises becomes an error that names it, but for want of memory."""
        try:
            half = self.precision == "bfloat16" and isinstance(inputs, Tensor)
            with evaluating(self.module), torch.autocast(self.device.type, torch.bfloat16) if half else nullcontext():
                return function(inputs)
        except Exception as error:
            if isinstance(error, UsageError) or is_out_of_memory(error):
                raise
            images = isinstance(inputs, Tensor)
            batch = f"images of shape {tuple(inputs.shape)}" if images else f"{len(inputs)} texts (a list of str)"
            hint = "; the side that it takes is its attribute image_size" if images else ""
            message = next(iter(str(error).splitlines()), "")
            raise EncoderError(
                f"encoder {self.spec!r}: {name} of {batch} raised {type(error).__name__}: {message}{hint}"
            ) from error

    def _floats(self, name: str, output: Any) -> Tensor:
        """What a model returned as float32, where it is a tensor of real numbers."""
        if isinstance(output, Tensor) and output.is_floating_point():
            return output.float()
        kind = f"a tensor of {output.dtype}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        if isinstance(output, tuple | list):
            kind += f" of {len(output)} ({', '.join(type(part).__name__ for part in output[:4])})"
        raise EncoderError(f"encoder {self.spec!r}: {name} gave {kind}; expected one tensor of floating-point features")

    def provides(self) -> list[str]:
        """What the model gives besides pooled image features."""
        names = ("backbone", "patches", "text", "text_tokens", "detector")
        return [name for name in names if getattr(self, name) is not None]

    def parameters(self) -> int | None:
        """Number of weights, or None where they cannot be seen."""
        return None if self.module is None else sum(p.numel() for p in self.module.parameters())

    def fingerprint(self) -> str | None:
        """SHA-256 over the names and values of all weights, or None where they cannot be seen.

        Two encoders with one fingerprint give the same features, so a run folder can tell whose results it holds.
        """
        if self.module is None:
            return None
        return fingerprint_of(self.module.state_dict())

    def preparation(self) -> dict[str, Any]:
        """What `prepare` does, as cards hold it."""
        size = self.image_size
        return {
            "image_size": size if isinstance(size, int) else list(size),
            "mean": list(self.mean),
            "std": list(self.std),
        }

    def describe(self) -> dict[str, Any]:
        """What a result file says about the encoder."""
        return {
            "spec": self.spec,
            "image_size": self.preparation()["image_size"],
            "provides": self.provides(),
            "parameters": self.parameters(),
            "fingerprint": self.fingerprint(),
            **({"code": self.code} if self.code else {}),
            **({"taxonomy": dict(self.taxonomy)} if self.taxonomy else {}),
            **({} if self.transform is None else {"transform": self.transform.description}),
        }


_OVERSHOOT = 0.5
"""How far a bicubic filter, and little noise, may lead out of 0 to 1."""


def _looks_now(images: Tensor, looked: bool) -> bool:
    """Whether values can be looked at here: not in a training or a graph, nor again where each look waits."""
    if torch.is_grad_enabled() or not images.is_floating_point() or not images.numel():
        return False
    tracing: Any = torch.jit
    if torch.compiler.is_compiling() or tracing.is_tracing() or images.is_meta:
        return False
    return not _waits(images) or not (looked or (images.is_cuda and torch.cuda.is_current_stream_capturing()))


def _waits(images: Tensor) -> bool:
    """Whether a look at values waits for a device."""
    return images.device.type != "cpu"


def _texts(name: str, texts: Iterable[str], spec: str) -> list[str]:
    """Texts as a list; one text would be encoded letter by letter."""
    if isinstance(texts, str | bytes):
        raise UsageError(f"encoder {spec!r}: {name} got one text, {texts!r:.60}; expected a list of texts")
    return list(texts)
