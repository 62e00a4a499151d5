"""Names to entities: the order of answers, all scripts, the index on disk, WordNet's nouns."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oven_retrieval import (
    STEPS,
    Entity,
    FolderError,
    KnowledgeBase,
    Ranking,
    build_kb,
    build_kb_from_file,
    build_linker,
    build_name_index,
    open_name_index,
)
from oven_retrieval.tokens import fold, whitespace, words

from ._definition import LINKERS

CITIES = [
    Entity("Q1", "PARIS", popularity=9),
    Entity("Q2", "Paris", popularity=1),
    Entity("Q3", "Paris", popularity=5),
    Entity("Q4", "Lutetia", aliases=("paris", "Paris")),
    Entity("Q5", "Ville Lumière", aliases=("PARIS",)),
    Entity("Q6", "Paris Texas"),
    Entity("Q7", "Straße"),
    Entity("Q8", "東京タワー"),
    Entity("Q9", "🦆"),
    Entity("Q10", "हिन्दी भाषा"),
    *(Entity(f"F{i}", f"Filler {chr(97 + i)}") for i in range(12)),
]


def data_folder():
    benchmarks = Path(__file__).resolve()
    for root in [
        Path(os.environ.get("VLB_SHARED_DATA", "/nonexistent")),
        *(p / "shared" / "data" for p in benchmarks.parents),
    ]:
        if (root / "entities").is_dir():
            return root / "entities"
    return None


@pytest.fixture(scope="module", params=LINKERS)
def linker(request, tmp_path_factory):
    return request.param(build_kb(CITIES, tmp_path_factory.mktemp("kb") / "kb"))


def ids(linker, name, k=8):
    links = linker.link([name], k)
    return [
        (linker.kb.ids[row], STEPS[step]) for row, step in zip(links.rows[0], links.kinds[0], strict=True) if row >= 0
    ]


def test_the_order_of_answers(linker):
    assert ids(linker, "Paris") == [
        ("Q3", "exact name"),  # popularity
        ("Q2", "exact name"),
        ("Q4", "exact alias"),
        ("Q1", "folded name"),
        ("Q5", "folded alias"),
        ("Q6", "bm25"),
    ]
    assert ids(linker, " paris ")[:4] == [
        ("Q4", "exact alias"),
        ("Q3", "folded name"),  # sentence case before capitals, though Q1 is more popular
        ("Q2", "folded name"),
        ("Q1", "folded name"),
    ]
    assert linker.kb.ids[linker.candidates("PARIS")[0]] == "Q1"
    assert len(linker.candidates("paris")) == 5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("STRASSE", "Q7"),
        ("東京", "Q8"),
        ("🦆", "Q9"),
        ("भाषा हिन्दी", "Q10"),
        ("texas, PARIS!", "Q6"),
        ("ville lumière", "Q5"),
    ],
)
def test_any_script(linker, name, expected):
    assert ids(linker, name)[0][0] == expected


@pytest.mark.parametrize("name", ["", "   ", "\x00", "\ud800", "zzz", "?!"])
def test_names_without_an_answer(linker, name):
    links = linker.link([name], k=2)
    assert links.rows.tolist() == links.kinds.tolist() == [[-1, -1]]
    assert np.isnan(links.scores).all()


def test_a_query_of_a_megabyte(linker):
    links = linker.link(["paris texas " * 90_000], k=3)
    assert linker.kb.ids[links.rows[0, 0]] == "Q6"


def test_k_beyond_the_knowledge_base_and_no_names(linker):
    assert linker.link(["paris"], k=50).rows.shape == (1, 50)
    assert linker.link([], k=3).rows.shape == (0, 3)
    with pytest.raises(ValueError, match="k: expected an integer of at least 1, got 0"):
        linker.link(["paris"], k=0)
    with pytest.raises(TypeError, match="expected a list of texts, got one text 'paris'"):
        linker.link("paris")


def test_bm25_alone(linker):
    links = linker.link(["paris"], k=1, exact_first=False)
    assert STEPS[links.kinds[0, 0]] == "bm25"
    assert np.isfinite(links.scores[0, 0])


@pytest.mark.parametrize("k", [1, 3])
def test_a_batch_in_parts_answers_as_one(linker, monkeypatch, k):
    """Parts of three texts in threads, with texts of words, of trigrams, of too many words, and of nothing."""
    texts = [
        "paris",
        "Pariss Texsa",
        "東京タワ",
        "?",
        "filler a",
        "filer b x",
        " ".join(f"filler {c}" for c in "abcdefghijkl"),
    ]
    whole = linker.link(texts * 7, k)
    monkeypatch.setattr("oven_retrieval.names.pruned._PART", 3)
    in_parts = linker.link(texts * 7, k)
    for column in ("rows", "scores", "kinds"):
        np.testing.assert_array_equal(getattr(in_parts, column), getattr(whole, column))
    assert {STEPS[kind] for kind in whole.kinds.ravel() if kind >= 0} >= {"bm25", "ngrams"}


def test_index_on_disk(tmp_path):
    kb = build_kb(CITIES, tmp_path / "kb")
    built = build_name_index(kb, tmp_path / "names", tokenizer="whitespace", k1=0.9)
    loaded = open_name_index(tmp_path / "names", kb, verify=True)
    queries = ["Paris", "texas", "東京タワー", "x"]
    for a, b in zip(
        built.link(queries, 4), build_linker(kb, tokenizer="whitespace", k1=0.9).link(queries, 4), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(built.link(queries, 4), loaded.link(queries, 4), strict=True):
        np.testing.assert_array_equal(a, b)
    other = build_kb(CITIES[1:], tmp_path / "other")
    with pytest.raises(
        FolderError, match=f"built from the entities {kb.hash[:12]}…, expected those of .*other, {other.hash[:12]}…"
    ):
        open_name_index(tmp_path / "names", other)


def test_an_index_that_lacks_a_column_is_refused(tmp_path):
    kb = build_kb(CITIES, tmp_path / "kb")
    build_name_index(kb, tmp_path / "names")
    manifest = json.loads((tmp_path / "names" / "manifest.json").read_text())
    del manifest["columns"]["exact_row"]
    (tmp_path / "names" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FolderError, match="no column 'exact_row'"):
        open_name_index(tmp_path / "names", kb)


def test_refused_options(tmp_path):
    kb = build_kb(CITIES, tmp_path / "kb")
    with pytest.raises(ValueError, match=r"engine: expected one of .* got 'lucene'"):
        build_linker(kb, engine="lucene")
    with pytest.raises(ValueError, match=r"tokenizer: expected one of .* got 'bpe'"):
        build_name_index(kb, tmp_path / "names", tokenizer="bpe")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("Cafe\u0301 Noir", ["café", "noir"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("a_b", ["a", "b"]),
    ],
)
def test_marks_stay_with_their_letters(text, expected):
    assert words(text) == expected


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30))
def test_folding_is_idempotent_and_tokens_are_folded(text):
    folded = fold(text)
    assert fold(folded) == folded
    assert folded == " ".join(folded.split())
    assert words(folded) == words(text)
    assert all(words(text)) or not words(text)
    assert bool(words(text)) == bool(folded)
    assert whitespace(text) == folded.split()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=8).filter(lambda name: fold(name) != ""), min_size=1, max_size=10))
def test_every_name_links_to_an_entity_that_has_it(tmp_path_factory, names):
    kb = build_kb(
        [Entity(str(i), name) for i, name in enumerate(names) if name.strip()], tmp_path_factory.mktemp("any") / "kb"
    )
    linker = build_linker(kb)
    spellings = [name for name in names if name.strip()]
    links = linker.link(spellings)
    for name, row in zip(spellings, links.rows[:, 0], strict=True):
        assert fold(kb.names[row]) == fold(name)


@pytest.mark.skipif(data_folder() is None, reason="needs shared/data/entities")
@pytest.mark.long
def test_every_wordnet_name_and_alias_links_to_an_entity_that_has_it(tmp_path):
    path = data_folder() / "wordnet_nouns.jsonl.gz"
    kb = build_kb_from_file(path, tmp_path / "kb", file_format="jsonl")
    assert len(kb) == 84_956
    linker = build_name_index(kb, tmp_path / "names")
    holders = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row, line in enumerate(file):
            record = json.loads(line)
            for name in dict.fromkeys([record["name"], *record["aliases"]]):
                holders[name].append(row)
    names = list(holders)
    links = linker.link(names)
    assert links.kinds.max() < STEPS.index("bm25")
    by_fold = defaultdict(set)
    for name, rows in holders.items():
        by_fold[fold(name)].update(rows)
    assert all(row in by_fold[fold(name)] for name, row in zip(names, links.rows[:, 0].tolist(), strict=True))
    assert all(row in holders[name] for name, row in zip(names, links.rows[:, 0].tolist(), strict=True))
    matches = linker.exact.find(names)
    by_query = np.split(matches.row, np.searchsorted(matches.query, np.arange(1, len(names))))
    assert all(set(holders[name]) <= set(rows.tolist()) for name, rows in zip(names, by_query, strict=True))
    assert sum(len(rows) > 1 for rows in holders.values()) > 5_000


@pytest.mark.parametrize("make", LINKERS)
@pytest.mark.parametrize("typos", [False, True])
def test_only_allowed_entities_are_answered_and_as_by_a_search_of_all(tmp_path, make, typos):
    rng = np.random.default_rng(5)
    stems = ["wood", "duck", "golden", "gate", "bridge", "Paris", "Straße", "tower", "goose", "teal"]
    names = [" ".join(rng.choice(stems, int(rng.integers(1, 4)))) for _ in range(300)]
    kb = build_kb(
        (Entity(f"Q{i}", name, popularity=int(rng.integers(9))) for i, name in enumerate(names)), tmp_path / "kb"
    )
    linker = make(kb)
    linker.typos = typos
    queries = ["wood duck", "Golden gates", "golden brigde", "qqqq zzzz", "strasse towre", *names[:9]]
    everything = linker.link(queries, len(kb))
    for share in (0.02, 0.3, 1.0):
        allowed = rng.random(len(kb)) < share
        for texts in (queries, queries[:3]):
            links = linker.link(texts, 3, allowed=allowed)
            for query in range(len(texts)):
                rows = everything.rows[query]
                rows = rows[(rows >= 0) & allowed[np.maximum(rows, 0)]][:3].tolist()
                first = [row for row in links.rows[query].tolist() if row >= 0]
                steps = dict(zip(everything.rows[query], everything.kinds[query], strict=True))
                assert all(allowed[first])
                exact = [row for row in rows if steps[row] < STEPS.index("typo")]
                assert first[: len(exact)] == exact
                assert len(first) >= len(rows)
                if first and not exact:
                    assert linker.link([texts[query]], allowed=allowed).rows[0, 0] == first[0]
    assert kb.link("wood", allowed=np.zeros(300, np.bool_)) == []
    for wrong in (np.ones(299, np.bool_), np.ones(300), [True]):
        with pytest.raises(ValueError, match="allowed: expected a truth value for each of the 300 entities, got"):
            linker.link(["wood"], allowed=wrong)


def test_n_grams_go_on_until_an_allowed_name_is_alike(tmp_path):
    rng = np.random.default_rng(0)
    nearer = [f"mandarin duck{'x' * (i % 40)}{chr(97 + i % 26)}" for i in range(60)]
    others = ["".join(rng.choice(list("bcfghjklpqsvwz"), 9)) for _ in range(3000)]
    names = [*nearer, "mandarins duck", *others]
    kb = build_kb((Entity(str(i), name) for i, name in enumerate(names)), tmp_path / "kb")
    linker = build_linker(kb)
    assert linker.ngrams.alike("mandarin dukc", 200).row.tolist()[-1] == 60  # behind all that are nearer
    allowed = np.arange(len(kb)) == 60
    links = linker.link(["mandarin dukc"], allowed=allowed)
    assert (links.ids(), links.steps()) == ([["60"]], [["ngrams"]])


UNLIKE = "qqqq zzzz"
"""A text that shares no word and no trigram with any name."""


@pytest.mark.parametrize("count", [1, 3, 20])
def test_a_name_that_is_not_there_is_no_entity_in_any_form(tmp_path, count):
    kb = build_kb([Entity("Q1", "Wood"), Entity("Q2", "Golden Gate")], tmp_path / "kb")
    linker = build_name_index(kb, tmp_path / "names")
    links = linker.link([UNLIKE, *["wood"] * (count - 1)], k=2)
    assert links.rows[0].tolist() == links.kinds[0].tolist() == [-1, -1]
    assert links.ids()[0] == links.names()[0] == [None, None]
    assert links.steps()[0] == ["none", "none"]
    assert STEPS[links.kinds[0, 0]] == "none"
    assert count == 1 or (links.ids()[1], links.names()[1], links.steps()[1]) == (
        ["Q1", None],
        ["Wood", None],
        ["folded name", "none"],
    )
    for column in (kb, kb.ids, kb.names):
        with pytest.raises(IndexError, match="row -1 of 2: no entity was found"):
            column[links.rows[0, 0]]
    with pytest.raises(IndexError, match="row 2 of 2: expected 0 to 1"):
        kb[2]
    assert kb.link(UNLIKE) == []
    assert kb.retrieve([UNLIKE], k=1)[0].tolist() == [[-1]]


def test_a_ranking_of_vectors_is_told_its_knowledge_base(tmp_path):
    kb = build_kb([Entity("Q1", "Wood"), Entity("Q2", "Golden Gate")], tmp_path / "kb")
    ranking = Ranking(np.array([[1, -1]]), np.array([[0.5, -np.inf]]))
    assert ranking.ids(kb) == [["Q2", None]]
    with pytest.raises(ValueError, match=r"ids: this search does not know its knowledge base; expected ids\(kb\)"):
        ranking.ids()
    with pytest.raises(ValueError, match="steps: only answers of `link` have them"):
        ranking.steps()


def damaged(folder: Path, column: str, change) -> None:
    """Write another array into a column of a folder, and its type, shape and digest into the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    entry, file = manifest["columns"][column], folder / f"{column}.bin"
    values = change(np.fromfile(file, entry["dtype"]).reshape(entry["shape"]))
    values.tofile(file)
    entry |= {"dtype": values.dtype.str, "shape": list(values.shape)}
    entry["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def first_is(value):
    def change(values):
        values[:] = value
        return values

    return change


@pytest.mark.parametrize(("column", "change"), [
    ("names/exact_spelling", lambda values: values[:-3]),
    ("names/exact_row", lambda values: values[None]),
    ("names/exact_row", lambda values: values.astype(np.float32)),
    ("names/exact_row", first_is(2**31 - 1)),
    ("names/ngram_length", lambda values: values[:1]),
    ("names/bm25_bound", lambda values: values.ravel()),
    ("names/bm25_owner", first_is(2**31 - 1)),
    ("kb/popularity", lambda values: values[:-1]),
    ("kb/popularity", lambda values: values.astype(np.int64)),
    ("kb/name.sums", lambda values: values[None]),
    ("kb/description.ends", lambda values: values[:-1]),
    ("kb/id_row", lambda values: values[:3]),
])  # fmt: skip
def test_columns_that_do_not_fit_one_another_are_one_line(tmp_path, column, change):
    """Each with the digest that fits."""
    kb = build_kb(CITIES, tmp_path / "kb")
    build_name_index(kb, tmp_path / "names")
    folder, _, name = column.partition("/")
    damaged(tmp_path / folder, name, change)
    with pytest.raises(FolderError, match=r"build it (again|anew)") as raised:  # noqa: PT012 - opening, or any of these
        linker = open_name_index(tmp_path / "names", KnowledgeBase(tmp_path / "kb", verify=True), verify=True)
        for queries in (["paris"], ["Filler a", "parris texas", "lumière ville", "nothing"]):
            linker.link(queries, 3)
            linker.link(queries, 3, exact_first=False)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("0.15l milk", "Milk 0,15 L"),
        ("milk 0.150 l", "Milk 0,15 L"),
        ("gummi bears 1,000g", "Gummi bears 1000 g"),
        ("gummi bears 200 g bag", "Gummi bears 200g"),
        ("weißbier 0.50 l", "Weißbier 0,5L"),
        ("コーラ 500 ml", "コーラ500ml"),
        ("1.5 ah drill", "Drill 1.5Ah"),
    ],
)  # fmt: skip
def test_measures_are_found_however_they_are_written(query, name):
    names = [
        "Milk 1L", "Milk 1.5 l", "Milk 15 l", "Milk 0,15 L", "Gummi bears 1 g", "Gummi bears 200g",
        "Gummi bears 1000 g", "Weißbier 5 L", "Weißbier 0,5L", "コーラ 50ml", "コーラ500ml",
        "Drill 15Ah", "Drill 5Ah", "Drill 1.5Ah",
    ]  # fmt: skip
    for tokenizer in ("words", "bigrams"):
        linker = build_linker(KnowledgeBase.from_names(names), tokenizer=tokenizer, ngrams=False)
        assert linker.link([query]).names() == [[name]], tokenizer


def test_only_numbers_with_a_unit_are_measures():
    assert words("No. 2.5, 4x4, mp3, v1.2") == ["no", "2", "5", "4x4", "mp3", "v1", "2"]
    assert words("1.2.1999 2.5.1 kg") == ["1", "2", "1999", "2", "5", "1", "kg"]
    assert words("200g") == words("200 G") == ["200", "g"]
