"""Forecasts of GATE's table: what of a run counts, in the table's unit, and what they rest on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import eevee
import gate_runner
from gate_runner.benchmarks import PACKS
from gate_runner.cli import app
from gate_runner.comparison import compare
from gate_runner.comparison.forecasting import forecast
from gate_runner.errors import UsageError
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.stored import read_run

from ._folders import write_run

REAL = {"cifar100": 0.75, "ade20k": 0.42, "mini": 0.93}


def given_cells(folder: Path) -> dict[str, float]:
    cells = forecast(folder).expected.cells
    return {metric: cell.value for metric, cell in cells.items() if cell.given}


def test_iwildcam_is_rescaled_as_the_papers_own_two_tables_are() -> None:
    main_table, full = eevee.load_table("gate"), eevee.load_table("gate-full")
    assert main_table.models == full.models
    percent = main_table.values[:, main_table.metric_ids.index("iwildcam/mae-score")]
    error = full.values[:, full.metric_ids.index("iwildcam/mae-score")]
    assert np.abs(3 * (1 - percent / 100) - error).max() <= 0.0515  # the error is printed with one decimal


def test_every_benchmark_of_the_small_tier_has_its_column(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", dict.fromkeys(PACKS["small"], 0.8))
    prediction = forecast(folder)
    assert len(given_cells(folder)) == len(PACKS["small"])
    assert prediction.expected.mean is not None
    assert prediction.expected.mean.low < prediction.expected.mean.value < prediction.expected.mean.high
    assert prediction.of == 22
    assert not any("rough" in warning for warning in prediction.warnings)


def test_a_run_on_stand_ins_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", {f"micro/{name}": skill for name, skill in REAL.items()})
    with pytest.raises(UsageError, match=r"but synthetic stand-ins \(micro/ade20k, micro/cifar100, micro/mini\)"):
        forecast(folder)
    assert "do not carry over" in forecast(folder, accept_stand_ins=True).warnings[0]


def test_real_data_count_as_the_mean_over_seeds_and_the_rest_is_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", REAL, encoder="clip", seeds=(0, 1))
    write_run(folder, {"iwildcam": 0.5, "micro/acdc": 0.5, "pairs": 0.4}, encoder="clip")
    prediction, values = forecast(folder), given_cells(folder)
    assert prediction.model == "clip (new)"
    assert set(values) == {"cifar100/acc1", "ade20k/miou", "mini/acc1", "iwildcam/mae-score"}
    run = read_run(folder)
    assert values["cifar100/acc1"] == pytest.approx(
        100 * np.mean([result.scores[0].value for result in run.named("cifar100")])
    )
    (error,) = run.named("iwildcam")
    assert values["iwildcam/mae-score"] == pytest.approx(100 * (1 - error.scores[0].value / 3))
    text = " ".join(prediction.warnings)
    assert "left out: synthetic stand-ins (micro/acdc)" in text
    assert "ade20k cannot stand next to the paper's rows: their mIoU is over 100 things" in text
    assert "--tune frozen --recipe quick" in text
    with pytest.raises(UsageError, match="no finished benchmark of the paper's table; expected some of"):
        forecast(write_run(tmp_path / "n", {"digits": 0.5}))


def test_episodes_as_gates_count_before_ours(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", {"mini": 0.5, "mini-gate": 0.9})
    (many,) = read_run(folder).named("mini-gate")
    assert given_cells(folder)["mini/acc1"] == pytest.approx(100 * many.scores[0].value)
    assert not any(warning.startswith("mini ") for warning in forecast(folder).warnings)


def test_own_data_called_like_a_known_data_set_do_not_pass_for_it(tmp_path: Path) -> None:
    """Folders of runs that were made before such names were refused, or by others."""
    runs = [write_run(tmp_path / name, {"cifar100": 0.7}, encoder=name, source="file") for name in ("a", "b")]
    with pytest.raises(UsageError, match=r"no finished benchmark of the paper's table, but own data \(cifar100\)"):
        forecast(runs[0])
    write_run(runs[0], {"mini": 0.8}, encoder="a")
    assert set(given_cells(runs[0])) == {"mini/acc1"}
    assert "left out: own data (cifar100)" in forecast(runs[0]).warnings
    assert "next to the paper's rows" not in " ".join(compare(*runs, resamples=50, permutations=99).sentences)


def test_a_score_beyond_its_metric_is_refused(tmp_path: Path) -> None:
    """500 % of images that are right were taken for 100."""
    folder = write_run(tmp_path / "run", REAL)
    file = RunFolder(folder).result_file("cifar100", 0)
    (cifar,) = read_run(folder).named("cifar100")
    object.__setattr__(cifar.scores[0], "value", 5.0)
    file.write_text(cifar.to_json())
    with pytest.raises(UsageError, match=r"run: acc@1 of cifar100 is 5, expected 0 to 1"):
        forecast(folder)


def test_the_command(tmp_path: Path) -> None:
    folder = str(write_run(tmp_path / "r", REAL, encoder="mine"))
    shown = CliRunner().invoke(app, ["forecast", folder])
    assert "warning: a rough forecast, from 3 of the table's 30 benchmarks" in shown.output
    assert "mine is expected on place" in shown.output
    record = json.loads(CliRunner().invoke(app, ["forecast", folder, "--json"]).stdout)
    assert record["expected"]["cells"]["mini/acc1"]["given"]
    assert record["expected"]["mean"]["value"] == gate_runner.forecast(folder).expected.mean.value
