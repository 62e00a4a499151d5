"""A micro world: scene graphs of coloured shapes, their images, captions, questions and minimal pairs.

Names are imported when they are first used; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
