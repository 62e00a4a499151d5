"""Readers, filters and the knowledge base on disk."""

from __future__ import annotations

import gc
import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oven_retrieval import (
    Entity,
    EntityFileError,
    FolderError,
    KnowledgeBase,
    add_entities,
    build_kb,
    build_kb_from_file,
    build_linker,
    build_name_index,
    building,
    read_entities,
)
from oven_retrieval.filters import is_disambiguation, is_media, is_redirect
from oven_retrieval.folder_writer import Column
from oven_retrieval.readers import guess_format
from oven_retrieval.vectors import build_vectors

WIKI = [
    {"wikidata_id": "Q31", "wikipedia_title": "Belgium", "wikipedia_content": "Belgium is a country.",
     "wikipedia_summary": "A country.", "wikipedia_image_url": "https://example.org/be.png"},
    {"wikidata_id": "Q2", "wikipedia_title": "Mercury (disambiguation)", "wikipedia_content": "Mercury may refer to:"},
    {"wikidata_id": "Q3", "wikipedia_title": "Mercury", "wikipedia_content": "It most commonly may refer to: a, b"},
    {"wikidata_id": "Q4", "wikipedia_title": "Holland", "wikipedia_content": "#REDIRECT [[Netherlands]]"},
    {"wikidata_id": "Q5", "wikipedia_title": "File:Be.png", "wikipedia_content": ""},
    {"wikidata_id": "Q6", "wikipedia_title": "Sabatia campestris"},
]  # fmt: skip


def write_lines(path, records):
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def test_wiki6m_with_filters(tmp_path):
    path = write_lines(tmp_path / "Wiki6M_ver_1_0.jsonl", WIKI)
    assert guess_format(path) == "wiki6m"
    kb = build_kb_from_file(path, tmp_path / "kb", filters=["disambiguation", "redirects", "media"])
    assert list(kb.names) == ["Belgium", "Sabatia campestris"]
    assert kb.meta["left_out"] == {"disambiguation": 2, "redirects": 1, "media": 1}
    assert kb[0] == Entity("Q31", "Belgium", description="A country.", image="https://example.org/be.png")
    assert len(build_kb_from_file(path, tmp_path / "all")) == 6


def test_filters_leave_real_pages():
    assert not is_media(Entity("1", "Star Trek: Discovery"))
    assert is_media(Entity("1", "Template:Infobox"))
    assert not is_redirect(Entity("1", "Redirect"), "Redirect is a word.")
    assert not is_disambiguation(
        Entity("1", "Signs"), "Signs is a film. Its title may refer to the crop circles. It ran in 2002."
    )
    assert is_disambiguation(Entity("1", "Signs", category="Wikimedia disambiguation page"))


