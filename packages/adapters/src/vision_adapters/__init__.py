"""Heads, their language initialisation, honest tuning and training for vision-language encoders."""

from vision_adapters.__about__ import __version__

__all__ = ["__version__"]
