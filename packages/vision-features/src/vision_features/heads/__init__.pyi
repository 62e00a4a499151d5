"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .embedding import embed as embed
from .predicting import Prediction as Prediction
from .saved import Head as Head
from .saved import load_head as load_head
