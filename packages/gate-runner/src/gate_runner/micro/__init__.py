"""Stand-ins for GATE's small tier, made on the spot from seeds: synthetic, and never called by the real name alone."""

from __future__ import annotations

from gate_runner.micro.making import SEEDS, split_seed

__all__ = ["SEEDS", "split_seed"]
