"""In-batch contrastive training with early stopping on the harmonic mean; needs the extra `torch`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..evaluation.official import harmonic_mean

Log = Callable[[int, float, float, float], None]


class DualEncoder(Protocol):
    """What is trained: `Clip2ClipModule` or `ClipFusion`."""

    def query(self, image: Tensor, text: Tensor, /) -> Tensor:
        """Vectors of questions."""
        ...

    def entity(self, image: Tensor, text: Tensor, /) -> Tensor:
        """Vectors of entities."""
        ...

    def similarity(self, query: Tensor, entity: Tensor, /) -> Tensor:
        """Scores of all pairs."""
        ...


@dataclass(frozen=True)
class Entities:
    """Inputs of all entities, row by row: `image` (a black one where there is none) and `text`."""

    image: Tensor
    text: Tensor


@dataclass(frozen=True)
class Questions:
    """Questions and the row of the entity that answers each: `image`, `text` [q, …], `truth` [q]."""

    image: Tensor
    text: Tensor
    truth: Int[Tensor, " q"]


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Args:
        steps: most steps; the paper takes 2,000 for CLIP2CLIP and 10,000 for Fusion.
        batch: questions per step; 4,096 in the paper.
        rate: learning rate after the warm-up; 1e-4 and 1e-3 in the paper.
        warmup: steps of linear warm-up; 1,000 of Fusion's in the paper.
        final_rate: the rate does not fall below; 1e-6.
        check_every: steps between two looks at the validation questions.
        patience: looks without a better harmonic mean before training stops.
        seed: of the order of the questions.

    Source: OVEN section 11. Theirs is Adafactor, ours AdamW without decay.
    """

    steps: int = 2000
    batch: int = 4096
    rate: float = 1e-4
    warmup: int = 100
    final_rate: float = 1e-6
    check_every: int = 100
    patience: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        for name in ("steps", "batch", "check_every", "patience", "rate", "final_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected above 0, got {getattr(self, name)!r}")
        if self.warmup < 0:
            raise ValueError(f"warmup: expected at least 0, got {self.warmup!r}")


@dataclass(frozen=True)
class Trained:
    """The step whose parameters were kept (0: as it came), its accuracies in percent, and the steps that were taken."""

    step: int
    seen: float
    unseen: float
    harmonic: float
    steps: int


def learning_rate(step: int, recipe: Recipe) -> float:
    """Linear warm-up, then decay with the square root of the step.

    Example:
        >>> recipe = Recipe(rate=1.0, warmup=4, final_rate=0.3)
        >>> [learning_rate(step, recipe) for step in (1, 4, 16, 10_000)]
        [0.25, 1.0, 0.5, 0.3]
    """
    warmup = max(1, recipe.warmup)
    if step <= warmup:
        return recipe.rate * step / warmup
    return max(recipe.rate * math.sqrt(warmup / step), recipe.final_rate)


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
    place = torch.arange(len(truth), device=logits.device)
    return (F.cross_entropy(masked, place) + F.cross_entropy(masked.T, place)) / 2


@torch.no_grad()
def answers(model: nn.Module, questions: Questions, entities: Entities, block: int = 1024) -> Int[Tensor, " q"]:
    """Row of the best entity of all for each question."""
    dual: DualEncoder = model  # type: ignore[assignment]  # torch modules do not declare their methods
    base = dual.entity(entities.image, entities.text)
    found = [
        dual.similarity(dual.query(questions.image[i : i + block], questions.text[i : i + block]), base).argmax(dim=1)
        for i in range(0, len(questions.truth), block)
    ]
    return torch.cat(found)


def seen_unseen(
    model: nn.Module, questions: Questions, entities: Entities, seen: Bool[Tensor, " q"]
) -> tuple[float, float]:
    """Accuracy in percent on the questions of seen and of unseen entities, among all entities."""
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
) -> Trained:
    """Train in place; the parameters with the best harmonic mean of seen and unseen accuracy are kept.

    Args:
        model: `Clip2ClipModule` or `ClipFusion`; all parameters that require a gradient are trained.
        train: questions of seen entities.
        entities: all entities.
        validation: questions of seen and unseen entities.
        seen: [q] which of the validation questions have a seen entity.
        recipe: how.
        log: called with (step, seen, unseen, harmonic mean) at each look.

    Returns:
        The step that was kept and its accuracies.

    Raises:
        ValueError: no seen or no unseen validation question, fewer than two training questions, or a loss that is not
        finite (with its step).

    Source: OVEN section 11.2 and figure 4: accuracy on unseen entities falls within an epoch, hence the early stop.
    """
    if not bool(seen.any()) or bool(seen.all()):
        raise ValueError("seen: expected validation questions of seen and of unseen entities, got one kind only")
    if len(train.truth) < 2:
        raise ValueError(f"train: expected at least two questions, got {len(train.truth)}")
    generator = torch.Generator().manual_seed(recipe.seed)
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=recipe.rate, weight_decay=0.0)
    first = seen_unseen(model.eval(), validation, entities, seen)
    best = Trained(0, *first, harmonic_mean(*first), 0)
    kept, waited, step = copy.deepcopy(model.state_dict()), 0, 0
    order = torch.empty(0, dtype=torch.int64)
    size = min(recipe.batch, len(train.truth))
    for step in range(1, recipe.steps + 1):
        if len(order) < size:
            order = torch.randperm(len(train.truth), generator=generator)
        chosen, order = order[:size], order[size:]
        truth = train.truth[chosen]
        model.train()
        logits = model(train.image[chosen], train.text[chosen], entities.image[truth], entities.text[truth])
        loss = contrastive_loss(logits, truth)
        if not bool(torch.isfinite(loss)):
            raise ValueError(
                f"loss: {loss.item()} at step {step}; expected a finite number (a lower rate than {recipe.rate}?)"
            )
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, recipe)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it without types
        optimiser.step()
        if step % recipe.check_every and step != recipe.steps:
            continue
        now = seen_unseen(model.eval(), validation, entities, seen)
        mean = harmonic_mean(*now)
        if log is not None:
            log(step, *now, mean)
        if mean > best.harmonic:
            best, kept, waited = Trained(step, *now, mean, step), copy.deepcopy(model.state_dict()), 0
        else:
            waited += 1
            if waited >= recipe.patience:
                break
    model.load_state_dict(kept)
    model.eval()
    return Trained(best.step, best.seen, best.unseen, best.harmonic, step)
