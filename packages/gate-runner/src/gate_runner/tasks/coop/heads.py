"""Methods of CoOp's protocol by name: class texts alone, heads on cached features, a projection fitted again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gate_runner.errors import NotApplicableError
from gate_runner.tasks.coop.points import PROJECTION, ZERO_SHOT
from gate_runner.tasks.elevater.heads import jsonable
from vision_adapters.tuning import tune, tuning_data
from vision_adapters.tuning.projection import fit_projection


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
        seed: of folds.
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


@dataclass(frozen=True)
class Fitted:
    """A fitted method.

    Args:
        trained: from images to scores of the trained classes ``[n, k]``.
        others: from images and texts of any classes to their scores.
        carries: whether ``others`` has learned anything, or is by texts alone.
        about: what a result keeps of it: ``chosen``, ``chosen_with``, ``validated``, ``trained_parameters``.
    """

    trained: Callable[[Seen], Tensor]
    others: Callable[[Seen, Tensor], Tensor]
    carries: bool
    about: dict[str, Any] = field(default_factory=dict)


def fit(method: str, shots: Shots) -> Fitted:
    """Fit a method by its name, one of `gate_runner.tasks.coop.points.METHODS`.

    Raises:
        NotApplicableError: the method needs what the encoder or the draw does not have; the message says what.
    """
    if method == ZERO_SHOT:
        return _zero_shot(shots)
    return _projected(shots) if method == PROJECTION else _head(method, shots)


def _by_texts(scale: float) -> Callable[[Seen, Tensor], Tensor]:
    return lambda seen, texts: scale * F.normalize(seen.features, dim=1) @ texts.T


def _zero_shot(shots: Shots) -> Fitted:
    texts, others = _needed(shots.texts, ZERO_SHOT), _by_texts(shots.scale)
    about = {"chosen": {"method": ZERO_SHOT}, "chosen_with": "nothing", "validated": None, "trained_parameters": 0}
    return Fitted(lambda seen: others(seen, texts), others, True, about)


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

    def others(seen: Seen, names: Tensor) -> Tensor:
        assert seen.before is not None
        return shots.scale * F.normalize(seen.before @ matrix, dim=1) @ names.T

    moved = float((matrix - shots.projection).norm() / shots.projection.norm())
    about = {
        "chosen": {"method": PROJECTION, "moved": moved},
        "chosen_with": "nothing",
        "validated": None,
        "trained_parameters": matrix.numel(),
    }
    return Fitted(lambda seen: others(seen, texts), others, True, about)
