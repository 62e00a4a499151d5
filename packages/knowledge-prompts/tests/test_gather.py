from __future__ import annotations

import json
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from knowledge_prompts import (
    ClassPrompts,
    LanguageModelError,
    StoredKnowledge,
    WordNet,
    build_files,
    gather_sources,
    load_class_prompts,
    named_sources,
    source_names,
)
from knowledge_prompts.sources.elevater_files import read_external, read_gpt3, write_gpt3

OWN = ClassPrompts("own", ["a {}."], ["sunflower", "great dane", "xyzzy", "sunflower"], repeated=["sunflower"])


class Model:
    """Explains everything, except what it is told to fail on."""

    identity = "test"

    def __init__(self, fails_on=""):
        self.fails_on = fails_on
        self.prompts = []

    def complete(self, prompt):
        self.prompts.append(prompt)
        name = prompt.rsplit("Q: ", 1)[-1].split("\n")[0]
        if name == self.fails_on:
            raise LanguageModelError("busy")
        return f" What {name} is, {len(self.prompts)}."


def test_files_are_built_for_any_classes(tiny_wordnet, tmp_path):
    wiki = StoredKnowledge({"sunflower": ["A tall plant.", "second"], "xyzzy": ["A word."]}, name="wiktionary")
    model = Model(fails_on="xyzzy")
    steps = []
    built = build_files(
        OWN,
        tmp_path,
        wordnet=WordNet(tiny_wordnet),
        wiktionary=wiki,
        model=model,
        items_per_class=1,
        retries=0,
        wait=0,
        progress=lambda *step: steps.append(step),
    )
    records = {record.class_name: record for record in read_external(tmp_path / "external" / "own_knowledge.tsv")}
    assert list(records) == ["sunflower", "great dane", "xyzzy"]
    assert records["sunflower"].wiktionary == "A tall plant."
    assert records["sunflower"].wordnet_path == ("sunflower", "flower", "plant", "entity")
    assert records["great dane"].wiktionary is None
    answers = read_gpt3(tmp_path / "gpt3" / "GPT3_own.tsv")
    assert answers == {
        "sunflower": ("What sunflower is, 1.",),
        "great dane": ("What great dane is, 2.",),
        "xyzzy": (),
    }
    assert built.failed == {"xyzzy": "busy (asked 1 times)"}
    assert built.coverage.covered == {"wiktionary": 3, "wordnet": 3, "gpt3": 3}, "sunflower is there twice"
    assert "A tall plant." in model.prompts[1], "classes with a Wiktionary definition are the examples"
    assert "a large dog" not in "".join(model.prompts)
    assert steps == [("language model", done, 3) for done in (1, 2, 3)]
    assert built.lines()[-1] == "not answered in full: xyzzy: busy (asked 1 times)"
    again = Model()
    rebuilt = build_files(
        OWN, tmp_path, wordnet=WordNet(tiny_wordnet), wiktionary=wiki, model=again, items_per_class=1, wait=0
    )
    assert len(again.prompts) == rebuilt.calls == 1, "only what failed is asked for again"
    assert rebuilt.failed == {}


def test_examples_come_from_wordnet_where_wiktionary_is_absent(tiny_wordnet, tmp_path):
    model = Model()
    build_files(OWN, tmp_path, wordnet=WordNet(tiny_wordnet), model=model, items_per_class=1)
    assert "Q: great dane\nA: a large dog" in model.prompts[0]


def test_files_without_a_model(tiny_wordnet, tmp_path):
    built = build_files(OWN, tmp_path, wordnet=WordNet(tiny_wordnet))
    assert [path.name for path in built.files] == ["own_knowledge.tsv"]
    assert built.coverage.covered == {"wordnet": 3}
    assert len(json.loads(built.files[0].read_text())) == 4


def test_building_refuses(tiny_wordnet, tmp_path):
    with pytest.raises(ValueError, match="no source was given"):
        build_files(OWN, tmp_path)
    with pytest.raises(ValueError, match="'generic' has no classes"):
        build_files(load_class_prompts("generic"), tmp_path, wordnet=WordNet(tiny_wordnet))
    with pytest.raises(ValueError, match="none of the classes has a definition"):
        build_files(OWN, tmp_path, model=Model())
    assert list(tmp_path.iterdir()) == []


