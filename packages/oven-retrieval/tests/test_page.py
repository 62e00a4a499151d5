"""Kinds of errors, figures and the results page."""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from html.parser import HTMLParser
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from oven_retrieval import Entity, build_kb
from oven_retrieval.evaluation import (
    KINDS,
    Bin,
    Estimate,
    PageSource,
    Prediction,
    Reference,
    SizePoint,
    error_kinds,
    evaluate_splits,
    kind_shares,
    near_by_vectors,
    outcomes,
    popularity_figure,
    read_sizes,
    results_page,
    size_figure,
    write_page,
)
from oven_retrieval.evaluation.pictures import find_picture, picture_data
from oven_retrieval.pictures import read_rgb
from oven_retrieval.vectors import ArrayRows

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


def error_kind(kb, truth, answers, **options):
    marked = SimpleNamespace(references=[Reference("a", truth, "val_seen")], answers=[answers])
    return error_kinds(marked, kb, **options)[0]


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


def test_kinds_with_more_knowledge(kb):
    hypernyms = {"race": frozenset({"turboprop"})}
    assert error_kind(kb, "race", ("turboprop",), hypernyms=hypernyms) == "too generic"
    assert error_kind(kb, "turboprop", ("race",), hypernyms=hypernyms) == "too specific"
    rows = kb.rows(["racer", "race"]).tolist()
    assert error_kind(kb, "race", ("racer",), near=lambda *pair: list(pair) == rows) == "near"


def test_near_is_what_few_random_pairs_are():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 4))
    live = np.arange(0, 200, 2)
    near = near_by_vectors(ArrayRows(rows), live, share=0.05)
    units = rows[live] / np.linalg.norm(rows[live], axis=1, keepdims=True)
    cosines = units @ units.T
    pairs = np.array([[near(int(a), int(b)) for b in live] for a in live])
    different = ~np.eye(len(live), dtype=bool)
    assert 0.03 < pairs[different].mean() < 0.07
    assert cosines[different & pairs].min() > cosines[different & ~pairs].max()
    for options, message in (({"share": 1.0}, "share: expected above 0"), ({"live": live[:1]}, "at least two")):
        with pytest.raises(ValueError, match=message):
            near_by_vectors(ArrayRows(rows), **{"live": live, **options})


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

    VOID = frozenset({"meta", "img", "br", "line", "rect", "circle", "path", "polyline"})

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


@pytest.fixture
def source(kb, tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "i0.png").write_bytes(PIXEL)
    (tmp_path / "secret.png").write_bytes(PIXEL)
    split = marked_with_scores()
    sizes = [SizePoint(10, Estimate(40, 35, 45)), SizePoint(1000, Estimate(20, 15, 25))]
    return PageSource({"entity": outcomes(*split)}, evaluate_splits({"entity": split}), kb, tmp_path / "images", sizes)


def test_a_page_is_whole_safe_and_needs_nothing_else(source, tmp_path):
    write_page(tmp_path / "page.html", source, title="<script>x")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    tags = [tag for tag, _ in page.found]
    assert "script" not in tags
    for _, attributes in page.found:
        assert not any(name.startswith("on") for name in attributes)
        assert all(value.startswith("data:") for name, value in attributes.items() if name in ("src", "href"))
    assert "http" not in re.sub(r"http-equiv", "", text)
    assert "<script>x" in page.texts  # as a text
    assert "What <b>is</b> this?" in page.texts
    assert tags.count("img") == 1  # i0; nothing outside the folder
    assert tags.count("svg") == 3
    assert tags.count("article") == 3
    assert [text for text in page.texts if text in KINDS][-3:] == ["outside", "wrong but relevant", "other category"]
    assert write_page(tmp_path / "page.html", source, examples=0) is None
    assert "<article" not in (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="examples: expected at least 0, got -1"):
        write_page(tmp_path / "page.html", source, examples=-1)
    assert sorted(path.name for path in tmp_path.glob("*.html*")) == ["page.html"]


