"""Scores of suites and galleries as records, for a JSON or a CSV file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wary_files.text import inert

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eqben_builder.suites.galleries import Gallery, GalleryLine
    from eqben_builder.suites.table import SuiteTable

COLUMNS = (
    "model", "suite", "name", "measure", "questions", "ties", "score", "low", "high", "chance", "with_authors_ties",
    "blind", "blind_score", "better", "better_low", "better_high", "p", "same_words", "bag_of_words",
)  # fmt: skip


def suite_records(model: str, table: SuiteTable) -> list[dict[str, Any]]:
    """Return a model's scores on a suite, one record a line: overall, averages, subsets by measure.

    Returns:
        The fields of `COLUMNS` (scores in [0, 1], None where it does not apply: the best text-only baseline, the
        difference to it with its paired test), `blind_lines` and `published` by name.

    Example:
        >>> from eqben_builder.suites import micro_suite, similarities_of, suite_table
        >>> data = micro_suite(pairs=2, size=32)
        >>> table = suite_table(data, similarities_of(data.rows, lambda images, captions: [0.5] * len(captions)))
        >>> record = suite_records("ties everything", table)[0]
        >>> record["name"], record["model"], record["questions"] == len(data.rows)
        ('all questions', 'ties everything', True)
    """
    records = []
    for line in (table.overall, *table.averages, *table.lines):
        blind = max(line.blind.items(), key=lambda item: item[1].value, default=None)
        better = line.better
        values = (
            model, table.suite, line.name, line.measure, line.questions or None, line.ties, *line.score, line.authors,
            None if blind is None else blind[0], None if blind is None else blind[1].value,
            *((None,) * 4 if better is None else (better.value, better.low, better.high, better.p)),
            line.same_words, line.bag_of_words,
        )  # fmt: skip
        records.append(
            dict(zip(COLUMNS, values, strict=True))
            | {"blind_lines": {name: share._asdict() for name, share in line.blind.items()}}
            | {"published": dict(line.published)}
        )
    return records


def gallery_records(model: str, gallery: Gallery, lines: Sequence[GalleryLine]) -> list[dict[str, Any]]:
    """Return a model's recalls in a gallery, with the fields of `suite_records`; `name` is judgements and direction.

    Example:
        >>> import numpy as np
        >>> from eqben_builder.suites import Gallery, gallery_table
        >>> own = {k: [k] for k in range(12)}
        >>> gallery = Gallery("pets", (None,) * 12, ("",) * 12, {"original": (own, own)})
        >>> record = gallery_records("mine", gallery, gallery_table(gallery, np.eye(12), np.eye(12)))[0]
        >>> record["name"], record["measure"], record["score"]
        ('original, image to text', 'R@1', 1.0)
    """
    return [
        dict.fromkeys(COLUMNS)
        | {"model": model, "suite": gallery.name, "name": f"{line.judgements}, {line.direction}"}
        | {"measure": line.measure, "questions": line.queries, **_share(line.score)}
        | {"blind_lines": {}, "published": dict(line.published)}
        for line in lines
    ]


def _share(share: Any) -> dict[str, Any]:
    return dict(zip(("score", "low", "high", "chance"), share, strict=True))


def _cell(value: Any) -> Any:
    """A name, which a suite's file may give, that no spreadsheet runs."""
    return inert(value) if isinstance(value, str) else value


def write_records(path: str | Path, records: Sequence[Mapping[str, Any]]) -> Path:
    """Write records to a file that ends in `.json` (all fields) or `.csv` (`COLUMNS`); one that is there is replaced.

    Raises:
        ValueError: Another ending.

    Example:
        >>> import tempfile
        >>> file = write_records(Path(tempfile.mkdtemp(), "scores.csv"), [dict.fromkeys(COLUMNS, 1)])
        >>> file.read_text().splitlines()[1].count("1")
        19
    """
    from eqben_builder.writing import write_atomically  # with the locks of builds

    path = Path(path)
    if path.suffix == ".json":
        text = json.dumps(list(records), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    elif path.suffix == ".csv":
        table = io.StringIO()
        writer = csv.DictWriter(table, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in record.items()} for record in records)
        text = table.getvalue()
    else:
        raise ValueError(f"{path}: expected a file that ends in .json or .csv")
    write_atomically(path, text.encode("utf-8", "backslashreplace"))
    return path
