"""Minimal-change image/caption pairs, and the scores that read them."""

from eqben_builder.__about__ import __version__

__all__ = ["__version__"]
