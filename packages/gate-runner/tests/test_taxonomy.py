"""ELEVATER's taxonomy and tracks of encoders in a sweep's tables."""

from __future__ import annotations

from pathlib import Path

import torch

import gate_runner
from gate_runner.encoders.encoder import Encoder
from gate_runner.encoders.taxonomy import taxonomy_of
from gate_runner.runs.stored import read_run
from gate_runner.tasks.elevater.tables import overview


def test_a_sweeps_tables_have_tracks_and_an_encoders_own_fields_count(tmp_path: Path) -> None:
    done = gate_runner.run(
        "micro/icinw", encoder="micro-clip", output=tmp_path, limit=20, shots="0", show=False, device="cpu"
    )
    (table,) = [table for table in overview([read_run(done.folder)]) if table.id == "tracks"]
    assert table.rows[0][:5] == ("micro-clip", "yes", "no", "268,800 made-up pairs", "academic")
    assert table.rows[0][5] != "–"
    own = Encoder(
        "x", 8, lambda images: torch.zeros(len(images), 2), taxonomy={"track": "industry", "knowledge": "yes"}
    )
    assert taxonomy_of(own.describe()) == ("unknown", "yes", "unknown", "industry")
