"""ELEVATER's taxonomy and tracks of encoders in a sweep's tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gate_runner
from gate_runner.errors import DataError, UsageError
from gate_runner.runs.stored import read_run
from gate_runner.tasks.elevater.tables import overview
from gate_runner.tasks.elevater.taxonomy import read_taxonomy, taxonomy_of
from vision_features.encoders.encoder import Encoder

from ._command import call_here


def test_a_sweeps_tables_have_tracks_and_an_encoders_own_fields_count(tmp_path: Path) -> None:
    done = gate_runner.run(
        "micro/icinw", encoder="micro-clip", output=tmp_path, limit=20, shots="0", show=False, device="cpu"
    )
    (table,) = [table for table in overview([read_run(done.folder)]) if table.id == "tracks"]
    assert table.rows[0][:5] == ("micro-clip", "yes", "no", "268,800 synthetic pairs", "academic")
    assert table.rows[0][5] != "–"
    own = Encoder(
        "x", 8, lambda images: torch.zeros(len(images), 2), taxonomy={"track": "industry", "knowledge": "yes"}
    )
    assert taxonomy_of(own.describe()) == ("unknown", "yes", "unknown", "industry")


def test_a_file_places_ones_own_encoders_in_the_table_of_tracks(tmp_path: Path) -> None:
    gate_runner.run(
        "icinw-makers", encoder="micro-dense/random:3", output=tmp_path / "run", limit=20, shots="0", show=False,
        device="cpu",
    )  # fmt: skip
    before = (tmp_path / "run" / "manifest.json").read_bytes()
    (tmp_path / "mine.toml").write_text(
        '["micro-dense/random:3"]\nlanguage = "yes"\ndata = "none"\ntrack = "academic"\n'
        '["hf:another"]\ntrack = "industry"'
    )
    plain = call_here("report", "run", "--format", "md", cwd=tmp_path).stdout.decode()
    assert "| micro-dense/random:3 | unknown | unknown | unknown | unknown |" in plain
    placed = call_here("report", "run", "--format", "md", "--taxonomy", "mine.toml", cwd=tmp_path).stdout.decode()
    assert "| micro-dense/random:3 | yes | unknown | none | academic |" in placed
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before
    (tmp_path / "mine.toml").write_text('["micro-dense/random:4"]\ntrack = "academic"')
    refused = call_here("report", "run", "--format", "md", "--taxonomy", "mine.toml", cwd=tmp_path)
    assert refused.returncode == 2
    assert "micro-dense/random:4" in refused.stderr.decode()
    assert "micro-dense/random:3" in refused.stderr.decode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[a", "is not TOML"),
        ("", "is empty; expected a table for each encoder"),
        ("a = 1", "a is 1; expected a table"),
        ('["a"]\ntrack = true', "track of 'a' is True; expected text"),
        ('["a"]\ntracks = "industry"', "nearest: track"),
    ],
)
def test_a_file_of_another_form_is_one_line(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises((DataError, UsageError), match=reason) as caught:
        read_taxonomy(path)
    assert "mine.toml" in str(caught.value)
    with pytest.raises(DataError, match=r"nowhere\.toml: No such file"):
        read_taxonomy(tmp_path / "nowhere.toml")
