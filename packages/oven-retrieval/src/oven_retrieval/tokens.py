"""From a name to its key, its tokens and its plain letters, for any script."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtyping import UInt64

_LITTLE_ENDIAN = np.dtype("<u8")
_UNITS = (
    "ml cl dl l mg kg g mm cm km m mah ah wh kwh kw mw w mv kv v ma khz mhz ghz hz kb mb gb tb "
    "inch inches ft oz lb lbs gal mph kmh db nm rpm bar psi"
)  # fmt: skip
"""Units that are separated from the number before them."""
_UNIT = "|".join(sorted(_UNITS.split(), key=len, reverse=True))
_ASCII_WORD = re.compile(r"[a-z0-9]+")
# Scripts that put no space between words: each character is a token.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_LETTER = rf"[^\W_{_UNSPACED}]"
_MEASURE = (
    rf"(?<!{_LETTER})(?<!\d[.,])"
    rf"(?:\d+[.,]\d+(?=\s?(?:{_UNIT})(?!{_LETTER}))|\d+(?=(?:{_UNIT})(?!{_LETTER})))"
)
"""The number of a measure: `0.15` of "0.15l" and "0.15 l", `200` of "200g"."""
_MAY_BE_MEASURED = re.compile(r"\d\s?[a-z]{1,6}(?![a-z0-9])", re.ASCII)
_ASCII_MEASURED = re.compile(rf"{_MEASURE}|[a-z0-9]+", re.ASCII)
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
_SOUND_MARKS = "\u3099\u309a"
_SPACED_MARK = re.compile(r"(?<=[\u3041-\u30fe\uff66-\uff9d])[\u309b\u309c]")
"""A voiced sound mark that stands alone behind a kana, as old tables have it; NFKC puts a blank there."""
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_APART = re.compile(r"[^\w\u0300-\u036f]+|_")


@cache
def _marks() -> str:
    """All combining marks, for a class of characters: regular expressions do not count them as letters."""
    return "".join(re.escape(chr(c)) for c in range(0x300, 0x20000) if unicodedata.category(chr(c))[0] == "M")


@cache
def _word_pattern() -> re.Pattern[str]:
    """Words of any script, and single characters of a script without spaces."""
    return re.compile(rf"{_MEASURE}|[{_UNSPACED}][{_marks()}]*|(?:[^\W_{_UNSPACED}]|[{_marks()}])+")


@cache
def _run_pattern() -> re.Pattern[str]:
    """Words of any script; the first group is a whole run of a script without spaces."""
    return re.compile(rf"{_MEASURE}|((?:[{_UNSPACED}][{_marks()}]*)+)|(?:[^\W_{_UNSPACED}]|[{_marks()}])+")


def fold(text: str) -> str:
    r"""The key under which names that differ only in case, width or spacing meet.

    Compatibility normal form (NFKC), case folding, runs of white space as one blank. A voiced sound mark that stands
    alone behind a kana belongs to it.

    Example:
        >>> fold("  Ｗood\tDuck "), fold("STRASSE") == fold("Straße"), fold("ﾊ゜ﾝ") == fold("パン")
        ('wood duck', True, True)
    """
    if text.isascii():
        return " ".join(text.lower().split())
    if "\u309b" in text or "\u309c" in text:
        text = _SPACED_MARK.sub(lambda mark: chr(ord(mark[0]) - 2), text)
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def words(text: str) -> list[str]:
    """Tokens of a name: folded runs of letters, digits and marks; one token per character where a script has no spaces.

    A number and the unit behind it are two tokens, however they are spaced; `0,50` litres are `0.5`. A name without
    letters or digits (an emoji, `!!!`) gives its characters.

    Example:
        >>> words("O'Brien's Dry-Dock No. 2")
        ['o', 'brien', 's', 'dry', 'dock', 'no', '2']
        >>> words("Milk 0.15l"), words("milk 0,15 L"), words("Flour 200g")
        (['milk', '0.15', 'l'], ['milk', '0.15', 'l'], ['flour', '200', 'g'])
        >>> words("東京 tower"), words("🦆")
        (['東', '京', 'tower'], ['🦆'])
    """
    if text.isascii():
        lowered = text.lower()
        if _MAY_BE_MEASURED.search(lowered):
            return [_number(token) for token in _ASCII_MEASURED.findall(lowered)]
        return _ASCII_WORD.findall(lowered) or [c for c in lowered if not c.isspace()]
    folded = fold(text)
    return [_number(token) for token in _word_pattern().findall(folded)] or [c for c in folded if not c.isspace()]


def _number(token: str) -> str:
    """Write the number of a measure alike: `1000` for "1,000", `0.5` for "0,50"; other tokens hold no point."""
    whole, point, decimals = token.replace(",", ".").partition(".")
    if not point:
        return token
    if "," in token and len(decimals) == 3 and whole.strip("0"):
        return whole + decimals
    decimals = decimals.rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


def bigrams(text: str) -> list[str]:
    """As `words`, but two neighbouring characters are one token where a script has no spaces; one alone is one.

    Example:
        >>> bigrams("東京都 tower"), bigrams("鴨")
        (['東京', '京都', 'tower'], ['鴨'])

    Source: what Lucene's CJKBigramFilter does, here also for Thai, Lao, Burmese and Khmer.
    """
    if text.isascii():
        return words(text)
    folded = fold(text)
    tokens: list[str] = []
    for match in _run_pattern().finditer(folded):
        tokens += _pairs(match[0]) if match[1] else [_number(match[0])]
    return tokens or [c for c in folded if not c.isspace()]


def _pairs(run: str) -> list[str]:
    single = _word_pattern().findall(run)
    return [a + b for a, b in pairwise(single)] or single


def whitespace(text: str) -> list[str]:
    """Tokens between white space, folded: what most published BM25 runs on names use."""
    return fold(text).split()


def plain(text: str) -> str:
    """Plain letters of a name: without case, width, accents and punctuation; scripts of letters in Latin ones.

    Marks go (`é`, Arabic vowels), and so do letters' variants (`ß` and ss, `ё` and е, `ø` and o, Arabic alef, ya, ta
    marbuta and article). Katakana is hiragana without long sounds; Cyrillic and Greek are Latin letters;
    traditional Chinese characters are simplified ones. A script that is none of these stays as it is.

    Example:
        >>> plain("Großer Müggelsee"), plain("Алёна"), plain("Ἀθῆναι"), plain("القاهرة") == plain("قاهره")
        ('grosser muggelsee', 'alena', 'athinai', True)
        >>> plain("コンピューター") == plain("こんぴゅた"), plain("!!!"), plain("한국")
        (True, '!!!', '한국')
        >>> plain("臺灣大學"), plain("台湾大学")
        ('台湾大学', '台湾大学')
    """
    folded = fold(text)
    if folded.isascii():
        return " ".join(_APART.sub(" ", folded).split()) or folded
    marked = unicodedata.normalize("NFKD", folded)
    bare = "".join([c for c in marked if c in _SOUND_MARKS or unicodedata.category(c) != "Mn"])
    letters = unicodedata.normalize("NFC", unicodedata.normalize("NFC", bare).translate(_LETTERS))
    if _HAN.search(letters):
        letters = letters.translate(_simplified())
    return " ".join(_APART.sub(" ", _ARTICLE.sub("", letters)).split()) or folded


@cache
def _simplified() -> dict[int, int]:
    """The simplified character of each traditional one, by OpenCC: a character's, whatever stands next to it."""
    import opencc

    characters = [chr(code) for first, last in ((0x3400, 0x4DBF), (0x4E00, 0x9FFF)) for code in range(first, last + 1)]
    converted = opencc.OpenCC("t2s").convert("\n".join(characters)).split("\n")
    pairs = zip(characters, converted, strict=True)
    return {ord(before): ord(after) for before, after in pairs if before != after}


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "words": words,
    "bigrams": bigrams,
    "whitespace": whitespace,
}


def hash64(texts: Iterable[str]) -> UInt64[np.ndarray, " t"]:
    """64-bit BLAKE2b of each text, the same on every machine and in every process.

    Numerics: two of 6 million different texts share a hash with a probability of 1e-6; a text that is not among them
    hits one of theirs with 3e-13. Nothing is compared beyond the hash.
    """
    return _as_numbers([_digest(text) for text in texts])


def one_hash(text: str) -> UInt64[np.ndarray, " 1"]:
    """`hash64` of one text, in less time."""
    return np.frombuffer(_digest(text), _LITTLE_ENDIAN).astype(np.uint64, copy=False)


def hash_tokens(tokens: Iterable[str]) -> UInt64[np.ndarray, " t"]:
    """`hash64` that remembers the last 32,768 different texts: the words of queries come again and again."""
    return _as_numbers(list(map(_remembered_digest, tokens)))


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


_remembered_digest = lru_cache(1 << 15)(_digest)


def _as_numbers(digests: list[bytes]) -> UInt64[np.ndarray, " t"]:
    hashes = np.frombuffer(b"".join(digests), _LITTLE_ENDIAN)
    return hashes if sys.byteorder == "little" else hashes.astype(np.uint64)
