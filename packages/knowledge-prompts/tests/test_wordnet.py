from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_prompts import WordNet, WordNetDefinition, WordNetMissingError, WordNetPath
from knowledge_prompts.sources.wordnet_files import WordNetFiles, find_wordnet

from .wordnet_writer import TinySynset, write_wordnet

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def installed() -> Path:
    try:
        return find_wordnet()
    except WordNetMissingError as error:
        pytest.skip(str(error))


def test_definition_stops_before_the_examples(tiny_wordnet):
    wordnet = WordNet(tiny_wordnet)
    assert wordnet.definition("plant") == "a living organism"
    assert wordnet.definition("great dane") == "a large dog"
    assert wordnet.definition("nothing like it") == ""


def test_compatible_definition_keeps_what_quotations_leave(tiny_wordnet):
    wordnet = WordNet(tiny_wordnet, compatible=True)
    assert wordnet.definition("great_dane") == "a large dog; ; - Anon"
    assert wordnet.definition("great dane") == "", "the toolkit does not find names with a space"


def test_path_goes_up_by_the_alphabetically_first_kind(tiny_wordnet):
    wordnet = WordNet(tiny_wordnet)
    assert wordnet.path("sunflower") == ["sunflower", "flower", "plant", "entity"]
    assert wordnet.path("cornflower") == ["cornflower", "flower", "plant", "entity"]
    assert wordnet.path("nothing like it") == []


def test_names_have_kinds_except_in_compatible_mode(tiny_wordnet):
    assert WordNet(tiny_wordnet).path("utopia") == ["Utopia", "state", "entity"]
    assert WordNet(tiny_wordnet, compatible=True).path("utopia") == ["Utopia"]


def test_compatible_path_takes_the_detour_by_the_first_word(tmp_path):
    synsets = [
        TinySynset("root", "n", ["root"], "the root"),
        TinySynset("animal", "n", ["boxer"], "a fighter", [("@", "root")]),
        TinySynset("dog", "n", ["boxer", "boxer_dog"], "a dog"),
    ]
    folder = write_wordnet(tmp_path, synsets)
    assert WordNet(folder).path("boxer dog") == ["boxer"]
    assert WordNet(folder, compatible=True).path("boxer_dog") == ["boxer", "root"]


@pytest.mark.parametrize(
    ("form", "word"),
    [("sunflowers", "sunflower"), ("CHILDREN", "child"), ("kids", "child"), ("banded", "band"), ("galore", "galore")],
)
def test_inflected_forms_are_found(tiny_wordnet, form, word):
    synset = WordNet(tiny_wordnet).first_synset(form)
    assert synset is not None
    assert word in synset.words


def test_a_circle_of_kinds_ends(tmp_path):
    circle = [TinySynset("a", "n", ["egg"], "x", [("@", "b")]), TinySynset("b", "n", ["hen"], "y", [("@", "a")])]
    assert WordNet(write_wordnet(tmp_path, circle)).path("egg") == ["egg", "hen"]


@settings(max_examples=30, deadline=None)
@given(
    words=st.sets(st.text("abcyz_-.'09", min_size=1, max_size=6), min_size=1, max_size=40),
    other=st.text("abz.", min_size=1),
)
def test_binary_search_finds_exactly_what_is_there(tmp_path_factory, words, other):
    synsets = [TinySynset(word, "n", [word], f"meaning of {word}") for word in sorted(words)]
    files = WordNetFiles(write_wordnet(tmp_path_factory.mktemp("words"), synsets))
    for word in words:
        assert files.synset("n", files.offsets(word, "n")[0]).words == (word,)
    for absent in {other, "", "a b", "\u00e9"} - words:
        assert files.offsets(absent, "n") == ()


def test_files_of_different_versions_are_refused(tiny_wordnet):
    with pytest.raises(ValueError, match=r"data\.noun, byte 3: no synset starts here"):
        WordNetFiles(tiny_wordnet).synset("n", 3)


