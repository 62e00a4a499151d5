"""ELEVATER's tables of data sets, from this package's own cards: 1 (compared), 5 (ICinW) and 6 (ODinW)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gate_data.cards import ICINW
from gate_data.errors import DataError
from gate_data.tables import read_table

Rows = list[dict[str, Any]]
_METRICS = {
    "accuracy": "accuracy", "mean_per_class": "mean per class", "map_11point_elevater": "11-point mAP",
    "roc_auc": "ROC AUC",
}  # fmt: skip
_KNOWLEDGE = "WordNet, Wiktionary, GPT-3"


def icinw_statistics() -> Rows:
    """Return a row for each of the 20 sets of image classification by number of concepts, and their total.

    Fields: ``dataset``, ``concepts``, ``train`` and ``test`` (images), ``metric``, ``site``.

    Example:
        >>> icinw_statistics()[-1]["train"]
        638429

    Source:
        ELEVATER, table 5.
    """
    rows: Rows = [
        {
            "dataset": card.title,
            "concepts": card.classes,
            "train": card.sizes[0],
            "test": card.sizes[1],
            "metric": _METRICS.get(card.metric, card.metric),
            "site": card.site,
        }
        for card in sorted(ICINW.values(), key=lambda card: card.classes)
    ]
    return [*rows, _total(rows, "concepts", "train", "test")]


def odinw_statistics() -> Rows:
    """Return a row for each of the 35 sets of object detection by number of concepts, and their total.

    Fields: ``dataset``, ``concepts``, ``train`` and ``test`` (images), ``train_regions`` and ``test_regions`` (boxes).

    Example:
        >>> odinw_statistics()[-1]["concepts"]
        314

    Source:
        ELEVATER, table 6.
    """
    rows: Rows = [
        {
            "dataset": row["name"],
            "concepts": len(row["classes"]),
            "train": row["train"],
            "test": row["test"],
            "train_regions": row["train_boxes"],
            "test_regions": row["test_boxes"],
        }
        for row in sorted(read_table("odinw")["sets"], key=lambda row: len(row["classes"]))
    ]
    return [*rows, _total(rows, "concepts", "train", "test", "train_regions", "test_regions")]


def compared_statistics() -> Rows:
    """Return a row for each benchmark that ELEVATER compares itself with, and for its own two, whose sizes are counted.

    Fields: ``problem``, ``benchmark``, ``sets``, ``images`` and ``concepts`` (texts), ``knowledge``, ``zero``, ``few``
    and ``full`` (whether it is evaluated so).

    Example:
        >>> [row["concepts"] for row in compared_statistics() if row["benchmark"].startswith("ELEVATER")]
        ['1151', '314']

    Source:
        ELEVATER, table 1; rows of others are as it prints them.
    """
    others = read_table("elevater_compared")["rows"]
    rows: Rows = []
    for problem, name, own in (
        ("image classification", "ELEVATER (ICinW)", icinw_statistics()),
        ("object detection", "ELEVATER (ODinW)", odinw_statistics()),
    ):
        rows += [
            {
                **{field: row[field] for field in ("problem", "benchmark", "sets", "images", "concepts", "knowledge")},
                **{way: way in row["evaluation"] for way in ("zero", "few", "full")},
            }
            for row in others
            if row["problem"] == problem
        ]
        total = own[-1]
        rows.append(
            {
                "problem": problem,
                "benchmark": name,
                "sets": len(own) - 1,
                "images": f"{total['train'] / 1000:.0f}K / {total['test'] / 1000:.0f}K",
                "concepts": str(total["concepts"]),
                "knowledge": _KNOWLEDGE,
                "zero": True,
                "few": True,
                "full": True,
            }
        )
    return rows


STATISTICS: Mapping[str, Callable[[], Rows]] = {
    "compared": compared_statistics,
    "icinw": icinw_statistics,
    "odinw": odinw_statistics,
}
"""ELEVATER's tables 1, 5 and 6 by name."""


def statistics(name: str) -> Rows:
    """Return one of the tables.

    Raises:
        DataError: a name that no table has; the message has those that there are.

    Example:
        >>> len(statistics("odinw"))
        36
    """
    if name not in STATISTICS:
        raise DataError(f"no table of statistics {name!r}; expected {', '.join(STATISTICS)}")
    return STATISTICS[name]()


def _total(rows: Rows, *fields: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(rows[0], ""),
        "dataset": "Total",
        **{field: sum(row[field] for row in rows) for field in fields},
    }