def test_the_surest_mistakes_come_first(source):
    page = Page(results_page(source, examples=1))
    assert "a/3 · seen" in page.texts  # outside, score .9; one kind after another
    references = [Reference(str(i), "comma", ["val_seen", "val_unseen"][i % 2]) for i in range(9)]
    predictions = [Prediction(str(i), "peacock", i / 10) for i in range(9)]
    split = (references, predictions)
    made = PageSource({"entity": outcomes(*split)}, evaluate_splits({"entity": split}))
    assert [text for text in Page(results_page(made, examples=2)).texts if " · " in text and "een" in text][:2] == [
        "8 · seen",
        "7 · unseen",
    ]


def test_a_page_of_two_splits_without_a_knowledge_base(source):
    split = marked_with_scores()
    splits = {"query": split, "entity": split}
    made = PageSource({name: outcomes(*s) for name, s in splits.items()}, evaluate_splits(splits, confidence=0.9))
    page = Page(results_page(made))
    assert "harmonic mean of both splits, 90 % interval" in " ".join(page.texts)
    assert "wrong" in page.texts
    assert [tag for tag, _ in page.found].count("svg") == 2  # the surest answers of each split, nothing else


def test_figures_are_well_formed_and_to_scale():
    bins = [
        Bin(0, 100, 5, Estimate(20, 10, 30)),
        Bin(100, 1000, 5, Estimate(40, 30, 50)),
        Bin(1000, math.inf, 5, Estimate(0, 0, 5)),
    ]
    tree = ElementTree.fromstring(popularity_figure(bins))  # our own text
    heights = [float(bar.get("height")) for bar in tree.iter("rect")]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert heights[2] == pytest.approx(0, abs=0.1)
    assert [t.text for t in tree.iter("text") if t.text and "and more" in t.text] == ["1k and more"]
    points = [SizePoint(size, Estimate(50, 40, 60)) for size in (10_000, 100, 1000)]
    tree = ElementTree.fromstring(size_figure(points))  # our own text
    xs = [float(dot.get("cx")) for dot in tree.iter("circle")]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert len(list(ElementTree.fromstring(size_figure(points[:1])).iter("circle"))) == 1  # our own text
    for draw in (popularity_figure, size_figure):
        with pytest.raises(ValueError, match="expected at least one, got none"):
            draw([])


def test_sizes_from_a_file(tmp_path):
    file = tmp_path / "sizes.json"
    file.write_text(json.dumps([{"size": 10, "accuracy": [5, 4, 6]}]))
    assert read_sizes(file) == [SizePoint(10, Estimate(5, 4, 6))]
    for text, message in (
        ("{", "sizes.json:1: expected a JSON list"),
        ('[{"size": 10}]', "entry 0: expected"),
        ('[{"size": 10, "accuracy": [5, 6, 4]}]', "entry 0: expected"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_sizes(file)


def test_pictures(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(PIXEL)
    (tmp_path / "in" / "b.png").write_bytes(b"no picture")
    (tmp_path / "c.png").write_bytes(PIXEL)
    assert find_picture(tmp_path / "in", "a") == (tmp_path / "in" / "a.png").resolve()
    (tmp_path / "in" / "07").mkdir()
    (tmp_path / "in" / "07" / "oven_1.png").write_bytes(PIXEL)
    assert find_picture(tmp_path / "in", "oven_1").parent.name == "07"
    for name in ("../c", "../../c", str(tmp_path / "c.png"), "missing", "x\x00y", "x" * 5000):
        assert find_picture(tmp_path / "in", name) is None
    pytest.importorskip("PIL")
    assert picture_data(tmp_path / "c.png").startswith("data:image/jpeg;base64,")
    assert picture_data(tmp_path / "in" / "b.png") is None
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert picture_data(tmp_path / "c.png") == "data:image/png;base64," + base64.b64encode(PIXEL).decode()
    assert picture_data(tmp_path / "in" / "b.png") is None


@pytest.mark.parametrize("score", ["high", True, math.nan, 10**400, [1]])
def test_a_score_that_is_no_number_is_refused(tmp_path, score):
    from oven_retrieval.evaluation import read_predictions

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
