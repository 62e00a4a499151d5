from __future__ import annotations

import gzip
import json

import pytest

from knowledge_prompts import KnowledgeFileError, Wiktextract
from knowledge_prompts.sources import wiktextract


def entry(word, *glosses, pos="noun", language="en", **sense):
    senses = [{"glosses": list(gloss) if isinstance(gloss, tuple) else [gloss], **sense} for gloss in glosses]
    return {"word": word, "lang_code": language, "pos": pos, "senses": senses, "derived": [{"word": "other"}]}


ENTRIES = [
    entry("tench", "To catch tench.", pos="verb"),
    entry("tench", "A freshwater fish.", ("A prison.", "A prison in Tasmania.")),
    entry("tench", "Ein Fisch.", language="de"),
    entry("bulldog", "A breed of dog."),
    entry("bulldogs", "plural of bulldog", tags=["form-of"]),
    entry('quo"te', "A mark."),
    {"title": "there", "redirect": "elsewhere"},
]


@pytest.fixture(params=["dump.jsonl", "dump.jsonl.gz"])
def dump(request, tmp_path):
    path = tmp_path / request.param
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ENTRIES).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def test_nouns_come_first_and_other_languages_not_at_all(dump):
    source = Wiktextract(dump, ["tench", "Tench", "bulldogs", "nothing", 'quo"te'], max_items=5)
    expected = ["A freshwater fish.", "A prison in Tasmania.", "To catch tench."]
    assert source.items("tench") == source.items("Tench") == expected
    assert source.items("bulldogs") == source.items("nothing") == []
    assert source.items('quo"te') == ["A mark."]
    assert source.items("bulldog") == [], "it was not asked for when the dump was read"
    assert Wiktextract(dump, ["tench"], language="de").items("tench") == ["Ein Fisch."]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"word": "tench", oops', "line 2: not JSON"),
        ("oops", "line 2: not JSON"),
        ("[3]", "line 2: expected an object"),
        ('{"word": ["tench"], "x": {"word": "tench"}}', r"line 2: field 'word' is \['tench'\]"),
        ('{"word": "tench", "lang_code": "en", "senses": 3}', "line 2: field 'senses' is 3"),
        ('{"word": "tench", "lang_code": "en", "senses": [{"glosses": "a"}]}', "line 2: field 'glosses' is 'a'"),
        (
            '{"word": "tench", "lang_code": "en", "senses": [{"glosses": ["a"], "tags": 1}]}',
            "line 2: field 'tags' is 1",
        ),
    ],
)
def test_bad_lines_are_named(tmp_path, line, message):
    path = tmp_path / "dump.jsonl"
    path.write_text(json.dumps(ENTRIES[0]) + "\n" + line + "\n")
    with pytest.raises(KnowledgeFileError, match=message):
        Wiktextract(path, ["tench"])


def test_broken_files_are_named(tmp_path):
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"word": "a"}\n' * 100)[:-9])
    with pytest.raises(KnowledgeFileError, match="not a whole gzip file"):
        Wiktextract(cut, ["tench"])
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes(b'{"word": "a"}\n{"word": "\xe9"}\n')
    with pytest.raises(KnowledgeFileError, match="line 2: not UTF-8"):
        Wiktextract(latin, ["tench"])
    with pytest.raises(ValueError, match="max_items is 0"):
        Wiktextract(latin, ["tench"], max_items=0)


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch, packed):
    monkeypatch.setattr(wiktextract, "LONGEST_LINE", 10_000)
    path = tmp_path / ("dump.jsonl.gz" if packed else "dump.jsonl")
    content = (json.dumps(ENTRIES[0]) + "\n" + "x" * 100_000 + "\n").encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(KnowledgeFileError, match="line 2: a line of more than 10,000 bytes; expected one entry"):
        Wiktextract(path, ["tench"])


def test_a_blank_definition_is_none(tmp_path):
    path = tmp_path / "dump.jsonl"
    senses = [{"glosses": ["  "]}, {"glosses": ["A female chicken."]}]
    path.write_text(json.dumps({"word": "hen", "lang_code": "en", "pos": "noun", "senses": senses}))
    assert Wiktextract(path, ["hen"]).items("hen") == ["A female chicken."]
