"""Words of a text in the Penn Treebank's convention, which the toolkit's form of a prompt needs."""

from __future__ import annotations

import re

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        # Quotation marks that open, then all others: they become `` and ''.
        (r'^"', "`` "),
        (r'([\s(\[{<])"', r"\1 `` "),
        # A full stop ends a word only at the end of a sentence; commas and colons stay inside numbers.
        (r"\.(?=[\"')\]}>]*(?:\s+[\"'(\[{<]*[A-Z]|\s*$))(?<!\.\.)", " . "),
        (r"([:,])(?=\D|$)", r" \1 "),
        (r"\.\.\.", " ... "),
        (r"([;@#$%&?!])", r" \1 "),
        (r"([\[\](){}<>])", r" \1 "),
        (r"--", " -- "),
        (r'"', " '' "),
        # Contractions and possessives.
        (r"([^'\s])('(?:s|m|d|ll|re|ve)?)(?=\s|$)", r"\1 \2"),
        (r"([^'\s])(n't)\b", r"\1 \2"),
        (r"\b(can)(not)\b", r"\1 \2"),
    )
)
_SENTENCE_END = _RULES[2][0]


def treebank_words(text: str) -> list[str]:
    r"""Split a text into words and punctuation marks.

    Source: the Penn Treebank's tokenisation; the toolkit calls NLTK for it. A full stop before a capital letter counts
        as the end of a sentence here, whereas NLTK uses a trained model: the two agree where no abbreviation is
        followed by a capital. CLIP's tokeniser ignores where the spaces are.
    """
    for pattern, replacement in _RULES:
        if pattern is _SENTENCE_END:
            # A capital letter must be one: this rule alone is sensitive to case.
            text = re.sub(pattern.pattern, replacement, text)
        else:
            text = pattern.sub(replacement, text)
    return text.split()
