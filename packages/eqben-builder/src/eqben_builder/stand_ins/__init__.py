"""Synthetic stand-ins: small drawn data sets of the kinds that vision-language benchmarks have, as NumPy arrays.

Names are imported when they are first used; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
