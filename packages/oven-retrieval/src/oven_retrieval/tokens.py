"""From a name to its key and its tokens, for any script."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtyping import UInt64

_ASCII_WORD = re.compile(r"[a-z0-9]+")
# Scripts that put no space between words: each character is a token.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)


@cache
def _word_pattern() -> re.Pattern[str]:
    r"""Words of any script; combining marks belong to words, which `\w` alone would split."""
    marks = "".join(re.escape(chr(c)) for c in range(0x300, 0x20000) if unicodedata.category(chr(c))[0] == "M")
    return re.compile(rf"[{_UNSPACED}][{marks}]*|(?:[^\W_{_UNSPACED}]|[{marks}])+")


def fold(text: str) -> str:
    r"""The key under which names that differ only in case, width or spacing meet.

    Compatibility normal form (NFKC), case folding, runs of white space as one blank.

    Example:
        >>> fold("  Ｗood\tDuck "), fold("STRASSE") == fold("Straße")
        ('wood duck', True)
    """
    if text.isascii():
        return " ".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def words(text: str) -> list[str]:
    """Tokens of a name: folded runs of letters, digits and marks; one token per character where a script has no spaces.

    A name without any of these (an emoji, `!!!`) gives its characters.

    Example:
        >>> words("O'Brien's Dry-Dock No. 2")
        ['o', 'brien', 's', 'dry', 'dock', 'no', '2']
        >>> words("東京 tower"), words("🦆")
        (['東', '京', 'tower'], ['🦆'])
    """
    if text.isascii():
        lowered = text.lower()
        return _ASCII_WORD.findall(lowered) or [c for c in lowered if not c.isspace()]
    folded = fold(text)
    return _word_pattern().findall(folded) or [c for c in folded if not c.isspace()]


def whitespace(text: str) -> list[str]:
    """Tokens between white space, folded: what most published BM25 runs on names use."""
    return fold(text).split()


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {"words": words, "whitespace": whitespace}


def hash64(texts: Iterable[str]) -> UInt64[np.ndarray, " t"]:
    """64-bit BLAKE2b of each text, the same on every machine and in every process.

    Numerics: two of 6 million different texts share a hash with a probability of 1e-6; a text that is not among them
    hits one of theirs with 3e-13. Nothing is compared beyond the hash.

    Example:
        >>> hash64(["Belgium", "belgium"]).tolist()
        [9518829793419056018, 6924852382530071863]
    """
    digests = b"".join([blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts])
    hashes = np.frombuffer(digests, dtype="<u8").astype(np.uint64, copy=False)
    return hashes if sys.byteorder == "little" else hashes.astype(np.uint64)
