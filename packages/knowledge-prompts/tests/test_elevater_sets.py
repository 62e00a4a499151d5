"""Knowledge of ELEVATER's twenty sets by one command, from WordNet's files and a dump of Wiktionary."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

from knowledge_prompts import load_class_prompts, stored_sources
from knowledge_prompts.cli import make_app
from knowledge_prompts.elevater_sets import ELEVATER_SETS, LICENCES, names_of, write_licences
from knowledge_prompts.sources import wiktextract


def build(*arguments):
    return CliRunner().invoke(make_app(lambda name, device: None), ["build", *map(str, arguments)])


def test_the_twenty_sets_have_the_papers_concepts():
    assert len(ELEVATER_SETS) == 20
    assert sum(len(load_class_prompts(name).classes) for name in ELEVATER_SETS) == 1151
    assert names_of("icinw") == ELEVATER_SETS


def test_one_command_builds_knowledge_of_all_twenty(tiny_wordnet, tmp_path, monkeypatch):
    words = {"dog": "A mammal of the family Canidae.", "frog": "A small tailless amphibian.", "cup": "A vessel."}
    rows = [{"word": word, "lang_code": "en", "pos": "noun", "senses": [{"glosses": [text]}]}
            for word, text in words.items()]  # fmt: skip
    (tmp_path / "dump.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = []
    opened = wiktextract.Wiktextract.__init__

    def counted(self, *arguments, **named):
        read.append(arguments)
        opened(self, *arguments, **named)

    monkeypatch.setattr(wiktextract.Wiktextract, "__init__", counted)
    where = ("--wordnet-folder", tiny_wordnet, "--wiktionary", tmp_path / "dump.jsonl")
    done = build("icinw", "--output", tmp_path / "own", *where)
    assert done.exit_code == 0, done.output
    files = sorted(path.name for path in (tmp_path / "own" / "external").iterdir())
    assert files == sorted(f"{name}_knowledge.tsv" for name in ELEVATER_SETS)
    assert len(read) == 1, "the dump is read once"
    for name in ("cifar-10", "caltech-101"):
        classes = load_class_prompts(name).classes
        sources = {source.name: source for source in stored_sources(tmp_path / "own", name)}
        for word in set(words) & set(classes):
            assert list(sources["wiktionary"].items(word)) == [words[word]]
    assert "sunflower" in load_class_prompts("oxford-flower-102").classes
    flowers = {source.name: source for source in stored_sources(tmp_path / "own", "oxford-flower-102")}
    assert any(flowers[name].items("sunflower") for name in flowers if name.startswith("wordnet"))
    terms = (tmp_path / "own" / "LICENCES.txt").read_text().splitlines()
    assert terms == [LICENCES["wordnet"], LICENCES["wiktionary"]]


def test_terms_are_those_of_the_sources_that_were_given(tiny_wordnet, tmp_path):
    (tmp_path / "birds.txt").write_text("sunflower\n")
    done = build(tmp_path / "birds.txt", "--output", tmp_path / "own", "--wordnet-folder", tiny_wordnet)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "own" / "LICENCES.txt").read_text() == LICENCES["wordnet"] + "\n"


def test_terms_that_are_there_stay(tmp_path):
    """Texts of an earlier build are still in the files, and the name may be that of a user's own text."""
    (tmp_path / "LICENCES.txt").write_text("Ours alone.\n")
    for sources in (("wordnet",), ("gpt3",), ("wordnet", "gpt3")):
        write_licences(tmp_path, sources)
    terms = (tmp_path / "LICENCES.txt").read_text().splitlines()
    assert terms == ["Ours alone.", LICENCES["wordnet"], LICENCES["gpt3"]]
