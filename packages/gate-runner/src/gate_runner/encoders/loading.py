"""From a spec string to an encoder."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from gate_runner.encoders.named import spec_of_file
from gate_runner.encoders.spec import ENTRY_POINTS, EncoderSpec, parse_spec
from gate_runner.errors import EncoderError, UsageError
from gate_runner.setting_values import device_in

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder


def load_encoder(text: str, *, device: str = "cpu") -> Encoder:
    """Make an encoder from a spec string, and check what it gives on two small images before anything else runs.

    Args:
        text: the spec string, see `parse_spec`.
        device: a torch device, e.g. ``"cpu"`` or ``"cuda:0"``.

    Returns:
        The encoder, frozen and in evaluation mode.

    Raises:
        UsageError: the spec is wrong; the message shows the nearest.
        EncoderError: the device cannot hold it, weights are missing or do not fit, or the features have a wrong shape,
            NaN or infinity.

    Example:
        >>> load_encoder("micro-clip/random").image_size
        64
    """
    spec = parse_spec(text)
    encoder = _made(spec)
    from gate_runner.encoders.probe import probe

    try:
        encoder.to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # as torch's parts say it, each its own way
        raise EncoderError(f"encoder {text!r} cannot be moved to {device}: {str(error).splitlines()[0]}") from error
    encoder.outputs = probe(encoder)
    return encoder


def load_named_encoder(named: str, file: Path, *, chosen: str | None = None, device: str = "cpu") -> Encoder:
    """The encoder that a file names, where a file may choose it, or the one that the user says in its place."""
    return load_encoder(chosen or spec_of_file(named, file), device=device)


def _made(spec: EncoderSpec) -> Encoder:
    """By the loader of the spec's source, whose module is imported only now."""
    if spec.source == "micro-clip":
        from gate_runner.encoders import micro_clip

        return micro_clip.load(spec)
    if spec.source == "open_clip":
        from gate_runner.encoders import open_clip_models

        return open_clip_models.load(spec)
    if spec.source == "timm":
        from gate_runner.encoders import timm_models

        return timm_models.load(spec)
    if spec.source == "lite":
        from gate_runner.encoders import lite

        return lite.load(spec)
    if spec.source == "hf":
        from gate_runner.encoders import hugging_face

        return hugging_face.load(spec)
    if spec.source == "hf-detector":
        from gate_runner.encoders import detector

        return detector.load(spec)
    if spec.source in ("hf-text", "hf-audio"):
        from gate_runner.encoders import shifted

        return shifted.load(spec)
    if spec.source == "tuned":
        from gate_runner.encoders import tuned

        return tuned.load(spec, lambda base: _made(parse_spec(base)))
    from gate_runner.encoders import own

    if spec.source == "module":
        return own.load(spec)
    (point,) = entry_points(group=ENTRY_POINTS, name=spec.source)
    return own.adopt(point.load()(spec.name), spec.text)


def device_for(device: str) -> str:
    """A torch device: ``"auto"`` is the first GPU where there is one.

    Example:
        >>> device_for("cpu")
        'cpu'
    """
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    device_in(device)
    if device.startswith("cuda"):
        count = torch.cuda.device_count()
        if int(device.partition(":")[2] or 0) >= count:
            available = f"{count} GPU{'s' * (count > 1)}: cuda:0 to cuda:{count - 1}" if count else "no GPU"
            raise UsageError(
                f"--device {device}: torch finds {available} on this machine; --device auto takes what is there"
            )
    return device
