"""Modality shift: text and audio encoders that see images through a patch stem, as GATE has them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gate_runner.encoders.encoder import Encoder, PatchFeatures
from gate_runner.encoders.hugging_face import of_transformers
from gate_runner.encoders.spec import EncoderSpec
from gate_runner.errors import EncoderError

_KINDS = {"hf-text": ("bert", "roberta", "distilbert", "mpnet", "bart"), "hf-audio": ("whisper",)}
_PATCH, _SIZE = 16, 224
_HALF = (0.5, 0.5, 0.5)


def load(spec: EncoderSpec) -> Encoder:
    """A text or audio model of transformers, its own input layer replaced by a patch stem that starts at random.

    ``/random`` or ``/random:SEED`` behind the name gives the same architecture with random weights throughout. The
    images have 224 pixels, or as many as the model has positions for; only ``--tune full`` teaches the stem to see.

    Source:
        GATE's modality shift, section 3; see `vision_adapters.stems.PatchEncoder`.
    """
    from vision_adapters.stems import PatchEncoder

    seed, (transformers, where) = spec.random_seed, of_transformers(spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed or 0)
        model = _model(transformers, spec, where, random=seed is not None)
        stemmed = PatchEncoder(model, patch=_PATCH)
    side = min(_SIZE // _PATCH, int(stemmed.positions**0.5))

    def patches(images: Tensor) -> PatchFeatures:
        return PatchFeatures(stemmed(images), (side, side))

    return Encoder(
        spec=spec.text,
        image_size=side * _PATCH,
        image=stemmed.pooled,
        patches=patches,
        module=stemmed,
        mean=_HALF,
        std=_HALF,
    )


def _model(transformers: Any, spec: EncoderSpec, where: str, *, random: bool) -> Any:
    kinds = _KINDS[spec.source]
    config = transformers.AutoConfig.from_pretrained(where, trust_remote_code=False)
    if config.model_type not in kinds:
        raise EncoderError(f"encoder {spec.text!r} is a {config.model_type}; {spec.source}: takes {', '.join(kinds)}")
    if random:
        return transformers.AutoModel.from_config(config, trust_remote_code=False)
    return transformers.AutoModel.from_pretrained(where, use_safetensors=True, trust_remote_code=False)
