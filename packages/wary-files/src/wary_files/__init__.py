"""What may be believed of a file, and files that are written whole or not at all.

Each module is imported by its own name; this package imports none of them.
"""

from wary_files.__about__ import __version__

__all__ = ["__version__"]
