"""Shifted test images, computed on the fly: ImageNet-C's corruptions, lower resolution, no colour."""

from __future__ import annotations

from gate_runner.shifts.applied import KINDS, Shift, named_shifts

__all__ = ["KINDS", "Shift", "named_shifts"]