def test_csv_with_quotes_and_aliases(tmp_path):
    path = tmp_path / "kb.csv"
    path.write_text('id,name,aliases,popularity\n1,"A, ""b""\nc",x|y,3\n2,Плотина,,\n', encoding="utf-8")
    kb = build_kb_from_file(path, tmp_path / "kb")
    assert kb[0] == Entity("1", 'A, "b"\nc', aliases=("x", "y"), popularity=3.0)
    assert kb[1].name == "Плотина"


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_round_trip_of_jsonl(tmp_path, ending):
    records = [
        {
            "id": "a",
            "name": "東京",
            "aliases": ["Tokyo", "🗼"],
            "category": "city",
            "image": "t.png",
            "popularity": 2.5,
        },
        {"id": 7, "name": "हिन्दी", "description": "lang"},
    ]
    kb = build_kb_from_file(write_lines(tmp_path / f"kb{ending}", records), tmp_path / "kb")
    assert kb[0] == Entity("a", "東京", ("Tokyo", "🗼"), "", "city", "t.png", 2.5)
    assert kb[1] == Entity("7", "हिन्दी", description="lang")
    assert kb.rows(["7", "a", "b"]).tolist() == [1, 0, -1]
    assert KnowledgeBase(tmp_path / "kb", verify=True).hash == kb.hash


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", r"kb.jsonl:2: expected one JSON object per line"),
        ("[" * 100_000, r"kb.jsonl:2: expected one JSON object per line"),
        ("[1]", r"kb.jsonl:2: expected a JSON object, got list"),
        ('{"name": "x"}', r"kb.jsonl:2: id: missing; the fields are 'name'"),
        ('{"id": "x"}', r"kb.jsonl:2: name: missing"),
        ('{"id": "x", "name": " "}', r"kb.jsonl:2: name: expected a text that is not blank, got ' '"),
        ('{"id": "x", "name": ["y"]}', r"kb.jsonl:2: name: expected a text, got \['y'\]"),
        ('{"id": "x", "name": "y", "aliases": 3}', r"kb.jsonl:2: aliases: expected a list of texts, got 3"),
        ('{"id": "x", "name": "y", "popularity": "many"}', r"kb.jsonl:2: popularity: expected a number, got 'many'"),
        ('{"id": "x", "name": "y", "popularity": NaN}', r"kb.jsonl:2: popularity: expected a finite number, got nan"),
        ('{"id": "first", "name": "y"}', r"kb.jsonl:2: id: already used on line 1"),
    ],
)
def test_bad_lines_name_file_line_and_field(tmp_path, line, expected):
    path = tmp_path / "kb.jsonl"
    path.write_text('{"id": "first", "name": "ok"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=expected):
        build_kb_from_file(path, tmp_path / "kb")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kb.jsonl"]


def test_wiki_errors_name_the_file_s_own_field(tmp_path):
    path = write_lines(tmp_path / "w.jsonl", [{"wikidata_id": "Q1", "wikipedia_title": ""}])
    with pytest.raises(EntityFileError, match=r"w.jsonl:1: wikipedia_title: expected a text that is not blank, got ''"):
        list(read_entities(path))


def test_bytes_that_are_not_utf8_and_damaged_archives(tmp_path):
    (tmp_path / "kb.jsonl").write_bytes(b'{"id": "1", "name": "a"}\n{"id": "2", "name": "\xff"}\n')
    with pytest.raises(EntityFileError, match=r"kb.jsonl:\d: expected UTF-8"):
        list(read_entities(tmp_path / "kb.jsonl", "jsonl"))
    content = gzip.compress(b'{"id": "1", "name": "a"}\n' * 9)
    (tmp_path / "kb.jsonl.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(EntityFileError, match="damaged"):
        list(read_entities(tmp_path / "kb.jsonl.gz", "jsonl"))
    with pytest.raises(ValueError, match=r"expected a name that ends in .jsonl, .csv or .txt"):
        list(read_entities(tmp_path / "kb.xml"))
    with pytest.raises(ValueError, match="got 'xml'"):
        list(read_entities(tmp_path / "kb.jsonl", "xml"))


def test_ragged_csv_is_refused(tmp_path):
    (tmp_path / "kb.csv").write_text("id,name\n1,a,b\n", encoding="utf-8")
    with pytest.raises(EntityFileError, match=r"kb.csv:2: expected 2 cells, got more"):
        list(read_entities(tmp_path / "kb.csv"))


def test_a_folder_is_not_overwritten_by_accident(tmp_path):
    build_kb([Entity("1", "a")], tmp_path / "kb")
    with pytest.raises(FileExistsError, match="kb exists; expected a new folder"):
        build_kb([Entity("1", "b")], tmp_path / "kb")
    assert build_kb([Entity("1", "b")], tmp_path / "kb", overwrite=True)[0].name == "b"
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileExistsError, match=r"holds no manifest.json: it is not overwritten"):
        build_kb([Entity("1", "b")], tmp_path / "mine", overwrite=True)


def test_a_build_that_dies_leaves_the_old_folder(tmp_path):
    def dying():
        yield Entity("1", "b")
        raise KeyboardInterrupt

    build_kb([Entity("1", "a")], tmp_path / "kb")
    with pytest.raises(KeyboardInterrupt):
        build_kb(dying(), tmp_path / "kb", overwrite=True)
    assert KnowledgeBase(tmp_path / "kb", verify=True)[0].name == "a"
    assert [p.name for p in tmp_path.iterdir()] == ["kb"]


def test_what_a_killed_process_left_is_cleared(tmp_path):
    (tmp_path / ".kb.partial").mkdir()
    (tmp_path / ".kb.partial" / "name.utf8.bin").write_bytes(b"half")
    assert len(build_kb([Entity("1", "a")], tmp_path / "kb")) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["kb"]


def test_folders_of_the_users_that_are_called_alike_stay(tmp_path):
    mine = [tmp_path / f"kb.{ending}" for ending in ("partial", "old", "new", "work")]
    for folder in mine:
        folder.mkdir()
        (folder / "thesis.txt").write_text("mine")
    kb = build_kb([Entity("1", "a")], tmp_path / "kb")
    build_kb([Entity("1", "b")], tmp_path / "kb", overwrite=True)
    add_entities(kb, [Entity("2", "c")])
    assert [(folder / "thesis.txt").read_text() for folder in mine] == ["mine"] * 4
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "kb", *mine])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_disk_that_fills_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("oven_retrieval.folder_writer.Column", lambda path, *rest: Column(Path("/dev/full"), *rest))
    with pytest.raises(OSError, match="No space left"):
        build_kb([Entity("1", "a")], tmp_path / "kb")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("column", ["id", "name"])
