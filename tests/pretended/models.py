"""Tiny encoders of all sources, detectors, captioned images and losses, for `tests.pretended.cases`."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from vision_features.encoders.encoder import Encoder
from vision_features.encoders.loading import load_encoder

SIDE: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
}  # fmt: skip
SEEN: dict[str, Any] = {**SIDE, "image_size": 32, "patch_size": 8}
READ: dict[str, Any] = {**SIDE, "vocab_size": 30, "max_position_embeddings": 12}
LOSSES = [
    (mode, score, backend)
    for mode, score in (("v1", "cosine"), ("v2", "logits"), ("hybrid", "cosine"), ("hybrid", "softmax"))
    for backend in ("dense", "tiled", "gram")
    if backend != "gram" or score != "softmax"
]
"""Modes and scores, with the backends that have them."""
WAITS_OF_A_LOSS = 2
"""Of the processor for the device, in a loss and its gradients."""


def tokenizer(folder: Path, *names: str) -> None:
    """A tokenizer of seven words; SigLIP's gives no mask."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", "one", "two", "words"])}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=made, model_input_names=list(names), **special).save_pretrained(folder)


def hf(kind: str, folder: Path) -> Encoder:
    """A tiny model of transformers, saved and loaded."""
    import transformers

    library: Any = transformers
    library.logging.set_verbosity_error()
    torch.manual_seed(0)
    if kind == "clip":
        special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
        how = library.CLIPConfig(text_config={**READ, **special}, vision_config=SEEN, projection_dim=16)
        model = library.CLIPModel(how)
    elif kind == "siglip":
        how = library.SiglipConfig(text_config={**READ, "projection_size": 32}, vision_config=SEEN)
        model = library.SiglipModel(how)
    elif kind == "dinov2":
        model = library.Dinov2Model(library.Dinov2Config(**SEEN))
    else:
        model = library.ConvNextModel(library.ConvNextConfig(hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1]))
    model.save_pretrained(folder)
    if kind in ("clip", "siglip"):
        tokenizer(folder, *(("input_ids",) if kind == "siglip" else ("input_ids", "attention_mask")))
    return load_encoder(f"hf:{folder}")


def clip(kind: str) -> Encoder:
    """A tiny model of one of open_clip's classes."""
    import open_clip

    from vision_features.encoders.open_clip_models import from_clip

    library: Any = open_clip
    seen = {"image_size": 32, "patch_size": 8, "width": 32, "layers": 2, "head_width": 16}
    read = {"context_length": 12, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
    torch.manual_seed(0)
    if kind == "CoCa":
        visual = {**seen, "attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True}
        words = {**read, "embed_cls": True, "output_tokens": True}
        shared = {"context_length": 12, "width": 32, "heads": 2, "layers": 2, "attn_pooler_heads": 2}
        model = library.CoCa(16, multimodal_cfg={**shared, "vocab_size": 49408}, text_cfg=words, vision_cfg=visual)
    elif kind == "CustomTextCLIP":  # as SigLIP is built
        visual = {"image_size": 32, "timm_model_name": "test_vit", "timm_pool": "avg", "timm_proj": "linear"}
        model = library.CustomTextCLIP(
            16, vision_cfg=visual, text_cfg={**read, "pool_type": "last"}, init_logit_bias=-10
        )
    elif kind == "ResNet":
        visual = {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None}
        model = library.CLIP(16, vision_cfg=visual, text_cfg=read)
    else:
        model = library.CLIP(16, vision_cfg=seen, text_cfg=read)
    return from_clip(model.eval(), library.SimpleTokenizer(context_length=12), f"own {kind}")


ENCODERS: dict[str, Callable[[Path], Encoder]] = {
    **{name: lambda _, name=name: load_encoder(name) for name in ("micro-clip", "lite:0")},
    **{
        f"timm:{name}": lambda _, name=name: load_encoder(f"timm:{name}/random") for name in ("test_vit", "test_resnet")
    },
    **{f"open_clip {kind}": lambda _, kind=kind: clip(kind) for kind in ("CLIP", "ResNet", "CoCa", "CustomTextCLIP")},
    **{f"hf {kind}": lambda folder, kind=kind: hf(kind, folder) for kind in ("clip", "siglip", "dinov2", "convnext")},
}


def detector(kind: str, folder: Path) -> Path:
    """A tiny detector of transformers, saved as a checkpoint."""
    place = Path(__file__).parents[2] / "packages/gate-runner/tests/_tiny_detectors.py"
    spec = importlib.util.spec_from_file_location("_tiny_detectors", place)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Path = module.grounding(folder) if kind == "grounding" else module.closed_set(folder, kind)
    return made


def captioned(folder: Path) -> Path:
    """Images with captions, one of which is false of each."""
    words = [f"{colour} {shape}" for colour, shape in itertools.product(("red", "blue", "green"), ("hat", "dot"))]
    if folder.exists():
        return folder
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = ["image,caption,negative"]
    for number in range(20):
        values = rng.integers(0, 256, (40, 40, 3)).astype(np.uint8)
        Image.fromarray(values).save(folder / f"{number}.png")
        lines.append(f"{number}.png,a {words[number % 6]} of {number},a {words[(number + 1) % 6]}")
    (folder / "captions.csv").write_text("\n".join(lines) + "\n")
    return folder
