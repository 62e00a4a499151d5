"""In-batch contrastive training with early stopping on the harmonic mean; needs the extra `torch`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from oven_retrieval.models.recipe import Entities, Inputs, Questions, Recipe, Trained, learning_rate
from oven_retrieval.models.training_state import Log, TrainingState, device_of


class DualEncoder(Protocol):
    """What is trained: `Clip2ClipModule`, `ClipFusion` or `PatchAdaptor`."""

    def query(self, image: Any, text: Any, /) -> Tensor:
        """Vectors of questions."""
        ...

    def entity(self, image: Any, text: Any, /) -> Tensor:
        """Vectors of entities."""
        ...

    def similarity(self, query: Tensor, entity: Tensor, /) -> Tensor:
        """Scores of all pairs."""
        ...


def contrastive_loss(logits: Float[Tensor, "b b"], truth: Int[Tensor, " b"]) -> Float[Tensor, ""]:
    """In-batch contrastive loss in both directions; other questions of the same entity are no negatives.

    mean of -log softmax over rows and over columns at the diagonal, with the logits of equal entities off the
    diagonal left out

    Args:
        logits: question i against the entity of question j.
        truth: entity of each question.

    Example:
        >>> round(float(contrastive_loss(torch.zeros(4, 4), torch.tensor([0, 1, 2, 3]))), 4)  # ln 4
        1.3863
        >>> float(contrastive_loss(torch.zeros(2, 2), torch.tensor([7, 7])))
        0.0
    """
    same: Bool[Tensor, "b b"] = truth[:, None] == truth[None, :]
    same.fill_diagonal_(False)
    masked = logits.masked_fill(same, -torch.inf)
    targets = torch.arange(len(truth), device=logits.device)
    return (F.cross_entropy(masked, targets) + F.cross_entropy(masked.T, targets)) / 2


@torch.no_grad()
def answers(model: nn.Module, questions: Questions, entities: Entities, block: int = 1024) -> Int[Tensor, " q"]:
    """Row of the best entity of all for each question."""
    dual: DualEncoder = model  # type: ignore[assignment]  # torch modules do not declare their methods
    device = device_of(model)

    def part(inputs: Inputs, first: int) -> Any:
        return _to(inputs[first : first + block], device)

    base = torch.cat(
        [dual.entity(part(entities.image, i), part(entities.text, i)) for i in range(0, entities.count, block)]
    )
    best_rows = [
        dual.similarity(dual.query(part(questions.image, i), part(questions.text, i)), base).argmax(dim=1)
        for i in range(0, len(questions.truth), block)
    ]
    return torch.cat(best_rows).cpu()


def _to(inputs: Any, device: torch.device) -> Any:
    return inputs.to(device) if isinstance(inputs, Tensor) else inputs


def seen_unseen(
    model: nn.Module, questions: Questions, entities: Entities, seen: Bool[Tensor, " q"]
) -> tuple[float, float]:
    """Accuracy in percent on the questions of seen and of unseen entities, among all entities.

    Example:
        >>> from oven_retrieval.models.dual import Clip2ClipModule
        >>> from oven_retrieval.models.clip2clip import Weights
        >>> unit = torch.eye(4)
        >>> questions, entities = Questions(unit, unit, torch.arange(4)), Entities(unit, unit)
        >>> seen_unseen(Clip2ClipModule(Weights()), questions, entities, torch.tensor([True, True, False, False]))
        (100.0, 100.0)
    """
    right = (answers(model, questions, entities) == questions.truth).double() * 100
    return float(right[seen].mean()), float(right[~seen].mean())


def train_dual(
    model: nn.Module,
    train: Questions,
    entities: Entities,
    validation: Questions,
    seen: Bool[Tensor, " q"],
    recipe: Recipe,
    log: Log | None = None,
    checkpoint: Path | None = None,
) -> Trained:
    """Train in place; the parameters with the best harmonic mean of seen and unseen accuracy are kept.

    Args:
        model: `Clip2ClipModule`, `ClipFusion` or `PatchAdaptor`; all parameters that require a gradient are trained, by
            its `loss` where it has one, else by `contrastive_loss`.
        train: questions of seen entities.
        entities: all entities.
        validation: questions of seen and unseen entities.
        seen: [q] which of the validation questions have a seen entity.
        recipe: how.
        log: called with (step, seen, unseen, harmonic mean) at each look.
        checkpoint: file that is written at each look; where it is there, training goes on from it and ends with the
            same parameters as without a stop.

    Returns:
        The step that was kept and its accuracies.

    Raises:
        ValueError: no seen or no unseen validation question, fewer than two training questions, a loss that is not
            finite (with its step), or a checkpoint of another training (what differs is shown).
        OSError: the checkpoint cannot be written; the last one is kept.

    Example:
        >>> from oven_retrieval.models.dual import Clip2ClipModule
        >>> from oven_retrieval.models.clip2clip import Weights
        >>> unit = torch.eye(4)
        >>> questions, entities = Questions(unit, unit, torch.arange(4)), Entities(unit, unit)
        >>> seen, recipe = torch.tensor([True, True, False, False]), Recipe(steps=2, batch_size=4, validate_every=1)
        >>> train_dual(Clip2ClipModule(Weights()), questions, entities, questions, seen, recipe).harmonic
        100.0

    Source: OVEN section 11.2 and figure 4: accuracy on unseen entities falls within an epoch, hence the early stop.
    """
    if not bool(seen.any()) or bool(seen.all()):
        raise ValueError("seen: expected validation questions of seen and of unseen entities, got one kind only")
    if len(train.truth) < 2:
        raise ValueError(f"train: expected at least two questions, got {len(train.truth)}")
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=recipe.lr, weight_decay=0.0)
    run = TrainingState(model, optimiser, recipe, train, validation)
    if checkpoint is not None and checkpoint.is_file():
        run.restore(checkpoint)
    else:
        run.first_look(seen_unseen(model.eval(), validation, entities, seen))
    device = device_of(model)
    while run.step < recipe.steps and run.waited < recipe.patience:
        chosen = run.next_batch()
        truth = train.truth[chosen]
        model.train()
        inputs = (train.image[chosen], train.text[chosen], entities.image[truth], entities.text[truth])
        on_device = tuple(_to(part, device) for part in inputs)
        own = getattr(model, "loss", None)
        loss: Tensor = (
            own(*on_device, truth.to(device)) if own else contrastive_loss(model(*on_device), truth.to(device))
        )
        if not bool(torch.isfinite(loss)):
            raise ValueError(
                f"loss: {loss.item()} at step {run.step}; expected a finite number (a lower lr than {recipe.lr}?)"
            )
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(run.step, recipe)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it without types
        optimiser.step()
        if run.step % recipe.validate_every and run.step != recipe.steps:
            continue
        run.look(seen_unseen(model.eval(), validation, entities, seen), log)
        if checkpoint is not None:
            run.save(checkpoint)
    return run.finish()
