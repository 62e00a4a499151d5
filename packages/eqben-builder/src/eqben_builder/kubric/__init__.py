"""Eq-Kubric: rendered pairs of floor scenes, their graphs, captions and certificates."""

from eqben_builder.kubric.builder import KubricBuilder
from eqben_builder.kubric.pairs import ASPECTS

__all__ = ["ASPECTS", "KubricBuilder"]