def test_an_answer_is_not_made_of_bytes_that_were_changed(tmp_path, column):
    """Of equal size, and without `verify`: the linker answered with another entity's name."""
    kb = build_kb([Entity(f"Q{row}", f"name{row}") for row in range(9)], tmp_path / "kb")
    linker = build_linker(kb)
    file = tmp_path / "kb" / f"{column}.utf8.bin"
    file.write_bytes(file.read_bytes().replace(b"7", b"8"))
    damaged = KnowledgeBase(tmp_path / "kb")
    assert linker.link(["name7"]).rows[0, 0] == 7
    for look in (lambda: damaged.label(7), lambda: damaged[7], lambda: getattr(damaged, f"{column}s")[7]):
        with pytest.raises(
            FolderError, match=rf"{column}\.utf8\.bin, row 7: its bytes have changed since it was written"
        ):
            look()
    assert damaged.label(6) == ("Q6", "name6")


def test_texts_that_are_no_utf8_any_more_name_their_file(tmp_path):
    build_kb([Entity(f"Q{row}", f"name{row}", description="zebra") for row in range(9)], tmp_path / "kb")
    file = tmp_path / "kb" / "description.utf8.bin"
    file.write_bytes(file.read_bytes().replace(b"z", b"\xff"))
    damaged = KnowledgeBase(tmp_path / "kb")
    with pytest.raises(FolderError, match=r"description\.utf8\.bin, row 3: its bytes have changed .* b'\\xffebra'"):
        _ = damaged[3]
    with pytest.raises(FolderError, match=r"description\.utf8\.bin, rows 0 to 8: its bytes have changed"):
        list(damaged.descriptions.blocks())


def test_damage_is_found(tmp_path):
    build_kb([Entity("1", "abc"), Entity("2", "d")], tmp_path / "kb")
    file = tmp_path / "kb" / "name.utf8.bin"
    file.write_bytes(b"abXd")
    KnowledgeBase(tmp_path / "kb")
    with pytest.raises(FolderError, match=r"name.utf8.bin: its bytes have changed"):
        KnowledgeBase(tmp_path / "kb", verify=True)
    file.write_bytes(b"ab")
    with pytest.raises(FolderError, match=r"name.utf8.bin: expected 4 bytes, found 2"):
        KnowledgeBase(tmp_path / "kb")
    file.unlink()
    with pytest.raises(FolderError, match="found no file"):
        KnowledgeBase(tmp_path / "kb")
    manifest = tmp_path / "kb" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("oven-knowledge-base", "other"))
    with pytest.raises(FolderError, match="expected a 'oven-knowledge-base' folder of format 1, got 'other'"):
        KnowledgeBase(tmp_path / "kb")
    manifest.write_text("{}")
    with pytest.raises(FolderError, match="not a manifest"):
        KnowledgeBase(tmp_path / "kb")
    with pytest.raises(FolderError, match=r"expected a folder with manifest.json"):
        KnowledgeBase(tmp_path / "nothing")


