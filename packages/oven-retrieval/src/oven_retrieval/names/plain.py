"""Names of any script as plain letters, so that spellings of one name meet in their trigrams."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from oven_retrieval.tokens import fold

if TYPE_CHECKING:
    from collections.abc import Callable

_LATIN_OF = {
    "абвгдезийклмнопрстуфыэёіјѐўґ": "a b v g d e z i i k l m n o p r s t u f y e e i j e u g",
    "жхцчшщюяђѓєѕїљњћќџ": "zh kh ts ch sh shch yu ya dj g ye dz i lj nj c k dz",
    "αβγδεζηθικλμνξοπρσςτυφχψω": "a v g d e z i th i k l m n x o p r s s t y f ch ps o",
    "æœøđðþłıħŋß": "ae oe o d d th l i h ng ss",
}
_ARABIC = {"ى": "ي", "ة": "ه", "ٱ": "ا", "ی": "ي", "ک": "ك", "ؤ": "و", "ئ": "ي"}
_SILENT = dict.fromkeys("ъьـءー", "")
_KANA = {chr(code): chr(code - 0x60) for code in range(0x30A1, 0x30F7)} | {"・": " ", "゠": " ", "ヽ": "ゝ", "ヾ": "ゞ"}
_ALPHABETS = {a: b for letters, latin in _LATIN_OF.items() for a, b in zip(letters, latin.split(), strict=True)}
_LETTERS = str.maketrans(_ALPHABETS | _ARABIC | _SILENT | _KANA)
_ARTICLE = re.compile(r"\bال(?=\w{3})")
_KANA = {chr(code): chr(code - 0x60) for code in range(0x30A1, 0x30F7)} | {
    "ー": "",
    "・": " ",
    "゠": " ",
    "ヽ": "ゝ",
    "ヾ": "ゞ",
}
_SOUND_MARKS = "\u3099\u309a"
_APART = re.compile(r"[^\w\u0300-\u036f]+|_")


def plain(text: str) -> str:
    """Plain letters of a name: without case, width, accents and punctuation; scripts of letters in Latin ones.

    Marks go (`é`, Arabic vowels), and so do letters' variants (`ß` and ss, `ё` and е, `ø` and o, Arabic alef, ya, ta
    marbuta and article). Katakana is hiragana without long sounds; Cyrillic and Greek are Latin letters. A script that
    is none of these stays as it is. Where PyICU is installed, it writes all scripts in Latin letters instead.

    Example:
        >>> plain("Großer Müggelsee"), plain("Алёна"), plain("Ἀθῆναι"), plain("القاهرة") == plain("قاهره")
        ('grosser muggelsee', 'alena', 'athinai', True)
        >>> plain("コンピューター") == plain("こんぴゅた"), plain("!!!"), plain("한국")
        (True, '!!!', '한국')
    """
    folded = fold(text)
    if folded.isascii():
        return " ".join(_APART.sub(" ", folded).split()) or folded
    romanize = _icu()
    return _without_marks(romanize(folded) if romanize else folded) or folded


def _without_marks(folded: str) -> str:
    marked = unicodedata.normalize("NFKD", folded)
    bare = "".join([c for c in marked if c in _SOUND_MARKS or unicodedata.category(c) != "Mn"])
    letters = unicodedata.normalize("NFC", unicodedata.normalize("NFC", bare).translate(_LETTERS))
    return " ".join(_APART.sub(" ", _ARTICLE.sub("", letters)).split())


@cache
def _icu() -> Callable[[str], str] | None:
    """ICU's transliteration into Latin letters, where PyICU is installed."""
    if find_spec("icu") is None:
        return None
    from icu import Transliterator

    transliterator = Transliterator.createInstance("Any-Latin; Latin-ASCII; Lower")
    return lambda text: str(transliterator.transliterate(text))


def folding() -> str:
    """What `plain` goes by here: an index is asked by the folding that it was built with."""
    return "icu 1" if _icu() else "tables 1"
