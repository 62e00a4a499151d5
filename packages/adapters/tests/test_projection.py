"""The projection that is fitted again, against a slow form in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from vision_adapters.tuning.projection import fit_projection


def _made(
    seed: int = 0, count: int = 12, width: int = 7, shared: int = 5, classes: int = 3
) -> tuple[torch.Tensor, ...]:
    rng = torch.Generator().manual_seed(seed)
    features = torch.randn(count, width, generator=rng)
    projection = torch.randn(width, shared, generator=rng)
    texts = torch.randn(classes, shared, generator=rng)
    return features, torch.arange(count) % classes, projection, texts


def _slow(
    x: np.ndarray,
    labels: np.ndarray,
    start: np.ndarray,
    texts: np.ndarray,
    scale: float,
    shots: int,
    rate: float,
    steps: int,
) -> np.ndarray:
    """Adam with its bias corrections, and the gradient by the chain rule, one image at a time."""
    texts = texts / np.linalg.norm(texts, axis=1, keepdims=True)
    matrix, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(steps):
        gradient = 2 * (matrix - start) / shots
        for row, label in zip(x, labels, strict=True):
            z = row @ matrix
            length = np.linalg.norm(z)
            scores = scale * texts @ (z / length)
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            shares[label] -= 1
            toward = scale * texts.T @ shares / len(x)  # with respect to z at length 1
            unit = z / length
            gradient += np.outer(row, (toward - unit * (unit @ toward)) / length)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        sizes = np.sqrt(second / (1 - 0.999 ** (step + 1))) + 1e-8
        now = rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        matrix = matrix - now * first / (1 - 0.9 ** (step + 1)) / sizes
    return matrix


@pytest.mark.parametrize("shots", [1, 4])
def test_it_is_the_slow_form(shots: int) -> None:
    x, labels, start, texts = _made()
    fitted = fit_projection(x, labels, start, texts, logit_scale=10.0, shots=shots, rate=0.01, steps=40)
    values = [tensor.double().numpy() for tensor in (x, start, texts)]
    slow = _slow(values[0], labels.numpy(), values[1], values[2], 10.0, shots, 0.01, 40)
    assert np.abs(fitted.numpy() - slow).max() < 2e-4  # of a move of .3
    assert np.abs(slow - values[1]).max() > 0.1


def test_fewer_shots_hold_it_nearer_to_its_start() -> None:
    x, labels, start, texts = _made()
    near, far = (
        fit_projection(x, labels, start, texts, shots=shots, rate=0.05, steps=200) - start for shots in (1, 1000)
    )
    assert float(near.norm()) < float(far.norm())


def test_nothing_of_the_callers_changes_and_inference_mode_is_no_hindrance() -> None:
    x, labels, start, texts = _made()
    before = start.clone()
    plain = fit_projection(x, labels, start, texts, steps=5)
    with torch.inference_mode():
        inside = fit_projection(x.clone(), labels, start.clone(), texts, steps=5)
    assert torch.equal(start, before)
    assert torch.equal(plain, inside)
    assert not plain.requires_grad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"projection": torch.ones(6, 5)}, r"projection has shape \(6, 5\), expected 7 rows"),
        ({"class_embeddings": torch.ones(3, 4)}, r"class_embeddings have shape \(3, 4\), expected \[k, 5\]"),
        ({"labels": torch.full((12,), 3)}, "labels are 3 to 3, expected 0 to 2"),
        ({"labels": torch.zeros(11, dtype=torch.long)}, r"labels have shape \(11,\), expected \(12,\)"),
        ({"shots": 0}, "shots must be at least 1, not 0"),
        ({"features": torch.full((12, 7), math.nan)}, "features: row 0 holds NaN"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], message: str) -> None:
    names = ("features", "labels", "projection", "class_embeddings")
    with pytest.raises(ValueError, match=message):
        fit_projection(**{**dict(zip(names, _made(), strict=True)), **change})  # type: ignore[arg-type]  # of several types
