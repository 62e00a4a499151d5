"""The data sets of GATE, ELEVATER and ODinW, and your own, from their files to three splits.

Names are imported when they are first used, since cards are read without torch; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
