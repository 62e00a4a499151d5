"""How long a run will take, before it runs: a short probe of this encoder on this machine."""

from __future__ import annotations

from gate_runner.planning.plan import Plan as Plan
