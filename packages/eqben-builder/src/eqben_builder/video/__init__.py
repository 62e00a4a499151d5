"""Pairs from videos that others annotated: frames decoded at given times, and the rules that choose them."""

from eqben_builder.video.action_genome import ActionGenomeBuilder
from eqben_builder.video.gebc import GebcBuilder
from eqben_builder.video.youcook2 import YouCook2Builder

__all__ = ["ActionGenomeBuilder", "GebcBuilder", "YouCook2Builder"]
