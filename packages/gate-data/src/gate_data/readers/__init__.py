"""Readers of the forms in which data sets are distributed: streams of references and labels, not of pixels.

Here is what the reader of a data set of one's own needs; the rest is in the modules.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
