"""A sweep's tables and page, from results that are written here."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gate_runner.cli import main
from gate_runner.errors import DataError, UsageError
from gate_runner.exporting import export
from gate_runner.reports import report
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.results import Result
from gate_runner.settings.axes import FULL
from gate_runner.tasks.elevater.tables import (
    Cell,
    Record,
    averages,
    controls,
    efficiency,
    gains,
    having,
    mean_over_sets,
    over_parameters,
    over_shots,
    per_set,
    records_of,
    wins,
)
from gate_runner.tasks.job import Score


def cell(dataset: str, shots: int, knowledge: str = "none", seed: int = 0, init: str = "language") -> Cell:
    return Cell(dataset, shots, "frozen", init, "2p", knowledge, seed)


def record(where: Cell, value: float, **more: object) -> Record:
    return Record(where, "ok", value=value, **more)  # type: ignore[arg-type]  # as given


RECORDS = [
    record(cell("a", 0), 0.5),
    record(cell("b", 0), 0.3),
    *(record(cell("a", 5, seed=seed), 0.6 + 0.02 * seed, trained=100) for seed in (0, 1)),
    *(record(cell("b", 5, seed=seed), 0.4 + 0.02 * seed, trained=300) for seed in (0, 1)),
    *(record(cell("a", 5, "gpt3", seed=seed), 0.7, known=2) for seed in (0, 1)),
    *(record(cell("b", 5, "gpt3", seed=seed), 0.2, known=2) for seed in (0, 1)),
    *(record(cell("a", 5, "auto", seed=seed), 0.7) for seed in (0, 1)),
    *(record(cell("b", 5, "auto", seed=seed), 0.4 + 0.02 * seed) for seed in (0, 1)),
    *(record(cell("a", 5, "random-words", seed=seed), 0.65) for seed in (0, 1)),
    *(record(cell("a", 5, "other-classes", seed=seed), 0.1) for seed in (0, 1)),
    record(cell("a", FULL), 0.9, trained=100),
    Record(cell("b", FULL), "failed", "RuntimeError: no memory left"),
]


def test_averages_are_over_data_sets_and_deviations_over_seeds() -> None:
    rows = {row[1] or row[0]: row for row in averages(RECORDS).rows}
    assert rows["Zero-shot"][2] == "40.00"
    # seed 0: (60 + 40) / 2, seed 1: (62 + 42) / 2; data set b has no full-shot value, so that a stands alone
    assert averages([unit for unit in RECORDS if unit.cell.shots != FULL]).rows[1][3] == "51.00 ± 1.41"
    assert rows["Language-2P"][2:] == ("", "61.00 ± 1.41", "90.00", "1")
    assert mean_over_sets(having(RECORDS, shots=FULL), ["a", "b"]) is None


def test_each_data_set_and_what_is_missing() -> None:
    table = per_set(RECORDS)
    assert table.heads[3:] == ("a", "b")
    assert ("LP full-shot", "Language-2P", "–", "90.0", "–") in table.rows
    assert ("LP 5-shot", "Language-2P", "51.00 ± 1.41", "61.0", "41.0") in table.rows


def test_gains_wins_ties_and_losses() -> None:
    first, second = gains(RECORDS)
    summary = {row[0]: row[1] for row in first.rows}
    assert summary == {
        "Knowledge-free": "51.00 ± 1.41", "Chosen by validation": "55.50 ± 0.71", "Gain": "+4.50",
        "Win / tie / loss": "1 / 1 / 0",
    }  # fmt: skip
    assert wins(having(RECORDS, shots=5), "gpt3") == (1, 0, 1)
    assert ("LP 2P 5-shot", "gpt3", "45.00 ± 0.00", "1 / 0 / 1", "70.0", "20.0") in second.rows
    assert second.heads[:4] == ("Adaptation", "Knowledge", "Mean", "Win / tie / loss")


def test_the_papers_rows_of_knowledge_have_their_order_and_their_wins() -> None:
    rows = [
        record(cell(name, 5, knowledge), value)
        for name, values in (("a", (0.5, 0.6, 0.4, 0.7, 0.7)), ("b", (0.5, 0.5, 0.6, 0.5, 0.5)))
        for knowledge, value in zip(("none", "wiktionary+gpt3-5", "gpt3-1", "wiktionary", "auto"), values, strict=True)
    ]
    table = gains(rows)[1]
    assert [row[1] for row in table.rows] == ["none", "wiktionary", "gpt3-1", "wiktionary+gpt3-5", "auto"]
    assert [row[3] for row in table.rows] == ["", "1 / 1 / 0", "1 / 0 / 1", "1 / 1 / 0", "1 / 1 / 0"]


def test_figures_have_a_line_for_each_way_and_for_each_number_of_shots() -> None:
    plain = [unit for unit in RECORDS if unit.cell.knowledge == "none" and unit.cell.shots != FULL]
    shots = over_shots(plain)
    assert "LP Language-2P: zero-shot: 40.00, 5-shot: 51.00 ± 1.41" in shots
    double = [
        unit._replace(cell=unit.cell._replace(projection="1p"), trained=10_000) for unit in plain if unit.cell.shots
    ]
    assert "5-shot: 400 parameters: 51.00 ± 1.41, 20,000 parameters: 51.00 ± 1.41" in over_parameters([*plain, *double])
    assert over_parameters(plain) == ""  # a point is no line
    assert per_set(RECORDS).figure.count("<polyline") == 2  # each data set
    assert per_set([unit for unit in plain if unit.cell.shots == 5]).figure == ""


def test_controls_say_whether_knowledge_says_something() -> None:
    [row] = controls(RECORDS).rows
    assert row == ("a", "LP 2P 5-shot", "gpt3", "61.0", "70.0", "65.0", "10.0", "yes")
    worse = [unit._replace(value=0.6) if unit.cell.knowledge == "gpt3" else unit for unit in RECORDS]
    assert controls(worse).rows[0][-1] == "no"


def test_performance_efficiency_has_the_minus_sign() -> None:
    rows = {row[0]: row for row in efficiency(RECORDS).rows}
    assert rows["Zero-shot"][2:] == ("0", "40.00", "0.4000")
    huge = [unit._replace(trained=10**9) for unit in RECORDS if unit.cell.shots == 5]
    assert float(efficiency(huge).rows[0][-1]) < 0.51


def result(record: Record) -> Result:
    name = f"{record.cell.dataset}@{record.cell.variant.name}"
    if record.value is None:
        return Result(name, name, "elevater", "micro", record.cell.seed, "failed", record.reason)
    score = Score("accuracy", "higher", record.value, record.value, record.value, 0.1)
    training = {"validated": None, "trained_parameters": record.trained, "variant": record.cell.variant._asdict(),
                "chosen": {}, "known": record.known,
                "draw": "", "short_classes": 0}  # fmt: skip
    return Result(name, name, "elevater", "micro", record.cell.seed, "ok", scores=(score,), training=training)


def stored(folder: Path, records: list[Record]) -> Path:
    for record in records:
        RunFolder(folder).save(result(record), None if record.value is None else np.zeros(3))
    identity = {"encoder": {"spec": "<own>", "parameters": 1000, "provides": []}}
    (folder / "manifest.json").write_text(json.dumps({"identity": identity, "runs": []}))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return stored(tmp_path, RECORDS)


def test_results_are_the_rows_of_the_tables() -> None:
    assert records_of(map(result, RECORDS)) == RECORDS


def test_the_report_holds_every_table_and_figure_and_no_script(folder: Path) -> None:
    page = report(folder)
    assert "<script" not in page
    assert "&lt;own&gt; on 2 data sets of a sweep" in page
    assert "Every benchmark here is a synthetic stand-in" in page
    for heading in ("table 3", "tables 12 and 13", "table 16", "table 17", "Cells without a value"):
        assert heading in page
    assert "RuntimeError: no memory left" in page
    assert "Mean of 2 data sets by images per class" in page


def test_tables_as_markdown_csv_and_latex(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "| LP | Language-2P |  | 61.00 ± 1.41 | 90.00 | 1 |" in report(folder, form="md")
    rows = list(csv.reader(io.StringIO(report(folder, form="csv"))))
    assert ["knowledge", "Gain", "+4.50"] in [[cell.lstrip("'") for cell in row] for row in rows]
    assert r"61.00 $\pm$ 1.41 & 90.00 & 1 \\" in report(folder, form="latex")
    with pytest.raises(SystemExit) as ended:
        main(["report", str(folder), "--output", str(folder / "page.html")])
    assert ended.value.code == 0
    assert "page.html" in capsys.readouterr().out


def test_what_an_older_release_wrote_is_refused_with_the_way_on(tmp_path: Path) -> None:
    identity = {"kind": "grid", "encoder": {"spec": "<own>"}}
    (tmp_path / "manifest.json").write_text(json.dumps({"identity": identity, "runs": []}))
    with pytest.raises(UsageError, match=r"holds a grid as gate-runner 0\.1 wrote it; report it with that version"):
        report(tmp_path)


def test_a_sweep_becomes_elevaters_zips_with_its_seeds_joined(folder: Path) -> None:
    rng = np.random.default_rng(0)
    units = [record(cell("mnist", 5, seed=seed), 0.5, trained=trained) for seed, trained in ((0, 100), (1, 300))]
    drawn = [rng.dirichlet(np.ones(10), 4).astype(np.float32) for _ in units]
    for unit, probabilities in zip(units, drawn, strict=True):
        RunFolder(folder).save(result(unit), np.zeros(4), probabilities=probabilities)
    exported = export(folder, "elevater", model="lab/own")
    (path,) = exported.files
    assert path.name == "5-shot.frozen.language-2p.none.zip"
    assert any(sentence.startswith("5-shot.frozen.language-2p.none lacks 19 of 20") for sentence in exported.left_out)
    with zipfile.ZipFile(path) as file:
        assert file.namelist() == ["all_predictions.json"]
        (entry,) = json.loads(file.read("all_predictions.json"))["data"]
    assert list(entry) == [
        "model_name", "dataset_name", "num_trainable_params", "num_params", "num_visual_params", "num_backbone_params",
        "n_shot", "rnd_seeds", "predictions",
    ]  # fmt: skip
    assert (entry["model_name"], entry["num_trainable_params"], entry["num_params"]) == ("lab/own", 200, 1200)
    assert (entry["n_shot"], entry["rnd_seeds"]) == (5, [0, 1])
    np.testing.assert_allclose(np.array(entry["predictions"]), np.stack(drawn), atol=5e-7)
    before = path.read_bytes()
    export(folder, "elevater", model="lab/own")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        (np.full((2, 9), 1 / 9), r"shape \(2, 9\), expected \[image\]\[10 classes\]"),
        (np.full((2, 10), 0.2), "row of image 0 is no distribution: its sum is 2"),
        (np.full((2, 10), np.nan), "row of image 0 is no distribution"),
        (None, "keep_predictions=true, which keeps them"),
    ],
)
def test_what_elevaters_validator_refuses_is_refused(
    folder: Path, probabilities: np.ndarray | None, message: str
) -> None:
    RunFolder(folder).save(result(record(cell("mnist", 5), 0.5)), np.zeros(2), probabilities=probabilities)
    with pytest.raises(DataError, match=message):
        export(folder, "elevater")
