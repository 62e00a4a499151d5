"""Encoder and head together as one ONNX file, compared with torch before it is believed."""

from __future__ import annotations

import json
import logging
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vision_features.encoders.blocks import summary
from vision_features.encoders.own import borrowed
from vision_features.errors import EncoderError, MissingCapabilityError
from vision_features.heads.calibrating import sets_of
from wary_files.errors import StorageError

if TYPE_CHECKING:
    from vision_features.heads.saved import Head

_AGREES, _BELOW = 1e-4, 1e-2
"""How far probabilities may be apart, and a chosen class's score below the best, as a share of the scores' range."""


class _Whole(nn.Module):
    """Pixels in 0 to 1, of the encoder's size, to calibrated probabilities, and to the scores that they are made of."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        encoder = head.encoder
        self.module, self.last, self.reading, self.blocks = encoder.module, head.module, head.reading, encoder.blocks
        self.encode = encoder.backbone if head.card["features"] == "backbone" else encoder.image
        calibration = sets_of(head.card, None, None)
        self.temperature, self.uniform = calibration.temperature, calibration.uniform
        self.register_buffer("pixel_mean", torch.tensor(encoder.mean).view(3, 1, 1))
        self.register_buffer("pixel_std", torch.tensor(encoder.std).view(3, 1, 1))

    def forward(self, pixels: Float[Tensor, "n 3 h w"]) -> tuple[Float[Tensor, "n k"], Float[Tensor, "n k"]]:
        """Normalise, encode, classify."""
        assert self.encode is not None  # a head on backbone features was made from them
        prepared = (pixels - self.get_buffer("pixel_mean")) / self.get_buffer("pixel_std")
        if self.reading is None:
            features = self.encode(prepared)
        else:
            assert self.blocks is not None  # a head on a read-out was made from them
            given = self.blocks(prepared)
            tokens = self.reading.reads_tokens
            features = self.reading(given.blocks[self.reading.readout.block - 1].places if tokens else summary(given))
        scores: Tensor = self.last(features.float())
        shares = (scores / self.temperature).softmax(dim=1)
        return ((1 - self.uniform) * shares + self.uniform / scores.shape[1] if self.uniform else shares), scores


def steps_before(head: Head) -> str:
    """Return in words how an image becomes the pixels that the file takes: as the head's training images did."""
    high, wide = head.encoder.shape[1:]
    return head.card.get("transform") or (
        f"Crop(the largest middle part, {wide} wide to {high} high) > "
        f"Resize(size=({high}, {wide}), interpolation=bicubic, antialias=True)"
    )


def export_onnx(head: Head, path: Path) -> float:
    """Write ``pixels [n, 3, h, w]`` in 0 to 1 to ``probabilities [n, k]`` and ``scores [n, k]``, for any n.

    Probabilities are calibrated as `Head.predict`'s are. The class is that of the highest score: scores that differ by
    little have equal probabilities in float32.

    Images have to be brought to the encoder's size beforehand, as `steps_before` has it: an encoder with its own
    transform cuts a margin off, say. The file's metadata have that as ``images``, and class names as ``classes``.
    """
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401 - torch's exporter asks for it by name
    except ImportError as error:
        raise MissingCapabilityError(f"{error.name} is missing: pip install 'vision-features[onnx]'") from error
    with borrowed(head.encoder):
        return _exported(head, path, onnx, onnxruntime)


def _exported(head: Head, path: Path, onnx: Any, onnxruntime: Any) -> float:
    """Write and compare; what is moved to the CPU for it goes back where it was."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.touch()
    except OSError as error:  # before a minute of work, and not as the exporter's own error
        raise StorageError.about(path, error) from error
    device = head.encoder.device
    together = _Whole(head).eval().cpu()
    pixels = torch.rand(3, *head.encoder.shape, generator=torch.Generator().manual_seed(0))
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the exporter's, about its own future
                expected, scores = together(pixels)
                torch.onnx.export(
                    together,
                    (pixels,),
                    str(beside),
                    input_names=["pixels"],
                    output_names=["probabilities", "scores"],
                    dynamic_shapes={"pixels": {0: torch.export.Dim("n", min=1)}},
                    dynamo=True,
                    external_data=False,
                    verbose=False,
                )
        except Exception as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise EncoderError(f"encoder {head.encoder.spec!r} cannot be written as ONNX: {reason:.200}") from error
        model = onnx.load(str(beside))
        model.metadata_props.add(key="classes", value=json.dumps(list(head.classes)))
        model.metadata_props.add(key="images", value=steps_before(head))
        onnx.save(model, str(beside))
        session = onnxruntime.InferenceSession(str(beside), providers=["CPUExecutionProvider"])
        worst = below = 0.0
        for count in (3, 1):
            outputs = [torch.from_numpy(values) for values in session.run(None, {"pixels": pixels[:count].numpy()})]
            worst = max(worst, float((outputs[0] - expected[:count]).abs().max()))
            below = max(below, below_best(scores[:count], outputs[1].argmax(dim=1)))
        if not (worst < _AGREES and below < _BELOW):
            raise EncoderError(
                f"{path} would give probabilities that differ by {worst:.2g} from torch's, or other classes; it is not "
                "written"
            )
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
        head.module.to(device)
        if head.reading is not None:
            head.reading.to(device)
    return worst


def below_best(scores: Float[Tensor, "n k"], chosen: Int[Tensor, " n"]) -> float:
    """How far the chosen classes' scores are below the best, at most, as a share of a row's range."""
    high, low = scores.amax(dim=1), scores.amin(dim=1)
    apart = high - scores.gather(1, chosen[:, None])[:, 0]
    return float((apart / (high - low).clamp_min(torch.finfo(scores.dtype).tiny)).max())
