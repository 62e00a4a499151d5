"""Detection: heads from patch tokens to boxes with class scores, what trains them, and COCO's average precision."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
