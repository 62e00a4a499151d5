"""What callers give to the Python functions: fields of entities, names and numbers as other libraries hold them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oven_retrieval import Entity, KnowledgeBase, build_kb, build_linker

NAMES = ["Wood Wood", "Wood", "Golden Gate", "Duck"]


def test_fields_of_other_kinds_are_taken_or_refused_where_the_entity_is_made() -> None:
    """One text as aliases made an alias of each letter, and NaN ended a build of millions."""
    for aliases in (["gate"], np.array(["gate"]), (alias for alias in ["gate"])):
        assert Entity("Q1", "X", aliases=aliases).aliases == ("gate",)  # type: ignore[arg-type]
    assert Entity("Q1", "X", image=Path("a/b.png")).image == "a/b.png"  # type: ignore[arg-type]
    assert Entity("Q1", "X", popularity=np.float32(2.5)).popularity == 2.5
    for wrong in ({"aliases": "gate"}, {"aliases": {"gate"}}, {"description": math.nan}, {"image": 5},
                  {"category": 1.0}, {"popularity": "5"}, {"popularity": None}, {"popularity": 10**400}):  # fmt: skip
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}: expected"):
            Entity("Q1", "X", **wrong)  # type: ignore[arg-type]


def test_names_are_texts_in_an_order(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    linker = build_linker(KnowledgeBase.from_names(NAMES))
    expected = linker.link(["duck", "wood"]).names()
    held: list[Any] = [("duck", "wood"), np.array(["duck", "wood"]), iter(["duck", "wood"]),
                       pandas.Series(["duck", "wood"], index=[1, 0])]  # fmt: skip
    for names in held:
        assert linker.link(names).names() == expected
    assert linker.link(linker.kb.names).names() == [[name] for name in NAMES]
    for missing in (None, math.nan, pandas.NA, 5, b"wood"):
        with pytest.raises(TypeError, match=r"names: text 1 is .*; expected a text"):
            linker.link(["duck", missing])  # type: ignore[list-item]
    for unordered in ({"duck", "wood"}, {"duck": 1}, "duck", pandas.DataFrame({"name": ["duck"]})):
        with pytest.raises(TypeError, match="names: expected a list of texts"):
            linker.link(unordered)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"names: expected (a list of )?texts"):
            KnowledgeBase.from_names(unordered)
    with pytest.raises(TypeError, match="rows: expected many entities"):
        build_kb(pandas.DataFrame({"id": ["Q1"], "name": ["x"]}), tmp_path / "kb")


def test_counts_may_be_numpy_s() -> None:
    kb = KnowledgeBase.from_names(NAMES)
    for k in (np.int64(2), np.uint8(2)):
        assert (kb.retrieve(["wood"], k)[0] == kb.retrieve(["wood"], 2)[0]).all()  # type: ignore[arg-type]
    for wrong in (2.0, True, 0, "2"):
        with pytest.raises(ValueError, match="k: expected an integer"):
            kb.retrieve(["wood"], wrong)  # type: ignore[arg-type]
