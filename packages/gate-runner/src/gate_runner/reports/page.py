"""One HTML file with everything in it: no script, nothing loaded, every name escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from gate_runner.charts.markup import document, folded, note, scroll
from gate_runner.reports import sections
from gate_runner.reports.contents import Contents, gather
from gate_runner.reports.depth import over_depth
from gate_runner.reports.findings import banner, findings, title
from gate_runner.reports.scores import scores_table
from gate_runner.reports.trade import gain_and_loss
from gate_runner.runs.stored import StoredRun
from gate_runner.runs.untrained import ENCODER


def build_page(
    runs: Sequence[StoredRun], *, pictures: int = 4, data_root: Path | None = None, tests: bool = True, above: str = ""
) -> str:
    """The report of one or more runs as a page.

    Args:
        runs: with distinct labels, see ``read_runs``.
        pictures: test samples to show for each benchmark; 0 makes no data.
        data_root: folder of original files, for pictures of benchmarks that read them.
        tests: mark, by paired tests, what cannot be told from the best.
        above: markup of a section that goes before the others, such as a choice among encoders.

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
    table = note(
        "Value and 95 % interval of the headline metric, and where they lie between chance (upright line) and perfect "
        "(right end)."
    ) + scroll(scores_table(contents), "Table of scores")
    rows = bool(contents.rows)
    parts = [
        ("scores", "Scores", table if rows else ""),
        ("tasks", "Task types", sections.task_types(contents) if rows else ""),
        ("sets", "Over data sets and shots", sections.over_sets(contents)),
        ("details", "In detail", sections.details(contents)),
        ("readouts", "Read-outs over depth", over_depth(contents)),
        ("ranks", "Ranks", sections.ranks(contents)),
        ("curves", "Learning curves", sections.curves(contents)),
        ("trade", "Gained and forgotten", gain_and_loss(contents)),
        ("cost", "Time, memory, energy", sections.costs(contents)),
        ("hardest", "Hardest examples", sections.examples(contents, pictures if rows else 0, data_root)),
        ("failures", "What failed", sections.failures(contents)),
        ("runs", "Runs", _runs(contents)),
        ("reading", "How to read this", _reading(tests and len(runs) > 1)),
    ]
    parts = [part for part in parts if part[2]]
    links = "".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading, _ in parts)
    body = "".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2>{markup}</section>' for name, heading, markup in parts
    )
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in findings(contents, tests))
    warned = banner(contents)
    body = (
        (f'<p class="banner" role="note">{escape(warned)}</p>' if warned else "")
        + (f'<ul class="findings">{said}</ul>' if said else "")
        + above
        + body
    )
    return document(title(contents), _lede(contents), body, navigation=links)


def _lede(contents: Contents) -> str:
    seeds = {result.seed for run in contents.runs for result in run.results}
    limits = {result.settings.get("limit") for run in contents.runs for result in run.results}
    ways = {
        (str(result.settings.get("tune", "frozen")), str(result.settings.get("recipe", "quick")))
        for run in contents.runs
        for result in run.results
    }
    trained = [f"{tune} by the recipe {recipe}" for tune, recipe in sorted(ways) if tune != "frozen"]
    encoders = ["encoders frozen, heads trained on their features"] if len(trained) < len(ways) or not ways else []
    if trained:
        encoders.append(f"encoders trained with their heads ({', '.join(trained)})")
    said = f"{'; '.join(encoders)}; {len(seeds)} seed{'s' * (len(seeds) > 1)}"
    said = said[0].upper() + said[1:]
    capped = sorted(limit for limit in limits if limit is not None)
    return f"{said}; at most {', '.join(map(str, capped))} samples in each split." if capped else f"{said}."


def _runs(contents: Contents) -> str:
    """Where every figure comes from."""
    parts = []
    for run in contents.runs:
        encoder = run.manifest["identity"]["encoder"]
        entries = [
            ("Folder", str(run.path)),
            ("Encoder", str(encoder.get("spec", ""))),
            ("Weights", f"{encoder['parameters']:,} parameters" if encoder.get("parameters") else "not visible"),
            ("Fingerprint", str(encoder.get("fingerprint") or "none")),
        ]
        for last in run.manifest.get("runs", [])[-1:]:
            hardware = last.get("hardware", {})
            versions = last.get("versions", {})
            machine = [str(hardware.get("processor", "")), f"{hardware.get('cores')} cores" if hardware else ""]
            entries += [
                ("Last command", " ".join(map(str, last.get("command", [])))),
                ("Machine", ", ".join(part for part in (*machine, *map(str, hardware.get("gpus", []))) if part)),
                ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
                ("Git revision", str(last.get("git") or "none")),
            ]
        listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in entries if value)
        parts.append(folded(run.label, f"<dl>{listed}</dl>"))
    return "".join(parts)


def _reading(tested: bool) -> str:
    said = (
        "<p>“≈” marks values that a paired permutation test on the same test samples (1,999 permutations, Holm over "
        "the row, 5 %; with several seeds also Student's test over them) does not tell from the row's best. Tests of "
        "different rows are not corrected for their number; <code>gate-runner compare</code> does that.</p>"
        if tested
        else ""
    )
    return (
        "<p>Intervals are 95 % percentile bootstrap intervals over test samples (episodes for few-shot, volumes for "
        "cardiac segmentation). They hold for these samples and these trained heads and do not contain the variation "
        "between seeds; with several seeds, value and ends are means over them.</p>"
        "<p>Chance is the score of the best answer that never looks at the image. “Untrained” is what the same "
        f"heads score on <code>{ENCODER}</code>, whose weights are random; shown where the package has it for the same "
        "data, by digest.</p>" + said
    )
