"""The models that a paper compared, each as an encoder's spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gate_runner.errors import UsageError, unknown


class PaperModel(NamedTuple):
    """A column of a paper's table: its spec, and what is to know of it."""

    spec: str
    note: str = ""


_MEANT = "the code names the architecture alone"
_UNTRAINED = "from scratch: random weights, to be trained with --tune full"
_SHIFTED = "a patch stem before its layers, to be trained with --tune full"
GATE_MODELS: Mapping[str, PaperModel] = {
    "cvnxtv2": PaperModel("timm:convnextv2_base.fcmae_ft_in22k_in1k", _MEANT),
    "siglip": PaperModel("timm:vit_base_patch16_siglip_224.webli", _MEANT),
    "clip": PaperModel("open_clip:ViT-B-16/openai"),
    "flex": PaperModel("timm:flexivit_base.1200ep_in1k"),
    "deit": PaperModel("timm:deit3_base_patch16_224.fb_in1k"),
    "laion": PaperModel("open_clip:ViT-B-16/laion2b_s34b_b88k"),
    "vit": PaperModel("timm:vit_base_patch16_224.augreg_in1k"),
    "dino": PaperModel("timm:vit_base_patch16_224.dino"),
    "smvit": PaperModel("timm:vit_base_patch16_224.sam_in1k", "sharpness-aware minimisation on ImageNet"),
    "rnx50": PaperModel("timm:resnext50_32x4d.a1_in1k"),
    "effv2": PaperModel("timm:efficientnetv2_rw_s.ra2_in1k"),
    "r50a1": PaperModel("timm:resnet50.a1_in1k"),
    "effrmr": PaperModel("timm:efficientformerv2_s0.snap_dist_in1k", _MEANT),
    "seffv2": PaperModel("timm:efficientnetv2_rw_s/random", _UNTRAINED),
    "sflex": PaperModel("timm:flexivit_base/random", _UNTRAINED),
    "svit": PaperModel("timm:vit_base_patch16_224/random", _UNTRAINED),
    "whspr": PaperModel("hf-audio:openai/whisper-base", _SHIFTED),
    "sr50a1": PaperModel("timm:resnet50/random", _UNTRAINED),
    "bert": PaperModel("hf-text:bert-base-uncased", _SHIFTED),
    "bart": PaperModel("hf-text:facebook/bart-base", _SHIFTED),
    "mpnet": PaperModel("hf-text:sentence-transformers/all-mpnet-base-v2", _SHIFTED),
}
"""GATE's 21 models under the names and in the order of its table 3.

Source:
    Section 3 B, figures 12 to 15, and the paper's code. Its image models get the text side of OpenAI's CLIP for the
    tasks with texts; here only ``clip`` and ``laion`` have one.
"""


def models_named(text: str) -> dict[str, PaperModel]:
    """Return models by name: ``gate`` is all 21, otherwise names of them with commas between.

    Raises:
        UsageError: a name that none of them has, with the nearest; or no name.

    Example:
        >>> [model.spec for model in models_named("dino,svit").values()]
        ['timm:vit_base_patch16_224.dino', 'timm:vit_base_patch16_224/random']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("--models names none; expected gate, or names of 'gate-runner ls models' with commas between")
    if names == ["gate"]:
        return dict(GATE_MODELS)
    for name in names:
        if name not in GATE_MODELS:
            raise unknown("model of GATE's table", name, ["gate", *GATE_MODELS])
    return {name: GATE_MODELS[name] for name in names}
