"""Building folders of pairs: what a builder is, how it is run, and how a folder is read and checked."""

from eqben_builder.build.builder import Builder, Dropped, Made
from eqben_builder.build.folder import read_manifest, read_records
from eqben_builder.build.run import DiskFullError, Progress, build
from eqben_builder.build.verify import Failure, Verification, verify

__all__ = [
    "Builder",
    "DiskFullError",
    "Dropped",
    "Failure",
    "Made",
    "Progress",
    "Verification",
    "build",
    "read_manifest",
    "read_records",
    "verify",
]
