"""A sweep's tables and page, and ELEVATER's submissions, from results that are written here."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gate_data.cards import ICINW
from gate_runner.axes import FULL
from gate_runner.cli import main
from gate_runner.errors import DataError, UsageError
from gate_runner.reports import report
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.results import Result
from gate_runner.submission import Entry, entries_of, read_submission, score_entry, write_submission
from gate_runner.tasks.elevater.record import Cell, Record, records_of
from gate_runner.tasks.elevater.tables import (
    averages,
    controls,
    efficiency,
    gains,
    having,
    mean_over_sets,
    per_set,
    wins,
)
from gate_runner.tasks.score import Score


def cell(dataset: str, shots: int, knowledge: str = "none", seed: int = 0, init: str = "language") -> Cell:
    return Cell(dataset, shots, "frozen", init, "2p", knowledge, seed)


def record(where: Cell, value: float, **more: object) -> Record:
    return Record(where, "ok", metric="accuracy", value=value, **more)  # type: ignore[arg-type]  # as given


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
    assert averages([one for one in RECORDS if one.cell.shots != FULL]).rows[1][3] == "51.00 ± 1.41"
    assert rows["Language-2P"][2:] == ("", "61.00 ± 1.41", "90.00", "1")
    assert mean_over_sets(having(RECORDS, shots=FULL), ["a", "b"]) is None


def test_each_data_set_and_what_is_missing() -> None:
    table = per_set(RECORDS)
    assert table.heads[3:] == ("a", "b")
    assert ("LP full-shot", "Language-2P", "–", "90.0", "–") in table.rows
    assert ("LP 5-shot", "Language-2P", "51.00 ± 1.41", "61.0", "41.0") in table.rows


def test_gains_wins_ties_and_losses() -> None:
    first, second = gains(RECORDS)
    found = {row[0]: row[1] for row in first.rows}
    assert found == {
        "Knowledge-free": "51.00 ± 1.41", "Chosen by validation": "55.50 ± 0.71", "Gain": "+4.50",
        "Win / tie / loss": "1 / 1 / 0",
    }  # fmt: skip
    assert wins(having(RECORDS, shots=5), "gpt3") == (1, 0, 1)
    assert ("LP 2P 5-shot", "gpt3", "45.00 ± 0.00", "70.0", "20.0") in second.rows


def test_controls_say_whether_knowledge_says_something() -> None:
    [row] = controls(RECORDS).rows
    assert row == ("a", "LP 2P 5-shot", "gpt3", "61.0", "70.0", "65.0", "10.0", "yes")
    worse = [replace(one, value=0.6) if one.cell.knowledge == "gpt3" else one for one in RECORDS]
    assert controls(worse).rows[0][-1] == "no"


def test_performance_efficiency_has_the_minus_sign() -> None:
    rows = {row[0]: row for row in efficiency(RECORDS).rows}
    assert rows["Zero-shot"][2:] == ("0", "40.00", "0.4000")
    huge = [replace(one, trained=10**9) for one in RECORDS if one.cell.shots == 5]
    assert float(efficiency(huge).rows[0][-1]) < 0.51


def result(record: Record) -> Result:
    name = f"{record.cell.dataset}@{record.cell.variant.name}"
    if record.value is None:
        return Result(name, name, "elevater", "micro", record.cell.seed, "failed", record.reason)
    score = Score(record.metric, "higher", record.value, record.value, record.value, 0.1)
    training = {"validated": None, "trained_parameters": record.trained, "chosen": {}, "known": record.known,
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
    ends = [replace(one, low=one.value, high=one.value) for one in RECORDS]
    assert records_of(map(result, RECORDS)) == ends


def test_the_report_holds_every_table_and_figure_and_no_script(folder: Path) -> None:
    page = report(folder)
    assert "<script" not in page
    assert "&lt;own&gt; on 2 data sets of a sweep" in page
    assert "Every benchmark here is a synthetic stand-in" in page
    for heading in ("table 3", "tables 12 and 13", "table 16", "table 17", "Cells without a value"):
        assert heading in page
    assert page.count("<svg") >= 2
    assert "RuntimeError: no memory left" in page
    assert re.search(r"<polyline points=\"[\d., ]+\"", page)


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


def entry(dataset: str, images: int = 2, seeds: tuple[int, ...] = (0, 1)) -> Entry:
    rng = np.random.default_rng(len(dataset))
    scores = rng.random((len(seeds), images, ICINW[dataset].classes))
    counts = {"num_trainable_params": 1.5, "num_params": 2.0, "num_visual_params": 1.0, "num_backbone_params": 1.0}
    return Entry(dataset, "own", 5, seeds, scores / scores.sum(2, keepdims=True), counts)


def test_a_submission_is_written_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "all_predictions.zip"
    write_submission([entry(name) for name in ICINW], path)
    with zipfile.ZipFile(path) as file:
        assert file.namelist() == ["all_predictions.json"]
        raw = json.loads(file.read("all_predictions.json"))
    assert len(raw["data"]) == 20
    first = raw["data"][0]
    assert list(first) == [
        "model_name", "dataset_name", "num_trainable_params", "num_params", "num_visual_params", "num_backbone_params",
        "n_shot", "rnd_seeds", "predictions",
    ]  # fmt: skip
    assert first["rnd_seeds"] == [0, 1]
    assert max(len(str(p).partition(".")[2]) for p in first["predictions"][0][0] if p > 0.001) <= 6
    again = read_submission(path)
    assert [one.dataset for one in again] == list(ICINW)
    np.testing.assert_allclose(again[3].predictions, entry(list(ICINW)[3]).predictions, atol=5e-7)


def test_bad_submissions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"

    def refused(message: str, changed: dict[str, object], dataset: str = "mnist", whole: bool = False) -> None:
        raw = {**entry(dataset).to_mapping(), **changed}
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("all_predictions.json", json.dumps({"data": [raw]}))
        with pytest.raises(DataError, match=message):
            read_submission(path, whole=whole)

    good = entry("mnist").to_mapping()["predictions"]
    refused("lacks 19 of 20 data sets: caltech-101", {}, whole=True)
    refused(r"expected \[seed\]\[image\]\[class\]", {"predictions": good[0]})
    refused("of one shape", {"predictions": [[[0.5, 0.5]], [[1.0]]]})
    refused("9 classes, expected 10", {"predictions": [[row[:9] for row in one] for one in good]})
    refused(r"seeds \[0\] for 2 sets", {"rnd_seeds": [0]})
    refused("'minst' is none of ELEVATER's 20", {"dataset_name": "minst"})
    refused(
        "seed 1, image 1 is no distribution: from -0.1", {"predictions": [good[0], [good[1][0], [1.1, -0.1, *[0] * 8]]]}
    )
    refused(
        "NaN or infinity at seed 0, image 0, class 2",
        {"predictions": [[[0.5, 0.5, float("nan"), *[0] * 7]] * 2, good[1]]},
    )
    for name in ("n_shot", "predictions"):
        raw = entry("mnist").to_mapping()
        del raw[name]
        (tmp_path / "one.json").write_text(json.dumps(raw))
        with pytest.raises(DataError, match=f"lacks {name}"):
            read_submission(tmp_path / "one.json")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("mnist.json", "{}")
    with pytest.raises(DataError, match=r"holds mnist\.json; expected all_predictions\.json alone"):
        read_submission(path)
    path.write_bytes(b"PK no zip")
    with pytest.raises(DataError, match="is not a submission"):
        read_submission(path)


def test_scoring_takes_elevaters_order_and_notices_another(tmp_path: Path) -> None:
    from gate_data.originals.icinw.elevater import class_names

    names = class_names("cifar-100")
    labels = np.arange(100)
    right = Entry("cifar-100", "own", 0, (0,), np.eye(100)[labels][None])
    assert score_entry(right, labels, names).mean == 1.0
    ordered = sorted(names)
    theirs = np.eye(100)[[ordered.index(names[label]) for label in labels]]
    scored = score_entry(replace(right, predictions=theirs[None]), labels, names)
    assert scored.mean < 0.1
    assert "alphabetical order: they would score 1.0000" in scored.warning
    with pytest.raises(DataError, match="predictions for 100 images, the test has 90"):
        score_entry(right, labels[:90], names)


def test_a_grids_cells_become_entries_with_their_seeds_joined(folder: Path) -> None:
    units = [record(cell("mnist", 5, seed=seed), 0.5, trained=trained) for seed, trained in ((0, 100), (1, 300))]
    paths = []
    for seed, unit in enumerate(units):
        save = RunFolder(folder).save(result(unit), np.zeros(3), probabilities=entry("mnist").predictions[seed])
        paths.append(RunFolder(folder).predictions_file(save.name, seed))
    for path in [*(folder / "results").glob("a@*"), *(folder / "results").glob("b@*")]:
        path.unlink()
    way = {"model": "own", "shots": 5, "tune": "frozen", "init": "language", "projection": "2p", "knowledge": "none"}
    [found] = entries_of(folder, **way)  # type: ignore[arg-type]  # as named
    assert (found.seeds, found.parameters["num_trainable_params"], found.parameters["num_params"]) == (
        (0, 1),
        200,
        1200,
    )
    np.testing.assert_allclose(found.predictions, entry("mnist").predictions)
    with pytest.raises(DataError, match=r"no results with a score of 20-shot\.frozen"):
        entries_of(folder, **{**way, "shots": 20})  # type: ignore[arg-type]  # as named
    paths[0].unlink()
    with pytest.raises(DataError, match="--predictions keeps them"):
        entries_of(folder, **way)  # type: ignore[arg-type]  # as named
