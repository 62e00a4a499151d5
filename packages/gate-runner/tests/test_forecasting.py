"""Predictions of the full table: calibrated on the table itself, and honest about what they rest on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import eevee
from gate_runner.benchmarks import PACKS
from gate_runner.cli import main
from gate_runner.comparison import compare
from gate_runner.errors import UsageError
from gate_runner.forecasting import forecast_file, forecast_run, forecast_scores
from gate_runner.runs.stored import read_run

from ._folders import write_run

REAL = {"cifar100": 0.75, "ade20k": 0.42, "mini": 0.93}


def row_of(model: str) -> dict[str, float]:
    table = eevee.load_table("gate")
    row = table.values[table.models.index(model)]
    return {metric.benchmark: float(value) for metric, value in zip(table.metrics, row, strict=True)}


def test_a_model_like_one_of_the_table_is_predicted_near_it() -> None:
    row = row_of("clip")
    forecast = forecast_scores({name: row[name] for name in PACKS["small"]})
    assert forecast.low <= np.mean(list(row.values())) <= forecast.high
    assert forecast.warnings == ()
    assert forecast.of == 22
    benchmarks = {benchmark.benchmark for benchmark in forecast.benchmarks if benchmark.measured}
    assert benchmarks == set(PACKS["small"])
    for benchmark in forecast.benchmarks:
        assert benchmark.low <= benchmark.value <= benchmark.high
        if benchmark.measured:
            assert benchmark.value == row[benchmark.benchmark]


def test_more_benchmarks_narrow_the_interval_and_levels_nest() -> None:
    row = row_of("deit")
    few = forecast_scores({name: row[name] for name in ("cifar100", "mini")})
    many = forecast_scores({name: row[name] for name in PACKS["small"]})
    wide = forecast_scores({name: row[name] for name in PACKS["small"]}, level=0.95)
    assert many.high - many.low < few.high - few.low
    assert wide.high - wide.low >= many.high - many.low
    assert any("only 2 of the table's 30" in warning for warning in few.warnings)


def test_everything_given_leaves_nothing_to_predict() -> None:
    row = row_of("vit")
    forecast = forecast_scores(row)
    assert forecast.mean == pytest.approx(np.mean(list(row.values())))
    assert forecast.high - forecast.low == pytest.approx(0, abs=1e-9)


def test_what_the_table_does_not_cover_is_said() -> None:
    better = dict.fromkeys(PACKS["small"], 99.9)
    odd = {"cifar100": 84.0, "imagenet1k": 0.5, "ade20k": 47.0, "mini": 33.0}
    assert any("outside of what the table's models reach" in warning for warning in forecast_scores(better).warnings)
    assert any("extrapolates" in warning for warning in forecast_scores(odd).warnings)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({}, "no score given"),
        ({"cifar10": 50.0}, "nearest: cifar100"),
        ({"cifar100": 120.0}, "cifar100 is 120.0; expected a score in percent"),
        ({"cifar100": float("nan")}, "cifar100 is nan"),
        ({"cifar100": 0.7, "mini": 0.9}, "in percent, not in shares"),
    ],
)
def test_bad_scores_are_shown(scores: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        forecast_scores(scores)
    with pytest.raises(UsageError, match="level must lie between"):
        forecast_scores({"cifar100": 50.0}, level=0.99)


def test_iwildcam_is_rescaled_as_the_papers_own_two_tables_are() -> None:
    main_table, full = eevee.load_table("gate"), eevee.load_table("gate-full")
    assert main_table.models == full.models
    percent = main_table.values[:, main_table.metric_ids.index("iwildcam/mae-score")]
    error = full.values[:, full.metric_ids.index("iwildcam/mae-score")]
    assert np.abs(3 * (1 - percent / 100) - error).max() <= 0.0515  # the error is printed with one decimal


def test_a_run_on_stand_ins_is_refused_and_says_how_else(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "r", {f"micro/{name}": skill for name, skill in REAL.items()}))
    with pytest.raises(
        UsageError, match=r"synthetic stand-ins \(micro/ade20k, .* a CSV of real scores .*--accept-stand-ins"
    ):
        forecast_run(run)
    forecast = forecast_run(run, accept_stand_ins=True)
    assert "does not carry over" in forecast.warnings[0]


def test_a_run_on_real_data_is_predicted_with_what_separates_it(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", REAL, encoder="mine", seeds=(0, 1))
    write_run(folder, {"iwildcam": 0.5, "micro/acdc": 0.5, "pairs": 0.4}, encoder="mine")
    run = read_run(folder)
    forecast = forecast_run(run)
    given = {benchmark.benchmark: benchmark.value for benchmark in forecast.benchmarks if benchmark.measured}
    assert set(given) == {"cifar100", "ade20k", "mini", "iwildcam"}
    cifar = [result.scores[0].value for result in run.named("cifar100")]
    assert given["cifar100"] == pytest.approx(100 * np.mean(cifar))
    (error,) = run.named("iwildcam")
    assert given["iwildcam"] == pytest.approx(100 * (1 - error.scores[0].value / 3))
    text = " ".join(forecast.warnings)
    assert "froze its encoder" in text
    assert "left out, as synthetic stand-ins: micro/acdc" in text
    nothing = read_run(write_run(tmp_path / "n", {"digits": 0.5}))
    with pytest.raises(UsageError, match="no finished benchmark of the paper's table"):
        forecast_run(nothing)


@pytest.mark.parametrize(("settings", "message"), [
    ({}, "this run froze its encoder; the encoders of the paper's table were trained whole"),
    ({"tune": "full", "recipe": "gate"}, "this run trained its encoder by that recipe on images of its own size;"),
    ({"tune": "lora"}, "this run trained its encoder by --tune lora --recipe quick;"),
])  # fmt: skip
def test_a_prediction_says_how_the_encoder_was_trained(settings: dict[str, str], message: str, tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "r", REAL, settings=settings))
    assert any(message in warning for warning in forecast_run(run).warnings)


def test_each_row_says_whether_it_can_stand_beside_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "r", {"mini": 0.5, "mini-gate": 0.9, "ham10k": 0.8, "cifar100": 0.7})
    forecast = forecast_run(read_run(folder))
    rows = {benchmark.benchmark: benchmark for benchmark in forecast.benchmarks}
    (many,) = read_run(folder).named("mini-gate")
    assert rows["mini"].value == pytest.approx(100 * many.scores[0].value)  # not the mean with 5 ways and 1 shot
    assert rows["nycc"].beside_ours == "no: their rows are another data set"
    assert rows["cifar100"].beside_ours == "yes: another size of the picture"
    assert not any(warning.startswith("mini ") for warning in forecast.warnings)
    with pytest.raises(SystemExit):
        main(["predict", str(folder)])
    shown = capsys.readouterr().out.splitlines()
    assert any(line.endswith("beside ours no: their rows carry no information") for line in shown)
    assert not any("another size of the picture" in line for line in shown)


def test_a_comparison_says_which_scores_can_stand_beside_the_papers(tmp_path: Path) -> None:
    scores = {"cifar100": 0.7, "ade20k": 0.4, "micro/mini": 0.8}
    runs = [read_run(write_run(tmp_path / name, scores, encoder=name)) for name in ("a", "b")]
    text = " ".join(compare(*runs, resamples=50, permutations=99).sentences)
    assert "can stand beside the paper's rows: cifar100 (another size of the picture)." in text
    assert (
        "cannot stand beside the paper's rows: ade20k (their mIoU is over 100 things, ours over 150 classes)." in text
    )


def test_a_file_of_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("model,cifar100,ade20k/miou,mini\nmine,75,41.5,93\nclip,70,,90\n")
    first, second = forecast_file(path)
    assert (first.model, second.model) == ("mine", "clip (new)")
    assert sum(benchmark.measured for benchmark in second.benchmarks) == 2
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(path)])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "mine: expected mean over the 30 headline metrics of GATE's table" in shown
    with pytest.raises(SystemExit):
        main(["predict", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)[0]["model"] == "mine"
    path.write_text("model,cifar100\nmine,many\n")
    with pytest.raises(UsageError, match=r"scores.csv, line 2, column 'cifar100': 'many'"):
        forecast_file(path)
    path.write_text("model,cifar100\nmine,170\n")
    with pytest.raises(UsageError, match=r"scores.csv, model 'mine': cifar100 is 170"):
        forecast_file(path)


def test_own_data_called_like_a_known_data_set_do_not_pass_for_it(tmp_path: Path) -> None:
    """Folders of runs that were made before such names were refused, or by others."""
    runs = [read_run(write_run(tmp_path / name, {"cifar100": 0.7}, encoder=name, source="file")) for name in ("a", "b")]
    with pytest.raises(UsageError, match=r"no finished benchmark of the paper's table .* but own data \(cifar100\)"):
        forecast_run(runs[0])
    write_run(tmp_path / "a", {"mini": 0.8}, encoder="a")
    forecast = forecast_run(read_run(tmp_path / "a"))
    assert [benchmark.benchmark for benchmark in forecast.benchmarks if benchmark.measured] == ["mini"]
    assert "left out, as own data: cifar100" in forecast.warnings
    assert "beside the paper's rows" not in " ".join(compare(*runs, resamples=50, permutations=99).sentences)
