"""Submissions and cells of strangers: numbers that are none, and what is larger than it seems."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate_runner.errors import DataError
from gate_runner.submission import MEMBER, Entry, read_submission


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_shot": float("inf")}, "n_shot holds 'inf', expected a whole number"),
        ({"n_shot": True}, "n_shot holds 'True'"),
        ({"rnd_seeds": [0, 1e999]}, "rnd_seeds holds 'inf'"),
        ({"rnd_seeds": [0, 0.5]}, "rnd_seeds holds '0.5'"),
        ({"rnd_seeds": "01"}, "rnd_seeds are '01', expected a list"),
        ({"num_params": float("nan")}, "num_params is nan, expected a number"),
        ({"num_params": -1}, "num_params is -1, expected a number from 0"),
        ({"num_backbone_params": True}, "num_backbone_params is True"),
        ({"num_params": "7"}, "num_params is 7"),
        ({"model_name": float("inf")}, "model_name is inf, expected a text"),
        ({"predictions": [[["0.1"] * 10] * 3] * 2}, "where numbers are expected"),
        ({"predictions": [[[True] + [False] * 9] * 3] * 2}, "bool where numbers are expected"),
    ],
)
def test_what_is_no_number_in_a_submission_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    entry = Entry("mnist", "a model", 5, (0, 1), np.full((2, 3, 10), 0.1)).to_mapping()
    path = tmp_path / "mnist.json"
    path.write_text(json.dumps(entry))
    assert len(read_submission(path)) == 1
    path.write_text(json.dumps({**entry, **changes}))
    with pytest.raises(DataError, match=message):
        read_submission(path)


def test_a_large_submission_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_RUNNER_MAX_BYTES", "1000")
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(MEMBER, "[" + "0," * 5000 + "0]")
    (tmp_path / "one.json").write_text("[" + "0," * 5000 + "0]")
    for name in ("all.zip", "one.json"):
        with pytest.raises(DataError, match="has 10,003 bytes, more than 1,000; GATE_RUNNER_MAX_BYTES"):
            read_submission(tmp_path / name)
