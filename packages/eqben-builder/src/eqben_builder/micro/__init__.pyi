"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .attributes import COLOURS as COLOURS
from .attributes import FIELDS as FIELDS
from .attributes import MATERIALS as MATERIALS
from .attributes import PLURALS as PLURALS
from .attributes import SHAPES as SHAPES
from .attributes import SIZES as SIZES
from .attributes import VOCABULARY as VOCABULARY
from .minimal import NUMBERS as NUMBERS
from .minimal import Pair as Pair
from .minimal import generator_at as generator_at
from .pairs import KINDS as KINDS
from .pairs import certify as certify
from .pairs import minimal_pair as minimal_pair
from .raster import render as render
from .sampling import sample_scene as sample_scene
from .sampling import scene_at as scene_at
from .scene import Item as Item
from .scene import Scene as Scene
from .statements import Phrase as Phrase
from .statements import caption as caption
from .statements import holds as holds
from .statements import question as question
