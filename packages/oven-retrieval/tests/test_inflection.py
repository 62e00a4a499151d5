"""Inflections: rules and exceptions, the step and its updates; what typos may not do; single questions."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oven_retrieval import (
    STEPS,
    Entity,
    add_entities,
    build_kb,
    build_linker,
    build_name_index,
    remove_entities,
    update_name_index,
)
from oven_retrieval.names import PrunedIndex, build_impacts, read_exceptions
from oven_retrieval.names.inflection import DIACRITICS, forms, singulars

NAMES = ["Duck", "Golden wolf", "Crisis", "Sister-in-law", "Child", "News", "Crème brûlée", "Dry-dock", "Boots", "Axis"]


@pytest.fixture
def kb(tmp_path):
    return build_kb([Entity(name, name) for name in NAMES], tmp_path / "kb")


def first(linker, name):
    links = linker.link([name])
    row = links.rows[0, 0]
    return (None, None) if row < 0 else (linker.kb.ids[row], STEPS[links.kinds[0, 0]])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ducks", "Duck"),
        ("the duck", "Duck"),
        ("a duck's", "Duck"),
        ("Golden Wolves", "Golden wolf"),
        ("crises", "Crisis"),
        ("sisters in law", "Sister-in-law"),
        ("children", "Child"),
        ("dry dock", "Dry-dock"),
        ("boot", "Boots"),
        ("axes", "Axis"),
    ],
)
def test_inflected_names_find_their_entity(kb, query, expected):
    assert first(build_linker(kb), query) == (expected, "inflected name")


def test_what_is_no_inflection_is_none(kb):
    linker = build_linker(kb, ngrams=False)
    assert first(linker, "new") == (None, None)
    assert first(build_linker(kb, inflections=False, ngrams=False), "ducks") == (None, None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("creme brulee", "Crème brûlée"),
        ("Saint Etienne", "Saint-Étienne"),
        ("coeur de boeuf", "cœur de bœuf"),
        ("Strassburger Muenster", "Straßburger Münster"),
        ("Strassburger Munster", "Straßburger Münster"),
        ("Khrushchev", "Хрущёв"),
        ("Çatalhöyük", "Catalhoeyuek"),
    ],
)
def test_letters_without_marks_are_found_before_names_that_share_a_word(tmp_path, query, expected):
    """Every word of each query is in another name, so that BM25 would answer with that one."""
    names = ["Saint-Étienne", "cœur de bœuf", "Straßburger Münster", "Хрущёв", "Catalhoeyuek"]
    rivals = [
        "creme",
        "brulee",
        "saint",
        "Etienne Lenoir",
        "coeur",
        "boeuf",
        "de",
        "Strassburger",
        "Muenster",
        "Munster",
    ]
    linker = build_linker(build_kb([Entity(name, name) for name in [*names, "Crème brûlée", *rivals]], tmp_path / "kb"))
    assert first(linker, query) == (expected, "inflected name")
    linker.inflections.diacritics = False
    assert first(linker, query)[1] in ("bm25", "ngrams")


def test_rules_and_a_file_of_exceptions(tmp_path):
    (tmp_path / "noun.exc").write_text("corpora corpus\nattorneys_general attorney_general\n", encoding="utf-8")
    exceptions = read_exceptions(tmp_path)
    assert singulars("corpora", exceptions)[0] == "corpus"
    assert "attorney general" in forms("attorneys general", exceptions)
    assert "attorney general" not in forms("attorneys general")
    assert forms("café")["cafe"] == 1 + DIACRITICS
    (tmp_path / "noun.exc").write_text("alone\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"noun.exc:1: expected a plural and its singulars, got 'alone'"):
        read_exceptions(tmp_path)


def test_aliases_come_after_names_and_fewer_changes_first(tmp_path):
    entities = [
        Entity("a", "Goose", aliases=("The ducks",)),
        Entity("b", "Duck pond", aliases=("ducks",), popularity=9),
        Entity("c", "DUCKS"),
    ]
    linker = build_linker(build_kb(entities, tmp_path / "kb"))
    links = linker.link(["duck"], 3)
    assert [linker.kb.ids[row] for row in links.rows[0]] == ["c", "b", "a"]
    assert [STEPS[step] for step in links.kinds[0]] == ["inflected name", "inflected alias", "inflected alias"]


def test_an_updated_index_equals_one_from_scratch(tmp_path):
    start = [Entity(str(i), name, aliases=(f"the {name}s",)) for i, name in enumerate(NAMES)]
    kb = build_kb(start, tmp_path / "kb")
    exceptions = {"corpora": ("corpus",)}
    build_name_index(kb, tmp_path / "names", exceptions=exceptions)
    kb = add_entities(remove_entities(kb, ["0", "3"]), [Entity("x", "Corpus"), Entity("y", "Wood ducks")])
    updated = update_name_index(tmp_path / "names", kb)
    scratch = build_name_index(kb, tmp_path / "again", exceptions=exceptions)
    texts = ["duck", "ducks", "corpora", "wood duck", "sister in law", "the axes", "crises"]
    for few in (texts, texts * 3):  # one by one, and as a batch
        for mine, other in zip(updated.link(few, 3), scratch.link(few, 3), strict=True):
            np.testing.assert_array_equal(mine, other)
    assert first(updated, "corpora") == ("x", "inflected name")


def test_typos_never_cross_from_one_word_to_another(tmp_path):
    names = ["The boot", "Boat race", "Leopard plant", "Print shop", "Mandarin duck"]
    kb = build_kb([Entity(name, name) for name in names], tmp_path / "kb")
    linker = build_linker(kb)
    linker.typos = True
    assert first(linker, "the boqt")[1] == "typo"
    assert first(linker, "the boat")[1] == "bm25"
    assert first(linker, "leopard print")[1] == "bm25"
    assert first(linker, "leopard plqnt") == ("Leopard plant", "typo")
    assert first(linker, "mandarinduck") == ("Mandarin duck", "typo")


def test_the_very_spelling_goes_first(tmp_path):
    composed, apart = "Café Noir", unicodedata.normalize("NFD", "Café Noir")
    for order in ([composed, apart], [apart, composed]):
        kb = build_kb([Entity(str(i), name) for i, name in enumerate(order)], tmp_path / f"kb{order[0] == apart}")
        linker = build_linker(kb)
        for many in (1, 30):
            rows = linker.link([*order] * many, 2).rows
            assert rows[:2].tolist() == [[0, 1], [1, 0]]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_single_questions_are_answered_as_batches_are(seed, k):
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(30)]
    share = 1 / np.arange(1, 31)
    names = [list(rng.choice(words, rng.integers(1, 6), p=share / share.sum())) for _ in range(400)]
    owners = np.sort(rng.integers(0, 300, 400)) if seed % 2 else np.arange(400)
    engine = PrunedIndex(build_impacts(names, owners.astype(np.int64), rng.permutation(400).astype(np.int64)))
    queries = [list(rng.choice([*words, "?"], rng.integers(0, 6))) for _ in range(20)]
    batch = engine.search(queries, k)
    for number, query in enumerate(queries):
        hits = engine.search([query], k)
        np.testing.assert_array_equal(hits.rows[0], batch.rows[number])
        np.testing.assert_array_equal(hits.scores[0], batch.scores[number])