def test_an_unknown_filter_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"filters: expected some of .* got \['adult'\]"):
        build_kb([], tmp_path / "kb", filters=["adult"])


texts = st.text(max_size=12)
names = texts.filter(lambda text: text.strip() != "")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.builds(
            Entity, names, names, st.lists(names, max_size=3).map(tuple), texts, texts, st.none() | names,
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        unique_by=lambda entity: entity.id,
        max_size=8,
    )
)  # fmt: skip
def test_any_entities_survive_the_disk(tmp_path_factory, entities):
    kb = build_kb(entities, tmp_path_factory.mktemp("any") / "kb")
    assert [kb[i] for i in range(len(kb))] == entities
    assert [name for block in kb.names.blocks(3) for name in block] == [entity.name for entity in entities]
    assert kb.rows([entity.id for entity in entities]).tolist() == list(range(len(entities)))


def test_names_in_memory_are_linked_as_by_a_linker():
    names = ["Wood Wood", "Wood", "Golden Gate", "Golden retriever"]
    kb = KnowledgeBase.from_names(name for name in names)
    queries = ["wood", "golden", "Golden Gates", "qqq"]
    links = build_linker(kb).link(queries, 3)
    rows, scores = kb.retrieve(queries, 3)
    np.testing.assert_array_equal(rows, links.rows)
    np.testing.assert_array_equal(scores, links.scores)
    for query, expected in zip(queries, rows.tolist(), strict=True):
        linked = kb.link(query, 3)
        assert [int(entity.id) for entity in linked] == [row for row in expected if row >= 0]
        assert all(names[int(entity.id)] == entity.name for entity in linked)
    assert kb.link("wood")[0].step == "folded name"
    assert kb.link("qqq") == []
    folder = kb.path.parent
    assert folder.is_dir()
    del kb, links
    gc.collect()
    assert not folder.exists()


def test_names_in_memory_that_are_none():
    with pytest.raises(TypeError, match="names: expected texts, got one text 'Wood'"):
        KnowledgeBase.from_names("Wood")
    with pytest.raises(ValueError, match=r"name"):
        KnowledgeBase.from_names(["Wood", " "])
    with pytest.raises(TypeError, match=r"name: expected one text, got \['Wood'\]; `retrieve` takes many"):
        KnowledgeBase.from_names(["Wood"]).link(["Wood"])


def test_what_is_on_disk_is_pickled_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kb = build_kb((Entity(f"Q{i}", f"name {i} of something") for i in range(2000)), "kb")
    linker = build_name_index(kb, "names")
    linker.typos = True
    store = build_vectors(lambda a, b: np.eye(2000, 8)[a:b], 2000, "vectors", kb=kb.hash, encoder="one-hot")
    monkeypatch.chdir("/")
    pickled = [pickle.dumps(item) for item in (kb, linker, store)]
    assert max(map(len, pickled)) < 1500
    again, linked, vectors = (pickle.loads(item) for item in pickled)  # our own bytes
    assert again[1999].id == "Q1999"
    assert linked.typos
    assert linked.link(["name 7 of somethign"], k=3).ids() == linker.link(["name 7 of somethign"], k=3).ids()
    assert vectors.rows(3, 4).tolist() == store.rows(3, 4).tolist()
    add_entities(again, [Entity("new", "another name")])
    for item in pickled[:2]:
        with pytest.raises(FolderError, match=r"written again after it was pickled|built from the entities"):
            pickle.loads(item)


