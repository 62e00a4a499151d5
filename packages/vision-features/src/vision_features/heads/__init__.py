"""Heads that runs keep: with their encoder from image files to classes, as safetensors with a card, or as ONNX.

Names are imported when they are first used, as most runs keep no head; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
