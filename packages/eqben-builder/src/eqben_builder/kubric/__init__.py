"""Eq-Kubric: rendered pairs of floor scenes, their graphs, captions and certificates."""

from eqben_builder.engines.scene import FloorScene, Stage, Thing, scene_changes
from eqben_builder.kubric.builder import ENGINES, KubricBuilder
from eqben_builder.kubric.captions import Counted, Phrase, Placed, Present, parse
from eqben_builder.kubric.pairs import ASPECTS, Choices, check_pair, scene_pair
from eqben_builder.micro.minimal import Difference, Pair

__all__ = [
    "ASPECTS",
    "ENGINES",
    "Choices",
    "Counted",
    "Difference",
    "FloorScene",
    "KubricBuilder",
    "Pair",
    "Phrase",
    "Placed",
    "Present",
    "Stage",
    "Thing",
    "check_pair",
    "parse",
    "scene_changes",
    "scene_pair",
]
