"""Folders stand on those before them alone, and a scorer of one's own works wherever a built-in one does."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import eevee
from eevee import EeveeError, RidgeScorer, load_table, read_selection, score, select, standardise
from eevee.cli import main
from eevee.scorers.named import named_scorer
from eevee.scorers.scorer import held_out

from ._reference import ridge_residuals
from ._tables import made_up

ORDER = ("tables", "items", "scorers", "searching", "answers", "reports")


def test_no_folder_imports_a_later_one():
    root = Path(eevee.__file__).parent
    imports = set()
    paths = list(root.rglob("*.py"))
    assert len(paths) > 20
    for path in paths:
        folder = path.relative_to(root).parts[0]
        if folder not in ORDER:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("eevee."):
                target = node.module.split(".")[1]
                if target in ORDER:
                    imports.add((folder, target))
                    assert ORDER.index(target) <= ORDER.index(folder), f"{path} imports {node.module}"
                else:
                    assert target in ("algebra", "errors", "progress"), f"{path} imports {node.module}"
    assert ("reports", "answers") in imports  # the walk sees what there is


class Plain:
    """Ridge by refitting, with nothing but what the protocol asks for, and that it is quick."""

    name, objective = "plain", "all"

    def quick(self, data):
        return True

    def score(self, data, candidates):
        out = []
        for candidate in candidates:
            residual = held_out(self, data, [candidate])[0]
            by_model = (residual**2).mean(1)
            out.append((by_model.mean(), by_model.std() / len(by_model) ** 0.5))
        return np.array(out)

    def predict(self, data, candidate, inputs):
        columns = data.metric_columns(candidate)
        x = np.column_stack([data.values[:, columns], np.ones(len(data.values))])
        penalty = np.diag([1.0] * len(columns) + [1e-9])
        return np.column_stack([inputs[:, columns], np.ones(len(inputs))]) @ np.linalg.solve(
            x.T @ x + penalty, x.T @ data.values
        )


def test_held_out_of_any_scorer_is_refitting():
    table = made_up(models=9, groups=list("aabcdefgh"))
    data = standardise(table)
    want = ridge_residuals(data.values, data.mask, [0, 3], data.groups, 1.0)
    np.testing.assert_allclose(held_out(Plain(), data, [(0, 3)])[0], want, atol=1e-7)
    np.testing.assert_allclose(held_out(RidgeScorer(), data, [(0, 3)])[0], want, atol=1e-7)


def test_own_scorer_is_usable_everywhere(tmp_path):
    table = made_up(models=9)
    mine = select(table, 2, scorer=Plain(), method="greedy-swap", randoms=10)
    ridge = select(table, 2, scorer=RidgeScorer(), method="greedy-swap", randoms=10)
    assert mine.benchmarks == ridge.benchmarks
    assert mine.error == pytest.approx(ridge.error)
    assert mine.nested.outer == pytest.approx(ridge.nested.outer)
    path = tmp_path / "mine.json"
    mine.to_json(path)
    with pytest.raises(EeveeError, match=r"mine\.json: made with the scorer 'plain', which is not built in"):
        read_selection(path, table)
    with pytest.raises(EeveeError, match="made with the scorer 'plain', and 'ridge' is given"):
        read_selection(path, table, RidgeScorer())
    scorer = Plain()
    assert read_selection(path, table, scorer) == replace(mine, settings=scorer)
    judged = score(table, mine.benchmarks, scorer=Plain(), randoms=5)
    assert judged.prediction_agreement == pytest.approx(score(table, mine.benchmarks, randoms=5).prediction_agreement)


def test_own_scorer_from_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_scorer.py").write_text(
        "from eevee import RidgeScorer\n\n\ndef stiff():\n    return RidgeScorer(alpha=100.0)\n"
    )
    monkeypatch.chdir(tmp_path)
    argv = ["score", "--subset", "acdc,mini", "--json", "-"]
    assert main([*argv, "--scorer", "my_scorer:stiff"]) == 0
    mine = json.loads(capsys.readouterr().out)
    assert main([*argv, "--alpha", "100"]) == 0
    assert json.loads(capsys.readouterr().out)["error"] == mine["error"]
    for spec, message in (
        ("hill", "expected one of ridge"),
        ("no_such:thing", "No module named"),
        ("my_scorer:other", "other"),
        ("json:JSONDecoder", "has no 'name'"),
    ):
        with pytest.raises(EeveeError, match=message):
            named_scorer(spec)


def test_progress_is_the_protocol():
    reports = []
    select(load_table("gate"), 3, generations=1, randoms=10, progress=lambda *report: reports.append(report))
    assert {phase for phase, _, _ in reports} >= {"search", "held out", "learning curve"}
    assert ("search", 1550, 1550) in reports
    assert ("held out", 21, 21) in reports
