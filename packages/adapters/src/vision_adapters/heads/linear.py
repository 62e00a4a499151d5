"""Linear heads on pooled features, and their start from class texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal, TypeVar, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

FeatureNorm = Literal["raw", "l2", "batchnorm", "l2-batchnorm"]
M = TypeVar("M", bound=nn.Module)


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seed torch's global generators, of the CPU and of each GPU in use, and put them back at the end.

    `torch.manual_seed` seeds every GPU, so that putting the CPU's generator back is not enough. Where no GPU is in
    use yet, the CPU's alone is seeded: torch would keep the seed for GPUs and set it when one is first used.

    Example:
        >>> before = torch.get_rng_state()
        >>> with global_seed(7):
        ...     noise = torch.randn(2)
        >>> torch.equal(before, torch.get_rng_state())
        True
    """
    in_use = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]  # torch's
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=in_use))
        torch.default_generator.manual_seed(seed)
        if in_use:
            torch.cuda.manual_seed_all(seed)
        if torch.backends.mps.is_available():
            stack.enter_context(torch.random.fork_rng(devices=[0], device_type="mps"))
            torch.mps.manual_seed(seed)
        yield


def seeded(build: Callable[[], M], seed: int) -> M:
    """Build a module whose random start depends on `seed` alone; the global generators are left as they were.

    Args:
        build: makes the module, for example `lambda: LinearHead(512, 10)`.
        seed: any integer that `torch.manual_seed` takes.

    Example:
        >>> a, b = (seeded(lambda: LinearHead(4, 2), 7) for _ in range(2))
        >>> torch.equal(a.weight, b.weight)
        True
    """
    with global_seed(seed):
        return build()


