"""How a training went, as a result tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vision_adapters.training import Fit, Recipe


@dataclass(frozen=True)
class Trained(Fit):
    """How a training went, and what was chosen in it.

    Args:
        recipe: by which it was trained in the end.
        tried: of a frozen encoder's head, what each learning rate validated.
        more: what else a result says: gradients, the mix with the start, zero-shot before and after.
        zero_shot: outcomes of class prompts on the test split before the training, where they were asked for.
    """

    recipe: Recipe
    tried: Sequence[tuple[float, float]] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    zero_shot: Any = None

    def about(self, metric: str) -> dict[str, Any]:
        """What a result's ``training`` says of it.

        Args:
            metric: that validation chose by.
        """
        rates = [{"lr": rate, metric: value} for rate, value in self.tried]
        return {
            "steps": self.recipe.steps,
            "lr": self.recipe.lr,
            **({"tried": rates} if rates else {}),
            "chosen_step": self.best_step,
            "validation": [{"step": row.step, metric: row.score} for row in self.history],
            **self.more,
        }
