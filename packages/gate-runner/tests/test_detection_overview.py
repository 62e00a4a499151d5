"""Detection's tables over data sets and shots: means, deviations, published rows, and the forms of a report."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate_data.tables import read_table
from gate_runner.detection.tables import overview
from gate_runner.exporting import export
from gate_runner.reports.contents import gather, overviews
from gate_runner.reports.forms import as_latex, as_markdown
from gate_runner.reports.page import build_page
from gate_runner.runs.results import Result
from gate_runner.runs.stored import StoredRun
from gate_runner.tasks.job import Score

MANIFEST = {"identity": {"encoder": {"spec": "hf-detector:tiny", "provides": []}}, "runs": []}


def result(name: str, value: float, seed: int = 0, tune: str = "frozen", **training: Any) -> Result:
    fields = {
        "detector": "x",
        "split": "test",
        "shots": "0",
        "prompts": {"kind": "overrides", "read": ["a"]},
        **training,
    }
    shots = fields["shots"]
    return Result(
        name=name if shots == "full" else f"{name}@{shots}", benchmark=name, task="detection", source="local",
        seed=seed, status="ok", scores=(Score("map", "higher", value, value - 0.1, value + 0.1, 0.01),),
        training=fields, settings={"tune": tune}, data={"test": 3, "sha256": "0"},
    )  # fmt: skip


def run(*results: Result, label: str = "tiny") -> StoredRun:
    return StoredRun(Path(label), label, results, MANIFEST)


TUNED = run(
    *(result("a", 0.2 + seed / 100, seed, "full", shots="1", trained_parameters=1000) for seed in (0, 2)),
    *(result("b", 0.4 + seed / 100, seed, "full", shots="1", trained_parameters=1200) for seed in (0, 2)),
    result("a", 0.6, 0, "full", shots="full", trained_parameters=1000),
    result("a", 0.1, 0, "full"), result("b", 0.3, 0, "full"),
)  # fmt: skip
PROMPT = run(
    *(result(name, 0.25, 0, "prompt", shots="1", trained_parameters=10) for name in "ab"), label="tiny (prompt)"
)


def test_means_by_shots_and_tuning() -> None:
    table = overview([TUNED, PROMPT])[0]
    assert table.heads == ("Model", "Tuned", "Trained parameters", "0-shot", "1-shot", "all")
    assert table.rows == (
        ("hf-detector:tiny", "full", "1,000 to 1,200", "20.0", "31.0 ± 1.4", "60.0 (1 of 2)"),
        ("hf-detector:tiny", "prompt", "10", "20.0", "25.0", "–"),
    )


def test_kinds_of_knowledge_are_compared_on_the_same_sets() -> None:
    def prompted(kind: str) -> dict[str, Any]:
        return {"prompts": {"kind": kind, "read": ["a"]}}

    plain = [result(name, value, **prompted("names")) for name, value in (("a", 0.1), ("b", 0.3), ("c", 0.9))]
    glossed = [result(name, value, **prompted("wiki_def&gpt3:5")) for name, value in (("a", 0.2), ("b", 0.5))]
    tables = overview([run(*plain), run(*glossed, label="second")])
    (table,) = [table for table in tables if table.id == "detection-knowledge"]
    assert table.heads == ("Model", "names", "wiki_def&gpt3:5", "Data sets")
    assert table.rows == (("hf-detector:tiny", "20.0", "35.0", "2"),)
    assert [table.id for table in overview([run(*plain)])] == ["detection-by-shots", "detection-sets"]
    every = [f"set{number}" for number in range(35)]
    suite = [result(name, 0.5, odinw=name, **prompted(kind)) for kind in ("names", "gpt3:5") for name in every]
    (whole,) = [table for table in overview([run(*suite)]) if table.id == "detection-knowledge"]
    assert whole.rows[1] == ("GLIP-A, published on the 35", "11.53", "11.98", "35")


def test_each_set_and_its_mean() -> None:
    table = overview([TUNED, PROMPT])[1]
    assert table.heads == (
        "Data set", "hf-detector:tiny: zero-shot", "hf-detector:tiny: full, 1-shot", "hf-detector:tiny: full, all",
        "hf-detector:tiny: prompt, 1-shot",
    )  # fmt: skip
    assert table.rows == (
        ("a", "10.0", "21.0", "60.0", "25.0"), ("b", "30.0", "41.0", "–", "25.0"),
        ("mean", "20.0", "31.0", "60.0 (1)", "25.0"),
    )  # fmt: skip


def test_figures_have_a_line_for_each_way_and_for_each_number_of_shots() -> None:
    figure = overview([TUNED, PROMPT])[0].figure
    assert "full hf-detector:tiny: 20.0, 31.0, 60.0; prompt hf-detector:tiny: 20.0, 25.0" in figure
    assert "1-shot hf-detector:tiny: prompt, 10 parameters: 25.0, full, 1,100 parameters: 31.0" in figure


def test_prompts_and_splits_are_not_mixed() -> None:
    named = {"kind": "names", "read": ["a"]}
    rows = overview([run(result("a", 0.1), result("a", 0.2, 1, prompts=named, split="valid"))])[0].rows
    assert [row[0] for row in rows] == ["hf-detector:tiny", "hf-detector:tiny, prompts names (valid)"]


def test_published_scores_stand_beside_whole_suites_alone() -> None:
    thirteen = read_table("odinw")["thirteen"]
    results = [result(f"odinw-{name}", 0.5, odinw=name) for name in thirteen]
    first, second = overview([run(*results)])
    assert first.rows[1][:3] == ("GLIP-T, published on the 13", "full", "–")
    assert len(overview([run(*results[:12])])[0].rows) == 1
    column = second.heads.index("GLIP-T (zero-shot, test)")
    assert second.rows[-1][column] == "46.5"
    assert "Grounding DINO-T (zero-shot, valid, other split)" in second.heads
    valid = second.heads.index("Grounding DINO-T (zero-shot, valid, other split)")
    assert float(second.rows[-1][valid]) == pytest.approx(51.4, abs=0.11)  # mmdetection's own mean over the 13


def test_runs_that_saw_other_data_are_named_below_the_tables() -> None:
    other = replace(result("b", 0.9), data={"test": 3, "sha256": "1"})
    apart = [run(result("a", 0.1), result("b", 0.2)), run(result("a", 0.3), other, label="second")]
    warning = "Not comparable between runs, which saw different data: b@0."
    tables = overviews(apart)
    assert [table.warning for table in tables] == [warning, warning]
    for table in tables:
        assert warning in table.as_markdown()
        assert warning in table.as_latex()
        rows = list(csv.DictReader(io.StringIO(table.as_csv())))
        assert rows
        assert {row["warning"] for row in rows} == {warning}
    assert warning in build_page(apart, pictures=0, tests=False)
    alike = [run(result("a", 0.1)), run(result("a", 0.3), label="second")]
    assert [table.warning for table in overviews(alike)] == ["", ""]


def test_every_form_of_a_report_has_them(tmp_path: Path) -> None:
    contents = gather([TUNED], tests=False)
    assert "mean over 2 detection sets (ELEVATER's table 4)" in as_markdown(contents)
    assert as_latex(contents).count(r"\begin{tabular}") == 3
    page = build_page([TUNED], pictures=0, tests=False)
    assert 'id="sets"' in page
    written = export(TUNED, "csv", tmp_path)
    assert {path.name for path in written.files} == {"results.csv", "detection-by-shots.csv", "detection-sets.csv"}
    rows = list(csv.reader(io.StringIO((tmp_path / "detection-by-shots.csv").read_text())))
    assert rows[1][1:3] == ["hf-detector:tiny", "full"]
    moved = tuple(replace(stored, task="few-shot") for stored in run(result("a", 0.2)).results)
    plain = [StoredRun(Path("x"), "x", moved, MANIFEST)]
    assert "detection" not in as_markdown(gather(plain, tests=False))
