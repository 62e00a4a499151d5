"""Encoders from Hugging Face transformers: vision models (ViT, DINOv2, …) and dual encoders (CLIP, SigLIP, …)."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from gate_data.request import size_of
from vision_features.encoders.blocks import Blocks, by_hooks, grid_of, of_states
from vision_features.encoders.code import digest_of_folder
from vision_features.encoders.detectors import CLOSED, Detector
from vision_features.encoders.encoder import CLIP_MEAN, CLIP_STD, Encoder, PatchFeatures, TextTokens
from vision_features.encoders.spec import EncoderSpec
from vision_features.encoders.transforms import of_processor
from vision_features.errors import EncoderError, MissingCapabilityError
from wary_files.checkpoints import whole
from wary_files.errors import DataError, reason_of

_LOG = logging.getLogger(__name__)
_HALF = (0.5, 0.5, 0.5)
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_FAMILIES = {
    **dict.fromkeys(("siglip", "siglip2", "siglip_vision_model", "siglip2_vision_model", "beit"), (_HALF, _HALF)),
    **dict.fromkeys(("clip", "clip_vision_model", "chinese_clip", "metaclip_2", "blip"), (CLIP_MEAN, CLIP_STD)),
    **dict.fromkeys(
        (
            "dinov2",
            "dinov2_with_registers",
            "dinov3_vit",
            "dinov3_convnext",
            "swin",
            "swinv2",
            "convnext",
            "convnextv2",
        ),
        _IMAGENET,
    ),
    **dict.fromkeys(("resnet", "regnet", "focalnet", "pvt", "pvt_v2", "deit", "vit_mae", "levit", "cvt"), _IMAGENET),
}
"""Means and standard deviations that the checkpoints of a family were published with, by its ``model_type``."""
_KINDS = {"hf-text": ("bert", "roberta", "distilbert", "mpnet", "bart"), "hf-audio": ("whisper",)}
_PATCH, _SIZE = 16, 224
"""Of the models behind a patch stem: their kinds, and the pixels of a patch and of an image."""
_POOLER = "pooler."
"""Weights that checkpoints of classifiers lack, since a classifier reads the first token itself."""


def of_transformers(spec: EncoderSpec) -> tuple[Any, str]:
    """The library, and the directory, or the id on the hub, of a model that it loads."""
    try:
        import transformers
    except ImportError as error:
        raise EncoderError(f"{spec.source}: encoders need transformers: pip install 'vision-features[hf]'") from error
    path = Path(spec.name).expanduser()
    looks_local = spec.name.startswith((".", "/", "~")) or spec.name.endswith("/") or spec.name.count("/") > 1
    if looks_local and not path.is_dir():
        raise EncoderError(f"encoder {spec.text!r}: no directory {path}")
    return transformers, str(path) if path.is_dir() else spec.name


def load(spec: EncoderSpec) -> Encoder:
    """Make an encoder from a local directory, or from an id on the hub.

    Only safetensors weights are read, and no code that a repository brings is run. A checkpoint that lacks weights is
    refused; where it lacks a pooler alone, as classifiers' do, the features are those of the first token, which the
    classifier reads.
    """
    transformers, source = of_transformers(spec)
    try:
        model, absent_weights = whole(transformers.AutoModel.from_pretrained, source, optional=[_POOLER])
    except DataError as error:
        raise EncoderError(f"encoder {spec.text!r}: {error}") from error
    except Exception as error:
        absent = "" if Path(source).is_dir() else f" (and there is no folder {spec.name} here)"
        raise EncoderError(f"encoder {spec.text!r} does not load{absent}: {reason_of(error)}") from error
    if absent_weights:
        model.pooler = None
    pooled = _first if absent_weights else _pooled
    dual = hasattr(model, "get_image_features")
    vision_config = getattr(model.config, "vision_config", model.config)
    processor = _processor(transformers, source)
    own_size = size_of(getattr(vision_config, "image_size", 224))
    size = _shape_of(processor) or own_size
    if processor is None:
        mean, std = _of_family(spec, model.config.model_type, dual=dual)
    else:
        mean, std = _normalisation(processor)
    tower = model.vision_model if dual else model
    text = _TextSide(transformers, model, source) if dual else None

    encode: Any = model.get_image_features if dual else model
    # Learnt places are interpolated where images have another shape than in training.
    interpolates = "interpolate_pos_encoding" in inspect.signature(getattr(encode, "forward", encode)).parameters
    more: dict[str, Any] = {"interpolate_pos_encoding": True} if interpolates and size != own_size else {}

    def image(images: Tensor) -> Tensor:
        outputs = encode(pixel_values=images, **more)
        return pooled(outputs).flatten(1)

    def patches(images: Tensor) -> PatchFeatures:
        states = tower(pixel_values=images, **more).last_hidden_state
        if states.ndim == 4:
            return PatchFeatures(states.flatten(2).transpose(1, 2), (states.shape[2], states.shape[3]))
        rows, columns = grid_of(states.shape[1], images.shape[-2:])
        return PatchFeatures(states[:, states.shape[1] - rows * columns :], (rows, columns))

    def blocks(images: Tensor) -> Blocks:
        outputs = model(pixel_values=images, output_hidden_states=True, **more)
        states = (outputs.hidden_states or ())[1:]  # the first is the patches before any block
        return Blocks(pooled(outputs).flatten(1), None, of_states(states, images))

    return Encoder(
        spec=spec.text,
        image_size=size,
        image=image,
        patches=patches,
        text=text.features if text else None,
        text_tokens=text.tokens if text else None,
        blocks=by_hooks(tower, image) if dual else blocks,
        module=model,
        mean=mean,
        std=std,
        transform=None if processor is None else of_processor(processor, size),
        logit_scale=float(model.logit_scale.detach().exp()) if hasattr(model, "logit_scale") else None,
        code=_code(transformers, source),
        context_length=text.length if text else None,
        count_tokens=text.count if text else None,
    )


def load_detector(spec: EncoderSpec) -> Encoder:
    """A detector with its processor, from a local directory or the hub."""
    library, where = of_transformers(spec)
    try:
        config = library.AutoConfig.from_pretrained(where, trust_remote_code=False)
        if config.model_type in CLOSED:
            model, _ = whole(library.AutoModelForObjectDetection.from_pretrained, where)
            processor = library.AutoImageProcessor.from_pretrained(where, trust_remote_code=False)
        else:
            model, _ = whole(library.AutoModelForZeroShotObjectDetection.from_pretrained, where)
            processor = library.AutoProcessor.from_pretrained(where, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        lines = str(error).strip().splitlines()
        raise EncoderError(
            f"encoder {spec.text!r} cannot be loaded as a detector: {lines[0] if lines else error}"
        ) from error

    def image(images: Tensor) -> Tensor:
        raise MissingCapabilityError(
            f"encoder {spec.text!r} is a detector: it gives boxes, no features; run detection sets"
        )

    code = _code(library, where)
    return Encoder(spec.text, 224, image, module=model, detector=Detector(model, processor), code=code)


def load_shifted(spec: EncoderSpec) -> Encoder:
    """Modality shift: a text or audio model of transformers behind a patch stem that starts at random.

    ``/random`` or ``/random:SEED`` behind the name gives the same architecture with random weights throughout. The
    images have 224 pixels, or as many as the model has positions for; only ``--tune full`` teaches the stem to see.

    Source:
        GATE's modality shift, section 3; see `vision_adapters.stems.PatchEncoder`.
    """
    from vision_adapters.stems import PatchEncoder

    seed, (transformers, where) = spec.random_seed, of_transformers(spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed or 0)
        model = _shifted_model(transformers, spec, where, random=seed is not None)
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


def _shifted_model(transformers: Any, spec: EncoderSpec, where: str, *, random: bool) -> Any:
    kinds = _KINDS[spec.source]
    config = transformers.AutoConfig.from_pretrained(where, trust_remote_code=False)
    if config.model_type not in kinds:
        raise EncoderError(f"encoder {spec.text!r} is a {config.model_type}; {spec.source}: takes {', '.join(kinds)}")
    if random:
        return transformers.AutoModel.from_config(config, trust_remote_code=False)
    try:
        return whole(transformers.AutoModel.from_pretrained, where, optional=[_POOLER])[0]  # its tokens are taken
    except DataError as error:
        raise EncoderError(f"encoder {spec.text!r}: {error}") from error


class _TextSide:
    """The text tower of a dual encoder and its tokenizer, which is loaded with it."""

    def __init__(self, transformers: Any, model: Any, source: str) -> None:
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        except Exception as error:
            raise EncoderError(
                f"encoder 'hf:{source}' has a text side but its tokenizer does not load: {error}"
            ) from error
        self.model = model
        self.length = model.config.text_config.max_position_embeddings
        # A mask that the model was not trained with would change its features; its tokenizer may have been saved so.
        self.unused = {"token_type_ids"}
        if str(model.config.model_type).startswith("siglip"):
            self.unused.add("attention_mask")

    def _ids(self, texts: Sequence[str]) -> Any:
        tokens = self.tokenizer(
            list(texts), padding="max_length", truncation=True, max_length=self.length, return_tensors="pt"
        )
        return {key: value.to(self.model.device) for key, value in tokens.items() if key not in self.unused}

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text before any is cut off."""
        return [len(ids) for ids in self.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]]

    def features(self, texts: Sequence[str]) -> Tensor:
        return _pooled(self.model.get_text_features(**self._ids(texts)))

    def tokens(self, texts: Sequence[str]) -> TextTokens:
        ids = self._ids(texts)
        states = self.model.text_model(**ids).last_hidden_state
        mask = ids.get("attention_mask")
        every = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        return TextTokens(states, every if mask is None else mask.bool())


