"""Typos: the index against a look at every name, the distance against its definition, and the step in the linker."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oven_retrieval import STEPS, Entity, FolderError, build_kb, build_linker, remove_entities
from oven_retrieval.names import (
    NameLinker,
    allowed_edits,
    build_typos,
    edit_distance,
    open_typo_index,
    write_typo_index,
)
from oven_retrieval.tokens import fold


def defined_distance(a, b):
    """The recursion of the definition."""

    @cache
    def d(i, j):
        if not i or not j:
            return i + j
        best = min(d(i - 1, j) + 1, d(i, j - 1) + 1, d(i - 1, j - 1) + (a[i - 1] != b[j - 1]))
        if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
            best = min(best, d(i - 2, j - 2) + 1)
        return best

    return d(len(a), len(b))


short = st.text("abc", max_size=7)


@settings(max_examples=100, deadline=None)
@given(short, short, st.integers(0, 8))
def test_the_distance_is_its_definition(a, b, most):
    assert edit_distance(a, b, most) == min(defined_distance(a, b), most + 1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("abcé東", min_size=1, max_size=11), max_size=25), st.data())
def test_the_index_equals_a_look_at_every_name(names, data):
    index = build_typos(names)
    queries = [data.draw(st.text("abcé東", max_size=11)), *names[:3]]
    for name in names[:5]:  # and some that are sure to be near
        at = data.draw(st.integers(0, len(name) - 1))
        queries += [
            name[:at] + name[at + 1 :],
            name[:at] + "b" + name[at:],
            name[:at] + name[at:][1::-1] + name[at + 2 :],
        ]
    distinct = {fold(name) for name in names}
    found = index.find(queries)
    for number, query in enumerate(queries):
        most = allowed_edits(fold(query)) if query else 0
        near = {text for text in distinct if most and defined_distance(fold(query), text) <= most}
        mine = found.query == number
        texts = [text for text, is_mine in zip(found.text, mine, strict=True) if is_mine]
        assert sorted(texts) == sorted(near)
        distances = [defined_distance(fold(query), text) for text in texts]
        assert distances == sorted(distances) == found.edits[mine].tolist()


@pytest.fixture
def kb(tmp_path):
    return build_kb(
        [
            Entity("Q1", "Mandarin duck", popularity=1),
            Entity("Q2", "mandarin dock", popularity=9),
            Entity("Q3", "Golden Gate", aliases=("Mandarin ducks",), popularity=99),
            Entity("Q4", "Duck"),
            *(Entity(f"F{i}", f"Filler {i}") for i in range(6)),
        ],
        tmp_path / "kb",
    )


def test_typos_come_after_exact_names_and_before_bm25(kb, tmp_path):
    plain = build_linker(kb)
    index = write_typo_index(kb, tmp_path / "typos")
    linker = NameLinker(kb, plain.exact, plain.engine, plain.tokenizer, index)

    def answers(name, k=5):
        links = linker.link([name], k)
        return [
            (kb.ids[row], STEPS[step], score)
            for row, step, score in zip(links.rows[0], links.steps[0], links.scores[0], strict=True)
            if row >= 0
        ]

    # one edit: the name, then the alias, though its entity is more popular; two edits: the other name
    assert [(name, step) for name, step, _ in answers("mandarin duckx")] == [
        ("Q1", "typo"),
        ("Q3", "typo"),
        ("Q2", "typo"),
    ]
    assert [score for _, _, score in answers("mandarin duckx")[:3]] == [-1, -1, -2]
    assert answers("Duck")[0][:2] == ("Q4", "exact name")
    assert answers("duk", 1) == []  # three characters: no edits, and no token is known
    assert answers("dukc", 1) == [("Q4", "typo", -1.0)]
    assert plain.link(["dukc"]).rows.tolist() == [[-1]]
    assert linker.link(["mandarin dukc"], exact_first=False).steps.tolist() == [[STEPS.index("bm25")]]
    assert linker.link([], 2).rows.shape == (0, 2)


def test_an_index_of_other_entities_is_refused_and_a_removed_entity_is_not_found(kb, tmp_path):
    index = write_typo_index(kb, tmp_path / "typos")
    fewer = remove_entities(kb, ["Q4"])
    with pytest.raises(FolderError, match="build it again"):
        open_typo_index(tmp_path / "typos", fewer)
    plain = build_linker(fewer)
    linker = NameLinker(fewer, plain.exact, plain.engine, plain.tokenizer, index)  # knows a name that nobody has
    assert linker.link(["dukc"]).rows.tolist() == [[-1]]
    assert len(write_typo_index(fewer, tmp_path / "typos", overwrite=True)) == len(index) - 1


def test_nothing_to_index():
    assert len(build_typos([])) == 0
    assert build_typos([]).find(["some name"]).text == []
    assert build_typos(["", " "]).find(["", "name"]).text == []
    assert np.array_equal(build_typos(["name"]).find(["name"]).edits, [0])
