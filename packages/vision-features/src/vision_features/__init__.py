"""Features of any vision encoder: `load_encoder`, `encode_pictures`, `FeatureCache`, `embed`, `load_head`.

Names are imported when they are first used, as a command line must not wait for torch; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
