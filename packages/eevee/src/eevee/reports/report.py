"""`report`: one HTML page about a table and a selection; every name is escaped, and nothing is loaded."""

from __future__ import annotations

import base64
import html
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eevee.answers.evaluation import error_against_k, predictiveness
from eevee.answers.leaderboard import rank_models, rank_outcomes
from eevee.answers.pareto_front import pareto
from eevee.answers.predicting import predict
from eevee.errors import EeveeError
from eevee.items.selection import choose_items
from eevee.reports.charts import draw_bars, draw_error_against_k, draw_front, draw_nested, draw_places, render
from eevee.reports.formatting import NOTHING_OUTSIDE, QUESTIONS, check_words, item_words, prediction_words
from eevee.tables.checking import check
from eevee.tables.serialization import write_text
from wary_files.text import printable_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from eevee.answers.leaderboard import Ranking
    from eevee.answers.selecting import Selection
    from eevee.items.outcomes import Outcomes
    from eevee.tables.table import ResultTable

STYLE = """
:root{color-scheme:light}body{font:15px/1.5 system-ui,sans-serif;color:#22303c;max-width:960px;margin:2rem
auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin-top:2.2rem;border-bottom:1px solid #c9d6df}
img{max-width:100%;height:auto;display:block;margin:.8rem auto}ul.warn li{color:#9c3b25}
table{border-collapse:collapse;margin:.8rem 0;font-size:14px;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.2rem .9rem .2rem 0;border-bottom:1px solid
#e8edf0;vertical-align:top}th{color:#55636d;font-weight:600}
td{white-space:nowrap}td:last-child{white-space:normal}
@media(max-width:640px){td{white-space:normal;padding-right:.6rem}img{min-width:36rem}}
.scroll{overflow-x:auto}footer{margin:3rem 0 1rem;color:#55636d;font-size:13px;overflow-wrap:anywhere}
"""


def report(
    table: ResultTable,
    selection: Selection,
    output: str | Path,
    *,
    largest: int = 12,
    scores: Mapping[str, Mapping[str, float]] | None = None,
    outcomes: Mapping[str, Outcomes] | None = None,
) -> Path:
    """Write one page about a table: its flaws, a selection and how far to trust it, ranks, items, and new models.

    Args:
        table: the table that the selection belongs to.
        selection: what `select` returned.
        output: folder, created where it is missing; `index.html` and `selection.json` of an earlier report in it are
            replaced.
        largest: largest k of the error against k and of the Pareto front.
        scores: new models' scores on the subset, to be predicted, see `eevee.predict`.
        outcomes: of models on single items, see `eevee.read_outcomes`: their ranks on other items, and the items that
            tell their scores, are on the page as well.

    Returns:
        The page.

    Raises:
        EeveeError: the selection belongs to another table; a page or a selection lies in the folder that no report
            wrote.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import tempfile
        >>> from eevee import load_table, select
        >>> table = load_table("gate")
        >>> chosen = select(table, 2, method="greedy", nested=False, randoms=20)
        >>> report(table, chosen, tempfile.mkdtemp(), largest=2).name
        'index.html'
    """
    page = Path(output) / "index.html"
    refuse_others(output, selection)
    if selection.data_hash != table.hash:
        raise EeveeError(
            f"the selection was made from another table (hash {selection.data_hash[:12]}; {table.name} has "
            f"{table.hash[:12]})"
        )
    prediction = predict(table, selection.benchmarks, scores) if scores else None
    sections = [
        _section(
            "The table",
            "What misleads a search or a reader, and what each way of holding out models would hold out.",
            _rows((), (line.split(": ", 1) for line in check_words(check(table)).splitlines())),
        ),
        *_chosen(table, selection),
        *_landscape(table, selection, largest),
        _ranked("tasks", rank_models(table, seed=selection.seed)),
    ]
    if outcomes:
        sections.append(_ranked("items", rank_outcomes(outcomes, seed=selection.seed)))
        lines = item_words(choose_items(outcomes, seed=selection.seed)).splitlines()
        sections.append(
            _section(
                "Test items that tell a score",
                "A twentieth of the items of each benchmark, drawn with known chances. The error is that of models "
                "that took no part, next to that of a plain mean of as many random items.",
                _rows(("benchmark", "items"), (line.split(": ", 1) for line in lines)),
            )
        )
    if prediction is not None:
        sections.append(
            _section(
                "New models, predicted",
                "Value and interval of each metric; those that were given have none.",
                f"<pre>{_escape(prediction_words(prediction))}</pre>",
            )
        )
    lead = (
        f"{len(selection.benchmarks)} of {len(table.benchmarks)} benchmarks, chosen from the results of "
        f"{len(table.models)} models by {selection.method} with the {selection.scorer} meta-model (objective: "
        f"{selection.objective})."
    )
    footer = f"table {table.name}, sha256 {table.hash}, seed {selection.seed}"
    write_text(page, _page(f"{table.name}: which benchmarks tell the rest", lead, sections, footer))
    selection.to_json(page.with_name("selection.json"))
    return page


