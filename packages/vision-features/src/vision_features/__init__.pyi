"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .__about__ import __version__ as __version__
from .encoders import load_encoder as load_encoder
from .encoders.encoder import Encoder as Encoder
from .encoders.tuned import load_tuned as load_tuned
from .features import FeatureCache as FeatureCache
from .features import encode_pictures as encode_pictures
from .heads import Head as Head
from .heads import embed as embed
from .heads import load_head as load_head
from .readouts import Readout as Readout
