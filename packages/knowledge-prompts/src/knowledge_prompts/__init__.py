"""Class prompts with external knowledge for vision-language encoders.

Names are imported when they are first used (`__init__.pyi` lists them), so that reading WordNet needs neither NumPy's
memory nor its time.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
