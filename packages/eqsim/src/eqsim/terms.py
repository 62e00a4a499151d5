"""A contrastive loss and what is added to it, by names and weights as a command line has them."""

from __future__ import annotations

import difflib
import math
from typing import TYPE_CHECKING, Any

from eqsim.checks import check_choice
from eqsim.loss import ClipEqSimLoss, SigLipEqSimLoss

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOSSES = {"clip": ClipEqSimLoss, "siglip": SigLipEqSimLoss}
_TERMS: dict[str, tuple[str, dict[str, str]]] = {
    "eqsim:v1": ("weight", {"mode": "v1"}),
    "eqsim:v2": ("weight", {"mode": "v2"}),
    "eqsim:hybrid": ("weight", {"mode": "hybrid"}),
    "eqsim:relative": ("weight", {"mode": "relative"}),
    "pair": ("pair_weight", {}),
    "hard": ("hard_weight", {}),
    "keep": ("keep_weight", {}),
    "keep:kl": ("keep_weight", {"keep": "kl"}),
    "keep:squares": ("keep_weight", {"keep": "squares"}),
}
"""By name the setting that the weight is, and what else the name settles."""
TERMS = tuple(_TERMS)
"""Names of terms that `build_loss` adds."""


def build_loss(contrast: str = "clip", terms: Iterable[str] = (), **settings: Any) -> ClipEqSimLoss:
    """A contrastive loss plus weighted terms, computed in one pass over the scores.

    Args:
        contrast: "clip" or "siglip".
        terms: "NAME=WEIGHT" each, NAME one of `TERMS`: "eqsim:v1", "eqsim:v2", "eqsim:hybrid" and "eqsim:relative",
            EqSim's modes; "pair", each image and text of a known pair prefers its own; "hard", each image's text
            against its own false ones; "keep" ("keep:kl") and "keep:squares", a frozen teacher's scores.
        settings: further keyword arguments of `ClipEqSimLoss`.

    Returns:
        `ClipEqSimLoss` or `SigLipEqSimLoss`, whose value is contrastive + sum of WEIGHT * term.

    Raises:
        ValueError: a contrast or a term that there is not, with the nearest; a weight that is no number above 0; two
            terms of one kind.

    Example:
        >>> loss = build_loss("clip", ["eqsim:v2=0.5", "keep=1"])
        >>> loss.settings.mode, loss.settings.weight, loss.settings.keep_weight
        ('v2', 0.5, 1.0)
        >>> build_loss("clip", ["eqsim:v3=1"])
        Traceback (most recent call last):
        ...
        ValueError: loss term 'eqsim:v3' is not known; the nearest is eqsim:v2
    """
    check_choice("loss", contrast, _LOSSES)
    chosen: dict[str, Any] = {"mode": "none"}
    by_kind: dict[str, str] = {}
    for term in terms:
        name, equals, number = term.partition("=")
        if name not in TERMS:
            nearest = difflib.get_close_matches(name, TERMS, n=1, cutoff=0.5)
            hint = f"the nearest is {nearest[0]}" if nearest else f"there are: {', '.join(TERMS)}"
            raise ValueError(f"loss term {name!r} is not known; {hint}")
        weight = _weight(term, number) if equals else 1.0
        kind = name.partition(":")[0]
        if kind in by_kind:
            raise ValueError(f"loss terms {by_kind[kind]!r} and {term!r} are both of {kind}: give one of them")
        by_kind[kind] = term
        setting, settled = _TERMS[name]
        chosen |= {setting: weight} | settled
    return _LOSSES[contrast](**(chosen | settings))


def _weight(term: str, number: str) -> float:
    try:
        weight = float(number)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise ValueError(f"loss term {term!r}: expected NAME=WEIGHT with a number above 0")
    return weight
