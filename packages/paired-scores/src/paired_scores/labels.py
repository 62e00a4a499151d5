"""Labels of samples, such as their clusters: hashable values, whatever holds them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np


def as_labels(labels: Iterable[Any], name: str = "clusters", *, missing: bool = False) -> list[Hashable]:
    """Return a list of labels from a list, an array or a tensor.

    A tensor's elements are hashed by their place in memory: as they are, each would be a label of its own.

    Args:
        labels: one for each sample.
        name: what an error calls them.
        missing: whether None and NaN (also pandas' NA and NaT) are labels; each NaN is then the same one.

    Raises:
        ValueError: labels of several dimensions or without an order, a mapping, one text, a label that cannot be
            hashed, or that is missing; shows its place.

    Example:
        >>> as_labels(np.array([3, 3, 5]))
        [3, 3, 5]
    """
    held: Any = labels.detach().cpu().numpy() if hasattr(labels, "detach") else labels
    if isinstance(held, str | bytes | Mapping | Set):
        raise ValueError(f"{name}: labels are {held!r:.60}; expected a list with one for each sample, in their order")
    if getattr(held, "ndim", 1) != 1:
        raise ValueError(f"{name}: labels have shape {held.shape}; expected one for each sample")
    if isinstance(held, np.ndarray):
        held = held.tolist()
    listed: list[Hashable] = []
    for place, label in enumerate(held):
        plain = label.item() if hasattr(label, "item") and getattr(label, "ndim", None) == 0 else label
        if _is_missing(plain):
            if not missing:
                raise ValueError(f"{name}: sample {place} has the label {plain}; expected one for each sample")
            plain = None if plain is None else math.nan
        try:
            hash(plain)
        except TypeError as error:
            raise ValueError(
                f"{name}: sample {place} has the label {plain!r:.60}; expected a text or number"
            ) from error
        listed.append(plain)
    return listed


def cluster_labels(clusters: Iterable[Any], samples: int) -> list[Hashable]:
    """Return the labels of samples' clusters.

    Raises:
        ValueError: see `as_labels`, or another number of labels than samples.

    Example:
        >>> cluster_labels(iter("aab"), 3)
        ['a', 'a', 'b']
    """
    labels = as_labels(clusters)
    if len(labels) != samples:
        raise ValueError(f"clusters: {len(labels)} labels for {samples} samples; expected one for each")
    return labels


def names_of(labels: Sequence[Hashable], kind: str) -> list[str]:
    """Return labels as tables call them, each by a name of its own.

    Raises:
        ValueError: two labels of one name (1 and "1"), or one value of two names (1 and True); shows them.

    Example:
        >>> names_of(["night", 7], "slices")
        ['night', '7']
    """
    names = list(map(str, labels))
    first: dict[str, Hashable] = {}
    shown: dict[Hashable, str] = {}
    for name, label in zip(names, labels, strict=True):
        other = first.setdefault(name, label)
        if other is not label and other != label:
            raise ValueError(f"{kind}: {other!r} and {label!r} are both called {name!r}; name them apart")
        if shown.setdefault(label, name) != name:
            raise ValueError(f"{kind}: {shown[label]} and {name} are one value in two forms; write it in one")
    return names


def check_several(labels: Sequence[Hashable]) -> None:
    """Refuse labels that name fewer than two clusters: nothing could be drawn.

    Raises:
        ValueError: so it is; the message shows the only cluster.
    """
    if len(set(labels)) < 2:
        among = f"all {len(labels)} samples are of {labels[0]!r}" if labels else "no sample is left"
        raise ValueError(f"clusters: {among}; expected at least 2 clusters")


def _is_missing(label: Any) -> bool:
    """Whether a label stands for none: None, and what does not equal itself, such as NaN, NaT and pandas' NA."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # NA refuses to be true or false, as arrays do
        return type(label).__name__ == "NAType"
