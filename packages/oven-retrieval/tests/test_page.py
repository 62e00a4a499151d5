"""Kinds of errors, the results page and images."""

from __future__ import annotations

import base64
import json
import math
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

from oven_retrieval import Entity, build_kb
from oven_retrieval.evaluation import (
    KINDS,
    Prediction,
    Reference,
    error_kinds,
    evaluate_splits,
    kind_shares,
    outcomes,
    write_page,
)
from oven_retrieval.pictures import read_rgb

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def kb(tmp_path_factory):
    entities = [
        Entity("comma", "Hoary comma", category="butterfly", popularity=10),
        Entity("butterfly", "Butterfly", category="insect"),
        Entity("peacock", "Peacock", ("Inachis io",), category="butterfly"),
        Entity("bird", "Indian peafowl", ("peacock",), category="bird"),
        Entity("atr", "ATR 42", description="The ATR 42 is a turboprop airliner. It was built in Toulouse.",
               category="aircraft"),
        Entity("turboprop", "Turboprop", description="A turboprop is an engine."),
        Entity("toulouse", "Toulouse", description="A city."),
        Entity("race", "Barrel racing", category="sport"),
        Entity("racer", "E. W. (barrel racer)", category="person"),
        Entity("angle", "Angle <i>&amp;", category='"><script>alert(1)</script>'),
    ]  # fmt: skip
    return build_kb(entities, tmp_path_factory.mktemp("kb") / "kb")


def error_kind(kb, truth, answers):
    marked = SimpleNamespace(references=[Reference("a", truth, "val_seen")], answers=[answers])
    return error_kinds(marked, kb)[0]


@pytest.mark.parametrize(
    ("truth", "answers", "kind"),
    [
        ("comma", ("comma",), "correct"),
        ("comma", (), "no answer"),
        ("comma", ("",), "no answer"),
        ("comma", ("comma", "peacock"), "several answers"),
        ("comma", ("Q0",), "outside"),
        ("Q0", ("comma",), "unknown truth"),
        ("peacock", ("bird",), "confusable name"),
        ("comma", ("butterfly",), "too generic"),  # its category
        ("butterfly", ("comma",), "too specific"),
        ("atr", ("turboprop",), "too generic"),  # in the first sentence of its description
        ("atr", ("toulouse",), "miscellaneous"),  # only in the second
        ("comma", ("peacock",), "wrong but relevant"),
        ("race", ("racer",), "other category"),
        ("race", ("turboprop",), "miscellaneous"),
    ],
)
def test_kinds(kb, truth, answers, kind):
    assert error_kind(kb, truth, answers) == kind


def marked_with_scores():
    references = [
        Reference("a/0", "comma", "val_seen", "i0", "What <b>is</b> this?"),
        Reference("a/1", "peacock", "val_unseen", "i1", "?"),
        Reference("a/2", "race", "val_unseen", "../secret", "?"),
        Reference("a/3", "angle", "val_seen", "i3", "?"),
        Reference("a/4", "comma", "val_seen", "i4", "?"),
    ]
    predictions = [
        Prediction("a/0", "peacock", 0.5),
        Prediction("a/1", "peacock", 0.7),
        Prediction("a/2", "racer", 0.2),
        Prediction("a/3", "<img src=x>", 0.9),
    ]
    return references, predictions


def test_shares_of_kinds(kb):
    kinds = error_kinds(outcomes(*marked_with_scores()), kb)
    assert kinds == ["wrong but relevant", "correct", "other category", "outside", "no answer"]
    shares = kind_shares(kinds)
    assert [share.kind for share in shares] == [kind for kind in KINDS if kind in kinds]
    assert sum(share.questions for share in shares) == 5
    assert shares[0].share.value == 20
    assert kind_shares([]) == []


class Page(HTMLParser):
    """Tags, attributes and texts of a page; wrongly nested tags are an error."""

    VOID = frozenset({"meta", "img"})

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.texts = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append(text)


def page_of(folder, splits, **options):
    pytest.importorskip("jinja2")
    marked = {name: outcomes(*split) for name, split in splits.items()}
    write_page(folder / "page.html", marked, evaluate_splits(splits), **options)
    return Page((folder / "page.html").read_text(encoding="utf-8"))


@pytest.fixture
def images(tmp_path):
    """Images of one question and, outside, of another."""
    (tmp_path / "images" / "07").mkdir(parents=True)
    (tmp_path / "images" / "07" / "i0.png").write_bytes(PIXEL)
    (tmp_path / "images" / "i3.png").write_bytes(b"no image")
    (tmp_path / "secret.png").write_bytes(PIXEL)
    return tmp_path / "images"


