"""Encoders: anything that turns images (and perhaps texts) into features, made from a spec string."""

from __future__ import annotations

from gate_runner.encoders.loading import load_encoder
from gate_runner.encoders.spec import EncoderSpec, encoder_forms, parse_spec

__all__ = ["EncoderSpec", "encoder_forms", "load_encoder", "parse_spec"]
