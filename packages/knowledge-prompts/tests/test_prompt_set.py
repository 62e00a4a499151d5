from __future__ import annotations

import pytest

from knowledge_prompts import (
    ClassPrompts,
    StoredKnowledge,
    WordNetMissingError,
    build_prompts,
    coverage,
    load_class_prompts,
    show_prompts,
)
from knowledge_prompts.prompts.prompt_set import join_knowledge, treebank_words

PRIMROSE = " A plant of the genus Primula, having a pink flower."


def test_paper_form_is_table_7():
    base = load_class_prompts("oxford-flower-102").plain("pink primrose")[0]
    expected = "a photo of a pink primrose, a type of flower ; A plant of the genus Primula, having a pink flower."
    assert join_knowledge(base, PRIMROSE, "pink primrose") == expected


def test_toolkit_form_repeats_the_class():
    joined = join_knowledge("a pink primrose.", PRIMROSE, "pink primrose", style="toolkit")
    assert joined == "a pink primrose. ; pink primrose , A plant of the genus Primula , having a pink flower ."


def test_all_combinations_with_their_sources():
    own = ClassPrompts("own", ["a {}.", "the {}."], ["cat", "dog"])
    first = StoredKnowledge({"cat": ["purrs", "sleeps"]}, name="one")
    second = StoredKnowledge({"cat": ["purrs ", "eats"]}, name="two")
    prompts = build_prompts(own, [first, second])
    assert prompts.texts(0) == [
        "a cat ; purrs", "the cat ; purrs", "a cat ; sleeps", "the cat ; sleeps", "a cat ; eats", "the cat ; eats",
    ]  # fmt: skip
    assert [prompt.source for prompt in prompts.prompts[0]] == ["one"] * 4 + ["two"] * 2
    assert prompts.texts(1) == ["a dog.", "the dog."]
    assert prompts.without_knowledge == ["dog"]
    assert len(prompts) == 8
    assert {(prompt.class_index, prompt.class_name) for prompt in prompts} == {(0, "cat"), (1, "dog")}


def test_plain_prompts_stay_on_request():
    own = ClassPrompts("own", ["a {}."], ["cat"])
    knowledge = StoredKnowledge({"cat": ["purrs"]}, name="one")
    assert build_prompts(own, [knowledge], with_plain=True).texts(0) == ["a cat.", "a cat ; purrs"]
    assert build_prompts(own).without_knowledge == []


def test_whole_prompts_take_no_template():
    own = ClassPrompts("own", ["a {}.", "the {}."], ["cat"])
    cupl = StoredKnowledge({"cat": ["A cat has whiskers."]}, name="cupl", whole=True)
    assert build_prompts(own, [cupl]).texts(0) == ["A cat has whiskers."]


def test_repeated_names_of_a_data_set_are_kept():
    prompts = build_prompts(load_class_prompts("imagenet-1k"))
    assert len(prompts.classes) == 1000
    assert len(prompts) == 80_000
    assert len(prompts.unique_texts()) == 79_840


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": []}, "the list of classes is empty"),
        ({"classes": ["a", "a"]}, "'a' comes 2 times"),
        ({"style": "poem"}, "style is 'poem'"),
        ({"sources": [StoredKnowledge({}, name="x"), StoredKnowledge({}, name="x")]}, "two sources are called 'x'"),
    ],
)
def test_bad_requests_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        build_prompts(ClassPrompts("own", ["{}"], ["cat"]), **arguments)


def test_stored_knowledge_refuses_what_is_no_list():
    with pytest.raises(ValueError, match="gpt3, class 'cat': expected a list of texts, found 'purrs'"):
        StoredKnowledge({"cat": "purrs"}, name="gpt3")
    with pytest.raises(ValueError, match="max_items is 0"):
        StoredKnowledge({}, name="gpt3", max_items=0)
    assert StoredKnowledge({"a": ["x", " ", "y", "z"]}, name="own", max_items=2).items("a") == ("x", "y")


def test_words_are_nltks(shared_knowledge):
    tokenize = pytest.importorskip("nltk.tokenize")
    splitter = tokenize.NLTKWordTokenizer()
    import json

    texts = [
        record["def_wn"]
        for path in sorted((shared_knowledge / "external").iterdir())
        for record in json.loads(path.read_text("utf-8"))
        if record["def_wn"]
    ]
    assert len(texts) == 994
    different = [text for text in texts if treebank_words(text) != splitter.tokenize(text)]
    assert different == []


def test_show_has_a_section_for_each_source(tiny_wordnet):
    lines = show_prompts("sunflower", wordnet_folder=tiny_wordnet)
    assert lines == [
        "sunflower",
        "  without knowledge (1)",
        "    a photo of a sunflower.",
        "  wordnet-definition (1)",
        "    a photo of a sunflower ; a tall flower",
        "  wordnet-path (1)",
        "    a photo of a sunflower ; sunflower, flower, plant, entity",
    ]
    assert "  wordnet-path (0): knows nothing about 'xyzzy'" in show_prompts("xyzzy", wordnet_folder=tiny_wordnet)
    many = show_prompts("sunflower", class_prompts="imagenet-1k", sources=[], max_prompts=2)
    assert many[-1] == "    ... and 78 more"


def test_show_without_wordnet_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("knowledge_prompts.sources.wordnet_files.wordnet_folders", lambda: iter(()))
    lines = show_prompts("sunflower")
    assert lines[:3] == ["sunflower", "  without knowledge (1)", "    a photo of a sunflower."]
    assert "wordnet-base" in lines[3]
    with pytest.raises(WordNetMissingError):
        show_prompts("sunflower", wordnet_folder=tmp_path)


@pytest.mark.parametrize(("arguments", "message"), [((" ",), "class name is empty"), (("a", "x"), "no template set")])
def test_show_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        show_prompts(arguments[0], class_prompts=arguments[1] if len(arguments) > 1 else "generic")


def test_a_single_source_and_texts_by_class_are_sources():
    own = ClassPrompts("pets", ["a {}."], ["cat", "zebra"])
    texts = {"cat": ["an animal"]}
    expected = build_prompts(own, [StoredKnowledge(texts, name="own")])
    assert build_prompts(own, texts) == build_prompts(own, StoredKnowledge(texts, name="own")) == expected
    assert coverage(["cat", "zebra"], texts).covered == {"own": 1}
    assert "    a cat ; an animal" in show_prompts("cat", class_prompts=own, sources=texts)
