"""N-grams: the index against a look at every name, the distance against its definition, and the steps in the linker."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
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
    build_kb,
    build_linker,
    build_name_index,
    open_name_index,
    remove_entities,
)
from oven_retrieval.names.ngrams import NgramIndex, _idf, allowed_edits, distinct_buckets, edit_distance
from oven_retrieval.tokens import fold, plain

from ._definition import LINKERS

PAIRS = [
    line.split(";")
    for line in (Path(__file__).parent / "spellings.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


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


@settings(max_examples=60, deadline=None)
@given(short, short, st.integers(0, 8))
def test_the_distance_is_its_definition(a, b, most):
    assert edit_distance(a, b, most) == min(defined_distance(a, b), most + 1)


names = st.text("abcé東", min_size=1, max_size=11).filter(str.strip)


@settings(max_examples=20, deadline=None)
@given(st.lists(names, min_size=1, max_size=25), st.data())
def test_names_within_some_edits_equal_a_look_at_every_name(names, data):
    index = NgramIndex.of(KnowledgeBase.from_names(names))
    queries = [data.draw(st.text("abcé東", max_size=11)), *names[:3]]
    for name in names[:5]:  # and some that are sure to be near
        at = data.draw(st.integers(0, len(name) - 1))
        queries += [
            name[:at] + name[at + 1 :],
            name[:at] + "b" + name[at:],
            name[:at] + name[at:][1::-1] + name[at + 2 :],
        ]
    for query in queries:
        plain_query = plain(query)
        most = allowed_edits(plain_query) if plain_query else 0
        distances = {row: defined_distance(plain_query, plain(name)) for row, name in enumerate(names)}
        near = {row: -edits for row, edits in distances.items() if most and edits <= most}
        within = index.within(query)
        assert dict(zip(within.row.tolist(), within.score.tolist(), strict=True)) == near
        assert within.score.tolist() == sorted(within.score.tolist(), reverse=True)
        assert within.text == [names[row] for row in within.row]


@settings(max_examples=20, deadline=None)
@given(st.lists(names, min_size=1, max_size=25), names, st.integers(1, 4), st.floats(0.05, 0.9))
def test_names_that_are_alike_equal_the_definition_for_every_name(names, query, k, least):
    """Dice's coefficient of the trigrams, each weighted by its idf, summed name by name."""
    index = NgramIndex.of(KnowledgeBase.from_names(names))
    sets = [set(distinct_buckets(plain(name)).tolist()) for name in names]
    query_buckets = set(distinct_buckets(plain(query)).tolist())

    def weight(buckets):
        return sum(float(_idf(np.array(sum(b in own for own in sets)), len(names))) for b in buckets)

    scores = {
        row: 2 * weight(own & query_buckets) / (weight(own) + weight(query_buckets)) for row, own in enumerate(sets)
    }
    sure = {row: score for row, score in scores.items() if score >= least + 1e-5}
    alike = index.alike(query, k, least)
    assert set(alike.row.tolist()) <= {row for row, score in scores.items() if score >= least - 1e-5}
    assert len(alike.row) >= min(k, len(sure))
    for row, score in zip(alike.row.tolist(), alike.score.tolist(), strict=True):
        assert score == pytest.approx(scores[row], abs=1e-5)  # weights of names are float32
    if len(alike.row):
        best = max(scores.values())
        assert alike.score[0] == pytest.approx(best, abs=1e-5)


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


