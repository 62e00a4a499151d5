"""Class maps from patch tokens by ridge regression: solved in one pass over the training split, nothing is stepped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vision_adapters.heads.segmentation import LARGEST_BLOCK
from vision_adapters.rows import Rows
from vision_adapters.training.scale import Scale

PENALTIES = (1e-3, 1e-4, 1e-2, 1e-1)
"""Strengths that validation chooses from, as shares of the inputs' mean variance; the first is tried with each lift."""
LIFTS = (0.2, 0.0, 0.1, 0.3, 0.5)
"""Exponents of classes' frequencies that scores are divided by; the first is tried with each strength."""
WINDOW = 3
COMPONENTS = 192
"""Principal components of tokens that are regressed on, at most: time and memory do not grow with wider encoders."""
_TOGETHER, _INDICATORS = 64, 2**24
"""Images that are regressed together, and numbers of their pixels' indicators, at most."""


class PatchRidgeHead(nn.Module):
    r"""Scores of each class at each pixel, linear in the tokens of a patch and of its neighbours.

    Each patch draws its own block of pixels: with z the components of the tokens in a window around a patch, side by
    side (0 beyond the edge), scores are $W z + b$.

    Args:
        grid: (h, w), rows and columns of tokens, row-major.
        size: (H, W) of the maps in pixels; where blocks do not add up to it, they are stretched, bilinear.
        classes: k.
        components: ``[c, d]``, directions of tokens.
        weight: W ``[k * bh * bw, window * window * c]``, with (bh, bw) the pixels of a block, `block_of`.
        bias: b ``[k * bh * bw]``.
        window: rows and columns of tokens that a patch sees, odd.

    Example:
        >>> head = PatchRidgeHead((2, 2), (4, 4), 3, torch.eye(5), torch.zeros(12, 45), torch.zeros(12))
        >>> head(torch.randn(7, 4, 5)).shape
        torch.Size([7, 3, 4, 4])
    """

    def __init__(
        self,
        grid: tuple[int, int],
        size: tuple[int, int],
        classes: int,
        components: Float[Tensor, "c d"],
        weight: Float[Tensor, "o i"],
        bias: Float[Tensor, " o"],
        *,
        window: int = WINDOW,
    ) -> None:
        super().__init__()
        self.grid, self.size, self.classes, self.window = grid, size, classes, window
        self.block = block_of(grid, size)
        self.components, self.weight, self.bias = (nn.Parameter(value) for value in (components, weight, bias))

    def forward(self, tokens: Float[Tensor, "n t d"]) -> Float[Tensor, "n k H W"]:
        """Scores of each class at each pixel."""
        (h, w), (bh, bw) = self.grid, self.block
        drawn = F.linear(windows(tokens @ self.components.T, self.grid, self.window), self.weight, self.bias)
        drawn = drawn.reshape(len(tokens), h, w, self.classes, bh, bw).permute(0, 3, 1, 4, 2, 5)
        maps = drawn.reshape(len(tokens), self.classes, h * bh, w * bw)
        if maps.shape[-2:] != self.size:
            maps = F.interpolate(maps, self.size, mode="bilinear", align_corners=False)
        return maps


class Chosen(NamedTuple):
    """A strength, the exponent of the classes' frequencies, and what they score on validation."""

    penalty: float
    lift: float
    score: float


@dataclass(frozen=True, eq=False)
class PatchRidge:
    """The head with the strength and the lift that validate best, and all that were tried."""

    head: PatchRidgeHead
    chosen: Chosen
    tried: tuple[Chosen, ...]


