"""The human set: what annotators agree on, and the page that asks them."""

from __future__ import annotations

import json

import pytest

from oven_retrieval import Entity, EntityFileError, build_kb
from oven_retrieval.construction.annotation import (
    Annotation,
    agreed,
    read_annotations,
    write_annotation_page,
    write_references,
)
from oven_retrieval.evaluation.files import Reference, read_references
from oven_retrieval.models import ImageFolder


@pytest.fixture
def kb(tmp_path):
    names = ["Tornado", "Panavia Tornado", "Love", "Wood <b>duck"]
    entities = (Entity(f"Q{i}", name, description="A thing.") for i, name in enumerate(names))
    return build_kb(entities, tmp_path / "p" / "kb")


def question(number=0, entity="Q0"):
    return Reference(f"d{number}", entity, "test_unseen", f"i{number}", "what is it?")


def note(name, *, entity=None, present=True, text="which one is in the sky?", data_id="d0"):
    return Annotation(name, data_id, entity is None, entity or "", present, text)


@pytest.mark.parametrize(
    ("notes", "expected", "reason"),
    [
        ([note("a"), note("b"), note("c")], ("Q0", "which one is in the sky?"), "questions"),
        ([note("a", entity="Q1"), note("b"), note("c", text="what blows?")], ("Q0", "which one is in the sky?"), None),
        ([note("a"), note("b", entity="Q1", text="which jet?"), note("c", entity="Q1")], ("Q1", "which jet?"), None),
        ([note("a"), note("b", entity="Q1"), note("c", entity="Q2")], None, "no agreement on the entity"),
        ([note("a"), note("b", present=False), note("c", present=False)], None, "answer not in the image"),
        ([note("a"), note("b")], None, "fewer than 3 annotations"),
        ([note("a", text="a tornado?"), note("b", text=""), note("c", text="what wind?")], ("Q0", "what wind?"), None),
        ([note(name, text="is it a TORNADO") for name in "abc"], ("Q0", "what is it?"), None),
    ],
)
def test_what_annotators_agree_on(kb, notes, expected, reason):
    remaining, report = agreed([question()], notes, kb)
    assert [(item.entity_id, item.question) for item in remaining] == ([expected] if expected else [])
    assert reason is None or report[reason] == 1
    assert report.get("entity corrected", 0) == (expected is not None and expected[0] != "Q0")


def test_annotations_of_nothing_that_is_there_are_refused(kb, tmp_path):
    with pytest.raises(ValueError, match="data_id: 'd9' is annotated and not among the questions"):
        agreed([question()], [note("a", data_id="d9")], kb)
    with pytest.raises(ValueError, match="entity_id: 'Q99', of 'd0', is not in"):
        agreed([question()], [note(name, entity="Q99") for name in "abc"], kb)
    row = {"annotator": "a", "data_id": "d0", "link": "right", "entity_id": None, "present": True, "question": "?"}
    for change, message in (
        ({"link": "maybe"}, "notes.jsonl:1: link, present: expected right or wrong"),
        ({"present": "yes"}, "notes.jsonl:1: link, present: expected"),
        ({"annotator": 7}, "notes.jsonl:1: annotator: expected a text"),
    ):
        (tmp_path / "notes.jsonl").write_text(json.dumps(row | change))
        with pytest.raises(EntityFileError, match=message):
            read_annotations([tmp_path / "notes.jsonl"])
    (tmp_path / "notes.jsonl").write_text(json.dumps(row) + "\n" + json.dumps(row))
    with pytest.raises(EntityFileError, match=r"notes.jsonl:2: data_id: 'a' has annotated 'd0' already"):
        read_annotations([tmp_path / "notes.jsonl"])


def test_the_page_shows_and_asks(kb, tmp_path):
    pytest.importorskip("jinja2")
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "images").mkdir()
    image.new("RGB", (900, 30), (200, 10, 10)).save(tmp_path / "images" / "i0.png")
    rows = [question(0, "Q3"), question(1, "Q77")]
    page = write_annotation_page(tmp_path / "page.html", rows, kb, ImageFolder(tmp_path / "images")).read_text()
    assert page.count("<form ") == 2
    assert page.count("data:image/jpeg") == 1
    assert "Wood &lt;b&gt;duck" in page
    assert "<b>duck" not in page
    assert "not in the knowledge base" in page
    assert "https://www.wikidata.org/wiki/Q3" in page


def test_from_a_page_to_a_human_set_by_commands(kb, tmp_path, capsys, monkeypatch):
    pytest.importorskip("typer")
    pytest.importorskip("jinja2")
    from oven_retrieval.cli import main

    def oven(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        return ended.value.code or 0, *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    row = {"data_id": "d0", "image_id": "i0", "question": "what?", "entity_id": "Q0", "data_split": "test_unseen"}
    (tmp_path / "test.jsonl").write_text(json.dumps(row) + "\n")
    assert oven("annotate", "test.jsonl", "--kb", "p", "--output", "page.html")[:2] == (0, "page.html: 1 question\n")
    for name in "abc":
        saved = {"annotator": name, "data_id": "d0", "link": "wrong", "entity_id": "Q1", "present": True}
        saved["question"] = "?"
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(saved) + "\n")
    files = [f"{name}.jsonl" for name in "abc"]
    status, out, err = oven("agree", "test.jsonl", *files, "--kb", "p", "--output", "human.jsonl")
    assert status == 0, err
    assert "1 entity corrected" in out
    assert read_references(tmp_path / "human.jsonl") == [
        Reference("d0", "Q1", "human_unseen", "i0", "?", "Panavia Tornado")
    ]
    status, _, err = oven("agree", "test.jsonl", *files[:2], "--kb", "p", "--output", "other.jsonl")
    assert (status, err) == (2, "oven: agree: no question is left: 1 fewer than 3 annotations\n")
    assert not (tmp_path / "other.jsonl").exists()


def test_a_question_with_half_a_letter_has_a_page_and_is_written(tmp_path):
    kb = build_kb([Entity("1", "duck")], tmp_path / "kb")
    questions = [Reference("d1", "1", "val_seen", "i1", "what\ud800?")]
    page = write_annotation_page(tmp_path / "page.html", questions, kb)
    assert "what??" in page.read_text(encoding="utf-8")
    file = write_references(tmp_path / "human.jsonl", questions)
    assert read_references(file)[0].question == "what\ud800?"
