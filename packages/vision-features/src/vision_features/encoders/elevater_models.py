"""Checkpoints that ELEVATER compares, in the files that their authors publish: MoCo-v3, CAE, UniCL and K-LITE.

Widths, depths, patches and windows are read off the weights. Only local files are read.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vision_features.encoders.encoder import Encoder
from vision_features.encoders.spec import EncoderSpec
from vision_features.encoders.timm_models import without_classifier
from vision_features.errors import EncoderError
from wary_files.checkpoints import refuse_integers

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CONTEXT = 77
"""Tokens of CLIP's vocabulary that UniCL and K-LITE read."""
_IMAGE_NAMES, _TEXT_NAMES = ("image_encoder.", "visual."), ("text_encoder.", "lang_encoder.", "text.")
_IMAGE_MATRICES, _TEXT_MATRICES = ("image_projection", "vision_projection"), ("text_projection", "lang_projection")
State = dict[str, Tensor]


def load(spec: EncoderSpec) -> Encoder:
    """Make an encoder from a checkpoint, named ``moco-v3:FILE``, ``cae:FILE``, ``unicl:FILE`` or ``klite:FILE``."""
    state = _state(spec)
    try:
        encoder = _MAKERS[spec.source](spec, state)
    except (KeyError, RuntimeError, IndexError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise EncoderError(
            f"encoder {spec.text!r}: {spec.name} does not hold the weights of {spec.source}: {reason}"
        ) from error
    return replace(encoder, taxonomy=_TAXONOMY[spec.source])


def _state(spec: EncoderSpec) -> State:
    """The tensors of a checkpoint, without what wraps them."""
    path = Path(spec.name).expanduser()
    if not path.is_file():
        raise EncoderError(f"encoder {spec.text!r}: no file {spec.name}; expected a checkpoint of {spec.source}")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content: Any = load_file(path)
        else:
            with torch.serialization.safe_globals([argparse.Namespace]):  # options of a training, which nothing reads
                content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise EncoderError(
            f"encoder {spec.text!r}: {spec.name} is not a checkpoint of tensors ({type(error).__name__}); if it holds "
            "objects, keep its weights alone: torch.save({'model': checkpoint['model']}, FILE)"
        ) from error
    for name in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(name), Mapping):
            content = content[name]
    state = {} if not isinstance(content, Mapping) else {
        str(name).removeprefix("module."): value for name, value in content.items() if isinstance(value, Tensor)
    }  # fmt: skip
    if not state:
        raise EncoderError(f"encoder {spec.text!r}: {spec.name} holds no weights; expected a checkpoint")
    refuse_integers(spec.name, {name: str(tensor.dtype) for name, tensor in state.items()})
    return state


def _below(state: State, *prefixes: str) -> State:
    """The weights below the first prefix that any has, without it."""
    for prefix in prefixes:
        below = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        if below:
            return below
    return {}


def _depth(state: State, pattern: str) -> int:
    numbers = [int(match[1]) for name in state if (match := re.match(pattern, name))]
    if not numbers:
        raise KeyError(f"no weight's name begins with {pattern}")
    return 1 + max(numbers)


def _transformer(state: State) -> dict[str, Any]:
    """The shape of a vision transformer from its weights; heads are 12, and 16 where it is 1,024 wide."""
    width, _, patch, _ = state["patch_embed.proj.weight"].shape
    side = math.isqrt(state["pos_embed"].shape[1] - 1)
    return {
        "img_size": side * patch,
        "patch_size": patch,
        "embed_dim": width,
        "depth": _depth(state, r"blocks\.(\d+)\."),
        "num_heads": 16 if width == 1024 else 12,
        "mlp_ratio": state["blocks.0.mlp.fc1.weight"].shape[0] / width,
        "norm_layer": partial(nn.LayerNorm, eps=1e-6),
    }


def _moco(spec: EncoderSpec, state: State) -> Encoder:
    """MoCo-v3's base encoder, of a pre-training's checkpoint or one that was converted to DeiT's names."""
    from timm.models.vision_transformer import VisionTransformer

    own = _below(state, "base_encoder.") or state
    own = {name: value for name, value in own.items() if not name.startswith("head.")}
    model = VisionTransformer(**_transformer(own), num_classes=0, global_pool="token")
    return _filled(spec, model, own)


def _cae(spec: EncoderSpec, state: State) -> Encoder:
    """CAE's encoder, whose features are its class token, as in its linear probe; regressor and teacher stay out."""
    from timm.models.beit import Beit

    own = _below(state, "encoder.") or state
    own = {name: value for name, value in own.items() if not name.startswith("head.")}
    model = Beit(**_transformer(own), num_classes=0, global_pool="token", use_fc_norm=False, init_values=0.1)
    return _filled(spec, model, own)


