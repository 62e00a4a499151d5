"""Wikidata's dump and WordNet's files, written by the tests in exactly their formats."""

from __future__ import annotations

import bz2
import gzip
import json

import pytest

from oven_retrieval import STEPS, Entity, EntityFileError, WikidataDump, build_kb_from_file, text_files
from oven_retrieval.readers import guess_format, read_csv, read_entities, read_jsonl
from oven_retrieval.wordnet import find_wordnet, read_wordnet_nouns
from oven_retrieval.workspace import build_workspace


def item(number, labels, aliases=None, links=0, classes=()):
    """An entity as the dump has it."""
    return {
        "type": "item",
        "id": f"Q{number}",
        "labels": {tag: {"language": tag, "value": text} for tag, text in labels.items()} or [],
        "descriptions": {"en": {"language": "en", "value": f"thing {number}"}},
        "aliases": {tag: [{"language": tag, "value": t} for t in texts] for tag, texts in (aliases or {}).items()}
        or [],
        "claims": {
            "P31": [
                {"mainsnak": {"snaktype": "somevalue", "property": "P31"}, "rank": "normal"},
                *(
                    {"mainsnak": {"snaktype": "value", "property": "P31", "datavalue": {"value": {"id": c}}}}
                    for c in classes
                ),
            ]
        },
        "sitelinks": {f"{i}wiki": {"site": f"{i}wiki", "title": "x"} for i in range(links)} or [],
    }


ITEMS = [
    item(
        31,
        {"en": "Belgium", "de": "Belgien", "ja": "ベルギー"},
        {"de": ["Königreich Belgien"], "en": ["BE"]},
        3,
        ["Q6256"],
    ),
    item(1490, {"ja": "東京", "en": "Tokyo"}, links=2),
    item(7, {"fr": "Rien"}),
]


def write(path, text):
    opened = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path


@pytest.mark.parametrize("ending", ["", ".gz", ".bz2"])
def test_a_dump_by_language(tmp_path, ending):
    file = write(tmp_path / f"dump.json{ending}", "[\n" + ",\n".join(json.dumps(i) for i in ITEMS) + "\n]\n")
    assert guess_format(file) == "wikidata"
    dump = WikidataDump(file, ["de", "en"])
    entities = [entity for _, entity, _ in dump]
    assert [entity.name for entity in entities] == ["Belgien", "Tokyo"]
    assert entities[0].aliases == ("Belgium", "Königreich Belgien", "BE")
    assert (entities[0].language, entities[0].alias_languages) == ("de", ("en", "de", "en"))
    assert (entities[0].popularity, entities[0].category, entities[0].description) == (3.0, "Q6256", "thing 31")
    assert (dump.without_label, dump.cut, dump.found) == (1, None, {"de": 1, "en": 2})
    kb = build_kb_from_file(file, tmp_path / "kb", languages=["ja"])
    assert [entity.name for entity in kb] == ["ベルギー", "東京"]
    assert kb.meta["left_out"] == {"without a label": 1}
    with pytest.raises(ValueError, match=r"no entity has a label in xx"):
        build_kb_from_file(file, tmp_path / "other", languages=["xx"])


def test_what_belongs_to_all_languages_stands_for_each(tmp_path):
    records = [item(1, {"mul": "Ada", "de": "Ada L."}, {"mul": ["A. L."]}), item(2, {"en": "Ada", "de": "Ada"})]
    file = write(tmp_path / "dump.json", "[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")
    first, second = (entity for _, entity, _ in WikidataDump(file, ["en", "de", "fr"]))
    assert (first.name, first.language) == ("Ada", "en fr")
    assert dict(zip(first.aliases, first.alias_languages, strict=True)) == {"Ada L.": "de", "A. L.": "mul"}
    assert (second.name, second.aliases, second.language) == ("Ada", (), "de en")


