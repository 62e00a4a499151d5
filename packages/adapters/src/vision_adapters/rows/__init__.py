"""What training draws its batches from: tensors, memory-mapped features, and samples made by worker processes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
