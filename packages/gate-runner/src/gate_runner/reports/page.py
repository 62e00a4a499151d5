"""One HTML file with everything in it: no script, nothing loaded, every name escaped; what it says first in words."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from gate_runner.charts.markup import Section, document, folded, joined, piece, rendered
from gate_runner.reports import sections as parts
from gate_runner.reports import tiers
from gate_runner.reports.contents import Contents, gather
from gate_runner.reports.differences import differences
from gate_runner.reports.pictures import Roots, examples
from gate_runner.reports.places import brief
from gate_runner.reports.ranks import between, on_other_benchmarks, ranks
from gate_runner.reports.reliability import reliability
from gate_runner.reports.scores import scores_table, task_types
from gate_runner.reports.shifts import shifts
from gate_runner.reports.slices import slices
from gate_runner.runs.results import ENCODER, IMPORTED
from gate_runner.runs.stored import StoredRun

if TYPE_CHECKING:
    from eevee import Ranking


def build_page(
    runs: Sequence[StoredRun],
    *,
    pictures: int = 4,
    data_root: Roots = None,
    tests: bool = True,
    first: Sequence[Section] = (),
    after: Sequence[Section] = (),
    title: str = "",
    findings: Sequence[str] = (),
) -> str:
    """The report of one or more runs, whose labels are distinct, as a page.

    ``first`` are sections before the others, ``after`` those behind the hardest examples. ``title`` and ``findings``
    stand in place of the heading and the first sentences that say how the runs rank.

    It needs no network and no script, and follows the reader's light or dark setting. ``pictures`` are test samples for
    each benchmark, and for each of its worst confusions; with 0 no data are made.
    """
    contents = gather(runs, tests=tests)
    board = on_other_benchmarks(contents)
    reading = rendered("reading.html", untrained=ENCODER, tested=tests and len(runs) > 1)
    sections = [
        *first,
        Section("differences", "What differs", differences(contents.runs) if tests else ""),
        Section("scores", "Scores", scores_table(contents)),
        Section("tasks", "Task types", task_types(contents)),
        Section("ranks", "Ranks", ranks(contents, board)),
        Section("tiers", "GATE's tiers", tiers.shown(contents)),
        Section("sets", "Over data sets and shots", parts.over_sets(contents)),
        Section("slices", "By slice", slices(contents)),
        Section("confusions", "Confusion matrix", parts.confusions(contents)),
        Section("reliability", "How far probabilities are right", reliability(contents)),
        Section("shifts", "Under shifts", shifts(contents)),
        Section("details", "In detail", parts.details(contents)),
        Section("readouts", "Read-outs over depth", parts.readouts(contents)),
        Section("curves", "Learning curves", parts.curves(contents)),
        Section("trade", "Gained and forgotten", parts.gain_and_loss(contents)),
        Section("cost", "Time, memory, energy", parts.costs(contents)),
        Section("hardest", "Hardest examples", examples(contents, pictures, data_root)),
        *after,
        Section("failures", "What failed", parts.failures(contents)),
        Section("runs", "Runs", joined(folded(run.label, piece("listed", _origin(run))) for run in runs)),
        Section("reading", "How to read this", reading),
    ]
    sentences = list(findings) or _findings(contents, tests, board)
    return document(
        title or _title(contents), _lede(contents), sections=sections, banner=_banner(contents), findings=sentences
    )


def _title(contents: Contents) -> str:
    """A heading that names the encoder, or how many there are, or how many runs where two are of one."""
    labels, rows, swept = contents.labels, len(contents.rows), len(contents.swept)
    parts = [_count(rows, "benchmark")] if rows or not swept else []
    parts += [f"{_count(swept, 'data set')} of a sweep"] if swept else []
    kind = "encoders" if len({run.encoder for run in contents.runs}) == len(labels) else "runs"
    return f"{labels[0] if len(labels) == 1 else f'{len(labels)} {kind}'} on {' and '.join(parts)}"


def _banner(contents: Contents) -> str:
    return stand_ins_banner(contents.stand_ins, len(contents.rows) + len(contents.swept))


def stand_ins_banner(stand_ins: int, count: int) -> str:
    """Say what must be known about stand-ins, of which there are so many among the benchmarks; empty without any."""
    if not stand_ins:
        return ""
    subject = "Every benchmark here" if stand_ins == count else f"{stand_ins} of {count} benchmarks here"
    verb = "is a synthetic stand-in" if stand_ins == count or stand_ins == 1 else "are synthetic stand-ins"
    return (
        f"{subject} {verb}: images made from seeds, named micro/… after the data set whose place they take. Scores on "
        "stand-ins compare encoders on stand-ins; they are not scores on the real data sets."
    )


def _findings(contents: Contents, tested: bool, board: Ranking | None) -> list[str]:
    """Sentences, most important first."""
    sentences = _leader(contents, tested, board) if len(contents.runs) > 1 else _single(contents)
    failed = [row.name for row in contents.rows for cell in row.cells.values() if cell.reason]
    if failed:
        where = ", ".join(dict.fromkeys(failed))
        sentences.append(f"{_count(len(failed), 'benchmark run')} failed ({where}); the reasons are below.")
    return sentences


def _leader(contents: Contents, tested: bool, board: Ranking | None) -> list[str]:
    ranked, means = [row for row in contents.rows if row.ranked], contents.mean_ranks
    if not contents.rows:
        return []
    if not means:
        return ["The runs share no benchmark that all of them finished, so there are no mean ranks."]
    order = sorted(means, key=lambda name: means[name])
    first, second = order[:2]
    shared = sum(all(name in row.cells and row.cells[name].rank for name in order) for row in contents.rows)
    over = f"over the {_count(shared, 'benchmark')} that every run finished"
    if means[first] == means[second]:
        leader = f"{first} and {second} share the best mean rank, {means[first]:.1f} {over}."
    else:
        leader = f"{first} has the best mean rank, {means[first]:.1f} {over}, before {second} with {means[second]:.1f}."
    close = [row.name for row in ranked if any(cell.near_best for cell in row.cells.values())]
    sentences = [leader]
    if close:
        named = f": {', '.join(close)}" if len(close) <= 6 else ""
        sentences.append(
            f"On {len(close)} of {_count(len(ranked), 'benchmark')} a paired test does not show all other values to "
            f"be worse (marked ≈){named}."
        )
    elif tested:
        sentences.append("Wherever runs can be compared, a paired test shows all values but the best to be worse.")
    return [*sentences, *_places(board)]


def _places(board: Ranking | None) -> list[str]:
    """Who is tied, where there are runs and benchmarks enough to say it."""
    if board is None:
        return []
    places = [f"{place.model} {between(place.first, place.last)}" for place in board.places]
    sentence = f"Ranks on other benchmarks like these, all with 95 % at once: {', '.join(places)}."
    return [f"{sentence} {board.decided} of {board.pairs} pairs are decided."]


def _single(contents: Contents) -> list[str]:
    (name,) = contents.labels
    rows = [(row, row.cells[name]) for row in contents.rows if row.cells[name].share is not None]
    imported = [f"{_count(len(contents.rows), 'benchmark')} imported, without outcomes or chance."]
    if not rows:
        return imported if all(row.source == IMPORTED for row in contents.rows) else []
    blind = []
    for row, cell in rows:
        assert cell.low is not None
        assert cell.high is not None
        assert cell.chance is not None
        if not (cell.low > cell.chance if row.direction == "higher" else cell.high < cell.chance):
            blind.append(row.name)
    average = fmean(cell.share or 0.0 for _, cell in rows)
    over = _count(len(rows), "benchmark")
    return [
        f"On average {name} goes {average:.0%} of the way from chance to a perfect score, over {over}.",
        f"Not above chance, interval and all: {', '.join(blind)}."
        if blind
        else "Every score is better than chance, interval and all.",
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _lede(contents: Contents) -> str:
    results = [result for run in contents.runs for result in run.results]
    seeds = len({result.seed for result in results})
    limits = sorted({limit for result in results if (limit := result.settings.get("limit")) is not None})
    recipes = {
        (str(result.settings.get("tune", "frozen")), str(result.settings.get("recipe", "quick"))) for result in results
    }
    trained = [f"{tune} by the recipe {recipe}" for tune, recipe in sorted(recipes) if tune != "frozen"]
    frozen = len(trained) < len(recipes) or not recipes
    encoders = ["encoders frozen, heads trained on their features"] if frozen else []
    if trained:
        encoders.append(f"encoders trained with their heads ({', '.join(trained)})")
    sentence = f"{'; '.join(encoders)}; {seeds} seed{'s' * (seeds > 1)}"
    sentence = sentence[0].upper() + sentence[1:]
    capped = f"; at most {', '.join(map(str, limits))} samples in each split" if limits else ""
    return f"{sentence}{capped}."


def _origin(run: StoredRun) -> list[tuple[str, str]]:
    """Where a run's figures come from."""
    encoder = run.manifest["identity"]["encoder"]
    entries = [
        ("Folder", brief(str(run.path))),
        ("Encoder", str(encoder.get("spec", ""))),
        ("Weights", f"{encoder['parameters']:,} parameters" if encoder.get("parameters") else "not visible"),
        ("Fingerprint", str(encoder.get("fingerprint") or "none")),
    ]
    for last in run.manifest.get("runs", [])[-1:]:
        hardware, versions = last.get("hardware", {}), last.get("versions", {})
        machine = [str(hardware.get("processor", "")), f"{hardware.get('cores')} cores" if hardware else ""]
        entries += [
            ("Last command", " ".join(brief(str(word)) for word in last.get("command", []))),
            ("Machine", ", ".join(filter(None, (*machine, *map(str, hardware.get("gpus", [])))))),
            ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
            ("Git revision", str(last.get("git") or "none")),
        ]
    return [(name, text) for name, text in entries if text]
