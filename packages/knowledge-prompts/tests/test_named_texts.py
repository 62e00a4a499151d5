from __future__ import annotations

import json

import pytest

from knowledge_prompts import (
    ClassPrompts,
    KnowledgeFileError,
    RandomWords,
    StoredKnowledge,
    build_prompts,
    coverage,
    cupl,
    visual_descriptors,
)
from knowledge_prompts.sources.named_texts import read_named_texts
from knowledge_prompts.sources.random_words import vocabulary_of

OWN = ClassPrompts("own", ["a photo of a {}."], ["hen", "owl"])


def write(path, value):
    path.write_text(json.dumps(value))
    return path


def test_cupl_is_keyed_by_name_whatever_the_order(tmp_path):
    path = write(tmp_path / "cupl.json", {"owl": ["An owl\n has large eyes."], "hen": ["A hen is a bird.", " "]})
    prompts = build_prompts(OWN, [cupl(path)])
    assert prompts.texts(0) == ["A hen is a bird."]
    assert prompts.texts(1) == ["An owl has large eyes."]


def test_descriptors_become_sentences(tmp_path):
    path = write(tmp_path / "d.json", {"hen": ["two legs", "a small bird", "often red"]})
    assert visual_descriptors(path).items("hen") == (
        "hen, which has two legs",
        "hen, which is a small bird",
        "hen, which often red",
    )


def test_loose_names(tmp_path):
    path = write(tmp_path / "cupl.json", {"Great_white  Shark": ["x"]})
    assert cupl(path).items("great white-shark") == ()
    assert cupl(path, loose=True).items("great white-shark") == ("x",)
    with pytest.raises(ValueError, match="'A b' and 'a_B' are one name"):
        StoredKnowledge({"A b": ["x"], "a_B": ["y"]}, name="own", loose=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"hen": ["a"],\n"owl": "b"}', ", class 'owl': expected a list of texts, found 'b'"),
        ('{"hen": ["a"],\n\n"hen": ["b"]}', ": the key 'hen' comes twice"),
        ('[["hen"]]', ": expected one JSON object, found list"),
        ('{3: ["a"]}', ", line 1: not JSON"),
        ('{"hen": ["a"],\n', ", line 2: not JSON"),
    ],
)
def test_malformed_files_name_place_and_class(tmp_path, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(KnowledgeFileError, match=rf"bad\.json{message}"):
        read_named_texts(path)


def test_an_empty_object_is_no_error(tmp_path):
    assert read_named_texts(write(tmp_path / "e.json", {})) == {}


def test_random_words_are_the_same_for_class_and_seed():
    first, again, other = RandomWords(seed=1), RandomWords(seed=1), RandomWords(seed=2)
    assert first.items("hen") == again.items("hen")
    assert first.items("hen") != first.items("owl")
    assert first.items("hen") != other.items("hen")
    assert [len(item.split()) for item in first.items("hen")] == [10] * 5


def test_random_words_have_the_shape_of_real_knowledge():
    real = StoredKnowledge({"hen": ["a small red bird", "two legs"]}, name="own")
    control = RandomWords(like=real, vocabulary=vocabulary_of(real, ["hen"]))
    assert [len(item.split()) for item in control.items("hen")] == [4, 2]
    assert set(" ".join(control.items("hen")).split()) <= {"a", "small", "red", "bird", "two", "legs"}
    assert control.items("owl") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"count": 0}, "count is 0"), ({"words": 0}, "words is 0"), ({"vocabulary": [" "]}, "vocabulary has no words")],
)
def test_random_words_refuse(arguments, message):
    with pytest.raises(ValueError, match=message):
        RandomWords(**arguments)


def test_coverage_counts_items_by_class_and_source():
    knowledge = StoredKnowledge({"hen": ["a", "b"], "cow": ["c"]}, name="one")
    two = StoredKnowledge({}, name="two")
    table = coverage(["hen", "owl"], [knowledge, two])
    assert table.items.tolist() == [[2, 0], [0, 0]]
    assert table.covered == {"one": 1, "two": 0}
    assert (table.any_source, table.without_knowledge) == (1, ["owl"])
    assert table.table() == "class\tone\ttwo\nhen\t2\t0\nowl\t0\t0\n"
    assert table.lines() == [
        "one             1 of 2",
        "two             0 of 2",
        "any source      1 of 2",
        "without knowledge: owl",
        "one stores, for no class: cow",
    ]


def test_coverage_of_no_source_and_of_tabs():
    table = coverage(["a\tb", "c"], [])
    assert table.without_knowledge == ["a\tb", "c"]
    assert table.table() == "class\na b\nc\n"


def test_coverage_refuses():
    with pytest.raises(ValueError, match="list of classes is empty"):
        coverage([], [])
    with pytest.raises(ValueError, match="two sources are called 'random-words'"):
        coverage(["a"], [RandomWords(), RandomWords()])
    assert coverage(["a", "a"], [], repeated=["a"]).classes == ("a", "a")