def test_typos_come_after_exact_names_and_before_the_others(kb):
    bare = build_linker(kb, ngrams=False)
    linker = build_linker(kb)
    linker.typos = True

    def answers(name, k=5):
        links = linker.link([name], k)
        return [
            (kb.ids[row], STEPS[step], score)
            for row, step, score in zip(links.rows[0], links.kinds[0], links.scores[0], strict=True)
            if row >= 0
        ]

    # one edit: the name, then the alias, though its entity is more popular; two edits: the other name
    assert [(name, step) for name, step, _ in answers("mandarin duckx")][:3] == [
        ("Q1", "typo"),
        ("Q3", "typo"),
        ("Q2", "typo"),
    ]
    assert [score for _, _, score in answers("mandarin duckx")[:3]] == [-1, -1, -2]
    assert answers("Duck")[0][:2] == ("Q4", "exact name")
    assert answers("xyz", 1) == []
    assert answers("dukc", 1) == [("Q4", "typo", -1.0)]
    assert bare.link(["dukc"]).rows.tolist() == [[-1]]
    assert linker.link(["mandarin dukc"], exact_first=False).kinds.tolist() == [[STEPS.index("bm25")]]
    assert linker.link([], 2).rows.shape == (0, 2)
    bare.typos = True
    with pytest.raises(ValueError, match="has no n-grams to find them by"):
        bare.link(["dukc"])


@pytest.mark.parametrize("make", LINKERS)
def test_one_name_and_a_block_of_names_get_the_same_answers_by_ngrams(make, kb):
    linker = make(kb)
    texts = [
        "mandarindukc",
        "dukk",
        "Дак",
        "golden gates bridge",
        "filler nine",
        "",
        "zzz",
        "Golden",
        "märchen",
        "x",
    ]
    for k in (1, 3):
        links = linker.link(texts, k)
        for number, name in enumerate(texts):
            for column, single in zip(links, linker.link([name], k), strict=True):
                np.testing.assert_array_equal(column[number], single[0])
    assert STEPS[linker.link(["mandarindukc"]).kinds[0, 0]] == "ngrams"


@pytest.mark.parametrize("names", [2, 3])
def test_of_names_that_are_as_good_the_more_popular_is_first_alone_and_in_a_block(names, tmp_path):
    entities = [Entity(f"Q{i}", f"golden {'xyz'[i]}", popularity=i) for i in range(names)]
    fillers = [Entity(f"F{i}", f"Filler {i}") for i in range(20)]
    linker = build_linker(build_kb([*entities, *fillers], tmp_path / "kb"))
    alone, block = linker.link(["goldem w"]), linker.link(["goldem w"] * 20)
    assert linker.kb.ids[alone.rows[0, 0]] == f"Q{names - 1}"
    assert STEPS[alone.kinds[0, 0]] == "ngrams"
    for single, column in zip(alone, block, strict=True):
        np.testing.assert_array_equal(single[0], column[7])


def test_an_index_of_other_entities_or_another_folding_is_refused(kb, tmp_path):
    linker = build_name_index(kb, tmp_path / "names")
    fewer = remove_entities(kb, ["Q4"])
    with pytest.raises(FolderError, match="bring it up to date"):
        open_name_index(tmp_path / "names", fewer)
    assert "Duck" not in NgramIndex(fewer, linker.ngrams._columns).alike("duck", 9).text
    manifest = tmp_path / "names" / "manifest.json"
    written = json.loads(manifest.read_text())
    for meta, message in (
        ({"folding": "another 9"}, r"its n-grams were folded by 'another 9', here it is .*--rebuild"),
        ({"ngrams": 3}, r"its n-grams are of version 3, expected 2; build it again"),
    ):
        manifest.write_text(json.dumps(written | {"meta": written["meta"] | meta}))
        with pytest.raises(FolderError, match=message):
            open_name_index(tmp_path / "names", kb)
    del written["meta"]["ngrams"]
    manifest.write_text(json.dumps(written))
    with pytest.raises(FolderError, match="its n-grams are of version 1, expected 2"):
        open_name_index(tmp_path / "names", kb)


def test_an_index_without_ngrams_links_by_words_and_says_what_typos_need(kb, tmp_path):
    linker = build_name_index(kb, tmp_path / "names", ngrams=False)
    assert STEPS[linker.link(["mandarin dukc"]).kinds[0, 0]] == "bm25"
    assert linker.link(["dukc"]).rows.tolist() == [[-1]]
    linker.typos = True
    with pytest.raises(ValueError, match="this name index has no n-grams to find them by; build it with ngrams=True"):
        linker.link(["dukc"])


