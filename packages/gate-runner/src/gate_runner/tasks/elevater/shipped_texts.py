"""Templates, class names and knowledge of the sets that come with the packages: the drawn ones, and the digits."""

from __future__ import annotations

from eqben_builder.stand_ins.described import TEXTS as DRAWN
from eqben_builder.stand_ins.described import Texts


def _digits() -> Texts:
    spelt = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    wordnet = {str(number): [f"{word}, digit, number", f"the number {word}"] for number, word in enumerate(spelt)}
    return Texts(('a photo of the number: "{}".',), tuple(str(number) for number in range(10)), {"wordnet": wordnet})


TEXTS: dict[str, Texts] = {**{f"icinw-{name}": texts for name, texts in DRAWN.items()}, "digits": _digits()}
"""By the benchmark's id."""