def test_names_and_dictionaries_are_understood_and_other_rows_refused(tmp_path):
    kb = build_kb(["Duck", "Goose"], tmp_path / "a")
    assert [(entity.id, entity.name) for entity in add_entities(kb, ["Teal", Entity("Q1", "Wood")])] == [
        ("0", "Duck"), ("1", "Goose"), ("2", "Teal"), ("Q1", "Wood")]  # fmt: skip
    rows = [{"id": 7, "name": "Gift", "aliases": {"en": ["Poison"]}, "popularity": "3"}, {"id": "b", "name": "Oslo"}]
    assert build_kb(rows, tmp_path / "b")[0] == Entity(
        "7", "Gift", aliases=("Poison",), alias_languages=("en",), popularity=3.0
    )
    for number, (wrong, kind, message) in enumerate(
        [
            ("Duck", TypeError, "rows: expected many entities or names, got one str 'Duck'"),
            ({"id": "1", "name": "Duck"}, TypeError, "rows: expected many entities or names, got one dict"),
            (["Duck", " "], ValueError, "entities:2: name: expected a text that is not blank, got ' '"),
            ([{"name": "Duck"}], ValueError, "entities:1: id: missing; the fields are 'name'"),
            ([7], TypeError, "entities:1: expected an Entity, a name or a dictionary, got 7"),
            ([("Q1", "Duck")], TypeError, r"entities:1: expected .* got \('Q1', 'Duck'\)"),
        ]
    ):
        with pytest.raises(kind, match=message):
            build_kb(wrong, tmp_path / f"wrong{number}")
        assert not (tmp_path / f"wrong{number}").exists()


@pytest.mark.parametrize("text", ["Q1,Duck\n", "Q1,Duck\nQ2,Goose\n", "id,title\nQ1,Duck\n", "", "\n"])
def test_a_csv_file_without_a_header_is_refused(tmp_path, text):
    (tmp_path / "kb.csv").write_text(text)
    with pytest.raises(EntityFileError, match=r"kb.csv:1: expected a header with id and name; the first line is "):
        build_kb_from_file(tmp_path / "kb.csv", tmp_path / "kb")


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".csv"])
def test_progress_of_a_file_expects_as_many_as_there_will_be(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(building, "_PROGRESS_EVERY", 5_000)
    count, calls = 25_000, []
    if ending == ".csv":
        text = "id,name\n" + "".join(f"{i},name of number {i}\n" for i in range(count))
        (tmp_path / "kb.csv").write_text(text)
    else:
        write_lines(tmp_path / f"kb{ending}", ({"id": i, "name": f"name of number {i}"} for i in range(count)))
    build_kb_from_file(
        tmp_path / f"kb{ending}", tmp_path / "kb", progress=lambda phase, done, total: calls.append((done, total))
    )
    assert [done for done, _ in calls] == [*range(5_000, count + 1, 5_000), count]
    assert all(0.6 * count < total < 1.7 * count for _, total in calls)  # packed files are read ahead
    assert calls[-1] == (count, count)


def test_names_in_memory_are_pickled_whole():
    kb = KnowledgeBase.from_names(["Wood duck", "Goose"])
    assert kb.link("goose")[0].id == "1"
    again = pickle.loads(pickle.dumps(kb))
    linker = pickle.loads(pickle.dumps(build_linker(kb)))
    del kb
    gc.collect()
    assert again.link("goose")[0].name == "Goose"
    assert linker.link(["geese"]).ids() == [["1"]]


def test_a_row_that_is_not_whole_is_refused(tmp_path):
    """It was row 0."""
    with pytest.raises(TypeError, match=r"row is 0\.5; expected a whole number"):
        build_kb(["Duck", "Goose"], tmp_path / "kb")[0.5]
