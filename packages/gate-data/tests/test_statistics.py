"""ELEVATER's tables of data sets: the paper's totals, and some of its rows, from the cards that the readers use."""

from __future__ import annotations

import pytest

from gate_data import statistics
from gate_data.errors import DataError


def test_table_5_has_the_papers_rows_and_totals() -> None:
    rows = statistics("icinw")
    total = rows[-1]
    assert len(rows) == 21
    assert (total["concepts"], total["train"], total["test"]) == (1151, 638_429, 192_677)
    printed = {(row["concepts"], row["train"], row["test"], row["metric"]) for row in rows[:-1]}
    for expected in (
        (2, 8_500, 500, "ROC AUC"), (20, 2_501, 4_952, "11-point mAP"), (100, 3_334, 3_333, "mean per class"),
        (211, 31_650, 21_100, "accuracy"), (102, 1_020, 6_149, "mean per class"),
    ):  # fmt: skip
        assert expected in printed
    counts = [row["concepts"] for row in rows[:-1]]
    assert counts == sorted(counts)


def test_table_6_has_the_papers_rows_and_totals() -> None:
    rows = statistics("odinw")
    total = rows[-1]
    assert len(rows) == 36
    fields = ("concepts", "train", "test", "train_regions", "test_regions")
    assert [total[field] for field in fields] == [314, 132_314, 20_070, 937_892, 135_563]
    by_name = {row["dataset"]: [row[field] for field in fields] for row in rows}
    assert by_name["AerialMaritimeDrone_large"] == [5, 52, 7, 873, 78]
    assert [11, 24_000, 3_000, 156_730, 19_598] in by_name.values()


def test_table_1_compares_both_with_others() -> None:
    rows = statistics("compared")
    assert [row["benchmark"] for row in rows if row["problem"] == "object detection"] == [
        "COCO", "LVIS", "UODB", "ELEVATER (ODinW)",
    ]  # fmt: skip
    own = {row["benchmark"]: row for row in rows}
    assert (own["ELEVATER (ICinW)"]["sets"], own["ELEVATER (ICinW)"]["images"]) == (20, "638K / 193K")
    assert (own["ELEVATER (ODinW)"]["sets"], own["ELEVATER (ODinW)"]["images"]) == (35, "132K / 20K")
    assert [own["VTAB"][way] for way in ("zero", "few", "full")] == [False, True, True]


def test_another_table_is_refused() -> None:
    with pytest.raises(DataError, match="'icin'; expected compared, icinw, odinw"):
        statistics("icin")