letters = st.text("ab1 _-.,!'\x00", max_size=12)


@settings(max_examples=200, deadline=None)
@given(letters)
def test_the_compiled_plain_letters_are_those_of_plain(text):
    from oven_retrieval.names.compiled import plain_letters

    folded = fold(text)
    points = plain_letters(np.frombuffer(folded.encode(), np.uint8))
    assert "".join(map(chr, points)) == plain(text)


SPOILT = """
import numpy as np
from oven_retrieval import FolderError, KnowledgeBase
from oven_retrieval.names.ngrams import NgramIndex, build_ngrams

kb = KnowledgeBase.from_names([f"name {n % 7} of {n % 11} things {n}" for n in range(400)])
columns = build_ngrams(kb)
for field, change in [
    ("post", lambda values: np.where(np.arange(len(values)) % 5 == 1, np.int32(2**31 - 1), values)),
    ("post", lambda values: values[:9]),
    ("start", lambda values: values * 2**40),
    ("start", lambda values: values[::-1]),
    ("weight", lambda values: values[:9]),
    ("weight", lambda values: values.astype(np.float64)),
    ("origin", lambda values: values[:9]),
]:
    index = NgramIndex(kb, columns._replace(**{field: np.ascontiguousarray(change(getattr(columns, field)))}))
    try:
        index.entities(["name 3 of 4 thing 355", "thongs"], 2)
    except FolderError as error:
        print(error)
"""


def test_ngrams_that_were_edited_do_not_end_the_process():
    """In a process of its own: what it guards against is a write beyond the arrays."""
    done = subprocess.run([sys.executable, "-c", SPOILT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("is damaged")) == (0, 7), (done.stdout, done.stderr)


def test_nothing_to_index(tmp_path):
    empty = NgramIndex.of(build_kb([], tmp_path / "kb"))
    assert len(empty) == 0
    assert empty.alike("some name", 3).text == empty.within("some name").text == []
    single = NgramIndex.of(KnowledgeBase.from_names(["name"]))
    assert single.within("").text == single.alike("", 1).text == []
    assert single.within("name").score.tolist() == [0]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("STRASSE", "Straße"),
        ("Алёна", "Алена"),
        ("Çeşme", "cesme"),
        ("القَاهِرَة", "قاهره"),
        ("إسكندرية", "اسكندريه"),
        ("コンピューター", "こんぴゅーた"),
        ("ﾄｳｷｮｳ", "とうきょう"),
        ("Чайковский", "Chaikovskii"),
        ("Ἀριστοτέλης", "aristotelis"),
        ("Smørrebrød", "smorrebrod"),
        ("Rock'n'Roll", "rock n roll"),
    ],
)
def test_spellings_of_one_name_have_the_same_plain_letters(text, same):
    assert plain(text) == plain(same)


@pytest.mark.parametrize("text", ["한국어", "ไทย", "ᏣᎳᎩ", "🦆", "\ud800", "\x00", "!!!", "ﷺ" * 50])
def test_a_script_without_a_table_stays_and_is_found(text):
    assert plain(text)
    assert KnowledgeBase.from_names(["Duck", text]).link(text)[0].id == "1"


def test_most_names_in_six_languages_are_found_however_they_are_written():
    names = list(dict.fromkeys(name for *_, name in PAIRS))
    linker = build_linker(KnowledgeBase.from_names(names))
    links = linker.link([text for _, _, text, _ in PAIRS])
    right = [row >= 0 and names[row] == name for row, (*_, name) in zip(links.rows[:, 0].tolist(), PAIRS, strict=True)]
    assert sum(right) >= 270
    linker.ngrams = None
    assert sum(row >= 0 for row in linker.link([text for _, _, text, _ in PAIRS]).rows[:, 0].tolist()) < 200
