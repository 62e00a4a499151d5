"""CLIP2CLIP: four cosine similarities and their weights, as one inner product per entity."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.ranking import Ranking
from oven_retrieval.vectors import ArrayRows, exact_search
from oven_retrieval.vectors.exact import merge
from oven_retrieval.vectors.store import Float32, check_vectors


class Weights(NamedTuple):
    """Importance of the four similarities.

    `image_text` <question image, entity text>, `text_image` <question text, entity image>, `image_image` and
    `text_text` likewise. Plain CLIP zero-shot retrieval is (1, 0, 0, 0).

    Example:
        >>> Weights(image_image=0.5)
        Weights(image_text=1.0, text_image=0.0, image_image=0.5, text_text=0.0)
    """

    image_text: float = 1.0
    text_image: float = 0.0
    image_image: float = 0.0
    text_text: float = 0.0


ZERO_SHOT = Weights()
EQUAL_WEIGHTS = Weights(1.0, 1.0, 1.0, 1.0)
GRID = (0.0, 0.25, 0.5, 1.0)
"""Values of the grid search for each weight but the first, which is 1: a common factor changes no ranking."""


def normalise(features: npt.ArrayLike, dim: int | None = None, label: str = "features") -> Float32:
    """Rows of length 1; a row of zeros is an error."""
    matrix = check_vectors(features, dim, label)
    length = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    if len(matrix) and not length.min() > 0:
        raise ValueError(f"{label}: row {int(np.argmin(length))} is all zeros and has no direction")
    return np.asarray(matrix / length, dtype=np.float32)


def query_vectors(image: Float32, text: Float32, weights: Weights) -> tuple[Float32, Float32]:
    """The query's side of the inner product: what meets the entity's text, and what meets its image.

    q_t = a x_p + d x_t,  q_p = c x_p + b x_t
    """
    a, b, c, d = (np.float32(weight) for weight in weights)
    return a * image + d * text, c * image + b * text


class Clip2Clip:
    """Retrieval with CLIP2CLIP over entities of which some have no image.

    s(x, e) = a <x_p, t_e> + b <x_t, p_e> + c <x_p, p_e> + d <x_t, t_e> = <[q_t; q_p], [t_e; p_e]>

    The entity's side holds no weight, so other weights need no other index. An entity without an image gets the
    features of a black one, p_0, as in the paper: its score is <q_t, t_e> + <q_p, p_0>, and the second term is one
    number per question. So entities with an image are kept as [t_e; p_e] of 2d numbers and the others as t_e of d:
    where two thirds have none, .67 times the storage of [t_e; p_e] for all.

    Args:
        text: [n, d] features of the entities' texts.
        image: [m, d] features of the images of those that have one, in order.
        has_image: [n] which do; m of them are True.
        black: [d] features of a black image; needed where an entity has none.

    Raises:
        ValueError: shapes that do not fit together, NaN, a row of zeros.

    Numerics:
        float32; equal to the four-term formula within 1e-5 for features of length 1 and weights up to 1. All features
        are brought to length 1.

    Example:
        >>> text, image = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 1.0]])
        >>> model = Clip2Clip(text, image, has_image=[True, False], black=[1.0, 1.0])
        >>> model.search([[1.0, 0.0]], [[0.0, 1.0]], Weights(text_text=0.5), k=2).rows.tolist()
        [[0, 1]]

    Source: OVEN sections 4.1 and 5.2. The paper learns the weights and fine-tunes both encoders; this class takes
    features as they are.
    """

    def __init__(
        self,
        text: npt.ArrayLike,
        image: npt.ArrayLike,
        has_image: npt.ArrayLike,
        black: npt.ArrayLike | None = None,
    ) -> None:
        texts = normalise(text, label="text")
        self.dim = texts.shape[1]
        self.has_image = np.asarray(has_image, dtype=np.bool_)
        if self.has_image.shape != (len(texts),):
            raise ValueError(f"has_image: expected {len(texts)} values, one per text, got {list(self.has_image.shape)}")
        pictured = int(self.has_image.sum())
        images = normalise(np.reshape(image, (-1, self.dim)) if pictured == 0 else image, self.dim, "image")
        if len(images) != pictured:
            raise ValueError(
                f"image: expected {pictured} rows, one for each entity that has an image, got {len(images)}"
            )
        if pictured < len(texts) and black is None:
            raise ValueError(
                f"black: {len(texts) - pictured} entities have no image; expected the features of a black one"
            )
        self.black = None if black is None else normalise(np.reshape(black, (1, -1)), self.dim, "black")[0]
        self._both_rows, self._text_rows = np.flatnonzero(self.has_image), np.flatnonzero(~self.has_image)
        self._both = np.concatenate([texts[self.has_image], images], axis=1)
        self._texts = np.ascontiguousarray(texts[~self.has_image])

    def search(self, image: npt.ArrayLike, text: npt.ArrayLike, weights: Weights = ZERO_SHOT, k: int = 1) -> Ranking:
        """The k best entities for each question.

        Args:
            image: [q, d] features of the images.
            text: [q, d] features of the questions.
            weights: of the four similarities.
            k: how many, at least 1.

        Returns:
            Rows and scores as `exact_search`.
        """
        q_t, q_p = self._query(image, text, weights)
        best = Ranking.empty(len(q_t), k, dtype=np.float32)
        if len(self._both):
            neighbours = exact_search(np.concatenate([q_t, q_p], axis=1), ArrayRows(self._both), k)
            best = merge(best, neighbours.numbered(self._both_rows), k)
        if len(self._texts):
            assert self.black is not None
            neighbours = exact_search(q_t, ArrayRows(self._texts), k)
            shifted = Ranking(neighbours.rows, neighbours.scores + (q_p @ self.black)[:, None])
            best = merge(best, shifted.numbered(self._text_rows), k)
        return best

    def scores(self, image: npt.ArrayLike, text: npt.ArrayLike, weights: Weights = ZERO_SHOT) -> Float32:
        """Scores of all entities, [q, n]; for small knowledge bases."""
        q_t, q_p = self._query(image, text, weights)
        scores = np.empty((len(q_t), len(self.has_image)), dtype=np.float32)
        scores[:, self._both_rows] = np.concatenate([q_t, q_p], axis=1) @ self._both.T
        if len(self._texts):
            assert self.black is not None
            scores[:, self._text_rows] = q_t @ self._texts.T + (q_p @ self.black)[:, None]
        return scores

    def _query(self, image: npt.ArrayLike, text: npt.ArrayLike, weights: Weights) -> tuple[Float32, Float32]:
        if not np.all(np.isfinite(weights)) or not any(weights):
            raise ValueError(f"weights: expected finite numbers, not all zero, got {tuple(weights)}")
        images, texts = normalise(image, self.dim, "image"), normalise(text, self.dim, "text")
        if len(images) != len(texts):
            raise ValueError(f"image, text: expected one of each per question, got {len(images)} and {len(texts)}")
        return query_vectors(images, texts, weights)


class GridSearch(NamedTuple):
    """Best weights, their accuracy, and the accuracy of every combination that was tried."""

    weights: Weights
    accuracy: float
    tried: dict[Weights, float]


def grid_search(
    model: Clip2Clip,
    image: npt.ArrayLike,
    text: npt.ArrayLike,
    truth: npt.ArrayLike,
    values: tuple[float, ...] = GRID,
) -> GridSearch:
    """Weights that answer the most training questions right, the first kept at 1.

    Args:
        model: the entities.
        image: [q, d] features of the images.
        text: [q, d] features of the questions.
        truth: [q] row of each question's entity.
        values: what each of the other three weights may be.

    Returns:
        The best; of equals the first in the order of the grid, so that smaller weights win.

    Raises:
        ValueError: a row out of range.

    Numerics:
        The four similarities are computed once, [q, n] each: meant for at most a few thousand entities and questions
        at a time.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> text = rng.normal(size=(6, 8))
        >>> model = Clip2Clip(text, text, has_image=[True] * 6)
        >>> best = grid_search(model, text, text, np.arange(6), values=(0.0, 1.0))
        >>> best.weights, best.accuracy, len(best.tried)
        (Weights(image_text=1.0, text_image=0.0, image_image=0.0, text_text=0.0), 1.0, 8)

    Source: OVEN section 11.2 starts CLIP2CLIP from such a search, without naming the grid; this one is ours.
    """
    right = np.asarray(truth, dtype=np.int64)
    count = len(model.has_image)
    if not len(right) or right.min() < 0 or right.max() >= count:
        raise ValueError(f"truth: expected rows from 0 to {count - 1}, got {right}")
    parts = [model.scores(image, text, Weights(*unit)) for unit in np.eye(4).tolist()]
    tried: dict[Weights, float] = {}
    for triple in product(values, repeat=3):
        weights = Weights(1.0, *triple)
        total = parts[0] + sum(np.float32(w) * part for w, part in zip(triple, parts[1:], strict=True))
        tried[weights] = float(np.mean(np.argmax(total, axis=1) == right))
    best = max(tried, key=lambda weights: tried[weights])
    return GridSearch(best, tried[best], tried)
