"""Scorers by name, as the command line and a result's JSON give them."""

from __future__ import annotations

import importlib
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eevee.errors import EeveeError
from eevee.scorers.average import AverageScorer
from eevee.scorers.gp import GpScorer
from eevee.scorers.mlp import MlpScorer
from eevee.scorers.neighbours import NeighbourScorer
from eevee.scorers.ridge import RidgeScorer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eevee.scorers.scorer import Scorer

BUILT_IN: dict[str, Callable[..., Any]] = {
    "ridge": RidgeScorer,
    "gp": GpScorer,
    "mlp": MlpScorer,
    "knn": NeighbourScorer,
    "mean": partial(NeighbourScorer, neighbours=0),
}


def named_scorer(spec: str, settings: Mapping[str, Any]) -> Scorer:
    """A scorer from its name, with those of the settings that it has.

    Args:
        spec: `ridge`, `gp`, `mlp`, `knn` or `mean`, two of them with a plus between (their average), or
            `module:callable`, a scorer (or what makes one without arguments) of your own.
        settings: values by name; what the scorer does not have is left out.

    Example:
        >>> named_scorer("ridge", {"alpha": 2.0, "splits": 3}).alpha
        2.0
        >>> named_scorer("ridge+gp", {}).name
        'ridge+gp'
    """
    if spec in BUILT_IN:
        factory = BUILT_IN[spec]
        own = {field.name for field in fields(getattr(factory, "func", factory))}  # type: ignore[arg-type]  # all are dataclasses
        return factory(**{key: value for key, value in settings.items() if key in own})  # type: ignore[no-any-return]  # a class of the table above
    first, plus, second = spec.partition("+")
    if plus and first in BUILT_IN and second in BUILT_IN:
        return AverageScorer(named_scorer(first, settings), named_scorer(second, settings))
    if ":" not in spec:
        raise EeveeError(
            f"scorer {spec!r}; expected one of {', '.join(BUILT_IN)}, two of them as ridge+gp, or module:callable"
        )
    return _own_scorer(spec)


def recorded_scorer(name: str, settings: Mapping[str, Any]) -> Scorer:
    """A built-in scorer from the name and settings that a result's JSON holds."""
    try:
        if name in BUILT_IN:
            return BUILT_IN[name](**settings)  # type: ignore[no-any-return]  # a class of the table above
        first, plus, second = name.partition("+")
        if plus:
            return AverageScorer(recorded_scorer(first, settings["first"]), recorded_scorer(second, settings["second"]))
    except (TypeError, KeyError) as error:
        raise EeveeError(f"scorer {name!r} does not take the recorded settings ({error})") from None
    raise EeveeError(f"made with the scorer {name!r}, which is not built in; give it as scorer")


def _own_scorer(spec: str) -> Scorer:
    module, _, attribute = spec.partition(":")
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.append(folder)  # last, so that nothing of the user's folder stands before what is installed
    try:
        attribute_value = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise EeveeError(f"scorer {spec!r}: {error}") from None
    scorer = attribute_value() if callable(attribute_value) else attribute_value
    for member in ("name", "objective", "score", "predict"):
        if not hasattr(scorer, member):
            raise EeveeError(f"scorer {spec!r} has no {member!r}; expected what eevee.Scorer names")
    return scorer  # type: ignore[no-any-return]  # checked just above
