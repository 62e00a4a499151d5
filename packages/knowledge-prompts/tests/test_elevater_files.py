from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_prompts import KnowledgeFileError, WordNet, stored_sources
from knowledge_prompts.sources.elevater_files import (
    ExternalRecord,
    external_sources,
    read_external,
    read_gpt3,
    write_external,
    write_gpt3,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAME = TEXT.filter(str.strip)
RECORDS = st.lists(
    st.builds(ExternalRecord, NAME, st.none() | TEXT, st.lists(TEXT, max_size=3).map(tuple), TEXT),
    unique_by=lambda record: record.class_name,
    max_size=4,
)


@given(RECORDS)
def test_external_files_come_back(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("external") / "own_knowledge.tsv"
    write_external(path, records)
    assert read_external(path) == records


@given(st.dictionaries(NAME, st.lists(TEXT, max_size=3).map(tuple), max_size=4))
def test_generated_files_come_back(tmp_path_factory, items):
    path = tmp_path_factory.mktemp("gpt3") / "GPT3_own.tsv"
    write_gpt3(path, items)
    assert read_gpt3(path) == items


def test_the_stored_files_are_written_byte_for_byte(shared_knowledge, tmp_path):
    external, generated = (sorted((shared_knowledge / name).iterdir()) for name in ("external", "gpt3"))
    assert (len(external), len(generated)) == (21, 21)
    for path in external:
        write_external(tmp_path / "out", read_external(path))
        assert (tmp_path / "out").read_bytes() == path.read_bytes(), path.name
    for path in generated:
        write_gpt3(tmp_path / "out", read_gpt3(path))
        assert (tmp_path / "out").read_bytes() == path.read_bytes(), path.name


def test_stored_coverage_is_the_known_one(shared_knowledge):
    """The figures of the stored files: Wiktionary 854, WordNet 531, any of them 860, GPT-3 1,151 of 1,151 classes."""
    coverage = {"wiktionary": 0, "wordnet-definition": 0, "wordnet-path": 0, "gpt3": 0, "any external": 0}
    for path in sorted((shared_knowledge / "external").iterdir()):
        name = path.name.removesuffix("_knowledge.tsv")
        if name == "imagenet-1k":
            continue
        sources = stored_sources(shared_knowledge, name)
        for record in read_external(path):
            has = {source.name: bool(source.items(record.class_name)) for source in sources}
            for key, value in has.items():
                coverage[key] += value
            coverage["any external"] += any(value for key, value in has.items() if key != "gpt3")
    assert coverage == {
        "wiktionary": 854,
        "wordnet-definition": 531,
        "wordnet-path": 531,
        "gpt3": 1151,
        "any external": 860,
    }


def test_live_wordnet_can_be_stored(tiny_wordnet, tmp_path):
    wordnet = WordNet(tiny_wordnet)
    record = ExternalRecord("sunflower", None, tuple(wordnet.path("sunflower")), wordnet.definition("sunflower"))
    write_external(tmp_path / "x.tsv", [record, ExternalRecord("xyzzy")])
    rows = json.loads((tmp_path / "x.tsv").read_text())
    assert rows[0]["path_wn"] == ["sunflower", "flower", "plant", "entity"]
    assert rows[1] == {"classname": "xyzzy", "def_wiki": None, "path_wn": "", "def_wn": ""}


def test_sources_over_records():
    record = ExternalRecord("tench", "A fish.", ("tench", "bony_fish", "fish"), "")
    wiki, definition, path = external_sources([record], max_nodes=2)
    assert wiki.items("tench") == ("A fish.",)
    assert definition.items("tench") == ()
    assert path.items("tench") == ("tench, bony fish",)
    with pytest.raises(ValueError, match="max_nodes is 0"):
        external_sources([record], max_nodes=0)


GOOD = '{"classname": "cat", "def_wiki": null, "path_wn": "", "def_wn": ""}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ", line 1: not JSON"),
        ("{}", ": expected one JSON list, found dict"),
        (f"[{GOOD},\n{GOOD[:-1]}\n oops}}]", ", line 3: not JSON"),
        (f"[{GOOD}\n{GOOD}]", r", line 2: not JSON \(Expecting ',' delimiter"),
        (f"[{GOOD}]\nmore", r", line 2: not JSON \(Extra data"),
        ('[{"classname": "cat", "classname": "dog"}]', ": the key 'classname' comes twice in one object"),
        (f"[{GOOD},\n3]", ", entry 2: expected an object with classname, def_wiki, path_wn, def_wn; found int"),
        ('[\n\n{"classname": "cat"}]', ", entry 1: field 'def_wiki' is missing"),
        ("[" + GOOD.replace('"cat"', "7") + "]", ", entry 1: field 'classname' is 7"),
        ("[" + GOOD.replace("null", "[]") + "]", r", entry 1: field 'def_wiki' is \[\]; expected a text or null"),
        ("[" + GOOD.replace('"path_wn": ""', '"path_wn": "a"') + "]", ", entry 1: field 'path_wn' is 'a'"),
        ("[" + GOOD.replace('"def_wn": ""', '"def_wn": null') + "]", ", entry 1: field 'def_wn' is None"),
        (f"[{GOOD},\n" + GOOD.replace("null", '"x"') + "]", ", entry 2: field 'classname': 'cat' differs from an earl"),
        ("[" * 100_000, ".*nested too deeply"),
    ],
)
def test_malformed_external_files_name_place_and_field(tmp_path, text, message):
    path = tmp_path / "bad_knowledge.tsv"
    path.write_text(text)
    with pytest.raises(KnowledgeFileError, match=rf"bad_knowledge\.tsv{message}"):
        read_external(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"classname": "cat"}]', "entry 1: field 'gpt3' is missing"),
        ('[{"classname": "cat", "gpt3": "x"}]', "entry 1: field 'gpt3' is 'x'; expected a list of texts"),
        ('[{"classname": "cat", "gpt3": []},\n{"classname": "cat", "gpt3": []}]', "entry 2: .*'cat' comes twice"),
    ],
)
def test_malformed_generated_files_name_place_and_field(tmp_path, text, message):
    path = tmp_path / "GPT3_bad.tsv"
    path.write_text(text)
    with pytest.raises(KnowledgeFileError, match=message):
        read_gpt3(path)


def test_bytes_that_are_no_text_name_the_line(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b"[\n\n\xff]")
    with pytest.raises(KnowledgeFileError, match=r"line 3: not UTF-8 \(byte 0xff\)"):
        read_external(path)


def test_a_repeated_class_with_one_text_is_kept(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text(f"[{GOOD}, {GOOD}]")
    assert len(read_external(path)) == 2


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"birds_knowledge\.tsv nor .*GPT3_birds\.tsv exists"):
        stored_sources(tmp_path, "birds")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "GPT3_own.tsv"
    write_gpt3(path, {"cat": ["purrs"]})
    with pytest.raises(TypeError):
        write_gpt3(path, {"cat": [object()]})
    assert read_gpt3(path) == {"cat": ("purrs",)}
    assert [entry.name for entry in tmp_path.iterdir()] == ["GPT3_own.tsv"]
