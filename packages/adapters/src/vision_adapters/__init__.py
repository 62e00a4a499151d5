"""Heads, their language initialisation, honest tuning and training for vision-language encoders.

Names are imported when they are first used, and torch with them; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
