"""Eq-SD: pairs drawn by Stable Diffusion with prompt-to-prompt editing.

The parts that need torch are imported by their names: `attention_edit`, `processor` and `pipeline`.
"""

from eqben_builder.diffusion.builder import ASPECTS, KINDRED, DiffusionBuilder, PromptPair, prompt_pair

__all__ = ["ASPECTS", "KINDRED", "DiffusionBuilder", "PromptPair", "prompt_pair"]
