"""Methods of CoOp's protocol by name: class texts alone, heads on cached features, a projection fitted again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gate_runner.errors import NotApplicableError
from gate_runner.tasks.coop.points import CLASS_CONTEXT, CONTEXT, PROJECTION, ZERO_SHOT
from gate_runner.tasks.elevater.heads import jsonable
from vision_adapters.tuning import tune, tuning_data
from vision_adapters.tuning.projection import fit_projection
from vision_features.encoders.contexts import Contexts


class Seen(NamedTuple):
    """Features of images in the space of the texts, and what they were projected from, if the encoder shows it."""

    features: Float[Tensor, "n d"]
    before: Float[Tensor, "n b"] | None = None

    def where(self, rows: Tensor) -> Seen:
        """Return some of the rows."""
        return Seen(self.features[rows], None if self.before is None else self.before[rows])


@dataclass(frozen=True)
class Shots:
    """What a method is fitted on.

    Args:
        seen: features of the drawn images; None for texts alone.
        labels: their classes, of ``classes`` many.
        texts: a unit row for each class, or None for an encoder without texts.
        scale: the encoder's logit scale.
        classes: how many are trained.
        number: images of each class, as asked for.
        projection: the encoder's matrix ``[b, d]`` into the space of the texts, or None.
        validation: features and classes of images to choose on, or None to choose within the shots.
        seed: of folds, and of the start of a context.
        names: of the classes.
        contexts: the encoder's text side for prompt learning, or None.
        device: where that is.
    """

    seen: Seen | None
    labels: Int[Tensor, " n"] | None
    texts: Float[Tensor, "k d"] | None
    scale: float
    classes: int
    number: int = 0
    projection: Float[Tensor, "b d"] | None = None
    validation: tuple[Tensor, Tensor] | None = None
    seed: int = 0
    names: Sequence[str] = ()
    contexts: Contexts | None = None
    device: torch.device | str = "cpu"


class Classes(NamedTuple):
    """Classes that are scored: their names, and a unit row for the text of each."""

    names: Sequence[str]
    texts: Float[Tensor, "k d"]


@dataclass(frozen=True)
class Fitted:
    """A fitted method.

    Args:
        trained: from images to scores of the trained classes ``[n, k]``.
        others: from images and any classes to their scores.
        carries: whether ``others`` has learned anything, or is by texts alone.
        about: what a result keeps of it: ``chosen``, ``chosen_with``, ``validated``, ``trained_parameters``.
        seen: the test images by the towers that the method trained; None if it left them as they are.
    """

    trained: Callable[[Seen], Tensor]
    others: Callable[[Seen, Classes], Tensor]
    carries: bool
    about: dict[str, Any] = field(default_factory=dict)
    seen: Seen | None = None


def fit(method: str, shots: Shots) -> Fitted:
    """Fit a method by its name, one of `gate_runner.tasks.coop.points.METHODS`.

    Raises:
        NotApplicableError: the method needs what the encoder or the draw does not have; the message says what.
    """
    if method == ZERO_SHOT:
        return _zero_shot(shots)
    if method in (CONTEXT, CLASS_CONTEXT):
        return _context(method, shots)
    return _projected(shots) if method == PROJECTION else _head(method, shots)


def _by_texts(scale: float) -> Callable[[Seen, Classes], Tensor]:
    return lambda seen, classes: scale * F.normalize(seen.features, dim=1) @ classes.texts.T


def _zero_shot(shots: Shots) -> Fitted:
    texts, others = _needed(shots.texts, ZERO_SHOT), _by_texts(shots.scale)
    about = {"chosen": {"method": ZERO_SHOT}, "chosen_with": "nothing", "validated": None, "trained_parameters": 0}
    return Fitted(lambda seen: others(seen, Classes(shots.names, texts)), others, True, about)


def _needed(texts: Tensor | None, method: str) -> Tensor:
    if texts is None:
        raise NotApplicableError(f"method {method} needs class texts, and the encoder has no text side")
    return texts


def _head(method: str, shots: Shots) -> Fitted:
    """A head on features, by ``vision_adapters.tune``; it knows the trained classes alone."""
    assert shots.seen is not None
    try:
        data = tuning_data(
            shots.seen.features,
            shots.labels,
            classes=shots.classes,
            class_embeddings=shots.texts,
            logit_scale=shots.scale,
            validation="auto" if shots.validation is None else shots.validation,
            seed=shots.seed,
        )
        tuned = tune(data, method)
    except ValueError as error:
        raise NotApplicableError(str(error)) from error
    about = {
        "chosen": {"method": tuned.method, **jsonable(tuned.best_params)},
        "chosen_with": tuned.chosen_with,
        "validated": tuned.validation,
        "trained_parameters": tuned.trained_parameters(),
    }
    return Fitted(lambda seen: tuned.scores(seen.features).float(), _by_texts(shots.scale), False, about)


def _projected(shots: Shots) -> Fitted:
    """The encoder's projection, fitted again; it carries over to any classes that have texts."""
    texts = _needed(shots.texts, PROJECTION)
    if shots.projection is None or shots.seen is None or shots.seen.before is None or shots.labels is None:
        raise NotApplicableError(f"method {PROJECTION} fits a projection again, and the encoder shows none")
    matrix = fit_projection(
        shots.seen.before, shots.labels, shots.projection, texts, logit_scale=shots.scale, shots=max(1, shots.number)
    )

    def others(seen: Seen, classes: Classes) -> Tensor:
        assert seen.before is not None
        return shots.scale * F.normalize(seen.before @ matrix, dim=1) @ classes.texts.T

    moved = float((matrix - shots.projection).norm() / shots.projection.norm())
    about = {
        "chosen": {"method": PROJECTION, "moved": moved},
        "chosen_with": "nothing",
        "validated": None,
        "trained_parameters": matrix.numel(),
    }
    return Fitted(lambda seen: others(seen, Classes(shots.names, texts)), others, True, about)


def _context(method: str, shots: Shots) -> Fitted:
    """A context before the names, fitted through the frozen text tower; a common one carries over to any names."""
    from vision_adapters.training.context import TOKENS, fit_context

    if shots.contexts is None or shots.seen is None or shots.labels is None:
        raise NotApplicableError(f"method {method} learns what a text tower reads, and the encoder does not show that")
    own, tower = method == CLASS_CONTEXT, shots.contexts
    x, labels = shots.seen.features.to(shots.device), shots.labels.to(shots.device)
    head = fit_context(
        x, labels, tower.of(shots.names, TOKENS), tower.width, classes=shots.classes, logit_scale=shots.scale,
        tokens=TOKENS, shots=max(1, shots.number), class_specific=own, seed=shots.seed, device=shots.device,
    )  # fmt: skip
    with torch.no_grad():
        texts = head.class_embeddings().cpu()
    by_texts = _by_texts(shots.scale)

    def others(seen: Seen, classes: Classes) -> Tensor:
        if own:
            return by_texts(seen, classes)
        with torch.no_grad():
            rows = F.normalize(tower.of(classes.names, TOKENS)(head.context).float(), dim=1).cpu()
        return by_texts(seen, classes._replace(texts=rows))

    about = {
        "chosen": {"method": method, "tokens": TOKENS},
        "chosen_with": "nothing",
        "validated": None,
        "trained_parameters": head.context.numel(),
    }
    return Fitted(lambda seen: by_texts(seen, Classes(shots.names, texts)), others, not own, about)
