"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .features import Features as Features
from .features import Similarities as Similarities
from .features import encode_rows as encode_rows
from .features import similarities as similarities
from .features import similarities_of as similarities_of
from .files import SuiteRow as SuiteRow
from .galleries import Gallery as Gallery
from .galleries import encode_gallery as encode_gallery
from .galleries import gallery_table as gallery_table
from .galleries import read_gallery as read_gallery
from .micro import micro_suite as micro_suite
from .ranked import Ranking as Ranking
from .ranked import rankings as rankings
from .ranked import ranks_of as ranks_of
from .ranked import telling_captions as telling_captions
from .reading import read_suite as read_suite
from .registry import SUITES as SUITES
from .results import gallery_records as gallery_records
from .results import suite_records as suite_records
from .results import write_records as write_records
from .suite import Suite as Suite
from .suite import SuiteData as SuiteData
from .table import SuiteLine as SuiteLine
from .table import SuiteTable as SuiteTable
from .table import suite_table as suite_table
