"""Heads that runs keep: with their encoder from image files to classes, as safetensors with a card, or as ONNX."""

from __future__ import annotations

from gate_runner.heads.embedding import embed
from gate_runner.heads.predicting import Prediction
from gate_runner.heads.saved import Head, load_head

__all__ = ["Head", "Prediction", "embed", "load_head"]
