"""First images of Wikipedia's infoboxes: wikitext as it is written, dumps that the test writes, a build with both."""

from __future__ import annotations

import bz2
import json

import pytest

from oven_retrieval import Entity, KnowledgeBase, build_kb
from oven_retrieval.entity import EntityFileError
from oven_retrieval.infobox import Illustrated, commons_address, infobox_image, read_infoboxes

DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo><sitename>Wikipedia</sitename></siteinfo>
{pages}
</mediawiki>
"""
PAGE = """  <page>
    <title>{title}</title>
    <ns>{ns}</ns>
    <id>1</id>{redirect}
    <revision><id>2</id><text bytes="9" xml:space="preserve">{text}</text></revision>
  </page>"""


def page(title, text, ns=0, redirect=""):
    return PAGE.format(title=title, ns=ns, text=text.replace("<", "&lt;"), redirect=redirect)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{Infobox building\n| name = A\n| image = File:Iron Tower.jpg\n| image_size = 2.png\n}}", "Iron Tower.jpg"),
        ("{{Speciesbox | image = aix_sponsa.JPG | image_caption = x.png }}", "Aix sponsa.JPG"),
        ("{{Automatic taxobox|taxon=Aix|image=[[File:Aix.svg|220px|alt=a {{b|c}}]]}}", "Aix.svg"),
        ("{{hatnote|x}} '''A''' {{ infobox car |photo= Car.webp <!-- Other.jpg -->|x=y}}", "Car.webp"),
        ("{{Infobox settlement | image_skyline = {{multiple image | image1 = One.jpg | b = Two.jpg}} }}", "One.jpg"),
        ("{{Infobox person | name = B.jpg | image = | caption = C.jpg }} [[File:D.jpg]]", None),
        ("{{Infobox person | image <!-- no.jpg --> = <!-- no.jpg --> | cover = <ref>E.png</ref> F.gif }}", "F.gif"),
        ("{{Infobox company | company_logo = Ö Logo.svg }}", "Ö Logo.svg"),
        ("A page of text with [[File:Only.jpg]] and {{cite|image=No.jpg}}", None),
        ("{{Infobox building | image = Cut.jpg | x = {{never ends", "Cut.jpg"),
        ("{{Infobox building | image_map = Map.png | image = Real.jpg }}", "Real.jpg"),
    ],
)
def test_the_first_picture_of_a_box_is_found(text, expected):
    assert infobox_image(text) == expected


@pytest.mark.parametrize("ending", ["xml", "xml.bz2"])
def test_articles_of_a_dump_are_read(ending, tmp_path):
    pages = [
        page("Wood duck", "{{Speciesbox | image = Duck & drake.jpg }}".replace("&", "&amp;")),
        page("Mallard", "no box"),
        page("Talk:Wood duck", "{{Infobox | image = Talk.jpg }}", ns=1),
        page("Aix sponsa", "{{Infobox | image = Other.jpg }}", redirect='<redirect title="Wood duck" />'),
        page("Paris", "{{Infobox settlement | image_skyline = Seine.png }}"),
    ]
    content = DUMP.format(pages="\n".join(pages)).encode()
    path = tmp_path / f"pages-articles.{ending}"
    path.write_bytes(bz2.compress(content) if ending.endswith("bz2") else content)
    assert list(read_infoboxes(path)) == [("Wood duck", "Duck & drake.jpg"), ("Paris", "Seine.png")]


def test_addresses_are_those_of_commons():
    address = "https://upload.wikimedia.org/wikipedia/commons/a/a9/Example.jpg"  # as Commons itself gives it
    assert commons_address("Example.jpg") == address
    assert commons_address("Example.jpg", 220) == address.replace("commons/", "commons/thumb/") + "/220px-Example.jpg"
    assert commons_address("A b?.jpg").endswith("/A_b%3F.jpg")


def test_entities_without_an_image_get_that_of_their_article(tmp_path):
    entities = [
        Entity("Q1", "Wood duck"),
        Entity("Q2", "City of light", aliases=("Paris",)),
        Entity("Q3", "Goose", image="own"),
        Entity("Q4", "Nothing"),
    ]
    images = {"Wood duck": "a", "Paris": "b", "Goose": "c"}
    rows = Illustrated([(number, entity, "") for number, entity in enumerate(entities)], images)
    kb = build_kb(rows, tmp_path / "kb")
    assert list(kb.images) == ["a", "b", "own", ""]
    assert kb.meta["infobox_images"] == 2


def test_a_command_builds_with_a_dump(tmp_path, capsys):
    pytest.importorskip("typer")
    from oven_retrieval.cli import main

    rows = [
        {"wikidata_id": "Q1", "wikipedia_title": "Wood duck", "wikipedia_image_url": None},
        {"wikidata_id": "Q2", "wikipedia_title": "Goose", "wikipedia_image_url": "http://host/g.jpg"},
    ]
    (tmp_path / "wiki.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "dump.xml").write_text(DUMP.format(pages=page("Wood duck", "{{Speciesbox|image=Duck.jpg}}")))
    where = [str(tmp_path / "wiki.jsonl"), "--output", str(tmp_path / "out"), "--infobox", str(tmp_path / "dump.xml")]
    with pytest.raises(SystemExit) as ended:
        main(["build", *where])
    printed = capsys.readouterr()
    assert not ended.value.code, printed.err
    assert "1 entity has the image of the article's infobox" in printed.out
    images = {entity.id: entity.image for entity in KnowledgeBase(tmp_path / "out" / "kb")}
    assert images["Q1"] == commons_address("Duck.jpg")
    assert images["Q2"] == "http://host/g.jpg"


@pytest.mark.parametrize(
    ("content", "message"), [("<mediawiki><page>", "no element found"), ("<html></html>", "<mediawiki>")]
)
def test_what_is_no_dump_is_refused_with_its_line(content, message, tmp_path):
    (tmp_path / "dump.xml").write_text(content)
    with pytest.raises(EntityFileError, match=rf"dump.xml:1: expected .*{message}"):
        list(read_infoboxes(tmp_path / "dump.xml"))
