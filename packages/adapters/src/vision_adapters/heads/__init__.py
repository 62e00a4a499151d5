"""Heads: what turns an encoder's features or tokens into a task's scores."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
