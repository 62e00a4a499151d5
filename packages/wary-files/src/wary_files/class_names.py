"""Names of classes from a file, and their order: what can be read in two ways is refused, and never guessed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any

from wary_files.errors import UsageError
from wary_files.text import parsed_json

_NUMBERED = re.compile(r"([^0-9]*)([0-9]{1,18})")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"[ :]*(?:[\t,]|$)')
_DIGITS = re.compile(r"[0-9]{1,18}")
_INSTEAD = "write a line per class of its name, a tab and its words, or a .json object from names to words"


def numbers_of(names: Sequence[str]) -> list[int] | None:
    """Return the numbers of classes that are called by numbers, all with one prefix or none; None for others.

    ``1`` and ``01`` are one number: names that differ in their zeros alone have no order by number.

    Example:
        >>> numbers_of(["class2", "class10"]), numbers_of(["2", "02"]), numbers_of(["cat", "2"])
        ([2, 10], None, None)
    """
    matches = [_NUMBERED.fullmatch(name) for name in names]
    prefixes = {match[1] for match in matches if match is not None}
    numbers = [int(match[2]) for match in matches if match is not None]
    return numbers if len(numbers) == len(names) == len(set(numbers)) and len(prefixes) == 1 else None


def in_class_order(names: Iterable[str]) -> list[str]:
    """Return names of classes in the order of their indices: by number if all are numbers, else as text.

    Example:
        >>> in_class_order(["10", "9", "1"])
        ['1', '9', '10']
    """
    listed = sorted(names)
    numbers = numbers_of(listed)
    return listed if numbers is None else [name for _, name in sorted(zip(numbers, listed, strict=True))]


def by_number(names: Sequence[str]) -> list[int] | None:
    """Return the place of each class among all that are called by the numbers from 0, or from 1, on; None for others.

    Example:
        >>> by_number(["class3", "class1", "class2"]), by_number(["2", "4"])
        ([2, 0, 1], None)
    """
    numbers = numbers_of(names)
    if not numbers or min(numbers) > 1 or max(numbers) - min(numbers) != len(numbers) - 1:
        return None
    return [number - min(numbers) for number in numbers]


def laid_in_order(classes: Sequence[str], texts: Sequence[str], where: str) -> tuple[str, ...]:
    """Return one text for each class, in the order of the classes, if these have one order only.

    Args:
        classes: names of classes, in the order of their indices.
        texts: a text for each class, in the file's order.
        where: file or option that gave the texts, for errors.

    Raises:
        UsageError: another number of texts; classes that have another order by number, or without their case, than as
            text; or a text that is another class's name. The message says what to write instead.

    Example:
        >>> laid_in_order(["10", "2", "9"], ["owl", "wren", "kite"], "names.txt")  # sorted as text
        ('kite', 'owl', 'wren')
    """
    if len(texts) != len(classes):
        raise UsageError(f"{where}: {len(texts)} lines for {len(classes)} classes, and none names a class")
    own = [plain_name(name) for name in classes]
    in_text = {plain_name(text): text for text in texts}
    if set(own) == set(in_text) and len(in_text) == len(texts):
        return tuple(in_text[name] for name in own)  # the same names, in whichever order
    as_text, numbered = sorted(classes), numbers_of(classes) is not None
    by_parts = in_class_order(classes) if numbered else sorted(classes, key=_by_parts)
    orders = (
        [by_parts] if numbered else [by_parts, *(sorted(classes, key=key) for key in (str.casefold, _whole, _apart))]
    )
    if list(classes) not in (as_text, by_parts) and not numbered:
        orders = []  # somebody gave their order
    if numbered and list(classes) == as_text:
        text_of = dict(zip(by_parts, texts, strict=True))
        return tuple(text_of[name] for name in classes)
    for order in orders:
        if moved := [(first, second) for first, second in zip(classes, order, strict=True) if first != second]:
            raise UsageError(
                f"{where}: a line per class needs one order of the classes, and these have several: is "
                f"{moved[0][0]!r} or {moved[0][1]!r} first? {_INSTEAD}"
            )
    if numbered:
        return tuple(texts)
    for place, text in enumerate(texts):
        words = f" {plain_name(text)} "
        named = [name for name in own if f" {name} " in words]
        if named and own[place] not in named:
            raise UsageError(
                f"{where}: line {place + 1}, {text!r}, would stand for the class {classes[place]!r}, and names the "
                f"class {classes[own.index(named[0])]!r}: {_INSTEAD}"
            )
    return tuple(texts)


def plain_name(name: str) -> str:
    """Return a name without its case, with blanks for underscores and hyphens; é is one letter, however it is stored.

    Example:
        >>> plain_name("Black-footed_Albatross")
        'black footed albatross'
    """
    return re.sub(r"[\s_-]+", " ", _whole(name)).strip().casefold()


def _whole(text: str) -> str:
    """Return a text whose letters hold their accents (NFC), as most files have them."""
    return unicodedata.normalize("NFC", text)


def _apart(text: str) -> str:
    """Return a text whose accents follow their letters (NFD), as macOS names folders."""
    return unicodedata.normalize("NFD", text)


def _by_parts(name: str) -> list[tuple[int, str]]:
    """Return a key by which ``10_cat`` comes after ``2_dog``."""
    parts = re.split(r"([0-9]{1,18})", name)
    return [(int(part), "") if place % 2 else (-1, part) for place, part in enumerate(parts)]


def names_from_file(path: Path, classes: Sequence[str]) -> tuple[str, ...]:
    r"""Return words for classes from a file: by the classes' names, or a line per class in their order.

    A line ``NAME words`` or ``NAME, words`` counts where names are ids, such as n01440764 or c3; of classes called by
    words (``apple``), a line ``apple tree`` could be either, so a tab has to stand between, or the file to be ``.csv``.
    The words of an id end at their first comma, for lists of ImageNet give synonyms; in a ``.csv``, quotes keep commas.

    Args:
        path: a ``.json`` object from names to words, a ``.json`` list in the classes' order, a ``.csv``, or a text
            file. ``FILE.json#NAME`` is one of the lists of an object of such, as CLIP_benchmark has them by language.
        classes: names of classes, in the order of their indices.

    Raises:
        UsageError: a file that cannot be read, lacks a class, or can be read in two ways; the message shows the file,
            the line or the class, and what to write instead.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "names.txt"
        >>> _ = path.write_text("c10 kite\nc2 owl\n")
        >>> names_from_file(path, ["c2", "c10"])
        ('owl', 'kite')
    """
    path, chosen = file_and_list(path)
    given, classes = classes, [_whole(name) for name in classes]
    try:
        text = _whole(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"class names {path}: {getattr(error, 'strerror', None) or error}") from error
    if path.suffix == ".json":
        try:
            content = parsed_json(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"class names {path}: not JSON ({error})") from error
        where = f"class names {path}"
        if isinstance(content, list) or chosen or _has_lists(content):
            return laid_in_order(given, texts_of(content, chosen, where), where)
        if not isinstance(content, dict) or not all(isinstance(words, str) for words in content.values()):
            raise UsageError(f"{where}: expected an object from the data's names to words, or a list of words")
        return _looked_up(path, content, classes)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    by_name = _by_name(path, lines, set(classes))
    if any(name in by_name for name in classes):
        return _looked_up(path, by_name, classes)
    _refuse_columns(path, lines, set(classes))
    if path.suffix == ".csv":
        whole = [_QUOTED.fullmatch(line) for line in lines]
        lines = [line if cell is None else _unquoted(cell[1]) for line, cell in zip(lines, whole, strict=True)]
    return laid_in_order(given, lines, f"class names {path}")


def file_and_list(path: str | Path) -> tuple[Path, str]:
    """Return a file, and the name of the list in it that ``FILE.json#NAME`` chooses; empty for none.

    Example:
        >>> file, name = file_and_list("it_classnames.json#imagenet1k")
        >>> file.name, name
        ('it_classnames.json', 'imagenet1k')
    """
    file, _, name = str(path).rpartition("#")
    return (Path(file), name) if file.lower().endswith(".json") else (Path(path), "")


def texts_of(content: Any, chosen: str, where: str) -> list[str]:
    """Return the texts of a JSON list, or of one of an object's lists.

    Args:
        content: parsed JSON.
        chosen: name of the list, empty for the only one.
        where: file, for errors.

    Raises:
        UsageError: no such list, several and none chosen, or values that are not texts.

    Example:
        >>> texts_of({"pets": ["un gatto", "un cane"]}, "", "it.json")
        ['un gatto', 'un cane']
    """
    if isinstance(content, dict):
        if not chosen and len(content) == 1:
            chosen = next(iter(content))
        if chosen not in content:
            known = ", ".join(list(content)[:8]) + " …" * (len(content) > 8)
            problem = f"it has no list {chosen!r}" if chosen else f"it has {len(content)} lists: write FILE.json#NAME"
            raise UsageError(f"{where}: {problem}; known: {known}")
        content = content[chosen]
    elif chosen:
        raise UsageError(f"{where}: it is one list, which has no name, so that #{chosen} cannot choose one")
    if not isinstance(content, list) or not content or not all(isinstance(text, str) and text for text in content):
        raise UsageError(f"{where}: expected a list of texts, none of them empty")
    return content


def _has_lists(content: object) -> bool:
    return isinstance(content, dict) and any(isinstance(value, list) for value in content.values())


def _by_name(path: Path, lines: Sequence[str], classes: Set[str]) -> dict[str, str]:
    """Return words by name, if lines give both."""
    ids = all(re.search(r"[0-9]", name) for name in classes)
    numbers = {int(name): name for name in classes} if all(_DIGITS.fullmatch(name) for name in classes) else {}
    separator = r":?[\t ,]+" if ids else r"[\t,]+" if path.suffix == ".csv" else r"\t+"
    by_name: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if quoted := _QUOTED.match(line):  # a comma between quotes is a part of the name
            first, remainder = _unquoted(quoted[1]), [line[quoted.end() :].strip()]
        else:
            first, *remainder = (part.strip() for part in re.split(separator, line, maxsplit=1))
            first = first.strip('"')
        if not remainder or not remainder[0]:
            continue
        name = numbers.get(int(first), first) if len(numbers) == len(classes) and _DIGITS.fullmatch(first) else first
        words = _words(remainder[0], ids=ids, is_csv=path.suffix == ".csv")
        if by_name.setdefault(name, words) != words and name in classes:
            raise UsageError(f"class names {path}: line {number} gives {name!r} other words than a line before it")
    if by_name.keys() & classes:
        return by_name
    if ids and {re.split(r"[\t ,]+", line)[-1] for line in lines} == classes and not classes & set(lines):
        raise UsageError(f"class names {path}: the lines end in the classes' names, as {lines[0]!r} does: {_INSTEAD}")
    begin = {line: match[1] for line in lines if (match := re.match(r"([^ ,]+)[ ,]+\S", line)) and match[1] in classes}
    if len(begin) > 1 and len(set(begin.values())) == len(classes):
        raise UsageError(
            f"class names {path}: lines such as {next(iter(begin))!r} begin with a class's name: is that a part of "
            f"its words? {_INSTEAD}"
        )
    return {}


def _words(given: str, *, ids: bool, is_csv: bool) -> str:
    """Return the words of a line after its class's name: the first of synonyms for an id, else the whole cell."""
    if ids:
        return given.strip('"').split(",")[0].strip().strip('"')
    quoted = _QUOTED.match(given)
    if quoted:
        return _unquoted(quoted[1])
    return (given.split(",")[0] if is_csv else given.split("\t")[0]).strip().strip('"')


