"""Run folders and exported results as tables: what failed is left out and said, what is known gets own rows."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from pathlib import Path

import numpy as np
import pytest

from eevee import EeveeError, load_table
from eevee.answers.selecting import models_needed
from eevee.cli import main
from eevee.tables.reading import read_csv_text
from eevee.tables.runs import table_of_runs

BENCHMARKS = ("a", "b", "c")


def write_run(folder: Path, name: str, scores: dict[str, float | None], data: str = "0", metric: str = "acc@1") -> Path:
    """A run folder as far as its scores go; None is a result that failed."""
    (folder / "results").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"identity": {"encoder": {"spec": name}}}))
    for benchmark, value in scores.items():
        for seed in (0, 1):
            score = {"metric": metric, "direction": "higher", "value": (value or 0) + seed / 100}
            result = {
                "name": benchmark, "seed": seed, "status": "failed" if value is None else "ok",
                "reason": "no memory" if value is None else "", "scores": [] if value is None else [score],
                "data": {"sha256": data if benchmark == "a" else "same"},
            }  # fmt: skip
            (folder / "results" / f"{benchmark}.seed{seed}.json").write_text(json.dumps(result))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    rng = np.random.default_rng(0)
    return [
        write_run(
            tmp_path / f"run{number}", f"model{number}", dict(zip(BENCHMARKS, rng.random(3).tolist(), strict=True))
        )
        for number in range(6)
    ]


def test_run_folders_are_a_table_of_means_over_seeds(runs: list[Path]) -> None:
    table = table_of_runs(runs)
    assert table.models == tuple(f"model{number}" for number in range(6))
    assert table.metric_ids == BENCHMARKS
    first = np.random.default_rng(0).random(3) + 0.005
    assert table.values[0] == pytest.approx(first)


def test_failed_results_and_other_data_are_left_out_and_said(
    runs: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failed = write_run(tmp_path / "failed", "weak", {"a": 0.5, "b": None, "c": 0.4})
    with caplog.at_level(logging.WARNING):
        table = table_of_runs([*runs, failed])
    assert np.isnan(table.values[6]).tolist() == [False, True, False]
    assert caplog.messages == [f"left out: b of {failed} failed: no memory"]
    caplog.clear()
    other = write_run(tmp_path / "other", "elsewhere", {"a": 0.5, "b": 0.5, "c": 0.4}, data="1")
    with caplog.at_level(logging.WARNING):
        assert table_of_runs([*runs, other]).metric_ids == ("b", "c")
    assert caplog.messages == ["left out: a, which the runs saw on different data"]


def test_pages_and_folders_of_runs_among_the_runs_are_left_out_and_said(
    runs: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A shell's runs/* names them, too."""
    write_run(tmp_path / "choose" / "model", "model", {"a": 0.5})
    page = tmp_path / "choice.html"
    page.write_text("<p>")
    with caplog.at_level(logging.WARNING):
        table = table_of_runs([tmp_path / "choose", page, *runs])
    assert len(table.models) == len(runs)
    choose = tmp_path / "choose"
    assert caplog.messages == [
        f"left out: {choose} is not a run folder; it holds some: {choose}/*",
        f"left out: {page} is not a run folder",
    ]
    with pytest.raises(EeveeError, match=r"is a file, expected the folder of a run: a table is given by --table"):
        table_of_runs([page])
    with pytest.raises(EeveeError, match=r"holds no manifest\.json"):
        table_of_runs([*runs, tmp_path / "mistyped"])


def test_own_rows_go_below_a_known_table_in_its_unit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own = write_run(tmp_path / "own", "mine", {"cifar100": 0.5, "photos": 0.4})
    gate = load_table("gate")
    with caplog.at_level(logging.WARNING):
        table = table_of_runs([own], gate)
    assert table.models == (*gate.models, "mine")
    column = gate.metric_ids.index("cifar100/acc1")
    assert table.values[-1, column] == pytest.approx(50.5)
    assert np.isnan(table.values[-1]).sum() == len(gate.metrics) - 1
    assert np.array_equal(table.values[:-1], gate.values, equal_nan=True)
    assert caplog.messages == ["left out: photos, which gate does not have as these runs score them"]
    with pytest.raises(EeveeError, match="mine: no benchmark of gate; expected some of ade20k"):
        table_of_runs([write_run(tmp_path / "only", "mine", {"photos": 0.4})], gate)


def test_an_error_among_others_like_it_is_no_share(tmp_path: Path) -> None:
    """A mean absolute error of 1.2 years became 120."""
    lines = [f"m{n},{1.8 + n / 2},{18 + 5 * n}" for n in range(5)]
    known = read_csv_text("model,years/mae,top/error\n" + "\n".join(lines), name="known", direction="lower")
    own = write_run(tmp_path / "own", "mine", {"years": 1.2}, metric="mae")
    rate = write_run(tmp_path / "rate", "also mine", {"top": 0.2}, metric="error")
    for folder in (own, rate):
        for file in (folder / "results").glob("*.json"):
            file.write_text(file.read_text().replace("higher", "lower"))
    table = table_of_runs([own, rate], known)
    assert table.values[5, 0] == pytest.approx(1.205)
    assert table.values[6, 1] == pytest.approx(20.5)


