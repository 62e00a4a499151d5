"""Encoders from timm: any of its models, without its classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gate_data.request import height_width
from vision_features.encoders.blocks import by_hooks, of_timm
from vision_features.encoders.encoder import Encoder, PatchFeatures
from vision_features.encoders.spec import EncoderSpec, check_patches
from vision_features.encoders.transforms import of_steps
from vision_features.errors import EncoderError
from wary_files.checkpoints import refuse_integers
from wary_files.errors import unknown


def load(spec: EncoderSpec) -> Encoder:
    """Make a timm encoder: its published weights, a local checkpoint, or random ones."""
    import timm

    base = spec.name.partition(".")[0]
    if not timm.is_model(base):
        raise unknown("timm model", spec.name, timm.list_models())
    seed = spec.random_seed
    model: Any
    if seed is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = timm.create_model(base)
    elif spec.weights is None:
        model = timm.create_model(spec.name, pretrained=True)
    else:
        model = _from_file(timm, spec.name, Path(spec.weights))
    if spec.pixels is not None:
        _resize(spec, model, height_width(spec.pixels))
    return without_classifier(spec, model)


def _resize(spec: EncoderSpec, model: Any, size: tuple[int, int]) -> None:
    """Have a model take images of another size; learnt places are interpolated by timm."""
    own = tuple(model.pretrained_cfg["input_size"][1:])
    check_patches(spec, getattr(getattr(model, "patch_embed", None), "patch_size", 1))
    if hasattr(model, "set_input_size"):
        model.set_input_size(img_size=size)
    elif model.pretrained_cfg.get("fixed_input_size") and size != own:
        raise EncoderError(f"encoder {spec.text!r} takes images of {own[0]} x {own[1]} pixels, and no others")


def without_classifier(spec: EncoderSpec, model: Any) -> Encoder:
    """A timm model as an encoder: features before its classifier, and its last feature map as patches."""
    import timm.data as timm_data

    model.to(memory_format=torch.channels_last)  # convolutions take less time on a CPU
    library: Any = timm_data  # timm leaves it without types
    size = model.pretrained_cfg["input_size"][1:] if spec.pixels is None else height_width(spec.pixels)
    config = library.resolve_model_data_config(model, args={"input_size": (3, *size)})

    def image(images: Tensor) -> Tensor:
        features: Tensor = model.forward_head(model.forward_features(images), pre_logits=True)
        return features.flatten(1)

    def patches(images: Tensor) -> PatchFeatures:
        how = {"indices": 1, "output_fmt": "NCHW", "intermediates_only": True, "norm": False}
        maps = model.forward_intermediates(images, **how)[-1]
        return PatchFeatures(maps.flatten(2).transpose(1, 2), (maps.shape[2], maps.shape[3]))

    return Encoder(
        spec=spec.text,
        image_size=size,
        image=image,
        patches=patches if hasattr(model, "forward_intermediates") else None,
        blocks=of_timm(model) if hasattr(model, "forward_intermediates") else by_hooks(model, image),
        module=model,
        mean=config["mean"],
        std=config["std"],
        transform=of_steps(library.create_transform(**config, is_training=False), size),
    )


def _from_file(timm: Any, name: str, path: Path) -> Any:
    if not path.is_file():
        raise EncoderError(f"no file {path}; expected a timm checkpoint (.safetensors or .pth) of {name}")
    from timm.models import load_state_dict

    state = load_state_dict(str(path), weights_only=True)
    refuse_integers(path, {key: str(tensor.dtype) for key, tensor in state.items()})
    head = next(
        (state[key] for key in ("head.weight", "fc.weight", "head.fc.weight", "classifier.weight") if key in state),
        None,
    )
    model = timm.create_model(name.partition(".")[0], num_classes=0 if head is None else head.shape[0])
    model.load_state_dict(state)
    return model