def _code(transformers: Any, source: str) -> str:
    """A digest of tokenizer and configurations, in a folder or in the hub's cache."""
    if Path(source).is_dir():
        return digest_of_folder(Path(source))
    try:
        config = transformers.utils.cached_file(source, "config.json", local_files_only=True)
    except OSError:
        return ""
    return digest_of_folder(Path(config).parent) if config else ""


def _pooled(outputs: Any) -> Tensor:
    """The pooled features of whatever a transformers model returns; the mean over tokens where it pools nothing."""
    if isinstance(outputs, Tensor):
        return outputs
    pooled = getattr(outputs, "pooler_output", None)
    if pooled is not None:
        return torch.as_tensor(pooled)
    return torch.as_tensor(outputs.last_hidden_state).mean(dim=1)


def _first(outputs: Any) -> Tensor:
    """The features of the first token."""
    return torch.as_tensor(outputs.last_hidden_state[:, 0])


def _processor(transformers: Any, source: str) -> Any:
    """The image processor; None where a directory has none, and the family's normalisation is taken."""
    names = ("preprocessor_config.json", "processor_config.json")
    if Path(source).is_dir() and not any((Path(source) / name).exists() for name in names):
        return None
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(source, trust_remote_code=False)
        _check_kind(Path(source), type(processor).__name__)
        _normalisation(processor)
    except Exception as error:
        raise EncoderError(f"encoder 'hf:{source}': its image processor cannot be read ({reason_of(error)})") from error
    return processor


