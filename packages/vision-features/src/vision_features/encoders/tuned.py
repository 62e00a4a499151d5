"""Encoders that a run trained: what they differ in from where they started, in a folder with a card."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from vision_adapters.low_rank import merge_lora
from vision_features.__about__ import __version__
from vision_features.encoders.encoder import Encoder, fingerprint_of
from vision_features.encoders.named import CARD_SCHEMA, read_card, share_of, spec_of_file, start_of
from vision_features.encoders.own import adopt
from vision_features.encoders.spec import EncoderSpec, parse_spec
from vision_features.errors import EncoderError
from wary_files.errors import UsageError
from wary_files.folders import Content, write_folder
from wary_files.limits import refuse_special

_CHANGED, _WHOLE = "encoder.safetensors", "open_clip_model.safetensors"
"""What differs from the start; or all weights, of a model of open_clip's, under the name that it asks for."""


def save_tuned(encoder: Encoder, start: Mapping[str, Tensor], folder: Path, about: Mapping[str, Any]) -> Path:
    """Keep what a training changed in an encoder."""
    from vision_adapters.saved import write_tensors

    assert encoder.module is not None
    merge_lora(encoder.module)
    now = encoder.module.state_dict()
    changed = {name: value.detach().cpu() for name, value in now.items() if not torch.equal(value.cpu(), start[name])}
    card = {
        "schema": CARD_SCHEMA,
        "vision_features": __version__,
        "encoder": {
            "spec": encoder.spec,
            **encoder.preparation(),
            "start": fingerprint_of(start),
            "fingerprint": fingerprint_of(now),
            "changed": len(changed),
        },
        **about,
    }
    files: dict[str, Content] = {"card.json": (json.dumps(card, indent=1, ensure_ascii=False) + "\n").encode()}
    config = open_clip_config(encoder)
    if config is None:
        files[_CHANGED] = partial(write_tensors, changed)
    else:
        files[_WHOLE] = partial(write_tensors, now)
        files["open_clip_config.json"] = (json.dumps(config, indent=1) + "\n").encode()
    write_folder(folder, files)
    return folder


def open_clip_config(encoder: Encoder) -> dict[str, Any] | None:
    """What open_clip asks for beside weights in a ``local-dir:``; None where the encoder is none of its models."""
    try:
        spec = parse_spec(encoder.spec)
        while spec.source == "tuned":
            spec = parse_spec(start_of(spec))
    except UsageError:  # an object of the user's
        return None
    if spec.source != "open_clip":
        return None
    import open_clip

    visual: Any = cast(Any, encoder.module).visual
    chosen = getattr(visual, "preprocess_cfg", {})
    resizing = {name: chosen[name] for name in ("interpolation", "resize_mode") if name in chosen}
    prepared = encoder.preparation()
    model: Any = open_clip.get_model_config(spec.name)
    model["vision_cfg"]["image_size"] = prepared.pop("image_size")
    about = {**prepared, **resizing}
    return {"model_cfg": model, "preprocess_cfg": about}


def load_tuned(folder: Path | str, base: Any, *, spec: str | None = None, share: float = 1.0) -> Encoder:
    """Put trained weights into the encoder that they were trained from.

    Args:
        folder: that a run with ``save_encoders`` wrote: ``RUN/encoders/BENCHMARK.seedN``.
        base: the encoder as it was before: an `Encoder`, or an object that `gate_runner.run` takes. It is changed in
            place once all checks have passed, stays on its device, and is then in evaluation mode without gradients.
        spec: what it is called from now on; ``tuned:FOLDER`` by default.
        share: of the trained weights in a mix with those from before (WiSE-FT), 0 to 1.

    Returns:
        The same encoder, with the weights that it had at the end, or the mix.

    Raises:
        EncoderError: no such folder, a damaged file, or another encoder; the message shows both fingerprints.

    Example:
        >>> kept = "runs/tuned/encoders/digits.seed0"
        >>> encoder = load_tuned(kept, my_encoder())  # doctest: +SKIP
        >>> encoder.encode_image(images).shape  # doctest: +SKIP
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    trained = Path(folder)
    about = read_card(trained)["encoder"]
    encoder = adopt(base, type(base).__name__)
    if encoder.module is None or encoder.fingerprint() != about["start"]:
        raise EncoderError(
            f"{trained} was trained from {about['spec']} with weights {about['start'][:16]}…, "
            f"not from {encoder.spec} with "
            f"weights {str(encoder.fingerprint())[:16]}…"
        )
    for name, now in encoder.preparation().items():
        if about.get(name, now) != now:
            raise EncoderError(
                f"{trained} was trained on images with {name} {about[name]}, not {now} as {encoder.spec}"
            )
    path = trained / (_WHOLE if (trained / _WHOLE).is_file() else _CHANGED)
    start = encoder.module.state_dict()
    refuse_special(path)
    try:
        weights = load_file(path)
        refuse_other_shapes(weights, start, some=True)
    except (OSError, SafetensorError, ValueError, RuntimeError) as error:
        raise EncoderError(f"{path} cannot be used: {' '.join(str(error).split()):.200}") from error
    if fingerprint_of({**start, **weights}) != about["fingerprint"]:  # before the module is touched
        raise EncoderError(f"{path} was changed: its weights are not those of {trained / 'card.json'}")
    if share != 1:
        weights = {name: _between(start[name], value.to(start[name].device), share) for name, value in weights.items()}
    encoder.module.load_state_dict({**start, **weights}, strict=True)
    encoder.to(str(encoder.device))
    scale = getattr(encoder.module, "logit_scale", None)
    if encoder.logit_scale is not None and isinstance(scale, Tensor):  # it has learnt, too
        encoder.logit_scale = float(scale.detach().exp())
    encoder.spec = spec or f"tuned:{trained}" + ("" if share == 1 else f"@{share:g}")
    return encoder


def refuse_other_shapes(weights: Mapping[str, Tensor], own: Mapping[str, Tensor], *, some: bool = False) -> None:
    """Refuse weights of another model, before any of them is taken; ``some`` may be missing."""
    unknown = sorted(weights.keys() - own.keys()) or ([] if some else sorted(own.keys() - weights.keys()))
    if unknown:
        raise ValueError(f"weights {', '.join(unknown[:3])} are in one of the two only")
    for name, value in weights.items():
        if value.shape != own[name].shape:
            raise ValueError(f"{name} has shape {tuple(value.shape)}, expected {tuple(own[name].shape)}")


def _between(start: Tensor, end: Tensor, share: float) -> Tensor:
    return torch.lerp(start, end, share) if end.is_floating_point() else end


def load(spec: EncoderSpec, make: Callable[[str], Encoder]) -> Encoder:
    """Make ``tuned:FOLDER`` from the encoder that its card names, or ``tuned:FOLDER=SPEC`` from another spec.

    ``tuned:FOLDER@0.5`` is the mix of as large a share of the trained weights with those from before.
    """
    folder, _, start = spec.name.partition("=")
    folder, share = share_of(folder)
    if not start:
        start = spec_of_file(start_of(spec), Path(folder) / "card.json", say=f"tuned:{folder}={{}}")
    return load_tuned(Path(folder).expanduser(), make(start), spec=spec.text, share=share)
