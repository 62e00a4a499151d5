"""Data of one's own: a TOML file that says what a folder holds, read, checked, and guessed from the folder."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