def _unquoted(text: str) -> str:
    return text.replace('""', '"').strip()


def _refuse_columns(path: Path, lines: Sequence[str], classes: Set[str]) -> None:
    """Refuse lines of several columns, one of which has the classes' names, or numbers from 0 or 1 on."""
    for separator in ("\t", ",", ";", ":", "=", "|", " "):
        rows = [[cell.strip().strip('"') for cell in line.split(separator)] for line in lines]
        if min(map(len, rows), default=0) < 2:
            continue
        for place in (0,) if separator == " " else (0, -1):
            cells = [row[place] for row in rows]
            where = f"class names {path}: lines such as {lines[0]!r}"
            if separator != " " and set(cells) == classes:
                raise UsageError(f"{where} name a class, {cells[0]!r}: {_INSTEAD}")
            other = {separator.join(row[1:] if place == 0 else row[:-1]) for row in rows}
            numbered = by_number(cells) is not None and all(map(_DIGITS.fullmatch, cells))
            if numbered and len(other) == len(rows) > 1:
                raise UsageError(f"{where} hold numbers, maybe of another order than that of the classes: {_INSTEAD}")


def _looked_up(path: Path, names: dict[str, str], classes: Sequence[str]) -> tuple[str, ...]:
    lacking = [name for name in classes if not names.get(name, "").strip()]
    if lacking:
        raise UsageError(f"class names {path}: {len(lacking)} of {len(classes)} are missing, such as {lacking[0]!r}")
    return tuple(names[name] for name in classes)
