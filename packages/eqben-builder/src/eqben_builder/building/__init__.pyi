"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .builder import Builder as Builder
from .builder import Dropped as Dropped
from .builder import Made as Made
from .folder import read_manifest as read_manifest
from .folder import read_records as read_records
from .run import DiskFullError as DiskFullError
from .run import build as build
from .verification import verify as verify