_MARK = '<meta name="generator" content="eevee report">'
"""What tells a page of ours from somebody's own."""


def refuse_others(output: str | Path, selection: Selection | None = None) -> None:
    """Refuse a folder with a page that no report wrote, or without one of ours and with another selection.

    Raises:
        EeveeError: so it is; shows the file.

    Example:
        >>> refuse_others("no-such-folder")
    """
    page = Path(output) / "index.html"
    try:
        if page.exists():
            if _MARK.encode() not in page.read_bytes()[:1000]:
                raise EeveeError(f"{page} is there and is no report of eevee's; name another folder")
            return
        other = page.with_name("selection.json")
        if selection and other.exists() and other.read_text(encoding="utf-8").strip() != selection.to_json():
            raise EeveeError(f"{other} is there and is another selection; name another folder")
    except (OSError, UnicodeDecodeError) as error:
        raise EeveeError(f"{page.parent}: cannot be read ({error}); name another folder") from None


def _chosen(table: ResultTable, selection: Selection) -> list[str]:
    """The subset, its errors and warnings, and what the searches without some models say."""
    tasks = {benchmark.id: benchmark.task for benchmark in table.benchmarks}
    whole = math.isnan(selection.unmeasured)
    inside = f"{selection.unmeasured:.4f} ± {selection.unmeasured_stderr:.4f}"
    figures = [
        ("unmeasured cells, leave-one-out inside the search", *(("", NOTHING_OUTSIDE) if whole else (inside, ""))),
        (
            "all cells, reported by the search",
            f"{selection.error:.4f} ± {selection.stderr:.4f}",
            "no other subset is as large"
            if whole
            else f"{selection.better_randoms:.1%} of {selection.randoms} random subsets are better",
        ),
        ("mean random subset", f"{selection.random_error:.4f}", ""),
        (selection.rival.method, f"{selection.rival.error:.4f}", ", ".join(selection.rival.benchmarks)),
    ]
    nested, honest = selection.nested, []
    if nested is not None and not math.isnan(nested.unmeasured):
        folds = ((key, f"{share:.0%}") for key, share in nested.chosen.items())
        verdict = "" if nested.better_than_random else ": no better than random"
        note = (
            f"median {nested.median:.4f}, worst {nested.per_model[nested.worst][0]:.4f} ({nested.worst}); random "
            f"subsets {nested.unmeasured_random:.4f}{verdict}"
        )
        figures.insert(0, ("unmeasured cells of held-out models", f"{nested.unmeasured:.4f}", note))
        honest.append(
            _section(
                "On models that the search never saw",
                f"Reported inside {nested.inner:.4f}, held out {nested.outer:.4f}: optimistic by {nested.optimism:.0%} "
                f"({nested.folds} folds, each a search of its own by {nested.method}). Random subsets have "
                f"{nested.random:.4f} there; the chosen one is better on {nested.wins} of {nested.models} models. Two "
                f"folds share {nested.overlap:.0%} of their members on average: a benchmark that few folds chose could "
                "as well be another.",
                _picture(draw_nested(nested), "for each held-out model the selected and the random subsets' error"),
                _rows(("benchmark", "folds that chose it"), folds),
            )
        )
    rows = ((key, tasks[key], f"{rise:+.4f}") for key, rise in selection.importance.items())
    warnings = "".join(f"<li>{_escape(line)}</li>" for line in selection.warnings)
    return [
        _section(
            "What to know first",
            "Errors are mean squared errors in standard deviations of the models: 1 is predicting the mean.",
            f'<ul class="warn">{warnings}</ul>',
            _rows(("", "error", ""), figures),
        ),
        _section(
            "The subset",
            "A bar is the rise of the error when that benchmark alone is left out: the longer, the less the others "
            "stand in for it.",
            _rows(("benchmark", "task", "error without it"), rows),
            _picture(
                draw_bars(selection.importance, "rise of the error when it is left out", digits=4),
                "bars: importance of each member",
            ),
        ),
        *honest,
    ]


