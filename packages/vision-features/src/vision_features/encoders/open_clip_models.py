"""Encoders from open_clip: a model's name, and weights from a tag, a local file, or random."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vision_features.encoders import contexts
from vision_features.encoders.blocks import by_hooks, of_open_clip
from vision_features.encoders.encoder import CLIP_MEAN, CLIP_STD, Encoder, PatchFeatures, TextTokens
from vision_features.encoders.spec import EncoderSpec, check_patches
from vision_features.encoders.towers import DualEncoder, ImageTower
from vision_features.encoders.transforms import of_steps
from vision_features.errors import EncoderError
from wary_files.checkpoints import refuse_integers, stored_kinds
from wary_files.errors import unknown
from wary_files.limits import refuse_special


def load(spec: EncoderSpec) -> Encoder:
    """Make an open_clip encoder."""
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2

    if spec.name not in open_clip.list_models():
        raise unknown("open_clip model", spec.name, open_clip.list_models())
    tags = open_clip.list_pretrained_tags_by_model(spec.name)
    if spec.weights is None:
        raise EncoderError(
            f"encoder {spec.text!r} says no weights; add /random, /FILE or a tag, as "
            f"{', '.join(tags[:4]) or 'none is published'}"
        )
    seed = spec.random_seed
    if seed is None and spec.weights not in tags and not Path(spec.weights).is_file():
        raise unknown(f"weights of {spec.name} (neither a file nor a tag):", spec.weights, tags)
    vision: Any = (open_clip.get_model_config(spec.name) or {}).get("vision_cfg", {})
    is_resnet = isinstance(vision.get("layers"), list)
    if is_resnet and isinstance(spec.pixels, tuple):
        raise EncoderError(f"encoder {spec.text!r}: open_clip's ResNets take square images only")
    check_patches(spec, 32 if is_resnet else vision.get("patch_size", 1))
    drawn = {"pretrained_image": False, "pretrained_text": False}
    weights: dict[str, Any] = {"pretrained": spec.weights} if seed is None else drawn
    if seed is None and spec.weights not in tags:
        file = Path(spec.weights)
        config = file.with_name("open_clip_config.json")
        stated = _stated(config)
        _warn_of_activation(spec, stated)
        refuse_integers(file, _kinds(file))
        weights["force_preprocess_cfg"] = _preparation_of_file(spec, config, stated, tags)
    with torch.random.fork_rng(devices=[]), refused_code():
        torch.manual_seed(seed or 0)
        model = open_clip.create_model(spec.name, **weights, force_image_size=spec.pixels)
        tokenize = open_clip.get_tokenizer(spec.name)
    encoder = from_clip(model, tokenize, spec.text)
    how = PreprocessCfg(**model.visual.preprocess_cfg)
    encoder.transform = of_steps(image_transform_v2(how, is_train=False), encoder.image_size)
    return encoder


def _stated(config: Path) -> dict[str, Any]:
    """Return what a configuration in open_clip's form holds; empty where there is none, or it cannot be read."""
    try:
        refuse_special(config)
        stated = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return stated if isinstance(stated, dict) else {}


def _warn_of_activation(spec: EncoderSpec, stated: dict[str, Any]) -> None:
    """Warn where a model has a sibling with QuickGELU: a file of weights does not tell which of the two it is of.

    OpenAI's weights and what was fine-tuned from them need QuickGELU; with GELU they load without an error and score
    lower. An ``open_clip_config.json`` next to the file that says ``quick_gelu`` decides.
    """
    import open_clip

    sibling = f"{spec.name}-quickgelu"
    if sibling not in open_clip.list_models() or (open_clip.get_model_config(spec.name) or {}).get("quick_gelu"):
        return
    quick = _says_quick_gelu(stated)
    if quick is False:
        return
    why = (
        "but the open_clip_config.json next to it says QuickGELU"
        if quick
        else "and nothing next to it says which activation it was trained with"
    )
    size = "" if spec.pixels is None else spec.text.partition("@")[2].partition("/")[0]
    other = f"open_clip:{sibling}{f'@{size}' if size else ''}/{spec.weights}"
    warnings.warn(
        f"encoder {spec.text!r} computes with GELU, {why}: weights of OpenAI, and those fine-tuned from them, need "
        f"QuickGELU: {other}",
        UserWarning,
        stacklevel=2,
    )


