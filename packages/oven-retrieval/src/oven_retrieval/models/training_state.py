"""Where a training is, and how it is written to a file and read back; needs the extra `torch`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from oven_retrieval.durable import own_file
from oven_retrieval.evaluation.official import harmonic_mean
from oven_retrieval.models.recipe import Questions, Recipe, Trained

Log = Callable[[int, float, float, float], None]


def device_of(model: nn.Module) -> torch.device:
    """Where the parameters are."""
    return next(model.parameters()).device


class TrainingState:
    """Where a training is: the step, the order of the questions, the best parameters so far."""

    def __init__(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        recipe: Recipe,
        train: Questions,
        validation: Questions,
    ) -> None:
        self._model, self._optimiser, self._count = model, optimiser, len(train.truth)
        self._size = min(recipe.batch_size, self._count)
        self._generator = torch.Generator().manual_seed(recipe.seed)
        self._order = torch.empty(0, dtype=torch.int64)
        self._identity: dict[str, Any] = {
            **asdict(recipe),
            "questions": self._count,
            "validation questions": len(validation.truth),
            "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        }
        self.step = self.waited = 0
        self.best = Trained(0, 0.0, 0.0, 0.0, 0)
        self._best_parameters: dict[str, Any] = {}

    def next_batch(self) -> Int[Tensor, " b"]:
        """Numbers of the next questions; each is taken once before any is taken again."""
        if len(self._order) < self._size:
            self._order = torch.randperm(self._count, generator=self._generator)
        chosen, self._order = self._order[: self._size], self._order[self._size :]
        self.step += 1
        return chosen

    def first_look(self, accuracy: tuple[float, float]) -> None:
        """Keep the model as it came."""
        self.best = Trained(0, *accuracy, harmonic_mean(*accuracy), 0)
        self._best_parameters = copy.deepcopy(self._model.state_dict())

    def look(self, accuracy: tuple[float, float], log: Log | None) -> None:
        """Keep the parameters if they are the best so far."""
        mean = harmonic_mean(*accuracy)
        if log is not None:
            log(self.step, *accuracy, mean)
        if mean > self.best.harmonic:
            self.best, self.waited = Trained(self.step, *accuracy, mean, self.step), 0
            self._best_parameters = copy.deepcopy(self._model.state_dict())
        else:
            self.waited += 1

    def save(self, file: Path) -> None:
        """Write everything that the rest of the training depends on; the old file stays until the new one is whole."""
        state = {
            "identity": self._identity,
            "step": self.step,
            "waited": self.waited,
            "best": asdict(self.best),
            "model": self._model.state_dict(),
            "kept": self._best_parameters,
            "optimiser": self._optimiser.state_dict(),
            "order": self._order.clone(),
            "generator": self._generator.get_state(),
        }
        partial = own_file(file.with_name(file.name + ".partial"))
        try:
            torch.save(state, partial)
        except (OSError, RuntimeError) as error:  # torch's zip writer reports a full disk as RuntimeError
            partial.unlink(missing_ok=True)
            raise OSError(f"{file}: cannot be written ({str(error).splitlines()[0]}); the last one is kept") from error
        partial.replace(file)

    def restore(self, file: Path) -> None:
        """Go back to where `save` was called."""
        state = torch.load(file, weights_only=True, map_location=device_of(self._model))
        differing = [name for name, value in self._identity.items() if state["identity"].get(name) != value]
        if differing:
            name = differing[0]
            raise ValueError(
                f"{file}: of another training, with {name} {state['identity'].get(name)!r}, expected "
                f"{self._identity[name]!r}; remove it to start anew"
            )
        self.step, self.waited, self.best = state["step"], state["waited"], Trained(**state["best"])
        self._model.load_state_dict(state["model"])
        self._best_parameters = state["kept"]
        self._optimiser.load_state_dict(state["optimiser"])
        self._order = state["order"].cpu()
        self._generator.set_state(state["generator"].cpu())

    def finish(self) -> Trained:
        """Put the best parameters back."""
        self._model.load_state_dict(self._best_parameters)
        self._model.eval()
        best = self.best
        return Trained(best.step, best.seen, best.unseen, best.harmonic, self.step)