def _of_family(
    spec: EncoderSpec, kind: str, *, dual: bool
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Return means and standard deviations for a directory without a processor, and say which were taken."""
    mean, std = _FAMILIES.get(kind, (CLIP_MEAN, CLIP_STD) if dual else (_HALF, _HALF))
    _LOG.warning(
        "encoder %r: the folder has no preprocessor_config.json: images get mean %s and std %s, as %s; if it was "
        "trained otherwise, save the model's image processor into the folder",
        spec.text,
        mean,
        std,
        f"published {kind} models do" if kind in _FAMILIES else "a guess",
    )
    return mean, std


def _shape_of(processor: Any) -> tuple[int, int] | None:
    """Height and width of what a processor gives of images of any size, where they differ."""
    if processor is None:
        return None
    pictures = [Image.new("RGB", size) for size in ((61, 47), (47, 61))]
    shapes = {processor(images=picture, return_tensors="np")["pixel_values"].shape[-2:] for picture in pictures}
    high, wide = shapes.pop()
    return None if shapes or high == wide else (int(high), int(wide))


def _normalisation(processor: Any) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Means and standard deviations of a processor."""
    if not getattr(processor, "do_normalize", True):
        return (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    mean, std = processor.image_mean, processor.image_std
    if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
        raise ValueError(f"image_mean is {mean} and image_std {std}; expected three numbers each")
    return (mean[0], mean[1], mean[2]), (std[0], std[1], std[2])


def _check_kind(source: Path, kind: str) -> None:
    """Refuse the processor of the model's family where the directory names another one."""
    for name in ("preprocessor_config.json", "processor_config.json"):
        if (source / name).is_file():
            about = json.loads((source / name).read_text())
            about = about.get("image_processor", about)
            processor = about.get("image_processor_type") or about.get("feature_extractor_type") or ""
            family = str(processor).removesuffix("Fast").removesuffix("ImageProcessor").removesuffix("FeatureExtractor")
            if "auto_map" in about or (processor and not kind.startswith(family)):
                raise ValueError(f"{name} asks for {processor or 'code of its own'}, and {kind} would take its place")