_PREPARATION = ("mean", "std", "interpolation", "resize_mode")
"""What images of one size may be prepared by otherwise, as open_clip's configurations call it."""


def _preparation_of_file(
    spec: EncoderSpec, config: Path, stated: dict[str, Any], tags: Sequence[str]
) -> dict[str, Any]:
    """Return how images are prepared for a file of weights, which does not tell it; empty for open_clip's default.

    An ``open_clip_config.json`` next to the file decides. Without one, what all published weights of the model agree on
    is taken, and a warning says so where that is not open_clip's default, or where they differ.
    """
    import open_clip
    from open_clip.transform import PreprocessCfg

    if given := _preparation_in(config, stated):
        return given
    default = vars(PreprocessCfg())
    published = {}
    for tag in tags:
        of_tag = open_clip.get_pretrained_cfg(spec.name, tag)
        forms = ((name, of_tag.get(name) or default[name]) for name in _PREPARATION)
        published[tag] = {name: tuple(form) if isinstance(form, list) else form for name, form in forms}
    usual = {name: default[name] for name in _PREPARATION}
    first = next(iter(published.values()), usual)
    is_agreed = all(form == first for form in published.values())
    taken = first if is_agreed else usual
    if not is_agreed or taken != usual:
        other = next((tag for tag, form in published.items() if form != usual), "")
        why = "all its published weights" if is_agreed else f"some of its published weights, but not {other!r}"
        warnings.warn(
            f"encoder {spec.text!r}: images get mean {taken['mean']}, std {taken['std']}, {taken['interpolation']}, "
            f"{taken['resize_mode']}, as for {why}: nothing next to the file says it; if it was trained otherwise, "
            f"write {config.name} with preprocess_cfg there",
            UserWarning,
            stacklevel=2,
        )
    return taken


def _preparation_in(config: Path, stated: dict[str, Any]) -> dict[str, Any]:
    """Return what a configuration in open_clip's form says of images; empty where it is silent.

    Raises:
        EncoderError: values that cannot be; shows the file and the value.
    """
    from open_clip.transform import PreprocessCfg

    of_images = stated.get("preprocess_cfg")
    if not isinstance(of_images, dict):
        return {}
    given = {name: of_images[name] for name in _PREPARATION if of_images.get(name) is not None}
    default = vars(PreprocessCfg())
    allowed = {"interpolation": ("bicubic", "bilinear", "random"), "resize_mode": ("shortest", "longest", "squash")}
    for name, value in given.items():
        if name in allowed:
            if value not in allowed[name]:
                expected = f"one of {', '.join(allowed[name])}"
                raise EncoderError(f"{config}: preprocess_cfg.{name} is {value!r:.60}; expected {expected}")
        elif not _are_three(value) or (name == "std" and min(value) <= 0):
            raise EncoderError(f"{config}: preprocess_cfg.{name} is {value!r:.60}; expected three numbers, std above 0")
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return {name: default[name] for name in _PREPARATION} | plain if plain else {}


def _are_three(value: object) -> bool:
    """Whether a value of JSON is three finite numbers."""
    return (
        isinstance(value, list)
        and len(value) == 3
        and all(isinstance(number, int | float) and not isinstance(number, bool) for number in value)
        and all(map(math.isfinite, value))
    )


def _kinds(file: Path) -> dict[str, str]:
    """The tensors' types in a file of weights, read without its numbers; none of a file that loading will refuse."""
    if file.suffix == ".safetensors":
        return stored_kinds(file)
    refuse_special(file)
    try:
        content: Any = torch.load(file, map_location="meta", weights_only=True)
    except Exception:  # noqa: BLE001  # a TorchScript archive, or what open_clip refuses with its reason
        return {}
    content = content.get("state_dict", content) if isinstance(content, dict) else {}
    items = content.items() if isinstance(content, dict) else ()
    return {str(name): str(value.dtype) for name, value in items if isinstance(value, Tensor)}


def _says_quick_gelu(stated: dict[str, Any]) -> bool | None:
    """Return what a configuration in open_clip's form says; None where it does not say it."""
    of_model = stated.get("model_cfg")
    quick = of_model.get("quick_gelu") if isinstance(of_model, dict) else None
    return quick if isinstance(quick, bool) else None