def test_live_sources_take_the_place_of_stored_ones(tiny_wordnet, tmp_path):
    wordnet = WordNet(tiny_wordnet)
    build_files(OWN, tmp_path, wordnet=wordnet)
    write_gpt3(tmp_path / "gpt3" / "GPT3_own.tsv", {"sunflower": ["A flower."]})
    dump = tmp_path / "dump.jsonl"
    dump.write_text('{"word": "sunflower", "lang_code": "en", "pos": "noun", "senses": [{"glosses": ["A plant."]}]}\n')
    for name in ("cupl", "descriptors"):
        (tmp_path / f"{name}.json").write_text('{"sunflower": ["yellow petals"]}')
    stored = gather_sources(OWN, knowledge=tmp_path)
    assert [source.name for source in stored] == ["wiktionary", "wordnet-definition", "wordnet-path", "gpt3"]
    assert all(isinstance(source, StoredKnowledge) for source in stored)
    both = gather_sources(
        OWN,
        knowledge=tmp_path,
        wordnet=wordnet,
        sources=[
            f"wiktionary={dump}",
            f"cupl={tmp_path / 'cupl.json'}",
            f"visual-descriptors={tmp_path / 'descriptors.json'}",
        ],
    )
    assert {source.name: list(source.items("sunflower")) for source in both} == {
        "wiktionary": ["A plant."],
        "wordnet-definition": ["a tall flower"],
        "wordnet-path": ["sunflower, flower, plant, entity"],
        "gpt3": ["A flower."],
        "cupl": ["yellow petals"],
        "visual-descriptors": ["sunflower, which has yellow petals"],
    }
    assert gather_sources(OWN) == []


def test_class_names_from_a_text_file(tmp_path):
    path = tmp_path / "birds.txt"
    path.write_text("\ufeffowl\n\n  great tit \n", encoding="utf-8")
    birds = load_class_prompts(path)
    assert (birds.name, birds.classes, birds.plain("owl")) == ("birds", ("owl", "great tit"), ("a photo of a owl.",))
    path.write_text("owl\nhen\nowl\n")
    with pytest.raises(ValueError, match=r"birds\.txt: class name 'owl' comes 2 times, at positions \[0, 2\]"):
        load_class_prompts(path)
    path.write_text("\n")
    with pytest.raises(ValueError, match=r"birds\.txt: the list of classes is empty"):
        load_class_prompts(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"birds\.txt: not UTF-8"):
        load_class_prompts(path)


def test_a_package_adds_a_source_by_an_entry_point(tmp_path, monkeypatch):
    def added(path, class_prompts):
        return [StoredKnowledge({name: [path.read_text()] for name in class_prompts.classes}, name="house")]

    entry = EntryPoint("house", "somewhere:added", "knowledge_prompts.sources")
    monkeypatch.setattr(EntryPoint, "load", lambda self: added)
    everything = EntryPoints([entry])
    monkeypatch.setattr(
        "knowledge_prompts.sources.named.entry_points", lambda **criteria: everything.select(**criteria)
    )
    (tmp_path / "note.txt").write_text("A house.")
    assert "house" in source_names()
    [source] = gather_sources(OWN, sources=[f"house={tmp_path / 'note.txt'}"])
    assert (source.name, source.items("xyzzy")) == ("house", ("A house.",))
    everything = EntryPoints([entry, EntryPoint("cupl", "elsewhere:cupl", "knowledge_prompts.sources")])
    with pytest.raises(ValueError, match=r"'cupl' is added by elsewhere:cupl and by knowledge_prompts itself"):
        named_sources(f"cupl={tmp_path}", OWN)


def test_named_sources_refuse(tmp_path):
    with pytest.raises(ValueError, match=r"'own': expected NAME=PATH, with a name of cupl, elevater"):
        named_sources("own", OWN)
    with pytest.raises(ValueError, match=r"'house' is unknown; expected one of cupl"):
        named_sources(f"house={tmp_path}", OWN)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json does not exist"):
        named_sources(f"cupl={tmp_path / 'nowhere.json'}", OWN)
