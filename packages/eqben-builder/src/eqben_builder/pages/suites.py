"""A page of compositional suites: every subset and average with chance, blind lines and published scores."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from eqben_builder.pages.html import page

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from eqben_builder.suites import GalleryLine, GalleryTable, SuiteLine, SuiteTable

_HEAD = ("", "measure", "questions", "score", "chance", "best blind line", "better than blind", "published", "ties")

_INTRO = (
    "Intervals are 95 %, over pictures. A tie counts as wrong; where the authors count it as right, their score stands "
    "in brackets. A blind line never looks at a picture: a score that is not better than it says nothing about seeing. "
    "Published scores have their source in eqben_builder's table."
)


_GALLERY_HEAD = ("", "direction", "measure", "queries", "score", "chance", "published")


def write_suites_page(
    tables: Mapping[str, Sequence[SuiteTable]],
    path: str | os.PathLike[str],
    *,
    galleries: Mapping[str, Sequence[GalleryTable]] | None = None,
    title: str = "Compositional suites",
) -> Path:
    """Write one static HTML page.

    Args:
        tables: Name of a model -> its tables, one a suite.
        path: The file to write.
        galleries: Name of a model -> its tables of retrieval, one a gallery; shown after its suites.
        title: Of the page.

    Returns:
        The path. Everything is within the file; names are escaped.

    Raises:
        ValueError: No scores.

    Example:
        >>> import tempfile
        >>> from eqben_builder.scoring import Share
        >>> from eqben_builder.suites import SuiteLine, SuiteTable
        >>> line = SuiteLine("all questions", "right", 1, 0, Share(0, 0, 0, 0), None, {}, None, {})
        >>> table = SuiteTable("aro", line, (), (), ("note",), {})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_suites_page({"a < b": [table]}, f"{folder}/page.html")
        ...     "a &lt; b" in path.read_text()
        True
    """
    galleries = galleries or {}
    if not tables and not galleries:
        raise ValueError("no scores to show")
    body = [f"<h1>{escape(title)}</h1>", f'<p class="quiet">{_INTRO}</p>']
    for model in dict.fromkeys([*tables, *galleries]):
        body.append(f"<h2>{escape(model)}</h2>")
        for table in tables.get(model, ()):
            body.append(f"<h3>{escape(table.suite)}</h3>")
            body += [f'<p class="quiet">{escape(note)}</p>' for note in table.notes]
            lines = "".join(_line(line, model, "average" if not line.questions else "") for line in table_lines(table))
            head = "".join(f"<th>{escape(name)}</th>" for name in _HEAD)
            body.append(f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>")
        body += [_gallery(one, model) for one in galleries.get(model, ())]
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(title, "\n".join(body)), encoding="utf-8")
    return target


def _gallery(table: GalleryTable, model: str) -> str:
    said = f"{table.gallery}: {table.images:,} pictures, {table.captions:,} captions"
    notes = "".join(f'<p class="quiet">{escape(note)}</p>' for note in table.notes)
    head = "".join(f"<th>{escape(name)}</th>" for name in _GALLERY_HEAD)
    rows = []
    for line in table.lines:
        shown = published_of(line, model)
        cells = [
            escape(line.judgements),
            escape(line.direction),
            escape(line.measure),
            f"{line.queries:,}",
            f"{100 * line.score.value:.1f}<small>{100 * line.score.low:.1f} to {100 * line.score.high:.1f}</small>",
            f"{100 * line.score.chance:.1f}",
            "" if shown is None else f"{100 * shown[1]:.1f}<small>{escape(shown[0])}</small>",
        ]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<h3>{escape(said)}</h3>{notes}{body}"


def table_lines(table: SuiteTable) -> list[SuiteLine]:
    """All questions, then averages, then subsets."""
    return [table.overall, *table.averages, *table.lines]


def published_of(line: SuiteLine | GalleryLine, model: str) -> tuple[str, float] | None:
    """The published score to hold beside a model's: its own where its name ends so, or OpenAI's ViT-B/32."""
    for name, value in line.published.items():
        if model.endswith(name):
            return name, value
    return next(iter(line.published.items()), None)


def _line(line: SuiteLine, model: str, kind: str) -> str:
    low, high = f"{100 * line.score.low:.1f}", f"{100 * line.score.high:.1f}"
    rank = line.measure == "mean rank"
    value = f"{line.score.value:.2f}" if rank else f"{100 * line.score.value:.1f}"
    interval = f"{line.score.low:.2f} to {line.score.high:.2f}" if rank else f"{low} to {high}"
    brackets = "" if line.authors is None else f" ({100 * line.authors:.1f})"
    blind = max(line.blind.items(), key=lambda one: one[1].value, default=None)
    better = ""
    if line.better is not None:
        spread = f"{100 * line.better.low:+.1f} to {100 * line.better.high:+.1f}"
        better = f"{100 * line.better.value:+.1f}<small>{spread}, p {line.better.p:.3f}</small>"
    shown = published_of(line, model)
    cells = [
        escape(line.name),
        escape(line.measure),
        f"{line.questions:,}" if line.questions else "",
        f"{value}{brackets}<small>{interval}</small>",
        f"{line.score.chance:.2f}" if rank else f"{100 * line.score.chance:.1f}",
        "" if blind is None else f"{100 * blind[1].value:.1f}<small>{escape(blind[0])}</small>",
        better,
        "" if shown is None else f"{100 * shown[1]:.1f}<small>{escape(shown[0])}</small>",
        str(line.ties) if line.questions else "",
    ]
    return f'<tr class="{kind}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
