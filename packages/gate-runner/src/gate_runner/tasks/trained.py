"""How a training went, as a result tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vision_adapters.training import Fit, Recipe


class Tried(NamedTuple):
    """A learning rate, after how many steps its training ended, and the best validation until then."""

    lr: float
    steps: int
    score: float


@dataclass(frozen=True)
class Trained(Fit):
    """How a training went, and what was chosen in it.

    Args:
        recipe: by which it was trained in the end.
        tried: of a frozen encoder's head, how far each learning rate got.
        more: what else a result says: gradients, the mix with the start, zero-shot before and after.
        zero_shot: outcomes of class prompts on the test split before the training, where they were asked for.
    """

    recipe: Recipe
    tried: Sequence[Tried] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    zero_shot: Any = None

    def about(self, metric: str) -> dict[str, Any]:
        """What a result's ``training`` says of it.

        Args:
            metric: that validation chose by.
        """
        rates = [{"lr": one.lr, "steps": one.steps, metric: one.score} for one in self.tried]
        return {
            "steps": self.recipe.steps,
            "lr": self.recipe.lr,
            **({"tried": rates} if rates else {}),
            "chosen_step": self.best_step,
            "validation": [{"step": row.step, metric: row.score} for row in self.history],
            **self.more,
        }
