"""English inflections of a name: number, articles, possessives, hyphens, and diacritics where they are asked for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

DIACRITICS = 64
"""Added to the number of changes where diacritics were left out: who does not want that skips these."""

_ARTICLE = re.compile(r"^(?:the|an?) (?=\S)")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s\b|(?<=s)['\u2019](?!\w)")
_APOSTROPHE = re.compile("['\u2019]")
_HYPHEN = re.compile(r"(?<=\w)[-\u2010-\u2015](?=\w)")
_PREPOSITION = re.compile(r"\w (?:of|in|at|for|on|to|by|from|with|without|de|du)\b")
_MARK = re.compile("['\u2019\\-\u2010-\u2015]")
_ENDING = re.compile(r"(?:s|i|ae?|eaux|men|oxen|children|brethren|feet|teeth|geese|mice|lice|dice|people|im)\b")
_SUFFIXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("men", ("man",)),
    ("feet", ("foot",)),
    ("teeth", ("tooth",)),
    ("geese", ("goose",)),
    ("mice", ("mouse",)),
    ("lice", ("louse",)),
    ("children", ("child",)),
    ("oxen", ("ox",)),
    ("brethren", ("brother",)),
    ("people", ("person",)),
    ("dice", ("die",)),
    ("eaux", ("eau",)),
    ("ies", ("y", "ie", "ies")),
    ("ves", ("f", "fe", "ve")),
    ("oes", ("o", "oe")),
    ("ices", ("ix", "ex", "ice")),
    ("sses", ("ss", "sse")),
    ("zzes", ("z", "zz")),
    ("ses", ("s", "se", "sis")),
    ("xes", ("x", "xe", "xis")),
    ("zes", ("z", "ze")),
    ("ches", ("ch", "che")),
    ("shes", ("sh", "she")),
    ("ides", ("ide", "is")),
    ("es", ("e", "is")),
    ("ss", ()),
    ("us", ()),
    ("is", ()),
    ("s", ("",)),
    ("ata", ("a",)),
    ("ae", ("a",)),
    ("a", ("um", "on")),
    ("i", ("us", "o")),
    ("im", ("",)),
)
_UNCHANGED = frozenset(
    (
        *("news", "series", "species", "means", "gallows", "barracks", "headquarters", "crossroads", "lens", "gas"),
        *("bus", "alas", "bias", "atlas", "canvas", "chaos", "christmas", "cosmos", "ethos", "iris", "physics"),
        *("mathematics", "economics", "politics", "athletics", "linguistics", "genetics", "statistics", "optics"),
        *("acoustics", "this", "his", "its", "yes", "always", "perhaps", "mars", "paris", "wales", "james", "charles"),
    )
)

Exceptions = Mapping[str, Sequence[str]]


def singulars(word: str, exceptions: Exceptions | None = None) -> list[str]:
    """What a word may be the plural of, likeliest first: exceptions, then the first rule whose ending it has.

    Example:
        >>> singulars("ducks"), singulars("wolves"), singulars("crises"), singulars("news")
        (['duck'], ['wolf', 'wolfe', 'wolve'], ['cris', 'crise', 'crisis'], [])
        >>> singulars("corpora", {"corpora": ("corpus",)})
        ['corpus', 'corporum', 'corporon']
    """
    candidates = list((exceptions or {}).get(word, ()))
    if word not in _UNCHANGED and len(word) > 2:
        for ending, instead in _SUFFIXES:
            if word.endswith(ending):
                stem = word[: -len(ending)]
                candidates += [stem + new for new in instead if len(stem + new) > 1 and stem + new != word]
                break
    return list(dict.fromkeys(candidates))


def read_exceptions(folder: str | Path) -> dict[str, tuple[str, ...]]:
    r"""The irregular plurals of a WordNet folder (`noun.exc`): plural -> singulars, underscores as blanks.

    Raises:
        FileNotFoundError: names the file that is missing.
        ValueError: a line without two words.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "noun.exc").write_text("corpora corpus\n", encoding="utf-8")
        >>> read_exceptions(folder)
        {'corpora': ('corpus',)}
    """
    file = Path(folder) / "noun.exc"
    exceptions: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        plural, *singular = line.replace("_", " ").split(" ") if "_" not in line else line.split()
        if not singular:
            raise ValueError(f"{file}:{number}: expected a plural and its singulars, got {line!r:.60}")
        exceptions[plural.replace("_", " ")] = tuple(word.replace("_", " ") for word in singular)
    return exceptions


def without_diacritics(text: str) -> str:
    """Letters without their marks."""
    marks = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(c for c in marks if unicodedata.category(c) != "Mn"))


def forms(folded: str, exceptions: Exceptions | None = None) -> dict[str, int]:
    """Other texts that a folded name may be an inflection of, and how many changes lead to each.

    Number is that of the head: the last word, or the one before a preposition.

    Args:
        folded: a name as `fold` gives it.
        exceptions: irregular plurals.

    Returns:
        Text -> changes, plus `DIACRITICS` where marks were left out; without the text itself.

    Example:
        >>> forms("the sisters-in-law")["sister in law"], forms("duck"), forms("the duck's")
        (3, {}, {"duck's": 1, 'the duck': 1, 'duck': 2})
    """
    if (
        folded.isascii()
        and not folded.startswith(("the ", "a ", "an "))
        and _ENDING.search(folded) is None
        and _MARK.search(folded) is None
        and (not exceptions or folded.rpartition(" ")[2] not in exceptions)
    ):
        return {}
    changes_of = {folded: 0}
    for pattern, instead in ((_ARTICLE, ""), (_POSSESSIVE, ""), (_HYPHEN, " ")):
        for text, changes in list(changes_of.items()):
            changes_of.setdefault(pattern.sub(instead, text), changes + 1)
    for text, changes in list(changes_of.items()):
        for singular in _of_head(text, exceptions):
            changes_of.setdefault(singular, changes + 1)
    if not folded.isascii():
        for text, changes in list(changes_of.items()):
            changes_of.setdefault(without_diacritics(text), changes + 1 + DIACRITICS)
    del changes_of[folded]
    return {text: changes for text, changes in changes_of.items() if text.strip()}


def _of_head(text: str, exceptions: Exceptions | None) -> Iterator[str]:
    preposition = _PREPOSITION.search(text)
    end = preposition.start() + 1 if preposition else len(text)
    start = max(text.rfind(" ", 0, end), text.rfind("-", 0, end)) + 1
    if _APOSTROPHE.search(text, start, end):
        return
    for head in dict.fromkeys((text[start:end], text[:end])):
        for singular in singulars(head, exceptions) if head == text[start:end] else (exceptions or {}).get(head, ()):
            yield text[: end - len(head)] + singular + text[end:]
