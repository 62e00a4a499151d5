"""A project folder: what lines get no answer and why, and indexes that follow the entities."""

from __future__ import annotations

import json

import pytest

from oven_retrieval import FolderError, KnowledgeBase, add_entities, build_kb, build_name_index, read_entities
from oven_retrieval.workspace import (
    LONGEST_NAME,
    add_to_workspace,
    build_workspace,
    link_lines,
    open_workspace,
    remove_from_workspace,
    update_workspace,
    verify_workspace,
)


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture
def project(tmp_path):
    source = write(tmp_path / "kb.jsonl", {"id": "1", "name": "Mandarin duck"}, {"id": "2", "name": "Wood"})
    build_workspace(source, tmp_path / "project")
    return tmp_path / "project"


def first(linker, *lines):
    return [record["entities"][0]["id"] if record["entities"] else None for record in link_lines(linker, lines)]


def test_lines_without_an_answer_say_why(project):
    records = list(link_lines(open_workspace(project), ["", " \t\r\n", "x" * (LONGEST_NAME + 1), "zzz", "wood\r\n"]))
    assert [record.get("problem") for record in records] == [
        "empty line",
        "empty line",
        "10,001 characters, expected at most 10,000",
        "no name is like it",
        None,
    ]
    assert len(records[2]["query"]) == 81
    assert records[4]["query"] == "wood"


@pytest.mark.parametrize("column", ["kb/name.utf8.bin", "kb/id.utf8.bin", "names/exact_row.bin"])
def test_damaged_bytes_are_named(project, column):
    assert verify_workspace(project) == ["kb", "names"]
    file = project / column
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    with pytest.raises(FolderError, match=rf"{column}: its bytes have changed since it was written"):
        verify_workspace(project)


def test_more_answers_than_entities_are_refused(project):
    with pytest.raises(ValueError, match=r"k: expected at most 2, the entities of .*kb, got 3"):
        next(link_lines(open_workspace(project), ["wood"], k=3))


def test_indexes_follow_the_entities(project, tmp_path):
    assert first(open_workspace(project, typos=True), "mandarin dukc", "gadget") == ["1", None]
    linker = add_to_workspace(write(tmp_path / "more.jsonl", {"id": "3", "name": "Golden Gate"}), project)
    assert first(linker, "goldne gate", "wood") == ["3", "2"]
    remove_from_workspace(["1"], project)
    assert first(open_workspace(project, typos=True), "mandarin dukc", "golden gate") == [None, "3"]
    assert first(open_workspace(project, typos=True), "goldne gate", "wood") == ["3", "2"]
    assert first(open_workspace(project), "goldne gate", "qqqq") == ["3", None]


def test_an_edit_that_was_interrupted_is_brought_to_its_end(project, tmp_path):
    more = write(tmp_path / "more.jsonl", {"id": "3", "name": "Golden Gate"})
    add_entities(KnowledgeBase(project / "kb"), read_entities(more))  # and then the process died
    with pytest.raises(FolderError, match="oven update"):
        open_workspace(project)
    update_workspace(project)
    assert first(open_workspace(project, typos=True), "goldne gate") == ["3"]


def test_a_project_without_ngrams(tmp_path):
    build_workspace(write(tmp_path / "kb.jsonl", {"id": "1", "name": "Wood"}), tmp_path / "project", ngrams=False)
    assert first(open_workspace(tmp_path / "project"), "wood", "wod") == ["1", None]
    with pytest.raises(ValueError, match="typos: this name index has no n-grams"):
        first(open_workspace(tmp_path / "project", typos=True), "wood")


GOODS = ["Bosch drill 55 inch", "Bosch saw 18V", "Wood duck", "Алёна", "東京タワー", "Weißbier 0,5L"]


def test_links_that_are_written_less_than_half_alike_are_weak(tmp_path):
    kb = build_kb(GOODS, tmp_path / "kb")
    linker = build_name_index(kb, tmp_path / "names")
    texts = [
        "Samsung TV 55 inch", "a lake with ducks and one wood of oaks", "bosh dril 55 inch", "wod duck", "Alena",
        "東京のタワー", "weissbier 0.5 l", "WOOD DUCK", "qqqq zzzz",
    ]  # fmt: skip
    records = list(link_lines(linker, texts))
    assert [[entity.get("weak", False) for entity in record["entities"]] for record in records] == [
        [True], [True], [False], [False], [False], [False], [False], [False], [],
    ]  # fmt: skip
    assert [[link.weak for link in kb.link(text)] for text in texts[:3]] == [[True], [True], [False]]
    strong = list(link_lines(linker, texts, drop_weak=True))
    assert strong[0] == {
        "query": "Samsung TV 55 inch",
        "entities": [],
        "problem": "only weak links: the best is 'Bosch drill 55 inch' (0)",
    }
    assert strong[2:] == records[2:]
    both = next(link_lines(linker, ["bosh dril 55 inch"], k=2, drop_weak=True))
    assert [entity["name"] for entity in both["entities"]] == ["Bosch drill 55 inch"]
    with pytest.raises(ValueError, match="names: expected the texts of 1 links of `link`, got 2"):
        linker.weak(["a", "b"], linker.link(["a"]))


@pytest.mark.parametrize("ngrams", [True, False])
def test_progress_of_a_build_numbers_all_its_phases(tmp_path, ngrams):
    source = write(tmp_path / "kb.jsonl", *({"id": str(i), "name": f"Duck {i}"} for i in range(5)))
    phases = {}
    build_workspace(
        source,
        tmp_path / "project",
        ngrams=ngrams,
        progress=lambda phase, done, total: phases.update({phase: (done, total)}),
    )
    trigrams = ["trigrams", "trigrams again"] if ngrams else []
    expected = ["entities", "names", "inflections", *trigrams, "words", "postings"]
    assert list(phases) == [f"{name} ({number} of {len(expected)})" for number, name in enumerate(expected, start=1)]
    assert set(phases.values()) == {(5, 5)}


def test_a_knowledge_base_of_nothing_is_one_line(tmp_path):
    (tmp_path / "one.jsonl").write_text('{"id": "Q1", "name": "wood"}\n')
    build_workspace(tmp_path / "one.jsonl", tmp_path / "project")
    linker = remove_from_workspace(["Q1"], tmp_path / "project")
    with pytest.raises(ValueError, match=r"project/kb: holds no entity; expected at least one to link names to"):
        next(link_lines(linker, ["wood"]))


def test_a_folder_without_a_knowledge_base_says_how_one_is_built(tmp_path):
    with pytest.raises(FolderError, match=r"nowhere: it holds no knowledge base; `oven build FILE --output .*nowhere`"):
        open_workspace(tmp_path / "nowhere")
