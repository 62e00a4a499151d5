"""Engines that draw floor scenes, imported where they are used: each needs its own extra."""

from eqben_builder.engines.engine import Drawn, Engine

__all__ = ["Drawn", "Engine"]
