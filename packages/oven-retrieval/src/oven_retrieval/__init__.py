"""Link names, images and questions to millions of entities on one machine.

Names are imported when they are first used, so that who links names reads no dumps; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
