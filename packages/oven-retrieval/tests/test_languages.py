"""Languages: tags that are kept and asked for, and words of scripts that put no spaces between them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oven_retrieval import (
    STEPS,
    Entity,
    KnowledgeBase,
    add_entities,
    build_kb,
    build_name_index,
    remove_entities,
    update_name_index,
)
from oven_retrieval.names import PrunedIndex, build_impacts
from oven_retrieval.readers import read_jsonl
from oven_retrieval.tokens import bigrams, words
from oven_retrieval.workspace import link_lines

from ._definition import LINKERS

ENTITIES = [
    Entity("Q1", "Gift", aliases=("Poison", "Venom"), language="de", alias_languages=("en", "en fr")),
    Entity("Q2", "Gift", aliases=("Geschenk", "Present"), popularity=9, language="en", alias_languages=("de", "en")),
    Entity("Q3", "Rat", language="de en", aliases=("Ratte",), alias_languages=("de",)),
    Entity("Q4", "Rat Race"),
]


def first(linker, name, **options):
    links = linker.link([name], **options)
    row = int(links.rows[0, 0])
    return None if row < 0 else (linker.kb.ids[row], STEPS[int(links.kinds[0, 0])])


@pytest.fixture
def kb(tmp_path):
    return build_kb(ENTITIES, tmp_path / "kb")


def test_tags_are_kept_and_come_back(kb):
    assert list(kb) == ENTITIES
    assert kb.languages == ["de", "en", "fr"]
    more = add_entities(kb, [Entity("Q5", "Chat", language="fr"), Entity("Q6", "Cat")])
    assert [entity.language for entity in more] == ["de", "en", "de en", "", "fr", ""]
    assert remove_entities(more, ["Q1"])[0] == ENTITIES[1]
    plain = build_kb(ENTITIES[3:], kb.path.parent / "plain")
    assert (plain.languages, plain[0].alias_languages) == ([], ())
    assert not (plain.path / "language.bin").exists()


@pytest.mark.parametrize("make", LINKERS)
def test_only_names_of_a_language_count(kb, make):
    linker = make(kb)
    linker.typos = True
    assert first(linker, "Gift") == ("Q2", "exact name")
    assert first(linker, "Gift", languages=["de"]) == ("Q1", "exact name")
    assert first(linker, "gifts", languages=["de"]) == ("Q1", "inflected name")
    assert first(linker, "Geschenk", languages=["en"]) is None
    assert first(linker, "geschemk", languages=["de"]) == ("Q2", "typo")
    assert first(linker, "geschemk", languages=["en"]) is None
    assert first(linker, "rat poison", languages=["de"]) == ("Q3", "bm25")
    assert first(linker, "rat race", languages=["de"]) == ("Q3", "bm25")
    assert first(linker, "rat race", languages=["en", "fr"]) == ("Q3", "bm25")
    assert first(linker, "rat race") == ("Q4", "folded name")
    many = linker.link(["Gift", "gifts", "rat race", "Geschenk"] * 5, 2, languages=["de"])
    alone = linker.link(["Gift", "gifts", "rat race", "Geschenk"], 2, languages=["de"])
    for column, expected in zip(many, alone, strict=True):
        np.testing.assert_array_equal(column[:4], expected)
    with pytest.raises(ValueError, match=r"languages: no name of .* belongs to xx; they have de, en, fr"):
        linker.link(["Gift"], languages=["xx"])
    with pytest.raises(ValueError, match="languages: expected a list of tags"):
        linker.link(["Gift"], languages="de")


def test_an_index_on_disk_and_its_updates_know_languages(kb, tmp_path):
    build_name_index(kb, tmp_path / "names")
    kb = add_entities(remove_entities(kb, ["Q2"]), [Entity("Q9", "Poison", language="fr", popularity=99)])
    updated, scratch = update_name_index(tmp_path / "names", kb), build_name_index(kb, tmp_path / "again")
    texts = ["poison", "Gift", "poisons", "venom snake", "rat"]
    for languages in (["fr"], ["de"], ["en", "fr"], None):
        for mine, other in zip(
            updated.link(texts, 3, languages=languages), scratch.link(texts, 3, languages=languages), strict=True
        ):
            np.testing.assert_array_equal(mine, other)
    assert first(updated, "poison", languages=["en"]) == ("Q1", "folded alias")
    assert first(updated, "poison", languages=["fr"]) == ("Q9", "folded name")
    record = next(link_lines(updated, ["poison"], languages=["en"]))
    assert record["entities"][0]["id"] == "Q1"


def test_files_say_languages(tmp_path):
    lines = [
        {"id": "a", "name": "Berlin", "language": "DE", "aliases": {"en": ["Berlin", "City"], "de": "Spree|Stadt"}},
        {"id": "b", "name": "Oslo", "aliases": ["Kristiania"]},
    ]
    file = tmp_path / "kb.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    berlin, oslo = (entity for _, entity, _ in read_jsonl(file))
    assert (berlin.language, berlin.aliases, berlin.alias_languages) == (
        "de en",
        ("City", "Spree", "Stadt"),
        ("en", "de", "de"),
    )
    assert (oslo.language, oslo.aliases, oslo.alias_languages) == ("", ("Kristiania",), ())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"language": "German"}, "language: expected tags such as 'en'"),
        ({"language": "de  en"}, "language: expected tags"),
        ({"aliases": ("x",), "alias_languages": ("de", "en")}, "alias_languages: expected one per alias, 1"),
    ],
)
def test_tags_that_are_none_are_refused(more, message):
    with pytest.raises(ValueError, match=message):
        Entity("Q1", "Gift", **more)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_what_is_allowed_is_searched_as_if_it_were_alone(seed, k):
    """The scores of all names, of which only some may win: equal to a search for all, filtered."""
    rng = np.random.default_rng(seed)
    tokens = [f"w{i}" for i in range(25)]
    names = [list(rng.choice(tokens, rng.integers(1, 5))) for _ in range(300)]
    owners = np.sort(rng.integers(0, 220, 300)) if seed % 2 else np.arange(300)
    engine = PrunedIndex(build_impacts(names, owners.astype(np.int64), rng.permutation(300).astype(np.int64)))
    allowed = np.isin(owners, rng.choice(220, 80))
    queries = [list(rng.choice([*tokens, "?"], rng.integers(0, 5))) for _ in range(12)]
    everything = engine.search(queries, 300)
    allowed_rows = [
        [row for row in rows.tolist() if row >= 0 and allowed[owners == row].any()] for rows in everything.rows
    ]
    for ranking in (engine.search(queries, k, allowed), *(engine.search([query], k, allowed) for query in queries[:1])):
        for rows, expected in zip(ranking.rows.tolist(), allowed_rows, strict=False):
            assert [row for row in rows if row >= 0] == expected[:k]


def test_scripts_without_spaces():
    assert bigrams("東京都庁 Tower") == ["東京", "京都", "都庁", "tower"]
    assert bigrams("ไทย") == ["ไท", "ทย"]
    assert bigrams("かﾞ") == words("が") == ["が"]
    assert bigrams("O'Brien 2") == words("O'Brien 2")
    assert bigrams("!!") == ["!", "!"]


def test_sound_marks_that_stand_alone_belong_to_their_kana():
    kb = KnowledgeBase.from_names(["パイプオルガン", "バイオリン", "鳥インフルエンザ"])
    for text in ("ハ゜イフ゜オルカ゛ン", "ﾊ゜ｲﾌ゜ｵﾙｶ゛ﾝ", "ハ\u309aイフ\u309aオルカ\u3099ン"):
        (entity, *_) = kb.link(text)
        assert entity.name == "パイプオルガン"
        assert entity.step in ("exact name", "folded name")


def test_traditional_and_simplified_characters_are_spellings_of_a_name():
    cities = [
        "北京",
        "上海",
        "廣州",
        "深圳",
        "臺北",
        "香港",
        "澳門",
        "重慶",
        "天津",
        "南京",
        "武漢",
        "長沙",
        "濟南",
        "瀋陽",
        "哈爾濱",
        "蘇州",
        "鄭州",
        "廈門",
        "貴陽",
        "西寧",
    ]
    places = ["圖書館", "博物館", "大學", "火車站", "機場", "醫院", "動物園", "體育場", "電視塔", "國際機場"]
    simplified_cities = [
        "北京",
        "上海",
        "广州",
        "深圳",
        "台北",
        "香港",
        "澳门",
        "重庆",
        "天津",
        "南京",
        "武汉",
        "长沙",
        "济南",
        "沈阳",
        "哈尔滨",
        "苏州",
        "郑州",
        "厦门",
        "贵阳",
        "西宁",
    ]
    simplified_places = ["图书馆", "博物馆", "大学", "火车站", "机场", "医院", "动物园", "体育场", "电视塔", "国际机场"]
    traditional = [city + place for city in cities for place in places]
    simplified = [city + place for city in simplified_cities for place in simplified_places]
    assert sum(map(str.__ne__, traditional, simplified)) > 180
    for names, queries in ((traditional, simplified), (simplified, traditional)):
        kb = KnowledgeBase.from_names(names)
        assert [kb.link(query)[0].name for query in queries] == names
