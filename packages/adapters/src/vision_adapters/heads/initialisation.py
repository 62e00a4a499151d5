"""ELEVATER's four starts of a linear head: random or language, on one projection or two."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from vision_adapters.heads.linear import FeatureNorm, LinearHead, language_head, seeded

Initialisation = Literal["random-1p", "random-2p", "language-1p", "language-2p"]


class ProjectedHead(nn.Module):
    """A linear head behind the encoder's own projection, which is fixed: $h(x W_v)$, two projections in a row."""

    def __init__(self, projection: Float[Tensor, "b p"], head: LinearHead) -> None:
        super().__init__()
        if projection.ndim != 2 or projection.shape[1] != head.weight.shape[1]:
            raise ValueError(
                f"projection has shape {tuple(projection.shape)}, expected [b, {head.weight.shape[1]}] for this head"
            )
        self.projection = nn.Parameter(projection.detach().clone(), requires_grad=False)
        self.head = head

    def forward(self, x: Float[Tensor, "n b"]) -> Float[Tensor, "n k"]:
        """Scores of each class from the backbone's features."""
        scores: Tensor = self.head(x @ self.projection)
        return scores


def initial_head(
    start: Initialisation,
    *,
    classes: int,
    projection: Float[Tensor, "b p"] | None = None,
    class_embeddings: Float[Tensor, "k p"] | None = None,
    dim: int | None = None,
    features: FeatureNorm = "raw",
    logit_scale: float = 1.0,
    train_scale: bool = False,
    seed: int = 0,
) -> LinearHead | ProjectedHead:
    r"""A head on the backbone's features x, started in one of ELEVATER's four ways.

    - random-1p: one random layer on x.
    - random-2p: a random layer on $x W_v$.
    - language-1p: one layer $W = W_v V^\top$ on x, so that the projection is trained with it.
    - language-2p: the class embeddings V on $x W_v$.

    Untrained, both language forms rank the classes as zero-shot does; language-2p with "l2" scores as it does.

    Args:
        start: which.
        classes: k.
        projection: $W_v$; None in the 2p forms for features that are projected already.
        class_embeddings: V, one text embedding per class, for the language forms; rows are scaled to length 1.
        dim: features per sample, needed only where neither projection nor embeddings tell.
        features: as in `LinearHead`.
        logit_scale: as in `LinearHead`.
        train_scale: as in `LinearHead`.
        seed: of the random forms.

    Raises:
        ValueError: what a form needs and was not given, or shapes that do not fit.

    Example:
        >>> V, Wv, x = torch.randn(3, 4), torch.randn(6, 4), torch.randn(5, 6)
        >>> one, two = (initial_head(f"language-{p}p", classes=3, projection=Wv, class_embeddings=V) for p in (1, 2))
        >>> torch.allclose(one(x), two(x), atol=1e-5)
        True

    Source:
        ELEVATER, section 4 and figure 5 (a), (c), (d), (e); the merged form is its toolkit's.
    """
    if start not in get_args(Initialisation):
        raise ValueError(f"start must be one of {get_args(Initialisation)}, got {start!r}")
    language = start.startswith("language")
    if language and class_embeddings is None:
        raise ValueError(f"{start} needs class_embeddings, got None")
    if start == "language-1p" and projection is None:
        raise ValueError("language-1p needs the projection that it merges, got None")
    if class_embeddings is not None and len(class_embeddings) != classes:
        raise ValueError(f"class_embeddings has {len(class_embeddings)} rows, expected {classes} classes")
    if projection is not None and class_embeddings is not None and projection.shape[1] != class_embeddings.shape[1]:
        raise ValueError(
            f"projection leads to {projection.shape[1]} numbers, embeddings have {class_embeddings.shape[1]}"
        )

    def blank(width: int) -> LinearHead:
        """A head with random weights."""
        return seeded(
            lambda: LinearHead(width, classes, features=features, logit_scale=logit_scale, train_scale=train_scale),
            seed,
        )

    if not language:
        width = dim
        if projection is not None:
            width = projection.shape[0 if start == "random-1p" else 1]
        elif class_embeddings is not None and dim is None:
            width = class_embeddings.shape[1]
        if width is None:
            raise ValueError(f"{start} needs dim or a projection to know its input, got neither")
        head = blank(width)
    else:
        assert class_embeddings is not None
        head = language_head(class_embeddings, logit_scale, features=features, train_scale=train_scale)
        if start == "language-1p":
            assert projection is not None
            merged = head.weight.detach() @ projection.T.to(head.weight)
            head = blank(projection.shape[0]).to(merged.device)
            with torch.no_grad():
                head.weight.copy_(merged)
    if start.endswith("2p") and projection is not None:
        return ProjectedHead(projection, head)
    return head


class InitializedHead(nn.Module):
    r"""A linear layer on unit features whose weights are given: untrained, it scores as what they are from does.

    $s\,\hat{x}\,W^\top + b$, with s the `factor` and $\hat{x}$ the features at length 1, taken back from the scale on
    which they come (`mean` was taken from each channel, `std` divided it). W are class texts, or a solved probe.

    Example:
        >>> head = InitializedHead(torch.eye(2), torch.zeros(2), torch.ones(2), torch.ones(2), 100.0)
        >>> head(torch.tensor([[2.0, 3.0]])).round().tolist()
        [[60.0, 80.0]]
    """

    def __init__(
        self,
        weight: Float[Tensor, "k d"],
        bias: Float[Tensor, " k"],
        mean: Float[Tensor, " d"],
        std: Float[Tensor, " d"],
        factor: float,
    ) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("std", std, persistent=False)
        self.mean: Tensor
        self.std: Tensor
        self.factor = factor

    def forward(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Scores of each class."""
        raw = features * self.std + self.mean
        return self.factor * functional.normalize(raw, dim=-1) @ self.weight.T + self.bias
