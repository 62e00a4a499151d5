"""ELEVATER's taxonomy of encoders: language, knowledge, pre-training data, and the track that these data allow.

Source:
    ELEVATER, section 3.2 and tables 2, 10 and 15. The academic track has ImageNet, GCC and YFCC15M alone.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gate_runner.errors import DataError, unknown


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
    "micro-clip": Taxonomy("yes", "no", "268,800 synthetic pairs", "academic"),
}  # fmt: skip
"""By spec: table 2's checkpoints that have one."""


def taxonomy_of(encoder: Mapping[str, Any]) -> Taxonomy:
    """Return the taxonomy of an encoder's description: its own ``taxonomy``, or that of a known spec."""
    own = encoder.get("taxonomy") or {}
    return _KNOWN.get(str(encoder.get("spec")), Taxonomy())._replace(
        **{name: str(own[name]) for name in Taxonomy._fields if name in own}
    )


def read_taxonomy(path: Path) -> dict[str, dict[str, str]]:
    r"""Read the taxonomy of one's own encoders from TOML: a table by spec for each, with fields of `Taxonomy`.

    Raises:
        DataError: a file that cannot be read or is not TOML, an entry that is not a table, or a field that is not text;
            the message has file, encoder and field.
        UsageError: a field that there is not, with the nearest.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "encoders.toml"
        >>> _ = file.write_text('["hf:me/model"]\nlanguage = "yes"\ndata = "YFCC15M"\ntrack = "academic"')
        >>> read_taxonomy(file)
        {'hf:me/model': {'language': 'yes', 'data': 'YFCC15M', 'track': 'academic'}}

    Source:
        ELEVATER, table 2's columns.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(f"{path} is not TOML: {error}") from error
    if not content:
        raise DataError(f'{path} is empty; expected a table for each encoder, such as ["hf:me/model"]')
    for spec, fields in content.items():
        if not isinstance(fields, dict):
            raise DataError(f'{path}: {spec} is {fields!r:.60}; expected a table ["SPEC"] with its fields')
        for name, value in fields.items():
            if name not in Taxonomy._fields:
                raise unknown(f"field of [{spec!r}] in {path}:", name, Taxonomy._fields)
            if not isinstance(value, str) or not value.strip():
                raise DataError(f'{path}: {name} of {spec!r} is {value!r:.60}; expected text, such as "yes"')
    return content
