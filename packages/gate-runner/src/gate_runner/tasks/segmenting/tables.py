"""Tables over all results of zero-shot segmentation: each kind of patch features, and whether it is below the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gate_runner.charts.table import Table
from paired_scores.best import worse_than_another

TASK = "zero-shot-segmentation"
_PERMUTATIONS = 1999
_LEVEL = 0.05


def overview(runs: Sequence[Any]) -> list[Table]:
    """Return the scores of every data set: those without a background first, what else was used in a column."""
    cells: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    for run in runs:
        for result in run.results:
            if result.status == "ok" and result.task == TASK and "setting" in result.training:
                name = result.name.partition("features=")[0].rstrip(",@")
                cells.setdefault((name, str(result.seed)), []).append((run, result))
    rows: list[tuple[str, ...]] = []
    for (name, _), listed in sorted(cells.items(), key=lambda item: (_has_background(item[1][0][1]), item[0])):
        rows += _rows(name, listed)
    if not rows:
        return []
    heads = (
        "data", "features", "mIoU", "95 % CI", "no background", "below the best", "also used", "blind", "whole image",
        "trained head", "encoder, preset, threshold",
    )  # fmt: skip
    note = (
        "Sets without a background come first: the others depend on a threshold. Whether a row is below "
        "the best of its data set is tested on the same images under one preset (paired, 1,999 permutations)."
    )
    title = "Zero-shot segmentation by kind of patch features"
    return [Table("word-maps", title, heads, tuple(rows), note, words=(1, 5, 6, 10))]


def _has_background(result: Any) -> bool:
    return bool(result.training["threshold"]["curve"])


def _rows(name: str, listed: Sequence[tuple[Any, Any]]) -> list[tuple[str, ...]]:
    """Return the rows of one data set, the best first."""
    ordered = sorted(listed, key=lambda pair: -pair[1].scores[0].value)
    worse = _tests(ordered)
    rows = []
    for (run, result), probability in zip(ordered, worse, strict=True):
        training, score = result.training, result.scores[0]
        things = next((score for score in result.scores if score.metric == "miou_things"), None)
        rows.append(
            (
                name,
                training["features"],
                f"{score.value:.3f}",
                f"{score.low:.3f}–{score.high:.3f}",
                "–" if things is None else f"{things.value:.3f}",
                probability,
                training["used"],
                *(_beside(training["beside"], key) for key in ("blind", "whole_image", "trained_head")),
                f"{run.encoder}, {training['preset']}, {_threshold(training['threshold'])}",
            )
        )
    return rows


def _tests(ordered: Sequence[tuple[Any, Any]]) -> list[str]:
    """Return what each row's difference from the best is, in words."""
    _, best = ordered[0]
    alike = [
        number
        for number, (_, result) in enumerate(ordered)
        if (result.data.get("sha256"), result.training["preset"]) == (best.data.get("sha256"), best.training["preset"])
    ]
    words = ["other data or preset"] * len(ordered)
    words[0] = "best"
    if len(alike) < 2:
        return words
    outcomes = [[ordered[number][0].outcomes(ordered[number][1])] for number in alike]
    p = worse_than_another("miou", outcomes, resamples=400, permutations=_PERMUTATIONS)
    for number, value in zip(alike[1:], p[1:], strict=True):
        words[number] = f"yes, p {value:.3f}" if value <= _LEVEL else f"no, p {value:.2f}"
    return words


def _threshold(about: Mapping[str, Any]) -> str:
    if about["rule"] == "none":
        return "no threshold"
    return f"{about['value']:g} ({'validation' if about['rule'] == 'validation' else 'fixed'})"


def _beside(about: Mapping[str, Any], key: str) -> str:
    return f"{about[key]['miou'][0]:.3f}" if key in about else "–"