def _unicl(spec: EncoderSpec, state: State) -> Encoder:
    """UniCL's Swin transformer and text transformer, under the names of either release; K-LITE's are alike."""
    import open_clip

    model = _Dual(_swin(_below(state, *_IMAGE_NAMES)), *_texts(state))
    inner = _filled(spec, model.vision, None)
    tokenize: Callable[[list[str]], Tensor] = open_clip.SimpleTokenizer(context_length=model.context_length)

    def text(texts: Sequence[str]) -> Tensor:
        features: Tensor = model.text(tokenize(list(texts)).to(model.image_projection.device))
        return features

    return replace(
        inner,
        image=lambda images: inner.image(images) @ model.image_projection,
        backbone=inner.image,
        projection=model.image_projection,
        text=text,
        module=model,
        logit_scale=float(state["logit_scale"].exp()),
        context_length=model.context_length,
    )


class _Dual(nn.Module):
    """Both towers, so that all weights are in one module."""

    def __init__(self, vision: nn.Module, text: nn.Module, image_projection: Tensor, context_length: int) -> None:
        super().__init__()
        self.vision, self.text = vision, text
        self.image_projection = nn.Parameter(image_projection)
        self.context_length = context_length


def _swin(state: State) -> Any:
    """A Swin transformer under its first release's names, with its shape from the weights."""
    from timm.models.swin_transformer import SwinTransformer, checkpoint_filter_fn

    stages = _depth(state, r"layers\.(\d+)\.")
    tables = [state[f"layers.{stage}.blocks.0.attn.relative_position_bias_table"] for stage in range(stages)]
    window = (math.isqrt(tables[0].shape[0]) + 1) // 2
    mask = state.get("layers.0.blocks.1.attn_mask")
    patch = state["patch_embed.proj.weight"].shape[-1]
    side = 224 if mask is None else math.isqrt(mask.shape[0]) * window * patch
    width = state["patch_embed.proj.weight"].shape[0]
    model: Any = SwinTransformer(
        img_size=side,
        patch_size=patch,
        embed_dim=width,
        depths=tuple(_depth(state, rf"layers\.{stage}\.blocks\.(\d+)\.") for stage in range(stages)),
        num_heads=tuple(table.shape[1] for table in tables),
        window_size=window,
        mlp_ratio=state["layers.0.blocks.0.mlp.fc1.weight"].shape[0] / width,
        num_classes=0,
    )
    model.load_state_dict(checkpoint_filter_fn({k: v for k, v in state.items() if not k.startswith("head.")}, model))
    model.pretrained_cfg = _preparation(side)
    return model


def _texts(state: State) -> tuple[nn.Module, Tensor, int]:
    """The text transformer, the matrix of the images' side, and the tokens of a text."""
    from open_clip.transformer import LayerNorm, QuickGELU, TextTransformer

    own = {re.sub(r"^resblocks\.", "transformer.resblocks.", name): value
           for name, value in _below(state, *_TEXT_NAMES).items()}  # fmt: skip
    context, width = own["positional_embedding"].shape
    own["text_projection"] = _named(state, _TEXT_MATRICES)
    model = TextTransformer(
        context_length=context,
        vocab_size=own["token_embedding.weight"].shape[0],
        width=width,
        heads=max(1, width // 64),
        layers=_depth(own, r"transformer\.resblocks\.(\d+)\."),
        output_dim=own["text_projection"].shape[1],
        act_layer=QuickGELU,
        norm_layer=partial(LayerNorm, eps=1e-12),
    )
    model.load_state_dict(own)
    return model, _named(state, _IMAGE_MATRICES), context


def _named(state: State, names: Sequence[str]) -> Tensor:
    for name in names:
        if name in state:
            return state[name]
    raise KeyError(f"{' or '.join(names)} is missing")


def _filled(spec: EncoderSpec, model: Any, state: State | None) -> Encoder:
    """A model of timm's with a checkpoint's weights, every one of them."""
    if state is not None:
        model.load_state_dict(state)
        model.pretrained_cfg = _preparation(model.patch_embed.img_size[0])
    return without_classifier(spec, model)


def _preparation(side: int) -> dict[str, Any]:
    return {
        "input_size": (3, side, side), "mean": _MEAN, "std": _STD, "crop_pct": 0.875, "interpolation": "bicubic",
    }  # fmt: skip


_MAKERS: Mapping[str, Callable[[EncoderSpec, State], Encoder]] = {
    "moco-v3": _moco, "cae": _cae, "unicl": _unicl, "klite": _unicl,
}  # fmt: skip
_IMAGENET = {"language": "no", "knowledge": "no", "data": "ImageNet-1K (1.2M)", "track": "academic"}
_TAXONOMY: Mapping[str, Mapping[str, str]] = {
    "moco-v3": _IMAGENET, "cae": _IMAGENET, "unicl": {"language": "yes", "knowledge": "no"},
    "klite": {"language": "yes", "knowledge": "yes"},
}  # fmt: skip
"""ELEVATER, table 2; which data UniCL and K-LITE saw depends on the checkpoint."""