def _landscape(table: ResultTable, selection: Selection, largest: int) -> list[str]:
    scorer = selection.settings
    sizes = range(1, min(largest, len(table.benchmarks)) + 1)
    errors = error_against_k(table, sizes, scorer=scorer, method="greedy-swap", seed=selection.seed)
    front = pareto(table, largest=largest, scorer=scorer, seed=selection.seed)
    points = ((f"{p.cost:g}", f"{p.error:.4f} ± {p.stderr:.4f}", ", ".join(p.benchmarks)) for p in front.points)
    alone = draw_bars(predictiveness(table, scorer=scorer), "error when it is the only one")
    return [
        _section(
            "Each benchmark alone",
            "How far the whole table is from what one benchmark alone predicts of it; 1 is predicting the mean.",
            _picture(alone, "bars: error of each benchmark alone"),
        ),
        _section(
            "Error against size",
            "The best candidates that greedy + swap met at each size, 50 at most. Where the boxes flatten, another "
            "benchmark tells little that the others do not.",
            _picture(draw_error_against_k(errors), "boxes: errors of the best candidates at each size"),
        ),
        _section(
            "Error against cost",
            "No subset that was met is both cheaper and better than one of these.",
            _rows((front.unit, "error", "subset"), points),
            _picture(draw_front(front), "steps: Pareto front of error against cost"),
        ),
    ]


def _ranked(name: str, board: Ranking) -> str:
    """Every model's place with its interval, and who may be the best."""
    rows = (
        (
            place.model,
            str(place.first) if place.first == place.last else f"{place.first} to {place.last}",
            f"{place.score:.3f}",
            f"{place.borda:.2f}",
            f"{place.mean_rank:.1f}",
            str(place.tasks),
        )
        for place in board.places
    )
    return _section(
        f"Ranks on other {name}",
        f"{board.decided} of {board.pairs} pairs of models are decided; all intervals hold at once with probability "
        f"{board.level:.0%}, on {QUESTIONS[board.question]}. Models whose lines overlap may be tied. "
        f"{board.apart} pairs share too few tasks to be compared. May be the best: {', '.join(board.leaders)}.",
        _rows(("model", "rank", "score", "Borda", "mean rank", "tasks"), rows),
        _picture(draw_places(board), "lines: the ranks that each model may have"),
    )


def _page(title: str, lead: str, sections: Sequence[str], footer: str) -> str:
    body = "\n".join(sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{_MARK}'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; style-src '
        "'unsafe-inline'\">"
        f"<title>{_escape(title)}</title><style>{STYLE}</style></head>\n<body><h1>{_escape(title)}</h1>"
        f"<p>{_escape(lead)}</p>\n{body}\n<footer>{_escape(footer)}</footer></body></html>\n"
    )


def _escape(text: str) -> str:
    """A text as HTML shows it, control characters as escapes."""
    return html.escape(printable_json(text))


def _section(title: str, text: str, *parts: str) -> str:
    """A part of the page; `text` and `title` are escaped, the parts are HTML."""
    return f"<section><h2>{_escape(title)}</h2><p>{_escape(text)}</p>{''.join(parts)}</section>"


def _rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{_escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{_escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _picture(figure: Any, alt: str) -> str:
    data = base64.b64encode(render(figure, "svg")).decode("ascii")
    return f'<div class="scroll"><img alt="{_escape(alt)}" src="data:image/svg+xml;base64,{data}"></div>'
