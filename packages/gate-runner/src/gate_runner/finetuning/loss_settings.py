"""EqSim's settings as ``gate-runner finetune`` takes them: NAME=VALUE, checked before anything is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from eqsim import Multinomial, TopK
from gate_runner.errors import UsageError, unknown


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(text)
    return value


def _choice(*values: str) -> Callable[[str], str]:
    def chosen(text: str) -> str:
        if text not in values:
            raise ValueError(text)
        return text

    return chosen


def _sides(text: str) -> tuple[str, ...]:
    sides = tuple(text.split("+"))
    if not set(sides) <= {"text", "image"} or len(set(sides)) < len(sides):
        raise ValueError(text)
    return sides


def _close(text: str) -> TopK | Multinomial:
    if text.endswith("%"):
        return TopK(fraction=float(text[:-1]) / 100)
    if text.startswith("draw:"):
        return Multinomial(n=int(text[5:]))
    return TopK(k=int(text))


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise ValueError(text)
    return value


_READ: dict[str, tuple[Callable[[str], Any], str]] = {
    "margin": (_number, "a number of at least 0, e.g. 0.1"),
    "margin_v1": (_number, "a number of at least 0"),
    "margin_mode": (_choice("mean", "pair"), "mean or pair"),
    "score": (_choice("cosine", "logits", "softmax"), "cosine, logits or softmax"),
    "sides": (_sides, "text+image, text or image"),
    "close": (_close, "a share such as 5%, a number such as 4, or draw:4"),
    "distant_reduction": (_choice("mean", "reference"), "mean or reference"),
    "epsilon": (_number, "a number above 0"),
    "focus": (_number, "a number of at least 0"),
    "smoothing": (_number, "a number of at least 0"),
}
LOSS_SETTINGS = tuple(_READ)
HARD_NEGATIVES = "hard_negatives"
NAMES = (*LOSS_SETTINGS, HARD_NEGATIVES, "decode_workers")
"""What ``--setting`` of ``gate-runner finetune`` takes."""


def pairs_of(texts: Iterable[str]) -> dict[str, str]:
    """Names and values of texts NAME=VALUE; a name that there is not is refused with the nearest."""
    values: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(f"--setting {text!r}: expected NAME=VALUE, NAME one of {', '.join(NAMES)}")
        if name not in NAMES:
            raise unknown("setting of finetune", name, NAMES)
        if name in values:
            raise UsageError(f"--setting {name} is given twice: {values[name]} and {value}")
        values[name] = value
    return values


def loss_settings(values: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments of `eqsim.build_loss`.

    ``close`` says which pairs are semantically close: the best-scoring N % or N others of each sample, or draws.
    """
    return {name: _read(name, text, *_READ[name]) for name, text in values.items() if name in _READ}


def share_of_hard(values: Mapping[str, str]) -> float:
    """The share of a batch that are hard negatives of the rest; 0 where none were asked for."""
    text = values.get(HARD_NEGATIVES, "0")
    return float(_read(HARD_NEGATIVES, text, _share, "a share from 0 to below 1, e.g. 0.3"))


def _read(name: str, text: str, read: Callable[[str], Any], expected: str) -> Any:
    try:
        return read(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--setting {name} is {text!r}; expected {expected}") from error
