"""In-batch contrastive training with early stopping on the harmonic mean; needs the extra `torch`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from oven_retrieval.durable import own_file
from oven_retrieval.evaluation.scores import harmonic_mean
from oven_retrieval.models.recipe import Entities, Inputs, Questions, Recipe, Trained, learning_rate

Log = Callable[[int, float, float, float], None]


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
    device = next(model.parameters()).device

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
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=recipe.lr, weight_decay=0.0)
    size, device = min(recipe.batch_size, len(train.truth)), next(model.parameters()).device
    identity = asdict(recipe) | {"questions": len(train.truth), "validation questions": len(validation.truth)}
    if checkpoint is not None and checkpoint.is_file():
        best, best_parameters, steps, waited = _restore(checkpoint, identity, model, optimiser)
    else:
        accuracy = seen_unseen(model.eval(), validation, entities, seen)
        best, best_parameters = Trained(0, *accuracy, harmonic_mean(*accuracy), 0), copy.deepcopy(model.state_dict())
        steps = waited = 0
    batches = _batches(len(train.truth), size, recipe.seed)
    for chosen in islice(batches, steps, recipe.steps):
        if waited == recipe.patience:
            break
        steps += 1
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
                f"loss: {loss.item()} at step {steps}; expected a finite number (a lower lr than {recipe.lr}?)"
            )
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(steps, recipe)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it without types
        optimiser.step()
        if steps % recipe.validate_every and steps != recipe.steps:
            continue
        accuracy = seen_unseen(model.eval(), validation, entities, seen)
        mean = harmonic_mean(*accuracy)
        if log is not None:
            log(steps, *accuracy, mean)
        waited += 1
        if mean > best.harmonic:
            best, waited, best_parameters = Trained(steps, *accuracy, mean, steps), 0, copy.deepcopy(model.state_dict())
        if checkpoint is not None:
            _save(checkpoint, identity, model, optimiser, (asdict(best), best_parameters, steps, waited))
    model.load_state_dict(best_parameters)
    model.eval()
    return replace(best, steps=steps)


def _batches(count: int, size: int, seed: int) -> Iterator[Int[Tensor, " b"]]:
    """Numbers of questions for ever; each is taken once before any is taken again."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(count, generator=generator)
        yield from torch.split(order[: count // size * size], size)


def _save(
    file: Path, identity: dict[str, Any], model: nn.Module, optimiser: torch.optim.Optimizer, progress: tuple[Any, ...]
) -> None:
    """Write what the rest of a training depends on; the old file stays until the new one is whole."""
    partial = own_file(file.with_name(file.name + ".partial"))
    try:
        torch.save((identity, model.state_dict(), optimiser.state_dict(), progress), partial)
    except (OSError, RuntimeError) as error:  # torch's zip writer reports a full disk as RuntimeError
        partial.unlink(missing_ok=True)
        raise OSError(f"{file}: cannot be written ({str(error).splitlines()[0]}); the last one is kept") from error
    partial.replace(file)


def _restore(
    file: Path, identity: dict[str, Any], model: nn.Module, optimiser: torch.optim.Optimizer
) -> tuple[Trained, dict[str, Any], int, int]:
    """Go back to where `_save` was called: the best so far, its parameters, the steps, and looks since."""
    device = next(model.parameters()).device
    state = torch.load(file, weights_only=True, map_location=device)
    if not isinstance(state, tuple):
        raise ValueError(f"{file}: of an earlier version; remove it to start anew")
    stored, parameters, optimiser_state, progress = state
    for name, value in identity.items():
        if stored.get(name) != value:
            raise ValueError(
                f"{file}: of another training, with {name} {stored.get(name)!r}, expected {value!r}; remove it to "
                "start anew"
            )
    model.load_state_dict(parameters)
    optimiser.load_state_dict(optimiser_state)
    best, best_parameters, steps, waited = progress
    return Trained(**best), best_parameters, steps, waited
