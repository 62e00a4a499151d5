"""CoOp's protocol: eleven data sets in their published splits, and the few images of each class that it draws.

Names are imported when they are first used, since cards are read without NumPy; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