def test_missing_database_says_what_to_install(tmp_path, monkeypatch):
    with pytest.raises(WordNetMissingError, match=r"lacks index\.noun.*wordnet-base"):
        WordNet(tmp_path)
    monkeypatch.setattr("knowledge_prompts.sources.wordnet_files.wordnet_folders", lambda: iter([tmp_path]))
    with pytest.raises(WordNetMissingError, match=r"apt-get install wordnet-base"):
        WordNet()


def test_usual_places_follow_the_environment(tmp_path, monkeypatch):
    write_wordnet(tmp_path / "nltk" / "corpora" / "wordnet")
    write_wordnet(tmp_path / "home" / "dict")
    monkeypatch.setenv("WNHOME", str(tmp_path / "home"))
    assert find_wordnet() == tmp_path / "home" / "dict"
    monkeypatch.delenv("WNHOME")
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path / "home" / "dict"))
    assert find_wordnet() == tmp_path / "home" / "dict"
    assert find_wordnet(tmp_path / "home") == tmp_path / "home" / "dict"
    monkeypatch.delenv("WNSEARCHDIR")
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "nltk"))
    from knowledge_prompts.sources.wordnet_files import wordnet_folders

    assert tmp_path / "nltk" / "corpora" / "wordnet" in list(wordnet_folders())


def test_sources_give_texts_or_nothing(tiny_wordnet):
    wordnet = WordNet(tiny_wordnet)
    assert WordNetDefinition(wordnet).items("sunflower") == ["a tall flower"]
    assert WordNetPath(wordnet).items("great dane") == ["Great Dane, entity"]
    assert WordNetPath(wordnet, max_nodes=2).items("sunflower") == ["sunflower, flower"]
    assert WordNetDefinition(wordnet).items("xyzzy") == WordNetPath(wordnet).items("xyzzy") == []
    with pytest.raises(ValueError, match="max_nodes is 0"):
        WordNetPath(wordnet, max_nodes=0)


def test_stored_values_are_reproduced(installed, shared_knowledge):
    compatible, live = WordNet(installed, compatible=True), WordNet(installed)
    stored = covered = classes = 0
    paths = sorted((shared_knowledge / "external").iterdir())
    assert paths
    for path in paths:
        for record in json.loads(path.read_text("utf-8")):
            name = record["classname"]
            assert compatible.definition(name) == record["def_wn"], name
            assert compatible.path(name) == list(record["path_wn"]), name
            stored += bool(record["def_wn"])
            if "imagenet" not in path.name:
                classes += 1
                covered += bool(live.definition(name))
    assert (stored, classes) == (994, 1151)
    assert covered >= 656


@pytest.mark.parametrize(("file", "before", "after"), [
    ("index.noun", "plant n 1 1 @ 1 0", "plant n 0 1 @ 1 0"),
    ("index.noun", "plant n 1 1 @ 1 0", "plant n"),
    ("index.noun", "plant n 1 1 @ 1 0", "plant n 9999 1 @ 1 0"),
    ("index.noun", "plant n 1 1 @ 1 0", "plant n x 1 @ 1 0"),
    ("data.noun", " 00 n 02 plant", " 00 n ff plant"),
    ("data.noun", " 00 n 02 plant", " 00 n 00 plant"),
    ("data.noun", "flora 0 001 @", "flora 0 999 @"),
    ("data.noun", " n 0000 | a living", " z 0000 | a living"),
    ("data.noun", "flora 0 001 @", "flora"),
])  # fmt: skip
def test_a_damaged_database_is_one_line_with_its_file(tmp_path, file, before, after):
    folder = write_wordnet(tmp_path)
    content = (folder / file).read_text()
    assert before in content
    (folder / file).write_text(content.replace(before, after))
    with pytest.raises(ValueError, match=rf"{file}.*(damaged|no synset starts here)") as raised:
        WordNet(folder).path("plant")
    assert "\n" not in str(raised.value)


def test_an_empty_file_of_the_database_is_one_line(tmp_path):
    folder = write_wordnet(tmp_path)
    (folder / "data.noun").write_bytes(b"")
    with pytest.raises(ValueError, match=r"data\.noun is empty"):
        WordNet(folder).path("plant")
