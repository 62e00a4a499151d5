"""The public path of `eqben_builder.building`."""

from eqben_builder.building import (
    Builder,
    BuildStatus,
    DiskFullError,
    Dropped,
    Failure,
    Made,
    Verification,
    build,
    read_manifest,
    read_records,
    verify,
)

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
