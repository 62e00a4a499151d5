"""Compositional suites from their original files: questions, measures, text-only baselines, averages, published scores.

Names are imported when they are first used; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