class LinearHead(nn.Module):
    r"""Class scores $s\,(W\,n(x)) + b$, linear in the features after a fixed normalisation $n$.

    W starts as `torch.nn.Linear` starts (uniform, from the global generator; see `seeded`), b at 0.

    Args:
        dim: features per sample, d >= 1.
        outputs: classes (or labels, or regressed numbers), k >= 1.
        features: "raw" leaves x as it is, "l2" scales each row to length 1, "batchnorm" is batch normalisation
            without affine parameters (ELEVATER's choice), "l2-batchnorm" is both, in this order.
        logit_scale: s > 0.
        train_scale: True makes log s a parameter; otherwise it is a buffer.

    Example:
        >>> LinearHead(4, 3, features="l2")(torch.randn(2, 4)).shape
        torch.Size([2, 3])

    Source:
        ELEVATER, section 4 and figure 5; "Random-1P" when the features are the backbone's.
    """

    def __init__(
        self,
        dim: int,
        outputs: int,
        *,
        features: FeatureNorm = "raw",
        logit_scale: float = 1.0,
        train_scale: bool = False,
    ) -> None:
        super().__init__()
        if dim < 1 or outputs < 1:
            raise ValueError(f"dim and outputs must be at least 1, got dim={dim}, outputs={outputs}")
        if features not in get_args(FeatureNorm):
            raise ValueError(f"features must be one of {get_args(FeatureNorm)}, got {features!r}")
        if not (logit_scale > 0 and math.isfinite(logit_scale)):
            raise ValueError(f"logit_scale must be positive and finite, got {logit_scale}")
        self.features = features
        self.weight = nn.Parameter(torch.empty(outputs, dim))
        nn.init.uniform_(self.weight, -(dim**-0.5), dim**-0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.norm = nn.BatchNorm1d(dim, affine=False) if features.endswith("batchnorm") else nn.Identity()
        self.train_scale = train_scale
        if train_scale:
            self.log_scale = nn.Parameter(torch.tensor(math.log(logit_scale)))
        else:
            self.register_buffer("scale", torch.tensor(float(logit_scale)))

    def logit_scale(self) -> Tensor:
        """The scale s as a tensor of no dimensions."""
        return self.log_scale.exp() if self.train_scale else self.get_buffer("scale")

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Scores of each class for each row of features."""
        if x.shape[-1] != self.weight.shape[1]:
            raise ValueError(f"features have {x.shape[-1]} columns, the head was made for {self.weight.shape[1]}")
        x = self.norm(F.normalize(x, dim=-1) if self.features.startswith("l2") else x)
        return self.logit_scale() * F.linear(x, self.weight) + self.bias


def fixed_head(
    weight: Float[Tensor, "k d"],
    bias: Float[Tensor, " k"],
    features: FeatureNorm,
    logit_scale: float = 1.0,
    *,
    train_scale: bool = False,
) -> LinearHead:
    """A `LinearHead` with given weights, in evaluation mode; the global generator stays as it was.

    Example:
        >>> fixed_head(2 * torch.eye(3), torch.zeros(3), "l2")(torch.tensor([[0.0, 5.0, 0.0]])).tolist()
        [[0.0, 2.0, 0.0]]
    """
    outputs, dim = weight.shape
    with torch.random.fork_rng(devices=[]):  # the random start is overwritten
        head = LinearHead(dim, outputs, features=features, logit_scale=logit_scale, train_scale=train_scale)
    head = head.to(weight.device)
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    return head.eval()


def language_head(
    class_embeddings: Float[Tensor, "k d"],
    logit_scale: float,
    *,
    features: FeatureNorm = "l2",
    train_scale: bool = False,
) -> LinearHead:
    r"""A linear head that starts as the zero-shot classifier: $W = V / \lVert V\rVert$, $b = 0$, scale s.

    Args:
        class_embeddings: one text embedding per class, in the space of the image features.
        logit_scale: s > 0; use the encoder's own (100 for CLIP), or 1 as ELEVATER's toolkit does.
        features: as in `LinearHead`. With "l2" the untrained head gives $s \cos(x, v_c)$ bit for bit; with "raw" or an
            untrained "batchnorm" it ranks the classes the same, the scores being scaled by the row's length.
        train_scale: whether log s is a parameter.

    Raises:
        ValueError: embeddings that are not a matrix, not finite, or hold a row of zeros, whose index is shown.

    Example:
        >>> language_head(torch.eye(2), 10.0)(torch.tensor([[3.0, 0.0]])).tolist()
        [[10.0, 0.0]]

    Source:
        ELEVATER, section 4: "Language-2P" on projected features. Its toolkit uses scale 1 and batch normalisation.
    """
    if class_embeddings.ndim != 2 or 0 in class_embeddings.shape:
        raise ValueError(f"class_embeddings must be [classes, dim], got shape {tuple(class_embeddings.shape)}")
    lengths = class_embeddings.float().norm(dim=-1)
    bad = (~torch.isfinite(lengths) | (lengths == 0)).nonzero().flatten()
    if len(bad):
        row = int(bad[0])
        raise ValueError(
            f"class_embeddings row {row} has length {float(lengths[row])}, expected a finite length above 0"
        )
    weight = F.normalize(class_embeddings, dim=-1)
    return fixed_head(weight, weight.new_zeros(len(weight)), features, logit_scale, train_scale=train_scale).train()


class Standardised(nn.Module):
    """A head on standardised targets, so that it starts at their mean and steps in their unit.

    Args:
        head: features to ``[n, 1]``.
        mean: of the training targets.
        spread: their standard deviation, above 0.

    Example:
        >>> head = Standardised(LinearHead(4, 1), torch.tensor(5.0), torch.tensor(2.0))
        >>> head(torch.zeros(3, 4)).tolist()
        [5.0, 5.0, 5.0]
    """

    def __init__(self, head: nn.Module, mean: Tensor, spread: Tensor) -> None:
        super().__init__()
        self.head = head
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)

    def forward(self, features: Float[Tensor, "n ..."]) -> Float[Tensor, " n"]:
        """One number per sample."""
        value: Tensor = self.head(features)[:, 0] * self.get_buffer("spread") + self.get_buffer("mean")
        return value