@contextmanager
def refused_code() -> Iterator[None]:
    """Make code that a folder brings an error, not a question, while open_clip loads parts by transformers.

    Text towers such as ``roberta-base`` are looked for in the working folder first.
    """
    module: Any = sys.modules.get("transformers.dynamic_module_utils")
    if module is None:
        yield
        return
    seconds, module.TIME_OUT_REMOTE_CODE = module.TIME_OUT_REMOTE_CODE, 0
    try:
        yield
    finally:
        module.TIME_OUT_REMOTE_CODE = seconds


def _counter(tokenize: Any) -> Callable[[Sequence[str]], list[int]] | None:
    """Return what counts a tokenizer's tokens; None for one whose texts cannot be had whole."""
    from knowledge_prompts.encoding.tokens import token_rules

    if hasattr(tokenize, "count"):
        count: Callable[[Sequence[str]], list[int]] = tokenize.count
        return count
    try:
        rules = token_rules(tokenize)
    except (TypeError, ValueError):
        return None
    return lambda texts: [len(ids) for ids in rules.ids(texts)]


def from_clip(model: Any, tokenize: Callable[[list[str]], Tensor], spec: str) -> Encoder:
    """Wrap a model of open_clip's own ``CLIP`` or ``CustomTextCLIP`` class, or a `DualEncoder`."""
    visual = model.visual
    pad = getattr(getattr(model, "text", model), "pad_id", 0)

    # behind attentional pooling (CoCa) the last norm is of the pooled width: places come as the last block gives them
    normalised = getattr(visual, "attn_pool", None) is None

    def device() -> torch.device:
        device: torch.device = next(model.parameters()).device
        return device

    def patches(images: Tensor) -> PatchFeatures:
        outputs = model.forward_intermediates(
            image=images, image_indices=1, intermediates_only=True, normalize_intermediates=normalised
        )
        maps = outputs["image_intermediates"][-1]
        return PatchFeatures(maps.flatten(2).transpose(1, 2), (maps.shape[2], maps.shape[3]))

    def backbone(images: Tensor) -> Tensor:
        if isinstance(visual, ImageTower) and not torch.is_grad_enabled():
            return visual.class_state(images)
        outputs = visual.forward_intermediates(
            images, indices=1, normalize_intermediates=True, intermediates_only=True, output_extra_tokens=True
        )
        pooled: Tensor = outputs["image_intermediates_prefix"][-1][:, 0]
        return pooled

    def text(texts: Sequence[str]) -> Tensor:
        features: Tensor = model.encode_text(tokenize(list(texts)).to(device()))
        return features

    def text_tokens(texts: Sequence[str]) -> TextTokens:
        ids = tokenize(list(texts)).to(device())
        outputs = model.forward_intermediates(
            text=ids, text_indices=1, intermediates_only=True, normalize_intermediates=True
        )
        tokens = outputs["text_intermediates"][-1]
        # CLIP's padding is a sign's token, too: "!" before another sign
        real = (ids != pad).flip(1).cumsum(1).flip(1) > 0
        return TextTokens(tokens, real[:, : tokens.shape[1]])

    shows_places = hasattr(visual, "forward_intermediates")
    # of open_clip's own towers, those that take the class token after the last norm and multiply it by a matrix
    takes_class_token = getattr(visual, "pool_type", None) == "tok" and not getattr(visual, "attn_pool", None)
    projects = takes_class_token and isinstance(getattr(visual, "proj", None), Tensor)
    words = getattr(model, "text", getattr(model, "transformer", None))
    shows_words = hasattr(words, "forward_intermediates") or isinstance(model, DualEncoder)
    return Encoder(
        spec=spec,
        image_size=visual.image_size,
        image=model.encode_image,
        backbone=backbone if shows_places and projects else None,
        projection=visual.proj if shows_places and projects else None,
        patches=patches if shows_places else None,
        text=text,
        text_tokens=text_tokens if shows_words else None,
        blocks=of_open_clip(visual, projects) if shows_places else by_hooks(visual, model.encode_image),
        module=model,
        mean=getattr(visual, "image_mean", None) or CLIP_MEAN,
        std=getattr(visual, "image_std", None) or CLIP_STD,
        logit_scale=float(model.logit_scale.detach().exp()),
        context_length=getattr(tokenize, "context_length", None),
        count_tokens=_counter(tokenize),
        contexts=contexts.of_open_clip(model, tokenize),
    )
