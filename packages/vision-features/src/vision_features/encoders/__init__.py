"""Encoders: anything that turns images (and perhaps texts) into features, made from a spec string.

The loader is imported when it is used: a setting's check needs the names of devices alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from vision_features.encoders.loading import load_encoder as load_encoder

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"loading": ["load_encoder"]})
