"""Words for classes: files of names, prompt sets, ImageNet's ids, templates and knowledge, in adapt and in own data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import gate_runner
from gate_runner.benchmarks.own import own_benchmark
from gate_runner.class_words import ClassWords
from gate_runner.cli import main
from gate_runner.errors import UsageError

IDS = ("n01440764", "n01514859")
SHAPES = ("circle", "square", "heart")


def picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (32, 32, 3), np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for label, name in enumerate(("c1", "c2", "c3")):
        for index in range(4):
            picture(tmp_path / "mine" / name / f"{index}.png", 10 * label + index)
    return tmp_path / "mine"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("map.txt", "n01440764 tench, Tinca tinca\nn01514859 hen\nn09999999 other\n"),
        ("map.csv", "n01440764,tench\nn01514859,hen\n"),
        ("map.tsv", "n01440764\ttench\nn01514859\then\n"),
        ("map.json", json.dumps({"n01440764": "tench", "n01514859": "hen"})),
        ("lines.txt", "tench\nhen\n"),
    ],
)
def test_files_of_names(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert ClassWords(names=str(tmp_path / name)).named(IDS) == ("tench", "hen")


@pytest.mark.parametrize(
    ("classes", "text", "words"),
    [
        (("10", "2", "9"), "owl\nwren\nkite\n", ("kite", "owl", "wren")),  # sorted as text
        (("2", "9", "10"), "owl\nwren\nkite\n", ("owl", "wren", "kite")),
        (("c2", "c9", "c10"), "c10 kite\nc2 owl\nc9 wren\n", ("owl", "wren", "kite")),
        (("0", "1", "2"), "2: kite\n0: owl\n1: wren\n", ("owl", "wren", "kite")),
        (("00", "01", "02"), "2 kite\n0 owl\n1 wren\n", ("owl", "wren", "kite")),
        (("apple", "olive", "pear"), "apple\tapple tree\npear\tpear tree\nolive\tolive tree\n",
         ("apple tree", "olive tree", "pear tree")),
        (("blue", "green", "red"), "blue jay\nparrot\nred kite\n", ("blue jay", "parrot", "red kite")),
        (("cat", "dog", "owl"), "owl\nDog\ncat\n", ("cat", "Dog", "owl")),  # the same names in another order
        (("zebra", "Ant", "mole"), "a zebra\nan ant\na mole\n", ("a zebra", "an ant", "a mole")),  # an own order
        (("a", "b"), "left\u2028hand\nright\n", ("left\u2028hand", "right")),
    ],
)  # fmt: skip
def test_a_line_per_class_goes_to_its_class(
    tmp_path: Path, classes: tuple[str, ...], text: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "names.txt").write_text(text)
    assert ClassWords(names=str(tmp_path / "names.txt")).named(classes) == words


@pytest.mark.parametrize(
    ("classes", "text", "message"),
    [
        (("10_a", "2_b"), "owl\nwren\n", "is '10_a' or '2_b' first"),
        (("Zebra", "ant"), "owl\nwren\n", "is 'Zebra' or 'ant' first"),
        (("2", "10", "9"), "owl\nwren\nkite\n", "is '10' or '9' first"),
        (("apple", "olive", "pear"), "apple tree\nolive tree\npear tree\n", "begin with a class's name"),
        (("apple", "olive", "pear"), "apple, Malus\nolive, Olea\npear, Pyrus\n", "begin with a class's name"),
        (("blue", "green", "red"), "red kite\nparrot\nblue jay\n", "'red kite', would stand for the class 'blue'"),
        (("0", "1"), "owl 1\nwren 0\n", "end in the classes' names, as 'owl 1'"),
        (("0", "1"), "0 owl\n1 wren\n00 kite\n", "line 3 gives '0' other words"),
        (("a", "b"), "owl\n", "1 lines for 2 classes"),
    ],
)
def test_a_line_per_class_that_can_go_elsewhere_is_refused(
    tmp_path: Path, classes: tuple[str, ...], text: str, message: str
) -> None:
    (tmp_path / "names.txt").write_text(text)
    with pytest.raises(UsageError, match=message):
        ClassWords(names=str(tmp_path / "names.txt")).named(classes)


def test_names_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    for text, message in (
        ("n01440764 tench\n", "1 of 2 are missing, such as 'n01514859'"),
        ("tench\nhen\nowl\n", "3 lines for 2 classes, and none names a class"),
    ):
        file.write_text(text)
        with pytest.raises(UsageError, match=message):
            ClassWords(names=str(file)).named(IDS)
    (tmp_path / "names.json").write_text("[]")
    for path, message in (("names.json", "expected an object"), ("nowhere.txt", "No such file")):
        with pytest.raises(UsageError, match=message):
            ClassWords(names=str(tmp_path / path)).named(IDS)
    for words, message in (
        (ClassWords(("a photo",)), "exactly one"),
        (ClassWords(prompts="imagenot"), "no template set called 'imagenot'"),
        (ClassWords(prompts="oxford-iiit-pets"), "lacks 2 of 2 classes, such as 'beagel'; nearest: 'beagle'"),
        (ClassWords(knowledge=("wiktionary",)), "needs Wiktextract's dump"),
        (ClassWords(knowledge=("nothing",)), "neither wordnet, NAME=PATH nor a file"),
    ):
        with pytest.raises(UsageError, match=message):
            words.built(["beagel", "owl"])


def test_imagenets_ids_become_words_by_the_sets_order() -> None:
    from knowledge_prompts import load_class_prompts

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
    from knowledge_prompts import built_in_sets, load_class_prompts

    wrong = []
    for name in built_in_sets():
        listed = load_class_prompts(name).classes
        forms = [(form, first) for form in ("{}", "class{}", "{:04d}") for first in (0, 1) if listed]
        for form, first in forms:
            folders = [form.format(number + first) for number in range(len(listed))]
            if set(folders) & set(listed):  # digits are called so
                continue
            for order in (sorted(folders), folders):
                built = ClassWords(prompts=name).built(order)
                right = [listed[folders.index(folder)] for folder in order]
                wrong += [(name, form, first)] * (list(built.classes) != right)
    assert not wrong


@pytest.mark.parametrize(
    "classes",
    [("1", "3", "4"), ("2", "3", "4"), ("1", "01", "2"), ("a1", "b2", "c3"), ("x", "y", "z"), ("0.1", "0.2", "0.3")],
)
def test_a_built_in_sets_order_is_not_laid_beside_other_names(classes: tuple[str, ...], tmp_path: Path) -> None:
    sets = {"templates": ["a {}"], "classes": ["owl", "wren", "kite"]}
    words = ClassWords(prompts="own-set")
    from knowledge_prompts import ClassPrompts

    with pytest.raises(UsageError, match="lacks 3 of 3 classes"):
        words._matched(classes, ClassPrompts("own-set", sets["templates"], sets["classes"]))


def test_imagenets_ids_become_words_by_wordnet() -> None:
    from knowledge_prompts import WordNet

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


def test_a_file_chooses_no_plug_in(tmp_path: Path) -> None:
    about = '[benchmark]\nid = "mine"\n[data]\nkind = "folders"\n[classes]\nknowledge = ["somebodys=texts.json"]\n'
    (tmp_path / "benchmark.toml").write_text(about)
    with pytest.raises(UsageError, match=r"source of knowledge that .*benchmark\.toml may choose: 'somebodys'"):
        own_benchmark(tmp_path / "benchmark.toml")


def test_a_templates_mean_is_the_mean_on_the_sphere(folder: Path, tmp_path: Path) -> None:
    import gate_runner
    from gate_runner.encoders import load_encoder

    encoder = load_encoder("micro-clip")
    templates = ("a {}", "a red {}", "a small {}")
    rows = torch.stack(
        [encoder.encode_text([template.format(name) for name in ("c1", "c2", "c3")]) for template in templates]
    )
    mean = torch.nn.functional.normalize(torch.nn.functional.normalize(rows, dim=-1).mean(dim=0), dim=-1)
    for template, texts in ((templates, mean), (templates[1], torch.nn.functional.normalize(rows[1], dim=-1))):
        done = gate_runner.adapt(
            folder, "zeroshot", encoder=encoder, template=template, output=tmp_path / str(len(template))
        )
        head = gate_runner.load_head(done.heads[0], encoder=encoder)
        torch.testing.assert_close(head.module.weight.detach(), texts)


def test_the_command_takes_sets_names_and_knowledge(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names, knowledge = tmp_path / "names.txt", tmp_path / "more.json"
    names.write_text("".join(f"c{number} {name}\n" for number, name in enumerate(SHAPES, start=1)))
    knowledge.write_text(json.dumps({"circle": ["round"], "heart": ["like two arcs"]}))
    words = ["adapt", "zeroshot", str(folder), "--class-names", str(names), "--knowledge", str(knowledge)]
    words += ["--template", "a {}", "--template", "one {}", "--save", str(tmp_path / "head")]
    with pytest.raises(SystemExit) as ended:
        main(words)
    out = capsys.readouterr()
    assert ended.value.code == 0, out.err
    assert "classes are called circle, square, heart in " in out.out
    assert "2 of 3 with knowledge" in out.out
    card = json.loads((tmp_path / "head" / "card.json").read_text())
    assert card["classes"] == ["c1", "c2", "c3"]
    assert card["prompts"][1] == "a square | one square"
    assert "round" in card["prompts"][0]
    with pytest.raises(SystemExit) as ended:
        main(["adapt", "zeroshot", str(folder), "--prompts", "imagenet"])
    assert ended.value.code == 2
    assert "lacks 3 of 3 classes, such as 'c1'" in capsys.readouterr().err


def test_own_data_take_the_same(folder: Path, tmp_path: Path) -> None:
    (folder.parent / "words.json").write_text(json.dumps(dict(zip(("c1", "c2", "c3"), SHAPES, strict=True))))
    (folder.parent / "set.json").write_text(json.dumps({"templates": ["a {}", "one {}"], "classes": list(SHAPES)}))
    (folder.parent / "more.json").write_text(json.dumps({"circle": ["round"]}))
    path = folder.parent / "z.toml"
    path.write_text(
        '[benchmark]\nid = "z"\ntask = "zero-shot"\n[data]\nkind = "folders"\nroot = "mine"\n'
        '[classes]\nwords = "words.json"\nprompts = "set.json"\nknowledge = ["more.json"]\n'
    )
    (result,) = gate_runner.run(str(path), output=tmp_path / "run", show=False)
    assert result.status == "ok", result.reason
    assert result.training["prompts_encoded"] == 5  # a descriptor is a whole text
    assert result.training["prompts"].endswith("set.json")
    path.write_text(path.read_text().replace('"set.json"', '"imagenet"'))
    (result,) = gate_runner.run(str(path), output=tmp_path / "again", show=False)
    assert result.status == "failed"
    assert "prompt set 'imagenet-1k' lacks" in result.reason


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
