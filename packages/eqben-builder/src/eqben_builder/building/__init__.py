"""Building folders of pairs: what a builder is, how it is run, and how a folder is read and checked."""

from eqben_builder.building.builder import Builder, Dropped, Made
from eqben_builder.building.folder import read_manifest, read_records
from eqben_builder.building.run import DiskFullError, build
from eqben_builder.building.status import BuildStatus
from eqben_builder.building.verify import Failure, Verification, verify

__all__ = [
    "BuildStatus",
    "Builder",
    "DiskFullError",
    "Dropped",
    "Failure",
    "Made",
    "Verification",
    "build",
    "read_manifest",
    "read_records",
    "verify",
]
