"""Eq-SD: pairs drawn by Stable Diffusion with prompt-to-prompt editing; `pipeline` is what needs torch."""

from eqben_builder.diffusion.builder import ASPECTS, DiffusionBuilder

__all__ = ["ASPECTS", "DiffusionBuilder"]
