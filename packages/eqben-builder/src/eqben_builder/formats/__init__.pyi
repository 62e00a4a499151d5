"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .convert import WRITERS as WRITERS
from .convert import read_any as read_any
from .convert import write_as as write_as
from .row import PairRow as PairRow
from .row import Picture as Picture
from .row import encode_png as encode_png
