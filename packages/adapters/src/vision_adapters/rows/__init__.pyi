"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .samples import SampleRows as SampleRows
from .samples import sample_generator as sample_generator
from .source import Draw as Draw
from .source import Rows as Rows
from .stored import DiskFullError as DiskFullError
from .stored import RowWriter as RowWriter
from .stored import StoredRows as StoredRows
