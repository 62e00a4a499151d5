"""How far the concepts of a data set lie apart in a text encoder's space: one number, and an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wary_files.text import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def concept_spread(features: ArrayLike) -> float:
    """Standard deviation of text features around their mean, all directions together.

    spread = sqrt(mean_i ||x_i - mean||²), x_i = features_i / ||features_i||; it lies between 0 and 1

    Args:
        features: ``[n, d]``, one row per concept.

    Raises:
        ValueError: Not two-dimensional, without rows, or with a row of length 0; shows the shape or the row.

    Numerics: float64.

    Example:
        >>> round(concept_spread([[1.0, 0.0], [0.0, 1.0]]), 4), concept_spread([[3.0, 4.0]])
        (0.7071, 0.0)

    Source: ELEVATER's supplement, section C.2: 0.610 for ImageNet and 0.680 for its 20 data sets. It does not say
        whether features are normalised or how the dimensions are joined; this reading has the size of its figures.
    """
    unit = _unit_rows(features, "features")
    return float(np.sqrt(np.mean(np.sum((unit - unit.mean(axis=0)) ** 2, axis=1))))


@dataclass(frozen=True, eq=False)  # arrays are compared by their fields
class ConceptMap:
    """Concepts of one or several data sets in the plane that shows most of their variance.

    Args:
        points: For each data set ``[n, 2]``.
        spread: For each data set its `concept_spread`.
        explained: Share of the variance along each of the two axes.
    """

    points: dict[str, NDArray[np.float64]]
    spread: dict[str, float]
    explained: tuple[float, float]


def concept_map(features_by_name: Mapping[str, ArrayLike]) -> ConceptMap:
    """Project the concepts of all data sets together onto their first two principal components.

    Args:
        features_by_name: For each data set ``[n, d]``, d the same for all.

    Raises:
        ValueError: No data set, or different numbers of features; shows them.

    Numerics: float64; each axis points to where its largest component is positive, so that an image does not flip.

    Example:
        >>> flat = concept_map({"a": [[1.0, 0.0], [0.0, 1.0]], "b": [[0.6, 0.8]]})
        >>> flat.points["a"].shape, flat.points["b"].shape, round(sum(flat.explained), 6)
        ((2, 2), (1, 2), 1.0)

    Source: ELEVATER's supplement, figure 9: projected together, shown separately.
    """
    if not features_by_name:
        raise ValueError("there is no data set; expected at least one")
    unit = {name: _unit_rows(features, name) for name, features in features_by_name.items()}
    widths = {name: rows.shape[1] for name, rows in unit.items()}
    if len(set(widths.values())) > 1:
        raise ValueError(f"data sets have different numbers of features, {widths}; expected one encoder for all")
    together = np.concatenate(list(unit.values()))
    mean = together.mean(axis=0)
    _, sizes, directions = np.linalg.svd(together - mean, full_matrices=False)
    axes = np.zeros((2, together.shape[1]))
    count = min(2, len(directions))
    axes[:count] = directions[:count]
    largest = axes[np.arange(2), np.abs(axes).argmax(axis=1)]
    axes[largest < 0] *= -1
    variance = sizes**2
    share = variance / variance.sum() if variance.sum() > 0 else variance
    first, second = (float(share[i]) if i < len(share) else 0.0 for i in range(2))
    points = {name: (rows - mean) @ axes.T for name, rows in unit.items()}
    return ConceptMap(points, {name: concept_spread(rows) for name, rows in unit.items()}, (first, second))


def concept_features(encode_text: Any, classes: Sequence[str], **options: Any) -> NDArray[np.float32]:
    """Features of bare class names, as the diversity of concepts needs them."""
    from knowledge_prompts.encoding.embeddings import class_embeddings
    from knowledge_prompts.prompts.class_prompts import ClassPrompts
    from knowledge_prompts.prompts.prompt_set import build_prompts

    names = list(dict.fromkeys(classes))
    return class_embeddings(encode_text, build_prompts(ClassPrompts("names", ["{}"], names)), **options).weights


def draw_map(concepts: ConceptMap, *, side: float = 3.2, radius: float = 2.0) -> Figure:
    """Draw a concept map: one panel per data set, side by side, all on the same scale."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ModuleNotFoundError("an image needs matplotlib: pip install 'knowledge-prompts[plot]'") from None
    limit = 1.05 * max((float(np.abs(points).max()) for points in concepts.points.values()), default=0.0) or 1.0
    figure = Figure(figsize=(side * len(concepts.points), side + 0.6), layout="constrained")
    for position, (name, points) in enumerate(concepts.points.items(), start=1):
        axes: Any = figure.add_subplot(1, len(concepts.points), position)
        axes.scatter(points[:, 0], points[:, 1], s=(2 * radius) ** 2, color="#1f5fa8", alpha=0.5, linewidths=0)
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[], aspect="equal")
        axes.set_title(
            f"{printable(name)}: {len(points)} concepts, spread {concepts.spread[name]:.3f}",
            fontsize=9,
            parse_math=False,
        )
    figure.supxlabel(f"shares of variance {concepts.explained[0]:.1%} and {concepts.explained[1]:.1%}", fontsize=9)
    return figure


def _unit_rows(features: ArrayLike, name: str) -> NDArray[np.float64]:
    masked: Any = features
    if np.ma.getmaskarray(masked).any():  # NumPy takes what is masked for values
        row = int(np.argwhere(np.ma.getmaskarray(masked))[0][0])
        raise ValueError(f"{name}, row {row}: a value is masked; leave the row out, or fill it")
    array = np.asarray(features, dtype=np.float64)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape}; expected (n, d) with n and d at least 1")
    lengths = np.linalg.norm(array, axis=1)
    bad = ~np.isfinite(lengths) | (lengths == 0)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{name}, row {row}: length {lengths[row]}; expected a finite one above 0")
    return np.asarray(array / lengths[:, None], dtype=np.float64)
