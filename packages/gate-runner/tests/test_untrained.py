"""The untrained encoder's scores: shown beside the same data alone, and still what the encoder scores."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import gate_runner
from gate_runner.reports.page import build_page
from gate_runner.runs import results as table
from gate_runner.runs.display import PlainDisplay
from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_run

from ._folders import result, write_run


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> Result:
    """A made-up table of one row, and a result on its data."""
    cifar100, _ = result("micro/cifar100", 0.8)
    rows = {(cifar100.name, str(cifar100.data["sha256"]), "acc@1"): 0.1234}
    monkeypatch.setattr(table, "_table", lambda: rows)
    return cifar100


def shown(*results: Result) -> str:
    out = io.StringIO()
    PlainDisplay(Console(file=out, width=100, soft_wrap=True)).closed(results)
    return out.getvalue()


def test_it_stands_beside_the_score(shipped: Result, tmp_path: Path) -> None:
    text = shown(shipped)
    assert "untrained" in text.splitlines()[0]
    assert "0.123" in text
    assert "micro-clip/random, whose weights are random" in text
    other, _ = result("digits", 0.8)
    assert "None is shipped for digits" in shown(shipped, other)
    page = build_page([read_run(write_run(tmp_path / "a", {"micro/cifar100": 0.8}))], pictures=0)
    assert ", untrained 0.123<" in page


def test_never_against_other_data_metrics_or_recipes(shipped: Result) -> None:
    (score,) = shipped.scores
    for changed in (
        replace(shipped, data={**shipped.data, "sha256": "other"}),
        replace(shipped, scores=(replace(score, metric="acc@5"),)),
        replace(shipped, settings={"limit": None, "tune": "full"}),
        replace(shipped, settings={"limit": None, "recipe_fields": {"steps": 10}}),
        replace(shipped, name="digits"),
    ):
        assert table.untrained(changed) is None
        assert "0.123" not in shown(changed)
        assert "No score of an untrained encoder is shipped for these data" in shown(changed)
    assert table.untrained(replace(shipped, settings={"limit": 60})) == 0.1234  # the digest says whether it is the same


def test_a_table_for_other_results_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert table._table.__wrapped__()
    monkeypatch.setattr(table, "SCHEMA", "gate-runner/result/999")
    assert table._table.__wrapped__() == {}


def test_the_shipped_table_holds(tmp_path: Path) -> None:
    pytest.importorskip("skimage", reason="the faces come with scikit-image")
    done = gate_runner.run("faces", encoder=table.ENCODER, output=tmp_path, show=False)
    (faces,) = done
    assert table.untrained(faces) == pytest.approx(
        faces.scores[0].value, abs=0.03
    )  # on another processor the probe may choose anew
    content = table.as_table(done)
    assert content["rows"][0]["data_sha256"] == faces.data["sha256"]


def test_the_pack_of_real_pictures_is_there() -> None:
    from gate_runner.benchmarks import PACKS

    assert {name for name, _, _ in table._table()} >= {*PACKS["real"]}
