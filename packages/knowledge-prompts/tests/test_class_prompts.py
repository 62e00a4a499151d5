from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_prompts import ClassPrompts, StoredKnowledge, build_prompts, built_in_sets, load_class_prompts
from knowledge_prompts.prompts.class_prompts import fill, without_aliases

# Number of classes and templates: ELEVATER's table 5 and CLIP's published prompts.
SIZES = {
    "caltech-101": (102, 34), "cifar-10": (10, 18), "cifar-100": (100, 18), "country211": (211, 5), "dtd": (47, 8),
    "eurosat_clip": (10, 3), "fer-2013": (7, 6), "fgvc-aircraft-2013b-variants102": (100, 2), "food-101": (101, 1),
    "gtsrb": (43, 3), "hateful-memes": (2, 1), "kitti-distance": (4, 1), "mnist": (10, 1),
    "oxford-flower-102": (102, 1), "oxford-iiit-pets": (37, 1), "patch-camelyon": (2, 1), "rendered-sst2": (2, 1),
    "resisc45_clip": (45, 18), "stanford-cars": (196, 8), "voc-2007-classification": (20, 1),
}  # fmt: skip


def test_built_in_sets_have_the_published_sizes():
    sets = {name: load_class_prompts(name) for name in built_in_sets()}
    assert {name: (len(sets[name].classes), len(sets[name].templates)) for name in SIZES} == SIZES
    assert sum(classes for classes, _ in SIZES.values()) == 1151
    assert set(sets) - set(SIZES) == {"generic", "imagenet-1k", "imagenet-7"}
    assert (len(sets["imagenet-1k"].classes), len(sets["imagenet-1k"].templates)) == (1000, 80)
    assert len(set(sets["imagenet-1k"].templates)) == 80
    assert list(sets["imagenet-1k"].repeated) == ["missile", "sunglasses"]


def test_class_names_are_those_of_the_stored_knowledge(shared_knowledge):
    for name in [*SIZES, "imagenet-1k"]:
        stored = json.loads((shared_knowledge / "external" / f"{name}_knowledge.tsv").read_text("utf-8"))
        names = [record["classname"] for record in stored]
        ours = list(load_class_prompts(name).classes)
        assert ours == (sorted(names) if name == "cifar-100" else names)


def test_imagenet_set_is_open_clips():
    metadata = pytest.importorskip("open_clip.zero_shot_metadata", exc_type=ImportError)
    ours = load_class_prompts("imagenet-1k")
    assert list(ours.classes) == list(metadata.IMAGENET_CLASSNAMES)
    assert list(ours.templates) == [template("{}") for template in metadata.OPENAI_IMAGENET_TEMPLATES]


@given(st.text("ab {}%s\\", max_size=20), st.text("ab {}%s\\", max_size=10))
def test_fill_replaces_the_placeholder_and_nothing_else(before, name):
    before = before.replace("{", "")  # of "{{}}" without "{}" a "{}" would be left
    assert fill(before + "[{}]", name) == before + "[" + name + "]"


def test_aliases_and_own_texts():
    faces = load_class_prompts("fer-2013")
    assert len(faces.plain("happy")) == 12
    assert len(without_aliases(faces).plain("happy")) == 6
    own = ClassPrompts("own", ["a {}."], ["cat", "dog"], texts={"dog": ["man's best friend"]})
    assert own.plain("dog") == ("man's best friend",)
    assert own.plain("cat") == ("a cat.",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"templates": ["a photo."]}, r"template 1, 'a photo\.', has 0 placeholders"),
        ({"templates": ["a {}.", "{} and {}"]}, "template 2, '{} and {}', has 2 placeholders"),
        ({"templates": []}, "templates is empty"),
        ({"templates": "a {}."}, "templates is one text"),
        ({"templates": ["{}"], "classes": ["cat", "dog", "cat"]}, r"'cat' comes 2 times, at positions \[0, 2\]"),
        ({"templates": ["{}"], "classes": ["cat", " "]}, "class 1 is ' '"),
        ({"templates": ["{}"], "classes": "cat"}, "classes is one text"),
        ({"templates": ["{}"], "classes": ["cat"], "texts": {"cow": ["moo"]}}, "texts of 'cow'"),
        ({"templates": ["{}"], "classes": ["cat"], "aliases": {"cow": ["moo"]}}, "aliases of 'cow'"),
    ],
)
def test_bad_sets_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ClassPrompts("own", **arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"templates": ["{}"],\n oops', r"own\.json, line 2: not JSON"),
        ("[1]", r"own\.json: expected one JSON object, found list"),
        ('{"templates": "a {}"}', "field 'templates': expected a list of texts"),
        ('{"templates": ["{}"], "classes": ["a"], "texts": {"a": "b"}}', "field 'texts': expected an object"),
        ('{"templates": ["no"]}', r"own\.json: template 1, 'no', has 0 placeholders"),
    ],
)
def test_bad_files_name_file_and_field(tmp_path, text, message):
    path = tmp_path / "own.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_class_prompts(path)