def test_a_page_is_whole_safe_and_needs_nothing_else(kb, images, tmp_path):
    split = {"entity": marked_with_scores()}
    page = page_of(tmp_path, split, kb=kb, images=images, title="<script>x")
    tags = [tag for tag, _ in page.found]
    assert "script" not in tags
    for _, attributes in page.found:
        assert not any(name.startswith("on") for name in attributes)
        assert all(value.startswith("data:") for name, value in attributes.items() if name in ("src", "href"))
    assert "http" not in re.sub(r"http-equiv", "", (tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "<script>x" in page.texts  # as a text
    assert "What <b>is</b> this?" in page.texts
    assert tags.count("img") == 1  # i0; what cannot be read is left out, and nothing outside the folder is shown
    assert tags.count("article") == 3
    assert [text for text in page.texts if text in KINDS][-3:] == ["outside", "wrong but relevant", "other category"]
    assert "from 0" in page.texts  # accuracy by popularity
    assert sorted(path.name for path in tmp_path.glob("*.html*")) == ["page.html"]


def test_the_surest_mistakes_come_first(kb, tmp_path, monkeypatch):
    monkeypatch.setattr("oven_retrieval.evaluation.page._EXAMPLES", 1)
    page = page_of(tmp_path, {"entity": marked_with_scores()}, kb=kb)
    assert "a/3 · seen" in page.texts  # outside, score .9; one kind after another
    references = [Reference(str(i), "comma", ["val_seen", "val_unseen"][i % 2]) for i in range(9)]
    predictions = [Prediction(str(i), "peacock", i / 10) for i in range(9)]
    monkeypatch.setattr("oven_retrieval.evaluation.page._EXAMPLES", 2)
    texts = page_of(tmp_path, {"entity": (references, predictions)}).texts
    assert [text for text in texts if " · " in text and "een" in text][:2] == ["8 · seen", "7 · unseen"]


def test_a_page_of_two_splits_without_a_knowledge_base(tmp_path):
    split = marked_with_scores()
    page = page_of(tmp_path, {"query": split, "entity": split})
    assert "95 % intervals" in " ".join(page.texts)
    assert {"both", "wrong"} <= set(page.texts)
    assert not set(page.texts) & set(KINDS)


@pytest.mark.parametrize("score", ["high", True, math.nan, 10**400, [1]])
def test_a_score_that_is_no_number_is_refused(tmp_path, score):
    from oven_retrieval.evaluation.files import read_predictions

    file = tmp_path / "answers.jsonl"
    file.write_text(json.dumps({"data_id": "1", "pred_entity_id": "Q1", "score": score}) + "\n")
    with pytest.raises(ValueError, match=r"answers.jsonl:1: score: expected a number"):
        read_predictions(file)


def test_pictures_are_shown_as_cameras_and_programs_make_them(tmp_path):
    pil = pytest.importorskip("PIL.Image")
    turned = pil.Exif()
    turned[0x0112] = 6
    pil.new("RGB", (6, 4)).save(tmp_path / "a.jpg", exif=turned)
    assert read_rgb(tmp_path / "a.jpg").size == (4, 6)
    pil.new("RGBA", (1, 1), (0, 0, 0, 0)).save(tmp_path / "b.png")
    assert read_rgb(tmp_path / "b.png").getpixel((0, 0)) == (255, 255, 255)
    pil.fromarray(np.array([[0, 25700, 65535]], np.uint16)).save(tmp_path / "c.png")
    assert np.asarray(read_rgb(tmp_path / "c.png"))[0, :, 0].tolist() == [0, 100, 255]
    pil.fromarray(np.array([[-1.0, 2.0]], np.float32)).save(tmp_path / "d.tif")
    with pytest.raises(ValueError, match="values from -1 to 2"):
        read_rgb(tmp_path / "d.tif")


def test_a_picture_that_asks_for_too_much_memory_is_an_error_of_that_picture(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")

    def greedy(*_, **__):
        raise MemoryError

    image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    monkeypatch.setattr("PIL.ImageOps.exif_transpose", greedy)
    with pytest.raises(ValueError, match="more memory than there is"):
        read_rgb(tmp_path / "a.png")


def test_a_picture_whose_header_confuses_pillow_is_an_error_of_that_picture(tmp_path):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (4, 4)).save(tmp_path / "a.tif")
    content = (tmp_path / "a.tif").read_bytes()
    strips = b"\x11\x01\x04\x00"  # where they begin, as a whole number: as a fraction, Pillow trips over it
    assert strips in content
    (tmp_path / "a.tif").write_bytes(content.replace(strips, b"\x11\x01\x05\x00"))
    with pytest.raises(ValueError, match="it is damaged"):
        read_rgb(tmp_path / "a.tif")


def test_every_sixteen_bit_value_is_the_nearest_of_eight(tmp_path):
    image = pytest.importorskip("PIL.Image")
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    image.fromarray(values).save(tmp_path / "all.png")
    expected = np.rint(values / 257)
    assert np.array_equal(np.asarray(read_rgb(tmp_path / "all.png"))[..., 0], expected)