def test_mixed_scripts_link(tmp_path):
    file = write(tmp_path / "dump.json", "[\n" + ",\n".join(json.dumps(i) for i in ITEMS) + "\n]\n")
    linker = build_workspace(file, tmp_path / "p", languages=["en", "ja", "de"])
    links = linker.link(["東京", "ベルギー", "königreich belgien", "東京 tower"])
    assert [linker.kb.ids[row] for row in links.rows[:, 0]] == ["Q1490", "Q31", "Q31", "Q1490"]
    assert STEPS[links.kinds[3, 0]] == "bm25"


def test_a_dump_that_was_cut_keeps_what_was_read(tmp_path):
    text = "[\n" + ",\n".join(json.dumps(i) for i in ITEMS) + "\n]\n"
    for ending, cut in ((".json", text[: len(text) - 150].encode()), (".json.gz", gzip.compress(text.encode())[:-9])):
        file = tmp_path / f"cut{ending}"
        file.write_bytes(cut)
        dump = WikidataDump(file, ["en"])
        assert next(iter(dump))[1].name == "Belgium"
        assert len(list(dump)) == 2
        assert "cut" in dump.cut
    file.with_suffix("").write_text("[\n{nonsense},\n" + json.dumps(ITEMS[0]) + "\n]\n", encoding="utf-8")
    with pytest.raises(EntityFileError, match=r":2: expected an entity"):
        list(WikidataDump(file.with_suffix("")))


@pytest.mark.parametrize("languages", ["en", [], ["EN"], ["e n"]])
def test_what_is_no_language_is_refused(languages, tmp_path):
    with pytest.raises(ValueError, match="languages: expected"):
        WikidataDump(tmp_path / "x.json", languages)


def test_wordnet_s_own_files(tmp_path, monkeypatch):
    (tmp_path / "data.noun").write_text(
        "  1 This software\n"
        "01846331 05 n 01 duck 0 001 @ 01845720 n 0000 | small web-footed bird  \n"
        "02084071 05 n 03 dog 0 domestic_dog 0 Canis_familiaris 0 001 @ 02083346 n 0000 | a member of Canis  \n"
    )
    (tmp_path / "cntlist.rev").write_text("dog%1:05:00:: 1 42\nduck%1:05:00:: 1 4\n")
    (tmp_path / "noun.exc").write_text("dogges dog\n")
    entities = [entity for _, entity, _ in read_wordnet_nouns(tmp_path)]
    assert entities[1].aliases == ("domestic dog", "Canis familiaris")
    assert [(e.id, e.name, e.category, e.popularity) for e in entities] == [
        ("01846331-n", "duck", "animal", 4.0),
        ("02084071-n", "dog", "animal", 42.0),
    ]
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    assert find_wordnet() == tmp_path
    linker = build_workspace(tmp_path, tmp_path / "p")
    assert linker.kb.names[linker.link(["dogges"]).rows[0, 0]] == "dog"
    (tmp_path / "data.noun").write_text("01846331 05 n zz duck\n")
    with pytest.raises(EntityFileError, match=r"data.noun:1: expected a synset"):
        list(read_wordnet_nouns(tmp_path))
    for other in (tmp_path / "noun.exc", tmp_path / "elsewhere"):  # a file was "[Errno 20] Not a directory"
        with pytest.raises(FileNotFoundError, match=rf"{other.name} is no folder with data.noun; expected"):
            list(read_wordnet_nouns(other))


def test_a_file_with_fields_of_other_names_is_read(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"qid": "Q1", "label": "Wood"}\n{"qid": "Q2"}\n')
    (tmp_path / "a.csv").write_text("qid,label\nQ1,Wood\n")
    fields = {"id": "qid", "name": "label"}
    rows = read_jsonl(tmp_path / "a.jsonl", fields=fields)
    ((_, entity, _),) = read_csv(tmp_path / "a.csv", fields=fields)
    assert next(rows)[1] == entity == Entity("Q1", "Wood")
    with pytest.raises(EntityFileError, match=r"a.jsonl:2: label: missing; the fields are 'qid'"):
        next(rows)
    with pytest.raises(ValueError, match=r"fields: unknown \['title'\], expected a subset of"):
        list(read_csv(tmp_path / "a.csv", fields={"title": "label"}))