def test_own_file_is_read(tmp_path):
    path = tmp_path / "own.json"
    path.write_text('{"templates": ["a {}."], "classes": ["wren"], "aliases": {"wren": ["jenny"]}}')
    own = load_class_prompts(str(path))
    assert (own.name, own.plain("wren")) == ("own", ("a wren.", "a jenny."))


def test_unknown_names_list_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"no template set called 'imagnet'.*imagenet-1k"):
        load_class_prompts("imagnet")
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        load_class_prompts(tmp_path / "none.json")


def test_a_key_of_a_users_file_that_is_given_twice_is_refused(tmp_path):
    path = tmp_path / "own.json"
    path.write_text('{"templates": ["a {}."], "classes": ["hen"], "classes": ["cock"]}')
    with pytest.raises(ValueError, match=r"own\.json: the key 'classes' comes twice in one object"):
        load_class_prompts(path)


def test_class_names_that_look_the_same_are_refused(tmp_path):
    path = tmp_path / "own.txt"
    path.write_text("caf\u00e9\ncafe\u0301\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"own\.txt: class names 'caf\\xe9' and 'cafe\\u0301' look the same"):
        load_class_prompts(path)


def test_classes_are_taken_in_their_order_whatever_holds_them_and_sets_have_none():
    """A set's order changed with each start of Python, and a generator's templates were used up by their check."""
    numpy = pytest.importorskip("numpy")
    names, templates = ["owl", "wren", "crane"], ["a {}.", "the {}."]
    plain = ClassPrompts("birds", tuple(templates), tuple(names))
    held = [names, numpy.array(names), iter(names)]
    for classes, given_templates in zip(held, [templates, numpy.array(templates), iter(templates)], strict=True):
        prompts = ClassPrompts("birds", given_templates, classes)
        assert prompts == plain
        assert prompts.plain("wren") == ("a wren.", "the wren.")
        assert all(type(name) is str for name in prompts.classes)
    for unordered in (set(names), frozenset(names), dict.fromkeys(names)):
        with pytest.raises(ValueError, match=r"classes is a .*; expected a list, whose order"):
            ClassPrompts("birds", templates, unordered)
        with pytest.raises(ValueError, match=r"classes is a .*; expected a list, whose order"):
            build_prompts(plain, classes=unordered)
    own = ClassPrompts("birds", templates, names, texts={"owl": (text for text in ["an owl", "owls"])})
    assert own.plain("owl") == own.plain("owl") == ("an owl", "owls")


@pytest.mark.parametrize("other", ["great  white", "great white ", "great\u00a0white", "great wh\u200bite"])
def test_names_that_look_alike_are_refused(other):
    with pytest.raises(ValueError, match="look the same"):
        ClassPrompts("fish", ["a {}."], ["great white", other])


@pytest.mark.parametrize("loose", [False, True])
def test_knowledge_is_found_under_a_name_whose_letters_are_in_parts(loose):
    """macOS writes names of folders so: what was known of such a class was left out."""
    composed, parts = "hibou é", "hibou e\u0301"
    for stored, written in ((composed, parts), (parts, composed)):
        source = StoredKnowledge({stored: ["an owl"]}, name="own", loose=loose)
        assert source.items(written) == ("an owl",)
        assert source.unused([written]) == []
        built = build_prompts(ClassPrompts("birds", ["a {}."], [written, "wren"]), source)
        assert built.without_knowledge == ["wren"]
    with pytest.raises(ValueError, match="are one name"):
        StoredKnowledge({composed: ["a"], parts: ["b"]}, name="own", loose=loose)


def test_texts_of_a_class_may_come_one_by_one():
    source = StoredKnowledge({"owl": (text for text in ["a bird", "of prey"])}, name="own")
    assert source.items("owl") == source.items("owl") == ("a bird", "of prey")
