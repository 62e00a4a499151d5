"""Images without labels as mixtures of Gaussians that class texts guide: StatA and TransCLIP, and their head."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

ROUNDS, INNER, NEIGHBOURS = 10, 5, 3
ANCHOR = 1.0
"""StatA's weight of a class's text, in images."""
CONFIDENT = 8
"""Images per class, the surest by zero-shot, at whose mean TransCLIP starts."""
LEAST_VARIANCE = 1e-8
CELLS = 2**22


class Mixture(NamedTuple):
    """Gaussians with variances per axis, one for each class, and what each image has of which class."""

    assignment: Float[Tensor, "n k"]
    means: Float[Tensor, "k d"]
    variances: Float[Tensor, "k d"]


class Graph(NamedTuple):
    """The nearest other images of each image, and how near they are."""

    neighbours: Int[Tensor, "n m"]
    weights: Float[Tensor, "n m"]

    def votes(self, assignment: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """Return the neighbours' assignments, weighted and added."""
        votes = torch.zeros_like(assignment)
        for place in range(self.neighbours.shape[1]):
            votes += self.weights[:, place, None] * assignment[self.neighbours[:, place]]
        return votes


class GaussianHead(nn.Module):
    r"""Scores of new images by a mixture: $s\,v_c \cdot x + \log N(x; \mu_c, \operatorname{diag} \sigma_c^2)$.

    `texts` are at length 1, and so are features before they are compared.
    """

    def __init__(self, texts: Tensor, means: Tensor, variances: Tensor, scale: float) -> None:
        super().__init__()
        self.register_buffer("texts", texts)
        self.register_buffer("means", means)
        self.register_buffer("variances", variances)
        self.scale = scale

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Scores of each class; only their differences mean something."""
        unit = F.normalize(x, dim=1)
        fit = log_densities(unit, self.get_buffer("means"), self.get_buffer("variances"))
        scores: Tensor = self.scale * unit @ self.get_buffer("texts").T + fit
        return scores


def log_densities(
    x: Float[Tensor, "n d"], means: Float[Tensor, "k d"], variances: Float[Tensor, "k d"]
) -> Float[Tensor, "n k"]:
    """Log-densities of Gaussians with variances per axis, without the constant that all share."""
    precision = 1 / variances
    # around the mean of all means, where squares are small: differences of large numbers lose digits
    centre = means.mean(0)
    x, means = x - centre, means - centre
    squares = x.square() @ precision.T - 2 * x @ (means * precision).T + (means.square() * precision).sum(1)
    densities: Tensor = -0.5 * (squares + variances.log().sum(1))
    return densities


def nearest(x: Float[Tensor, "n d"], count: int = NEIGHBOURS) -> Graph:
    """Return the images with the largest cosines, a block of rows at a time; negative cosines count 0."""
    count = min(count, len(x) - 1)
    rows = max(1, CELLS // len(x))
    neighbours, weights = [], []
    for start in range(0, len(x), rows):
        cosines = x[start : start + rows] @ x.T
        own = torch.arange(len(cosines))
        cosines[own, start + own] = -math.inf
        best = cosines.topk(count, dim=1)
        neighbours.append(best.indices)
        weights.append(best.values.clamp_min(0))
    return Graph(torch.cat(neighbours), torch.cat(weights))


def assigned(log_prior: Tensor, fit: Tensor, graph: Graph, assignment: Tensor, known: Tensor) -> Tensor:
    """Assignments after the inner steps, in which images pull their neighbours; the first rows are known."""
    for _ in range(INNER):
        assignment = torch.cat([known, (log_prior + fit + graph.votes(assignment)).softmax(1)[len(known) :]])
    return assignment


def stata(
    x: Float[Tensor, "n d"],
    texts: Float[Tensor, "k d"],
    scale: float,
    known: Float[Tensor, "m k"] | None = None,
    *,
    graph: Graph | None = None,
    rounds: int = ROUNDS,
) -> Mixture:
    r"""StatA: a mixture held at the class texts by the divergence from a Gaussian around each.

    From zero-shot probabilities $\hat y = \operatorname{softmax}(s V x)$, the anchors are the texts $v_c$ and the
    variances $\Sigma' = \frac{1}{n} \sum_{i, c} \hat y_{ic} (x_i - v_c)^2$. Each round sets
    $z_i \propto \hat y_i \exp(\log p_i + \sum_j w_{ij} z_j)$ over the three nearest images, five times, and then, with
    $n_c = \sum_i z_{ic}$ and $\alpha = 1$,

    $\mu_c = (\sum_i z_{ic} x_i + \alpha v_c) / (n_c + \alpha)$ and
    $\Sigma_c = (\sum_i z_{ic} (x_i - \mu_c)^2 + \alpha (\Sigma' + (v_c - \mu_c)^2)) / (n_c + \alpha)$.

    Args:
        x: at length 1; rows whose class is known come first.
        texts: at length 1.
        scale: s.
        known: 0/1 classes of the first rows; their assignments stay (ours, for few labels).
        graph: the nearest images, if they are known already.
        rounds: of the updates.

    Source:
        Zanella et al., Realistic test-time adaptation of vision-language models (CVPR 2025), from its objective: the
        updates are where its gradient vanishes. Chooses with nothing.
    """
    known = x.new_zeros(0, len(texts)) if known is None else known
    log_prior = (scale * x @ texts.T).log_softmax(1)
    assignment = torch.cat([known, log_prior.exp()[len(known) :]])
    prior = log_prior.exp()
    spread = ((prior.sum(0) @ texts.square()) - 2 * ((prior.T @ x) * texts).sum(0) + x.square().sum(0)) / len(x)
    spread = spread.clamp_min(LEAST_VARIANCE)
    means, variances = texts, spread.expand(len(texts), -1)
    graph = graph or nearest(x)
    squares = x.square()
    for _ in range(rounds):
        assignment = assigned(log_prior, log_densities(x, means, variances), graph, assignment, known)
        count = assignment.sum(0)[:, None]
        sums = assignment.T @ x
        means = (sums + ANCHOR * texts) / (count + ANCHOR)
        scatter = assignment.T @ squares - 2 * means * sums + count * means.square()
        variances = (scatter + ANCHOR * (spread + (texts - means).square())) / (count + ANCHOR)
        variances = variances.clamp_min(LEAST_VARIANCE)
    return Mixture(assignment, means, variances)


def transclip(
    x: Float[Tensor, "n d"],
    texts: Float[Tensor, "k d"],
    scale: float,
    known: Float[Tensor, "m k"] | None = None,
    *,
    graph: Graph | None = None,
    rounds: int = ROUNDS,
) -> Mixture:
    r"""TransCLIP: a mixture with one common variance per axis, whose assignments alone are held at zero-shot's.

    Means start at those of the eight images that zero-shot gives each class most surely, variances at 1/d. Rounds are
    those of `stata`, with $\mu_c = \sum_i z_{ic} x_i / n_c$ and
    $\Sigma = \frac{1}{n} \sum_{i, c} z_{ic} (x_i - \mu_c)^2$.

    Source:
        Zanella, Gerin and Ben Ayed, Boosting vision-language models with transduction (NeurIPS 2024), zero-shot form.
        A class without any assignment keeps its mean. Chooses with nothing.
    """
    known = x.new_zeros(0, len(texts)) if known is None else known
    log_prior = (scale * x @ texts.T).log_softmax(1)
    assignment = torch.cat([known, log_prior.exp()[len(known) :]])
    sure = assignment.argsort(dim=0, descending=True, stable=True)[:CONFIDENT]
    means = torch.stack([x[sure[:, c]].mean(0) for c in range(len(texts))])
    variances = x.new_full((len(texts), x.shape[1]), 1 / x.shape[1])
    graph = graph or nearest(x)
    squares = x.square().sum(0)
    for _ in range(rounds):
        assignment = assigned(log_prior, log_densities(x, means, variances), graph, assignment, known)
        count = assignment.sum(0)[:, None]
        sums = assignment.T @ x
        means = torch.where(count > 1e-12, sums / count.clamp_min(1e-12), means)
        common = (squares - 2 * (means * sums).sum(0) + (count * means.square()).sum(0)) / len(x)
        variances = common.clamp_min(LEAST_VARIANCE).expand(len(texts), -1)
    return Mixture(assignment, means, variances)
