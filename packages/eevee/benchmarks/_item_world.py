"""Made-up test items and the models that they are learnt from, shared by the benchmarks of items."""

from __future__ import annotations

import numpy as np

from eevee.items.irt import Irt, fit_irt, sigmoid

ITEMS, MODELS = 5_000, 60


def item_world(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Irt]:
    """True slopes and difficulties of the items, and the parameters fitted on the outcomes of 60 models."""
    return item_world_outcomes(generator)[:3]


def item_world_outcomes(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Irt, np.ndarray]:
    """The same, and those outcomes."""
    slope, difficulty = 2 * np.exp(generator.normal(0, 0.4, ITEMS)), generator.normal(0, 1.2, ITEMS)
    chance = sigmoid(slope * (generator.normal(size=(MODELS, 1)) - difficulty))
    outcomes = (generator.random(chance.shape) < chance).astype(float)
    return slope, difficulty, fit_irt(outcomes), outcomes


def rmse(errors) -> float:
    """In points."""
    return round(100 * float(np.sqrt(np.mean(np.square(errors)))), 3)
