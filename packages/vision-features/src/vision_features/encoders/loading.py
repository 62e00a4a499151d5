"""From a spec string to an encoder."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gate_data.imports import named
from vision_features.encoders.devices import device_in
from vision_features.encoders.named import HUB_SOURCES, is_at_hand, spec_of_file
from vision_features.encoders.spec import ENTRY_POINTS, FOLDER_SOURCES, EncoderSpec, parse_spec
from vision_features.errors import EncoderError
from wary_files.errors import UsageError, reason_of

if TYPE_CHECKING:
    from vision_features.encoders.encoder import Encoder


_LOADERS = {
    "micro-clip": "micro_clip:load",
    "micro-dense": "micro_clip:load",
    "lite": "lite:load",
    "open_clip": "open_clip_models:load",
    "timm": "timm_models:load",
    "hf": "hugging_face:load",
    "hf-detector": "hugging_face:load_detector",
    "hf-text": "hugging_face:load_shifted",
    "hf-audio": "hugging_face:load_shifted",
    "moco-v3": "elevater_models:load",
    "cae": "elevater_models:load",
    "unicl": "elevater_models:load",
    "klite": "elevater_models:load",
    "module": "own:load",
}
"""The loader of each source, imported when it is asked for."""


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
    from vision_features.encoders.probe import probe

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
    """From what lies here, or from the hub where that answers; where it does not, from the hub's cache."""
    if spec.source not in HUB_SOURCES or is_at_hand(spec) or find_spec("huggingface_hub") is None:
        return _loaded(spec)
    from gate_data.hub.reaching import cache_alone, why_silent

    silent = why_silent()
    if not silent:
        return _loaded(spec)
    try:
        with cache_alone():
            return _loaded(spec)
    except EncoderError as error:
        causes: list[BaseException | None] = [error.__cause__]
        while (cause := causes[-1]) is not None:
            causes.append(cause.__cause__ or cause.__context__)
        if not any(isinstance(cause, OSError) for cause in causes):  # of the network, or of what the cache lacks
            raise
        local, form = (
            (f"there is no folder {spec.name} here, nor does the hub's cache hold it", "./FOLDER")
            if spec.source in FOLDER_SOURCES
            else ("the hub's cache does not hold its weights", f"{spec.name}/FILE")
        )
        raise EncoderError(
            f"encoder {spec.text!r}: {silent}, and {local}; fetch it where there is a network and name the copy, as "
            f"{spec.source}:{form}, or bring the hub's cache (HF_HOME), which HF_HUB_OFFLINE=1 takes without asking"
        ) from error


def _loaded(spec: EncoderSpec) -> Encoder:
    """By the loader of the spec's source, whose module is imported only now; what it raises becomes one line."""
    try:
        if spec.source in _LOADERS:
            encoder: Encoder = named(f"vision_features.encoders.{_LOADERS[spec.source]}")(spec)
            return encoder
        if spec.source == "tuned":
            from vision_features.encoders import tuned

            return tuned.load(spec, lambda base: _made(parse_spec(base)))
        from vision_features.encoders import own

        (point,) = entry_points(group=ENTRY_POINTS, name=spec.source)
        return own.adopt(point.load()(spec.name), spec.text)
    except UsageError:
        raise
    except Exception as error:
        raise EncoderError(f"encoder {spec.text!r} does not load: {reason_of(error)}") from error


def device_for(device: str) -> str:
    """A torch device: ``"auto"`` is the first GPU where there is one."""
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
