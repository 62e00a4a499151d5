"""In-batch contrastive training with early stopping on the harmonic mean; needs the extra `torch`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from oven_retrieval.evaluation.scores import harmonic_mean

OPTIMISERS = ("adamw", "adafactor")
Log = Callable[[int, float, float, float], None]


class Inputs(Protocol):
    """Rows that a model takes: a tensor of features, or what reads files when it is asked for some."""

    def __getitem__(self, rows: Any, /) -> Any: ...


@dataclass(frozen=True)
class Entities:
    """Inputs of all entities, row by row: `image` (a black one where there is none) and `text`; `count` of them."""

    image: Inputs
    text: Inputs
    count: int = -1

    def __post_init__(self) -> None:
        """Count a tensor's rows."""
        if self.count < 0:
            if not isinstance(self.text, Tensor):
                raise ValueError("count: expected the number of entities where the texts are no tensor")
            object.__setattr__(self, "count", len(self.text))


@dataclass(frozen=True)
class Questions:
    """Questions and the row of the entity that answers each: `image`, `text` [q, …], `truth` [q].

    Example:
        >>> import torch
        >>> Questions(torch.zeros(2, 4), torch.zeros(2, 4), torch.tensor([0, 1])).truth.tolist()
        [0, 1]
    """

    image: Inputs
    text: Inputs
    truth: Int[Tensor, " q"]


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Args:
        steps: most steps; the paper takes 2,000 for CLIP2CLIP and 10,000 for Fusion.
        batch_size: questions per step; 4,096 in the paper.
        lr: learning rate after the warm-up; 1e-4 and 1e-3 in the paper.
        warmup: steps of linear warm-up; 1,000 of Fusion's in the paper.
        final_lr: the rate does not fall below; 1e-6.
        validate_every: steps between two looks at the validation questions.
        patience: looks without a better harmonic mean before training stops.
        seed: of the order of the questions.
        optimiser: `adamw`, without decay, or `adafactor`, the paper's: its steps are in proportion to the parameters'
            own size, and at most as large as 1 / sqrt(step).

    Source: OVEN section 11.
    """

    steps: int = 2000
    batch_size: int = 4096
    lr: float = 1e-4
    warmup: int = 100
    final_lr: float = 1e-6
    validate_every: int = 100
    patience: int = 5
    seed: int = 0
    optimiser: str = "adamw"

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        if self.optimiser not in OPTIMISERS:
            raise ValueError(f"optimiser: expected one of {list(OPTIMISERS)}, got {self.optimiser!r}")
        for name in ("steps", "batch_size", "validate_every", "patience", "lr", "final_lr"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected above 0, got {getattr(self, name)!r}")
        if self.warmup < 0:
            raise ValueError(f"warmup: expected at least 0, got {self.warmup!r}")


@dataclass(frozen=True)
class Trained:
    """The step whose parameters were kept (0: as it came), its accuracies in percent, and the steps that were taken.

    `history`: (step, seen, unseen, harmonic mean) of each look at the validation questions, the first before training:
    the paper's figure 4.
    """

    step: int
    seen: float
    unseen: float
    harmonic: float
    steps: int
    history: tuple[tuple[int, float, float, float], ...] = ()


class DualEncoder(Protocol):
    """What is trained."""

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
        model: `Clip2ClipModule` or `ClipFusion`, or one like them; all parameters that require a gradient are trained,
            by its `loss` where it has one, else by `contrastive_loss`.
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

    Example:
        >>> from oven_retrieval.models import Clip2ClipModule
        >>> unit = torch.eye(4)
        >>> questions, entities = Questions(unit, unit, torch.arange(4)), Entities(unit, unit)
        >>> seen, recipe = torch.tensor([True, True, False, False]), Recipe(steps=2, batch_size=4, validate_every=1)
        >>> train_dual(Clip2ClipModule(), questions, entities, questions, seen, recipe).harmonic
        100.0

    Source: OVEN section 11.2 and figure 4: accuracy on unseen entities falls within an epoch, hence the early stop.
    """
    if not bool(seen.any()) or bool(seen.all()):
        raise ValueError("seen: expected validation questions of seen and of unseen entities, got one kind only")
    if len(train.truth) < 2:
        raise ValueError(f"train: expected at least two questions, got {len(train.truth)}")
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = make_optimiser(recipe.optimiser, parameters, recipe.lr)
    size, device = min(recipe.batch_size, len(train.truth)), next(model.parameters()).device
    accuracy = seen_unseen(model.eval(), validation, entities, seen)
    best, best_parameters = Trained(0, *accuracy, harmonic_mean(*accuracy), 0), copy.deepcopy(model.state_dict())
    history = [(0, *accuracy, best.harmonic)]
    steps = waited = 0
    for chosen in islice(_batches(len(train.truth), size, recipe.seed), recipe.steps):
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
        history.append((steps, *accuracy, mean))
        if log is not None:
            log(steps, *accuracy, mean)
        waited += 1
        if mean > best.harmonic:
            best, waited, best_parameters = Trained(steps, *accuracy, mean, steps), 0, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_parameters)
    model.eval()
    return replace(best, steps=steps, history=tuple(history))


def make_optimiser(name: str, parameters: Sequence[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """One of `OPTIMISERS`, without weight decay.

    Raises:
        ImportError: Adafactor, and torch is older than 2.5.
    """
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    if not hasattr(torch.optim, "Adafactor"):
        raise ImportError(f"adafactor needs torch 2.5 or newer, this is {torch.__version__}; or take adamw")
    return torch.optim.Adafactor(parameters, lr=lr, weight_decay=0.0)


def learning_rate(step: int, recipe: Recipe) -> float:
    """Linear warm-up, then decay with the square root of the step."""
    warmup = max(1, recipe.warmup)
    if step <= warmup:
        return recipe.lr * step / warmup
    return max(recipe.lr * math.sqrt(warmup / step), recipe.final_lr)


def _batches(count: int, size: int, seed: int) -> Iterator[Int[Tensor, " b"]]:
    """Numbers of questions for ever; each is taken once before any is taken again."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(count, generator=generator)
        yield from torch.split(order[: count // size * size], size)
