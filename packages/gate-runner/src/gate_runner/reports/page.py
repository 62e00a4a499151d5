"""One HTML file with everything in it: no script, nothing loaded, every name escaped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gate_runner.charts.markup import Section, document, folded, joined, piece, rendered
from gate_runner.reports.confusion import confusions
from gate_runner.reports.contents import Contents, gather
from gate_runner.reports.costs import costs
from gate_runner.reports.curves import curves
from gate_runner.reports.depth import over_depth
from gate_runner.reports.findings import banner, findings, title
from gate_runner.reports.ranks import ranks, task_types
from gate_runner.reports.scores import scores_table
from gate_runner.reports.sections import details, examples, failures, over_sets
from gate_runner.reports.trade import gain_and_loss
from gate_runner.runs.results import ENCODER
from gate_runner.runs.stored import StoredRun


def build_page(
    runs: Sequence[StoredRun],
    *,
    pictures: int = 4,
    data_root: Path | None = None,
    tests: bool = True,
    first: Sequence[Section] = (),
    after: Sequence[Section] = (),
) -> str:
    """The report of one or more runs as a page.

    Args:
        runs: with distinct labels, see ``read_runs``.
        pictures: test samples to show for each benchmark, and for each of its worst confusions; 0 makes no data.
        data_root: folder of original files, for pictures of benchmarks that read them.
        tests: mark, by paired tests, what cannot be told from the best.
        first: sections that go before the others, such as a choice among encoders.
        after: sections that go behind the hardest examples, such as a look at features.

    Returns:
        HTML text. It needs no network and no script, and follows the reader's light or dark setting.

    Raises:
        DataError: per-sample outcomes that a test needs cannot be read.

    Example:
        >>> from gate_runner.runs.stored import read_runs
        >>> page = build_page(read_runs([Path("runs/a"), Path("runs/b")]))  # doctest: +SKIP
        >>> _ = Path("report.html").write_text(page)  # doctest: +SKIP
    """
    contents = gather(runs, tests=tests)
    reading = rendered("reading.html", untrained=ENCODER, tested=tests and len(runs) > 1)
    sections = [
        *first,
        Section("scores", "Scores", scores_table(contents)),
        Section("tasks", "Task types", task_types(contents)),
        Section("sets", "Over data sets and shots", over_sets(contents)),
        Section("confusions", "Who is taken for whom", confusions(contents)),
        Section("details", "In detail", details(contents)),
        Section("readouts", "Read-outs over depth", over_depth(contents)),
        Section("ranks", "Ranks", ranks(contents)),
        Section("curves", "Learning curves", curves(contents)),
        Section("trade", "Gained and forgotten", gain_and_loss(contents)),
        Section("cost", "Time, memory, energy", costs(contents)),
        Section("hardest", "Hardest examples", examples(contents, pictures, data_root)),
        *after,
        Section("failures", "What failed", failures(contents)),
        Section("runs", "Runs", joined(folded(run.label, piece("listed", _origin(run))) for run in runs)),
        Section("reading", "How to read this", reading),
    ]
    return document(
        title(contents),
        _lede(contents),
        sections=sections,
        banner=banner(contents),
        findings=findings(contents, tests),
    )


def _lede(contents: Contents) -> str:
    results = [result for run in contents.runs for result in run.results]
    seeds = len({result.seed for result in results})
    limits = sorted({limit for result in results if (limit := result.settings.get("limit")) is not None})
    recipes = {
        (str(result.settings.get("tune", "frozen")), str(result.settings.get("recipe", "quick"))) for result in results
    }
    trained = [f"{tune} by the recipe {recipe}" for tune, recipe in sorted(recipes) if tune != "frozen"]
    encoders = (
        ["encoders frozen, heads trained on their features"] if len(trained) < len(recipes) or not recipes else []
    )
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
        ("Folder", str(run.path)),
        ("Encoder", str(encoder.get("spec", ""))),
        ("Weights", f"{encoder['parameters']:,} parameters" if encoder.get("parameters") else "not visible"),
        ("Fingerprint", str(encoder.get("fingerprint") or "none")),
    ]
    for last in run.manifest.get("runs", [])[-1:]:
        hardware, versions = last.get("hardware", {}), last.get("versions", {})
        machine = [str(hardware.get("processor", "")), f"{hardware.get('cores')} cores" if hardware else ""]
        entries += [
            ("Last command", " ".join(map(str, last.get("command", [])))),
            ("Machine", ", ".join(filter(None, (*machine, *map(str, hardware.get("gpus", [])))))),
            ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
            ("Git revision", str(last.get("git") or "none")),
        ]
    return [(name, text) for name, text in entries if text]