def test_the_command_takes_run_folders_and_says_first_how_many_models_are_enough(
    runs: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    paths = [str(path) for path in runs]
    assert main(["select", *paths, "-k", "1", "--method", "exhaustive", "--no-nested", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert shown.err.splitlines()[0].startswith(
        "before the search: 6 models (or groups of near-twins) are few, 50 are enough"
    )
    assert shown.err.splitlines()[1] == f"before the search: {models_needed(1)}"
    assert "own runs" in shown.out
    own = write_run(tmp_path / "own", "mine", {"cifar100": 0.5})
    assert main(["check", str(own), "--table", "gate"]) == 0
    assert "22 models" in capsys.readouterr().out


def test_too_few_runs_are_told_the_table_that_they_can_be_added_to(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["select", *map(str, runs[:3]), "-k", "1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "the runs are of 3 encoders; expected at least 5" in line
    assert "--table gate" in line


def test_how_many_models_are_needed_is_computed_for_the_number_that_is_chosen() -> None:
    lines = {k: models_needed(k) for k in (1, 8)}
    assert lines[8] == models_needed(None)
    for k, line in lines.items():
        assert f"the error of {k} benchmarks on a new model" in line
        errors = [float(text) for text in re.findall(r"(\d+\.\d+) with", line)]
        assert len(errors) == 5
        assert errors[-1] < errors[0]  # more models known, less error
        more = errors[-2] > 1.1 * errors[-1] + 0.02
        assert not more or "18 or more are needed" in line
    assert lines[1].split("is ")[1] != lines[8].split("is ")[1]


def test_what_is_no_run_or_holds_no_score_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = write_run(tmp_path / "failed", "weak", {"a": None})
    for folder, words in ((failed, "no result of these runs finished"), (tmp_path, "holds no manifest.json")):
        assert main(["select", str(folder), "-k", "1"]) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if "left out" not in line]
        assert words in line
        assert str(folder) in line


HEAD = "model,encoder,benchmark,seed,metric,direction,value,status,reason,data_sha256\n"


def _exported(models: int, extra: str = "") -> str:
    rows = [f"m{n},m{n},{b},{s},acc@1,higher,{(n + i + s) / 10},ok,,{b}" for n in range(models) for i, b in
            enumerate("xy") for s in (0, 1)]  # fmt: skip
    return HEAD + "\n".join(rows) + "\n" + extra


def test_an_export_with_a_failed_row_is_read_without_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        table = read_csv_text(_exported(5, "m0,m0,z,0,,,,failed,no memory,\n"), name="all.csv")
    assert caplog.messages == ["all.csv, line 22: left out: z of m0 failed: no memory"]
    assert table.benchmark_ids == ("x", "y")
    assert table.values[1] == pytest.approx([0.15, 0.25])  # the mean of two seeds
    with pytest.raises(EeveeError, match=r"all\.csv: all 1 rows failed"):
        read_csv_text(HEAD + "m0,m0,z,0,,,,failed,no memory,\n", name="all.csv")


def test_an_export_on_other_data_is_left_out_and_one_twice_refused(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        table = read_csv_text(
            _exported(5, "m5,m5,x,0,acc@1,higher,.5,ok,,other\nm5,m5,y,0,acc@1,higher,.5,ok,,y\n"), name="t"
        )
    assert table.benchmark_ids == ("y",)
    assert caplog.messages == ["t: left out: x, which models saw on different data"]
    with pytest.raises(EeveeError, match="x of m4 appears twice with one seed"):
        read_csv_text(_exported(5, "m4,m4,x,0,acc@1,higher,.5,ok,,x\n"), name="t")


def test_a_metric_without_a_direction_names_the_option() -> None:
    with pytest.raises(EeveeError, match=r"no direction.*--direction higher"):
        read_csv_text("model,x\n" + "".join(f"m{n},{n}\n" for n in range(5)), name="t")


def test_intervals_of_an_export_are_no_bounds_of_its_metrics(tmp_path):
    """The last row's interval was taken for the metric's bounds, and the other models' scores were outside of it."""
    head = HEAD.replace("value,", "value,low,high,chance,")
    rows = [f"m{i},e,toy,0,acc@1,higher,{i / 10},{i / 10 - 0.05},{i / 10 + 0.05},0.1,ok,,d" for i in range(6)]
    path = tmp_path / "scores.csv"
    path.write_text(head + "\n".join(rows))
    table = load_table(path)
    assert table.metrics[0].bounds is None
    assert table.values[:, 0].tolist() == [i / 10 for i in range(6)]


def changed(file: Path, **fields: object) -> None:
    """A result with other fields, and the digest of the first."""
    content = json.loads(file.read_text())
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps({**content, **fields, "digest": digest}))


def test_results_that_are_not_the_folders_are_refused(runs: list[Path]) -> None:
    file = runs[0] / "results" / "a.seed0.json"
    before = file.read_text()
    changed(file)
    assert table_of_runs(runs).metric_ids == BENCHMARKS
    changed(file, scores=[{"metric": "acc@1", "direction": "higher", "value": 0.99}])
    with pytest.raises(EeveeError, match=r"a\.seed0\.json was changed after it was written"):
        table_of_runs(runs)
    file.write_text(json.dumps({**json.loads(before), "encoder": {"spec": "model1"}}))
    with pytest.raises(EeveeError, match=r"a\.seed0\.json is of another encoder than its folder: spec 'model1'"):
        table_of_runs(runs)
    file.write_text(before)
    (runs[0] / "results" / "a.seed0 (copy).json").write_text(before)
    with pytest.raises(EeveeError, match=r"are of one benchmark and seed: remove the copy"):
        table_of_runs(runs)
