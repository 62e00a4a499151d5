"""Entities that are added without a build: answers are those of an index that was built with them."""

from __future__ import annotations

import pickle
import random
import time
from pathlib import Path

import numpy as np
import pytest

from oven_retrieval import (
    Entity,
    KnowledgeBase,
    add_entities,
    build_kb,
    build_linker,
    build_name_index,
    extend_linker,
    remove_entities,
)

WORDS = (
    *("wood", "duck", "goose", "golden", "gate", "teal", "mallard", "river", "bridge", "the", "of", "grand", "prix"),
    *("école", "straße", "rotor", "kite", "heron"),
)


def entities(seed: int, count: int, first: int = 0) -> list[Entity]:
    draw = random.Random(seed)

    def name() -> str:
        words = [draw.choice(WORDS) for _ in range(draw.randint(1, 3))]
        return " ".join(word.capitalize() if draw.random() < 0.3 else word for word in words)

    return [
        Entity(
            f"Q{first + number}",
            name(),
            aliases=tuple(name() for _ in range(draw.choice((0, 0, 1, 2)))),
            popularity=float(draw.randint(0, 3)),
            language=draw.choice(("", "en", "de")),
        )
        for number in range(count)
    ]


QUERIES = [
    *("wood duck", "Wood Duck", "wood ducks", "the herons", "teal", "goldn gate", "mallrad", "ecole", "strasse", ""),
    "zzz",
    *("grand prix of teal", "a grand river", "river bridge kite heron", "geese", "école teal", "Rotor", "of the"),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_exact_and_inflected_names_are_answered_as_by_a_build(seed: int, tmp_path: Path) -> None:
    before, more = entities(seed, 60), entities(100 + seed, 15, first=60)
    base = build_name_index(build_kb(before, tmp_path / "kb"), tmp_path / "names")
    whole = build_linker(build_kb([*before, *more], tmp_path / "all"))
    grown = extend_linker(extend_linker(base, more[:9]), more[9:])
    for settings in ({}, {"languages": ["de"]}, {"allowed": np.arange(75) % 3 > 0}):
        for k in (1, 4):
            expected, answered = (linker.link(QUERIES, k, guesses=False, **settings) for linker in (whole, grown))
            np.testing.assert_array_equal(answered.rows, expected.rows)
            np.testing.assert_array_equal(answered.kinds, expected.kinds)
    assert (answered.rows >= 60).any()
    one_by_one = np.stack([grown.link([query], 4).rows[0] for query in QUERIES])
    np.testing.assert_array_equal(one_by_one, grown.link(QUERIES, 4).rows)


@pytest.mark.parametrize("seed", range(2))
def test_guesses_are_of_both_and_differ_by_their_weights_alone(seed: int, tmp_path: Path) -> None:
    """Words and trigrams weigh as among the names before, so that scores move; what is found does not."""
    before, more = entities(seed, 300), entities(100 + seed, 6, first=300)
    whole = build_linker(build_kb([*before, *more], tmp_path / "all"))
    grown = extend_linker(build_linker(build_kb(before, tmp_path / "kb")), more)
    for linker in (whole, grown):
        linker.typos = True
    expected, answered = whole.link(QUERIES, 12), grown.link(QUERIES, 12)
    np.testing.assert_array_equal(answered.kinds, expected.kinds)
    np.testing.assert_allclose(answered.scores, expected.scores, atol=0.5)
    assert np.mean(answered.rows[:, 0] == expected.rows[:, 0]) >= 0.8  # of equal names another may come first
    allowed = np.arange(306) >= 300
    only = grown.link(QUERIES, 3, allowed=allowed)
    assert (only.rows[only.rows >= 0] >= 300).all()
    assert (only.rows >= 0).any()


def test_what_is_new_is_found_by_every_step_and_pickled(tmp_path: Path) -> None:
    kb = KnowledgeBase.from_names(["Wood duck", "Goose", "Golden Gate"] + [f"place {number}" for number in range(50)])
    linker = extend_linker(build_linker(kb), [Entity("Q1", "Quetzal", aliases=("Resplendent trogon",)), "Kiwi"])
    linker.typos = True
    names = ["Quetzal", "resplendent trogon", "quetzals", "qetzal", "the quetzal of the wood", "kiwi", "goose"]
    for answer in (linker, pickle.loads(pickle.dumps(linker))):
        links = answer.link(names)
        assert links.ids() == [["Q1"], ["Q1"], ["Q1"], ["Q1"], ["Q1"], ["54"], ["1"]]
        assert [step for (step,) in links.steps()][:4] == ["exact name", "folded alias", "inflected name", "typo"]
    stored = build_name_index(build_kb(list(kb), tmp_path / "kb"), tmp_path / "names")
    assert len(pickle.dumps(extend_linker(stored, ["Kiwi"]))) < 3000  # by the path, and what was added
    assert linker.link(["a trogon"], 1).names() == [["Quetzal"]]
    grown = linker.kb
    assert (len(grown), grown[53].name, grown.rows(["Q1", "0", "?"]).tolist()) == (55, "Quetzal", [53, 0, -1])
    assert not linker.weak(["quetzal bird"], linker.link(["quetzal bird"]))[0, 0]
    assert grown.link("kiwis")[0].id == "54"
    assert kb.link("kiwis") == []
    assert grown.hash != kb.hash


def test_what_cannot_be_added_is_one_line() -> None:
    linker = build_linker(KnowledgeBase.from_names(["Wood duck"]))
    with pytest.raises(ValueError, match=r"id: '0' is in .* already, or occurs twice"):
        extend_linker(linker, [Entity("0", "Teal")])
    with pytest.raises(ValueError, match=r"id: 'Q1' is in .* already, or occurs twice"):
        extend_linker(linker, [Entity("Q1", "Teal"), Entity("Q1", "Kiwi")])
    with pytest.raises(ValueError, match=r"id: 'Q1' is in .* already, or occurs twice"):
        extend_linker(extend_linker(linker, [Entity("Q1", "Teal")]), [Entity("Q1", "Kiwi")])
    with pytest.raises(TypeError, match="expected an Entity, a name or a dictionary, got 3"):
        extend_linker(linker, [3])  # type: ignore[list-item]
    pytest.importorskip("rank_bm25")
    with pytest.raises(ValueError, match="expected a linker of the engine 'pruned'"):
        extend_linker(build_linker(KnowledgeBase.from_names(["a"]), engine="rank_bm25"), ["b"])


def test_the_cost_does_not_grow_with_the_entities_before() -> None:
    seconds = []
    for count in (1_000, 20_000):
        linker = build_linker(KnowledgeBase.from_names(f"name {number} of {number % 97}" for number in range(count)))
        extend_linker(linker, ["Teal"])  # loads what is compiled
        start = time.process_time()
        for _ in range(5):
            extend_linker(linker, ["Teal"])
        seconds.append(time.process_time() - start)
    assert seconds[1] < 5 * seconds[0] + 0.1


def test_the_command_takes_further_entities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("typer")
    from oven_retrieval.cli import main

    (tmp_path / "kb.csv").write_text("id,name\nQ1,Wood duck\n", encoding="utf-8")
    (tmp_path / "new.csv").write_text("id,name\nQ2,Teal\n", encoding="utf-8")
    (tmp_path / "names.txt").write_text("teals\nwood ducks\n", encoding="utf-8")
    project = str(tmp_path / "project")
    for command in (
        ["build", str(tmp_path / "kb.csv"), "--output", project],
        ["link", str(tmp_path / "names.txt"), "--kb", project, "--also", str(tmp_path / "new.csv")],
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 0
    assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == ["Q2", "Q1"]


def test_nothing_to_add_changes_nothing_and_an_empty_base_is_refused(tmp_path: Path) -> None:
    linker = build_linker(KnowledgeBase.from_names(["Wood duck", "Goose"]))
    assert extend_linker(linker, []) is linker
    extended = extend_linker(linker, ["Teal"])
    assert extend_linker(extended, []) is extended
    empty = build_linker(build_kb([], tmp_path / "kb"))
    with pytest.raises(ValueError, match="has no entity"):
        extend_linker(empty, ["Teal"])


def test_an_extended_base_has_every_column_and_is_not_written_without_its_entities(tmp_path: Path) -> None:
    kb = build_kb([Entity("Q1", "Duck", description="a bird", category="birds")], tmp_path / "kb")
    more = kb.extended([Entity("Q2", "Oak", description="a tree", category="trees", image="oak.jpg")])
    assert [more.descriptions[row] for row in range(2)] == ["a bird", "a tree"]
    assert [more.images[row] for row in range(2)] == ["", "oak.jpg"]
    assert [more.categories[code] for code in more.category_codes] == ["birds", "trees"]
    for change in (lambda: add_entities(more, [Entity("Q3", "Teal")]), lambda: remove_entities(more, ["Q1"])):
        with pytest.raises(ValueError, match="in memory alone"):
            change()
    assert [entity.id for entity in KnowledgeBase(tmp_path / "kb")] == ["Q1"]