def fit_patch_ridge(
    tokens: Rows,
    maps: Rows,
    *,
    classes: int,
    grid: tuple[int, int],
    size: tuple[int, int],
    scale: Scale,
    validate: Callable[[PatchRidgeHead], float],
    window: int = WINDOW,
    device: torch.device | str = "cpu",
) -> PatchRidge:
    r"""Solve a `PatchRidgeHead` by least squares to the classes' indicators, strength and lift chosen on validation.

    $\min_W \lVert Y - X W^\top \rVert^2 + \lambda \lVert W \rVert^2$ of centred X and Y; scores are then divided by
    $f^g$, f being the classes' frequencies and g the lift, because regression alone is shy of rare classes. A pixel
    whose target is not in 0..k-1 (not labelled) counts as its mean. $X^\top X$ and $X^\top Y$ are summed image by
    image: time grows with the images once, memory does not.

    Args:
        tokens: of the training split ``[n, t, d]``.
        maps: classes of pixels ``[n, H, W]``.
        classes: k.
        grid: rows and columns of tokens.
        size: height and width of the maps.
        scale: of the tokens.
        validate: a head for scaled tokens to its score on validation, of which more is better.
        window: see `PatchRidgeHead`.
        device: where sums are taken, and where the heads are.

    Raises:
        ValueError: other numbers of images and maps, or no labelled pixel.

    Example:
        >>> maps = torch.arange(2).repeat_interleave(8).reshape(1, 4, 4).repeat(6, 1, 1)  # the upper half, the lower
        >>> tokens = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]).repeat(6, 1, 1)
        >>> solved = fit_patch_ridge(
        ...     tokens, maps, classes=2, grid=(2, 2), size=(4, 4), scale=Scale.of(tokens),
        ...     validate=lambda head: float((head(tokens).argmax(1) == maps).float().mean()),
        ... )
        >>> solved.chosen.score
        1.0
    """
    if not len(tokens) or len(tokens) != len(maps):
        raise ValueError(f"{len(tokens)} images with {len(maps)} maps; expected the same number, at least 1")
    pixels = block_of(grid, size)[0] * block_of(grid, size)[1]
    mean, std = scale.mean.to(device), scale.std.to(device)

    def scaled(rows: Tensor) -> Tensor:
        values: Tensor = tokens[rows]
        return (values.to(device).float() - mean) / std

    of_each = grid[0] * grid[1] * pixels * (classes + 1)
    parts = torch.split(torch.arange(len(maps)), max(1, min(_TOGETHER, _INDICATORS // of_each)))
    components = torch.eye(len(mean), device=device)
    if len(mean) > COMPONENTS:
        spread = torch.zeros(len(mean), len(mean), device=device)
        for rows in parts:
            flat = scaled(rows).flatten(0, 1)
            spread.addmm_(flat.T, flat)
        components = torch.linalg.eigh(spread.double()).eigenvectors[:, -COMPONENTS:].T.float().contiguous()
    inputs = window * window * len(components)
    gram, total = torch.zeros(inputs, inputs, device=device), torch.zeros(inputs, device=device, dtype=torch.float64)
    product = torch.zeros(inputs, pixels * (classes + 1), device=device)
    counts = torch.zeros(pixels, classes + 1, device=device, dtype=torch.float64)
    for rows in parts:
        x = windows(scaled(rows) @ components.T, grid, window).flatten(0, 1)
        labels = blocks_of(torch.as_tensor(maps[rows]).to(device), grid, size, classes)
        indicators = F.one_hot(labels, classes + 1).to(x.dtype)
        gram.addmm_(x.T, x)
        product.addmm_(x.T, indicators.flatten(1))
        total += x.sum(dim=0, dtype=torch.float64)
        counts += indicators.sum(dim=0, dtype=torch.float64)
    counts = counts[:, :classes]
    if not bool(counts.any()):
        raise ValueError(f"no pixel of {len(maps)} maps has a class of 0..{classes - 1}")
    shares = (counts / counts.sum(dim=1, keepdim=True).clamp_min(1)).float()  # of each class at each pixel of a block
    patches = len(maps) * grid[0] * grid[1]
    centre = (total / patches).float()
    gram -= patches * torch.outer(centre, centre)
    product = product.reshape(inputs, pixels, classes + 1)[..., :classes]
    product = (product - product.sum(dim=2, keepdim=True) * shares).transpose(1, 2).flatten(1)
    start, unit = shares.T.flatten(), float(gram.diagonal().mean().clamp_min(1e-12))
    frequency = (counts.sum(dim=0) / counts.sum()).float().clamp_min(1e-6)
    solved: dict[float, tuple[Tensor, Tensor]] = {}

    def head_at(penalty: float, lift: float) -> PatchRidgeHead:
        if penalty not in solved:
            ridge = gram.double() + penalty * unit * torch.eye(inputs, device=device, dtype=torch.float64)
            weight = torch.cholesky_solve(product, torch.linalg.cholesky(ridge).float()).T
            solved[penalty] = weight, start - weight @ centre
        weight, bias = solved[penalty]
        factor = frequency.pow(-lift).repeat_interleave(pixels)
        return PatchRidgeHead(
            grid, size, classes, components, weight * factor[:, None], bias * factor, window=window
        ).eval()

    def judged(penalty: float, lift: float) -> Chosen:
        with torch.no_grad():
            return Chosen(penalty, lift, validate(head_at(penalty, lift)))

    tried = [judged(penalty, LIFTS[0]) for penalty in PENALTIES]
    strongest = max(tried, key=lambda row: row.score).penalty
    tried += [judged(strongest, lift) for lift in LIFTS[1:]]
    chosen = max(tried, key=lambda row: row.score)
    return PatchRidge(head_at(chosen.penalty, chosen.lift), chosen, tuple(tried))


def block_of(grid: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of pixels that a patch draws; see `LARGEST_BLOCK`."""
    high, wide = (min(LARGEST_BLOCK, -(-pixels // cells)) for pixels, cells in zip(size, grid, strict=True))
    return high, wide


def windows(tokens: Float[Tensor, "n t c"], grid: tuple[int, int], window: int) -> Float[Tensor, "n t i"]:
    """Return the tokens around each patch side by side, 0 beyond the edge."""
    if window == 1:
        return tokens
    maps = tokens.transpose(1, 2).reshape(len(tokens), -1, *grid)
    return F.unfold(maps, window, padding=window // 2).transpose(1, 2)


def blocks_of(
    maps: Int[Tensor, "n H W"], grid: tuple[int, int], size: tuple[int, int], classes: int
) -> Int[Tensor, "m p"]:
    """Return the classes of each patch's pixels; what is not labelled becomes a class behind the last one."""
    (h, w), (bh, bw) = grid, block_of(grid, size)
    if maps.shape[1:] != (h * bh, w * bw):
        maps = F.interpolate(maps[:, None].float(), (h * bh, w * bw), mode="nearest-exact")[:, 0]
    labels = maps.long()
    labels = torch.where((labels < 0) | (labels >= classes), classes, labels)
    return labels.reshape(-1, h, bh, w, bw).permute(0, 1, 3, 2, 4).reshape(-1, bh * bw)
