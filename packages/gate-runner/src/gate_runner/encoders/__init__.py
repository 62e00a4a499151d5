"""Encoders: anything that turns images (and perhaps texts) into features, made from a spec string."""

from __future__ import annotations

from gate_runner.encoders.loading import load_encoder

__all__ = ["load_encoder"]
