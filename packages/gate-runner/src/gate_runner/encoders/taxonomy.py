"""ELEVATER's taxonomy of encoders: language, knowledge, pre-training data, and the track that these data allow.

Source:
    ELEVATER, section 3.2 and tables 2, 10 and 15. The academic track has ImageNet, GCC and YFCC15M alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Taxonomy(NamedTuple):
    """An encoder's place among pre-trained models; ``unknown`` where it is not known."""

    language: str = "unknown"
    knowledge: str = "unknown"
    data: str = "unknown"
    track: str = "unknown"


_CLIP = Taxonomy("yes", "no", "WebImageText (400M)", "industry")
_KNOWN = {
    "open_clip:ViT-B-32/openai": _CLIP, "open_clip:ViT-B-16/openai": _CLIP, "open_clip:ViT-L-14/openai": _CLIP,
    "hf:openai/clip-vit-base-patch32": _CLIP, "hf:openai/clip-vit-base-patch16": _CLIP,
    "hf:openai/clip-vit-large-patch14": _CLIP,
    "timm:vit_base_patch16_224.augreg_in21k": Taxonomy("no", "no", "ImageNet-22K (14M)", "academic"),
    "timm:vit_base_patch16_224.mae": Taxonomy("no", "no", "ImageNet-1K (1.2M)", "academic"),
    "timm:deit_base_patch16_224.fb_in1k": Taxonomy("no", "no", "ImageNet-1K (1.2M)", "academic"),
    "micro-clip": Taxonomy("yes", "no", "268,800 made-up pairs", "academic"),
}  # fmt: skip
"""By spec: table 2's checkpoints that have one."""


def taxonomy_of(encoder: Mapping[str, Any]) -> Taxonomy:
    """Return the taxonomy of an encoder's description: its own ``taxonomy``, or that of a known spec."""
    own = encoder.get("taxonomy") or {}
    return _KNOWN.get(str(encoder.get("spec")), Taxonomy())._replace(
        **{name: str(own[name]) for name in Taxonomy._fields if name in own}
    )
