"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .folders import Files as Files
from .folders import by_stem as by_stem
from .folders import classes_in as classes_in
from .folders import files_in as files_in
from .folders import files_of_classes as files_of_classes
from .folders import first_of as first_of
from .folders import place as place
from .maps import IGNORED as IGNORED
from .maps import ClassMap as ClassMap
from .source import Clip as Clip
from .source import Cut as Cut
from .source import Member as Member
from .source import Stored as Stored
from .source import described as described
from .splits import dealt as dealt
from .splits import held_out as held_out
from .tables import Row as Row
from .tables import fields as fields
from .tables import lines as lines
from .tables import records as records
from .tables import table as table
