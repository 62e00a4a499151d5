"""NumPy's loops answer as compiled ones do; the first answers wait for no compiler, and numba may be missing."""

from __future__ import annotations

import logging
import random
import subprocess
import sys

import numpy as np
import pytest

from oven_retrieval import KnowledgeBase, build_linker, compile_loops
from oven_retrieval.names import loops, plain_loops
from oven_retrieval.names.ngrams import code_points

numba = pytest.importorskip("numba")

WORDS = "wood duck goose golden gate teal river bridge grand prix école straße rotor kite heron дом 東京".split()  # noqa: SIM905


def names_of(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)

    def name() -> str:
        return " ".join([*(draw.choice(WORDS) for _ in range(draw.randint(1, 4))), str(draw.randint(0, 40))])

    return [name() for _ in range(count)]


def queries_of(seed: int, names: list[str]) -> list[str]:
    draw = random.Random(seed)
    texts = [draw.choice(names) for _ in range(50)]
    for number, text in enumerate(texts):
        at = draw.randrange(len(text))
        texts[number] = (text, text[:at] + text[at + 1 :], text[:at] + "x" + text[at:], text + " wood duck", text[at:])[
            number % 5
        ]
    return [*texts, "", "qqqq", " ".join(WORDS * 2)]


def used(monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    """Let every search take these loops."""
    for user in ("pruned", "linker", "inflection", "ngrams"):
        __import__(f"oven_retrieval.names.{user}")
        monkeypatch.setattr(f"oven_retrieval.names.{user}.loops_for", lambda names=0: module)


@pytest.mark.parametrize("seed", range(2))
def test_plain_and_compiled_loops_give_one_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_loops()
    names = names_of(seed, 200)
    queries, allowed = queries_of(seed, names), np.random.default_rng(seed).random(200) < 0.5
    answers = []
    for module in (loops.loops_for(), plain_loops):
        used(monkeypatch, module)
        linker = build_linker(KnowledgeBase.from_names(names))
        linker.typos = True
        many = [linker.link(queries, k, **setting) for k in (1, 5) for setting in ({}, {"allowed": allowed})]
        single = [linker.link([query], 1) for query in queries[:20]]
        answers.append([*many, *single])
    assert loops.loops_for() is not plain_loops
    for compiled, plain in zip(*answers, strict=True):
        np.testing.assert_array_equal(plain.kinds, compiled.kinds)
        np.testing.assert_allclose(plain.scores, compiled.scores, rtol=1e-12)
        differ = plain.rows != compiled.rows  # sums in another order break a tie of words in their last bit
        assert differ.mean() < 0.01


def test_trigrams_are_indexed_and_found_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_loops()
    columns, found_names = [], []
    names = [*names_of(9, 300), "a", "ab", "aaaaaaaa", "wood wood wood"]
    for module in (loops.loops_for(), plain_loops):
        used(monkeypatch, module)
        linker = build_linker(KnowledgeBase.from_names(names))
        assert linker.ngrams is not None
        columns.append([np.asarray(column) for column in linker.ngrams._columns])
        points, ends = code_points([*names[:50], "", "wod dukc", "zzzz"])
        found_names.append(module.most_alike(points, ends, *linker.ngrams.arrays, 3, 0.4))
    for compiled, plain in zip(*columns, strict=True):
        np.testing.assert_array_equal(plain, compiled)
    (numbers, likeness, last), (own_numbers, own_likeness, own_last) = found_names
    np.testing.assert_array_equal(own_last, last)
    for begin, end in zip([0, *last[:-1].tolist()], last.tolist(), strict=True):
        order, own_order = np.argsort(numbers[begin:end]), np.argsort(own_numbers[begin:end])
        np.testing.assert_array_equal(own_numbers[begin:end][own_order], numbers[begin:end][order])
        np.testing.assert_allclose(own_likeness[begin:end][own_order], likeness[begin:end][order], atol=1e-9)


def test_damaged_arrays_are_seen() -> None:
    points, ends = code_points(["\0"])  # whose one trigram is in the first bucket
    start, post = np.concatenate([[0], np.ones(1 << 17, np.int64)]), np.array([7], np.int32)
    last = plain_loops.most_alike(points, ends, start, post, np.ones(1, np.float32), np.ones(1 << 17), 1, 0.4)[2]
    assert last[0] == plain_loops.DAMAGE


def test_few_names_wait_for_no_compiler_and_many_do_with_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiled: list[bool] = []
    monkeypatch.setattr(loops._Progress, "is_compiled", False)
    monkeypatch.setattr(loops._Progress, "names", 0)
    monkeypatch.setattr(loops._compiled(), "is_stored", lambda: False)
    monkeypatch.setattr(loops, "_called_once", lambda module: compiled.append(True))
    linker = build_linker(KnowledgeBase.from_names(["Wood duck", "Goose"]))
    with caplog.at_level(logging.WARNING, "oven_retrieval"):
        assert linker.link(["the wood ducks", "goos"]).names() == [["Wood duck"], ["Goose"]]
        assert not compiled
        assert not caplog.records
        links = linker.link(["gooose"] * 1001)
    assert (compiled, set(links.rows[:, 0].tolist())) == ([True], {1})
    assert "compiling the search of names: some twenty seconds, once" in caplog.text


def test_without_numba_and_rank_bm25_names_are_linked() -> None:
    code = """
import sys
sys.modules["numba"] = sys.modules["rank_bm25"] = None
import importlib.util as util
find = util.find_spec
util.find_spec = lambda name, *rest: None if name in ("numba", "rank_bm25") else find(name, *rest)
from oven_retrieval import KnowledgeBase, build_linker, compile_loops
kb = KnowledgeBase.from_names(["Wood duck", "Goose"])
print(build_linker(kb).link(["wood duk", "geese"] * 700).names()[:2])
for call in (compile_loops, lambda: build_linker(kb, engine="rank_bm25")):
    try:
        call()
    except ImportError as error:
        print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [
        "[['Wood duck'], ['Goose']]",
        "compiled loops need numba: pip install 'oven-retrieval[fast]'",
        "the engine rank_bm25 needs it: pip install 'oven-retrieval[definition]'",
    ]
    assert not ended.stderr


def test_what_is_compiled_beforehand_is_all_that_a_search_needs() -> None:
    compile_loops()
    from oven_retrieval.names import compiled

    entries = (compiled.search, compiled.guess, compiled.look_up, compiled.holds, compiled.most_alike)
    before = [len(entry.signatures) for entry in entries]
    loops._called_once(compiled)
    assert [len(entry.signatures) for entry in entries] == before
    linker = build_linker(KnowledgeBase.from_names(["wood duck", "goose"]))
    linker.link(["woods duk"])
    linker.link(["geese", "duckk"] * 400)
    assert [len(entry.signatures) for entry in entries] == before
