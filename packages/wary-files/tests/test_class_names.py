"""Names of classes from a file: each line goes to its class, and what could go elsewhere is refused."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from wary_files.class_names import in_class_order, names_from_file
from wary_files.errors import UsageError

IDS = ("n01440764", "n01514859")


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["10", "2", "1"], ["1", "2", "10"]),
        (["class10", "class9"], ["class9", "class10"]),
        (["010", "2"], ["2", "010"]),
        (["1", "01", "2"], ["01", "1", "2"]),  # one number twice: as text
        (["a10", "b9"], ["a10", "b9"]),
        (["0.5", "0.10"], ["0.10", "0.5"]),
        (["10 cats", "9 cats"], ["10 cats", "9 cats"]),
    ],
)
def test_numbers_are_counted(names: list[str], order: list[str]) -> None:
    assert in_class_order(names) == order


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
    assert names_from_file(tmp_path / name, IDS) == ("tench", "hen")


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
    assert names_from_file(tmp_path / "names.txt", classes) == words


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
        names_from_file(tmp_path / "names.txt", classes)


def test_names_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    for text, message in (
        ("n01440764 tench\n", "1 of 2 are missing, such as 'n01514859'"),
        ("tench\nhen\nowl\n", "3 lines for 2 classes, and none names a class"),
    ):
        file.write_text(text)
        with pytest.raises(UsageError, match=message):
            names_from_file(file, IDS)
    (tmp_path / "names.json").write_text('{"c1": 1}')
    for path, message in (("names.json", "expected an object"), ("nowhere.txt", "No such file")):
        with pytest.raises(UsageError, match=message):
            names_from_file(tmp_path / path, IDS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;owl\nb;hen\n", "name a class, 'a'"),
        ("a: owl\nb: hen\n", "name a class, 'a'"),
        ("a=owl\nb=hen\n", "name a class, 'a'"),
        ("owl,b\nhen,a\n", "name a class, 'b'"),
        ("owl\tb\nhen\ta\n", "name a class, 'b'"),
        ("owl,1\nhen,0\n", "hold numbers"),
        ("1: owl\n0: hen\n", "hold numbers"),
        ("1 owl\n0 hen\n", "hold numbers"),
        ("1 owl\n2 hen\n", "hold numbers"),
    ],
)
def test_lines_of_names_with_another_column_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "n.txt").write_text(text)
    with pytest.raises(UsageError, match=f"n.txt: lines such as .* {message}.*write a line per class"):
        names_from_file(tmp_path / "n.txt", ("a", "b"))


@pytest.mark.parametrize(
    "text", ["owl, grey\nhen, red\n", "type 1\ntype 2\n", "1 door\n2 door\n", "ratio 1:2\nratio 2:3\n"]
)
def test_words_with_signs_and_numbers_stay_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "n.txt").write_text(text)
    assert names_from_file(tmp_path / "n.txt", ("a", "b")) == tuple(text.strip().split("\n"))


def test_a_list_of_words_is_in_the_order_of_the_classes(tmp_path: Path) -> None:
    """An object from names to words is looked up; of lists by data set one is chosen."""
    file = tmp_path / "names.json"
    file.write_text('["tinca", "gallina"]')
    assert names_from_file(file, IDS) == ("tinca", "gallina")
    file.write_text('{"birds": ["a", "b", "c"], "two": ["tinca", "gallina"]}')
    assert names_from_file(Path(f"{file}#two"), IDS) == ("tinca", "gallina")
    for wrong, message in (("", "it has 2 lists: write FILE.json#NAME"), ("#birds", "3 lines for 2 classes")):
        with pytest.raises(UsageError, match=message):
            names_from_file(Path(f"{file}{wrong}"), IDS)


@pytest.mark.parametrize(("folders", "file"), [("NFD", "NFC"), ("NFC", "NFD")])  # macOS names folders by NFD
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.txt", "ü\tu with dots\né\te with a stroke\n"),
        ("names.csv", "ü,u with dots\né,e with a stroke\n"),
        ("names.json", '{"ü": "u with dots", "é": "e with a stroke"}'),
    ],
)
def test_accents_of_classes_may_be_stored_in_either_way(
    tmp_path: Path, folders: str, file: str, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(unicodedata.normalize(file, text), encoding="utf-8")  # type: ignore[arg-type]  # a form's name
    classes = [unicodedata.normalize(folders, letter) for letter in "éü"]  # type: ignore[arg-type]
    assert names_from_file(path, classes) == ("e with a stroke", "u with dots")
    path = tmp_path / "list.json"
    path.write_text(json.dumps([unicodedata.normalize(file, letter) for letter in "üé"]))  # type: ignore[arg-type]
    assert [unicodedata.normalize("NFC", word) for word in names_from_file(path, classes)] == ["é", "ü"]


def test_classes_whose_order_depends_on_how_accents_are_stored_need_names(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("first\nsecond\n")
    for form in ("NFC", "NFD"):
        classes = sorted(unicodedata.normalize(form, name) for name in ("éa", "zoo"))
        with pytest.raises(UsageError, match="one order of the classes"):
            names_from_file(tmp_path / "names.txt", classes)


@pytest.mark.parametrize(
    ("name", "text", "classes", "words"),
    [
        ("n.csv", '"crane, bird",a crane\n"crane, machine","a crane, tall"\n', ("crane, bird", "crane, machine"),
         ("a crane", "a crane, tall")),
        ("n.csv", 'class,words\n"a ""b""","the ""b"""\nowl,"an owl, grey"\n', ('a "b"', "owl"),
         ('the "b"', "an owl, grey")),
        ("n.csv", '"crane"\n"owl, grey"\n', ("a", "b"), ("crane", "owl, grey")),
        ("n.csv", "owl,an owl,17\nwren,a wren,3\n", ("owl", "wren"), ("an owl", "a wren")),
        ("n.txt", "crane\tcrane, a bird\nowl\towl\n", ("crane", "owl"), ("crane, a bird", "owl")),
        ("n.csv", 'c1,"kite, glede"\nc2,"owl"\n', ("c1", "c2"), ("kite", "owl")),
        ("n.csv", '"c,1","kite, glede"\n"c,2",owl\n', ("c,1", "c,2"), ("kite", "owl")),
    ],
)  # fmt: skip
def test_commas_between_quotes_are_a_part_of_a_name(
    tmp_path: Path, name: str, text: str, classes: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """`"crane, bird",words` named the class ``crane``, and ``"a crane, tall"`` lost what follows its comma."""
    (tmp_path / name).write_text(text)
    assert names_from_file(tmp_path / name, classes) == words