def test_lines_and_what_is_packed_have_limits(tmp_path, monkeypatch):
    row = '{"id": "Q1", "name": "Wood"}\n'
    (tmp_path / "a.jsonl").write_text(row + "x" * 500 + "\n")
    monkeypatch.setenv("OVEN_MAX_LINE", "100")
    with pytest.raises(EntityFileError, match=r"a.jsonl:2: a line of more than 100 characters; OVEN_MAX_LINE sets"):
        list(read_jsonl(tmp_path / "a.jsonl"))
    monkeypatch.setenv("OVEN_MAX_LINE", "none")
    with pytest.raises(ValueError, match="OVEN_MAX_LINE is 'none', expected a positive whole number"):
        list(read_jsonl(tmp_path / "a.jsonl"))
    monkeypatch.delenv("OVEN_MAX_LINE")
    monkeypatch.setattr(text_files, "_FREE", 10_000)
    monkeypatch.setenv("OVEN_MAX_UNPACKED", "3")
    for name, pack in (("b.jsonl.gz", gzip.compress), ("b.jsonl.bz2", bz2.compress)):
        (tmp_path / name).write_bytes(pack(b"\n" * 50_000))
        with pytest.raises(EntityFileError, match=r"unpacks to more than 10,000 characters; OVEN_MAX_UNPACKED"):
            list(read_jsonl(tmp_path / name))


def test_a_damaged_packed_file_is_told_with_its_line(tmp_path):
    whole = bytearray(gzip.compress(b"".join(b'{"id": "Q%d", "name": "n%d"}\n' % (at, at * at) for at in range(99))))
    whole[30:40] = bytes(10)  # zlib's own error, which is no OSError
    (tmp_path / "a.jsonl.gz").write_bytes(whole)
    with pytest.raises(EntityFileError, match=r"a.jsonl.gz:\d+: "):
        list(read_jsonl(tmp_path / "a.jsonl.gz"))


@pytest.mark.parametrize("value", ["1_0", "１０", True, "1,0"])
def test_a_popularity_in_other_digits_than_plain_ones_is_refused(tmp_path, value):
    (tmp_path / "e.jsonl").write_text(json.dumps({"id": "a", "name": "cat", "popularity": value}), encoding="utf-8")
    with pytest.raises(EntityFileError, match="popularity: expected a number, got"):
        list(read_jsonl(tmp_path / "e.jsonl"))
    if value == "1,0":
        with pytest.raises(EntityFileError, match="write a decimal comma as a point"):
            list(read_jsonl(tmp_path / "e.jsonl"))
    (tmp_path / "e.csv").write_text(f'id,name,popularity\na,cat,"{value}"\n', encoding="utf-8")
    with pytest.raises(EntityFileError, match="popularity: expected a number, got"):
        list(read_csv(tmp_path / "e.csv"))


def test_a_text_file_has_a_name_on_each_line(tmp_path):
    file = tmp_path / "names.txt"
    file.write_text("Duck\n\n  Île de Ré \n", encoding="utf-8")
    rows = list(read_entities(file))
    assert [(line, entity.id, entity.name) for line, entity, _ in rows] == [(1, "0", "Duck"), (3, "1", "Île de Ré")]
    file.write_bytes("Duck\nÎle\n".encode("latin-1"))
    with pytest.raises(EntityFileError, match=r"names\.txt:\d: expected UTF-8"):
        list(read_entities(file))


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.txt", "Münster\n"), ("a.csv", "id,name\n0,Münster\n"), ("a.jsonl", '{"id": "0", "name": "Münster"}\n')],
)
def test_a_byte_order_mark_is_no_letter_of_a_name(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert [(entity.id, entity.name) for _, entity, _ in read_entities(tmp_path / name)] == [("0", "Münster")]
