"""Words for classes: prompt sets by name, by ImageNet's ids and by number, WordNet, templates and knowledge."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from knowledge_prompts import ClassPrompts, ClassWords, WordNet, built_in_sets, indistinct_classes, load_class_prompts
from knowledge_prompts.class_words import built_in_knowledge, words_by_content
from wary_files.errors import UsageError

IDS = ("n01440764", "n01514859")


def test_words_that_cannot_be_are_refused() -> None:
    for words, message in (
        (ClassWords(("a photo",)), "exactly one"),
        (ClassWords(prompts="imagenot"), "no template set called 'imagenot'"),
        (ClassWords(prompts="oxford-iiit-pets"), "lacks 2 of 2 classes, such as 'beagel'; nearest: 'beagle'"),
        (ClassWords(knowledge=("wiktionary",)), "needs Wiktextract's dump"),
        (ClassWords(knowledge=("nothing",)), "neither wordnet, NAME=PATH nor a file"),
    ):
        with pytest.raises(UsageError, match=message):
            words.built(["beagel", "owl"])


def test_texts_are_known_by_what_their_files_hold_whatever_form_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for file in (Path("mine.json"), Path("folder/a.json")):
        file.write_text('{"owl": ["wise"]}')
    forms = (
        "wordnet",
        "wordnet-path",
        "mine.json",
        "cupl=mine.json",
        "folder",
        "cupl=folder",
        "cupl=",
        "=",
        "",
        "mine",
    )

    def known(form: str) -> object:
        return words_by_content({"knowledge": [form]}, lambda paths: [Path(path).read_text() for path in paths])

    before = [known(form) for form in forms]
    assert len({repr(texts) for texts in before}) == len(forms)
    for file in (Path("mine.json"), Path("folder/a.json")):
        file.write_text('{"owl": ["grey"]}')
    changed = [form for form, texts in zip(forms, before, strict=True) if known(form) != texts]
    assert changed == ["mine.json", "cupl=mine.json", "folder", "cupl=folder"]
    (Path("mine.json")).rename("yours.json")
    assert known("yours.json") != before[2]
    assert words_by_content({"knowledge": "wordnet", "words": "list.json#names"}, lambda paths: paths)


def test_one_text_is_not_read_letter_by_letter() -> None:
    for field in ("templates", "knowledge"):
        with pytest.raises(UsageError, match=rf"^{field} is one text, 'wordnet'; expected several: \('wordnet',\)$"):
            ClassWords(**{field: "wordnet"})


def test_names_and_templates_of_a_language_are_read_from_clip_benchmarks_files(tmp_path: Path) -> None:
    """Files of lists by data set, names in the order of the classes and ``{c}`` for them."""
    names, templates = tmp_path / "it_classnames.json", tmp_path / "it_templates.json"
    names.write_text('{"two": ["una tinca", "una gallina"], "three": ["a", "b", "c"]}')
    templates.write_text('{"two": ["una foto di {c}.", "molti {c}"]}')
    words = ClassWords(templates=(str(templates), "{}"), words=f"{names}#two")
    assert words.built(IDS).texts(0) == ["una foto di una tinca.", "molti una tinca", "una tinca"]
    templates.write_text('["un disegno di {}"]')
    assert words.built(IDS).texts(1) == ["un disegno di una gallina", "una gallina"]


@pytest.mark.parametrize(
    ("content", "chosen", "message"),
    [
        ('{"two": ["{c}"], "three": ["{c}"]}', "", r"it has 2 lists: write FILE.json#NAME; known: two, three"),
        ('{"two": ["{c}"]}', "#four", "it has no list 'four'; known: two"),
        ('["{c}"]', "#two", "it is one list, which has no name"),
        ('{"two": ["{c}", 3]}', "", "expected a list of texts"),
        ('{"two": {"a": "{c}"}}', "", "expected a list of texts"),
        ('{"two": [', "", "templates .*t.json: "),
        ('["a photo"]', "", "exactly one"),
    ],
)
def test_lists_that_cannot_be_are_refused(content: str, chosen: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(UsageError, match=message):
        ClassWords(templates=(f"{tmp_path / 't.json'}{chosen}",)).built(IDS)


def test_imagenets_ids_become_words_by_the_sets_order() -> None:
    timm = pytest.importorskip("timm")
    class_prompts = load_class_prompts("imagenet-1k")
    ids = timm.data.ImageNetInfo().label_names()
    built = ClassWords(prompts="imagenet").built(ids)
    assert list(built.classes) == list(class_prompts.classes)
    assert ClassWords(prompts="imagenet").built(ids[::-1]).classes == built.classes[::-1]
    assert len(built.texts(0)) == len(class_prompts.templates) == 80
    assert built.texts(0)[0] == class_prompts.templates[0].replace("{}", "tench")


@pytest.mark.parametrize("first", [0, 1440764])
def test_a_thousand_other_ids_are_not_imagenets(first: int) -> None:
    with pytest.raises(UsageError, match="lacks 1000 of 1000 classes"):
        ClassWords(prompts="imagenet").built([f"n{first + number:08d}" for number in range(1000)])


def test_classes_called_by_numbers_get_the_sets_names_by_number() -> None:
    wrong = []
    for name in built_in_sets():
        listed = load_class_prompts(name).classes
        forms = [(form, first) for form in ("{}", "class{}", "{:04d}") for first in (0, 1) if listed]
        for form, first in forms:
            folders = [form.format(number + first) for number in range(len(listed))]
            if set(folders) & set(listed):  # digits are called so
                continue
            for order in {tuple(sorted(folders)), tuple(folders)}:
                built = ClassWords(prompts=name).built(order)
                right = [listed[folders.index(folder)] for folder in order]
                wrong += [(name, form, first)] * (list(built.classes) != right)
    assert not wrong


@pytest.mark.parametrize(
    "classes",
    [("1", "3", "4"), ("2", "3", "4"), ("1", "01", "2"), ("a1", "b2", "c3"), ("x", "y", "z"), ("0.1", "0.2", "0.3")],
)
def test_a_built_in_sets_order_is_not_laid_beside_other_names(classes: tuple[str, ...]) -> None:
    sets = {"templates": ["a {}"], "classes": ["owl", "wren", "kite"]}
    words = ClassWords(prompts="own-set")
    with pytest.raises(UsageError, match="lacks 3 of 3 classes"):
        words._matched(classes, ClassPrompts("own-set", sets["templates"], sets["classes"]))


def test_imagenets_ids_become_words_by_wordnet() -> None:
    try:
        WordNet()
    except OSError:
        pytest.skip("WordNet is not installed")
    assert ClassWords().named(IDS) == ("tench", "hen")
    assert ClassWords(prompts="imagenet").built(IDS).classes == ("tench", "hen")  # two of its thousand
    assert ClassWords().named(("n99999999", "n00000001")) == ("n99999999", "n00000001")
    built = ClassWords(("a {}",), knowledge=("wordnet",)).built(["hen", "xyzzy"])
    assert built.texts(0)[0] == "a hen ; adult female chicken"
    assert built.without_knowledge == ["xyzzy"]


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (("001.Black_footed_Albatross", "002.Laysan_Albatross"), ("Black footed Albatross", "Laysan Albatross")),
        (("birds/0_owl", "cats/1_lynx"), ("owl", "lynx")),
        (("2-door", "4-door"), ("2-door", "4-door")),
        (("1_door", "2_door"), ("1 door", "2 door")),
        (("1.0", "2.0"), ("1.0", "2.0")),
        (("1_a", "b"), ("1 a", "b")),
    ],
)
def test_numbers_that_put_folders_in_order_are_no_words(classes: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert ClassWords().named(classes) == words


def test_a_file_of_names_gives_the_words_that_the_set_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("c2 beagle\nc1 pug\n")
    built = ClassWords(prompts="oxford-iiit-pets", words=str(tmp_path / "names.txt")).built(["c1", "c2"])
    assert built.classes == ("pug", "beagle")
    assert built.texts(1) == ["a photo of a beagle, a type of pet."]


def test_a_file_may_choose_this_packages_sources(tmp_path: Path) -> None:
    listed = ["wordnet", "more.json", "cupl=texts.json"]
    assert built_in_knowledge(listed, tmp_path) == tuple(listed)
    with pytest.raises(UsageError, match=r"unknown source of knowledge that .* may choose: 'culp'; nearest: cupl"):
        built_in_knowledge(["culp=texts.json"], tmp_path)


def test_classes_whose_texts_an_encoder_hardly_distinguishes_are_named() -> None:
    """Of three rows the second and third enclose a cosine of .99; with .97 none is named."""
    for cosine, named in ((0.99, "2 of 3 class texts .* such as 'owl' and 'wren'"), (0.97, "^$")):
        rows = np.array([[1, 0, 0], [0, 1, 0], [0, cosine, (1 - cosine**2) ** 0.5]], np.float32)
        before = rows.copy()
        assert re.search(named, indistinct_classes(rows, ["cat", "owl", "wren"]))
        assert (rows == before).all()
