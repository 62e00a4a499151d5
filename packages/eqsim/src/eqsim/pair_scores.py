"""Scores of a matching head for the pairs that matter, computed once and kept in a file: METER's way, coarse to fine.

All pairs of a training set take a fusion encoder weeks. First the nearest images of each image by a cheap feature; then
the head's scores of the image with their captions; then hard negatives for every batch, from the stored scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

NEAREST = 128
"""Images that are looked at for each image, as in the paper."""
_CHUNK = 1024
_KEPT_EVERY = 50
"""Batches between two writes of the file."""
_LOOKED_AT = 16
"""Pairs of a file that are scored again, to know whether the head is the one that scored them."""
_OFF = 0.02
"""Standard deviations of the stored scores by which such a pair may differ: batches of other sizes round otherwise."""


@dataclass(frozen=True)
class PairScores:
    """For each image its nearest images, and how well it matches each of their captions.

    Args:
        neighbours: rows of the nearest images, the nearest first; never the image itself.
        scores: of image i with caption c of ``neighbours[i, k]`` at ``[i, k, c]``; higher for a better match.
    """

    neighbours: Int[Tensor, "n k"]
    scores: Float[Tensor, "n k c"]

    def save(self, path: str | Path) -> None:
        """Write both to a file, whole or not at all."""
        _write(Path(path), {"neighbours": self.neighbours, "scores": self.scores})

    @classmethod
    def load(cls, path: str | Path) -> PairScores:
        """Read what `save` or `score_pairs` wrote.

        Raises:
            ValueError: another file, or scores that are not all there yet; the message has the path.
        """
        state = _read(Path(path))
        if bool(torch.isnan(state["scores"]).any()):
            raise ValueError(f"{path}: scores are missing; score_pairs with this path computes the rest")
        return cls(state["neighbours"], state["scores"])


def nearest_images(features: Float[Tensor, "n d"], k: int = NEAREST) -> Int[Tensor, "n k"]:
    """Return the rows of each image's k nearest others by cosine, the nearest first.

    Args:
        features: of all images, e.g. of the fusion encoder's own vision side.
        k: at least 1; at most n - 1 are there.

    Raises:
        ValueError: fewer than two images, k below 1, or a feature that is no finite number.

    Example:
        >>> import torch
        >>> nearest_images(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), 1).tolist()
        [[1], [0], [1]]
    """
    count = len(features)
    if count < 2 or k < 1:
        raise ValueError(f"expected at least two images and k of at least 1, got {count} and {k}")
    if not bool((known := torch.isfinite(features).all(dim=1)).all()):
        raise ValueError(
            f"row {int((~known).nonzero()[0])} of the features holds NaN or infinity, which is near to none"
        )
    unit, k = F.normalize(features, dim=1), min(k, count - 1)
    rows = []
    for start in range(0, count, _CHUNK):
        cosines = unit[start : start + _CHUNK] @ unit.T
        own = torch.arange(start, start + len(cosines), device=cosines.device)
        cosines[own - start, own] = -torch.inf
        rows.append(cosines.topk(k, dim=1).indices)
    return torch.cat(rows)


def score_pairs(
    neighbours: Int[Tensor, "n k"],
    score: Callable[[Tensor, Tensor], Tensor],
    captions: int = 5,
    *,
    batch_size: int = 256,
    path: str | Path | None = None,
) -> PairScores:
    """Score each image with the captions of its nearest images: n x k x captions pairs in place of all.

    Args:
        neighbours: as `nearest_images` gives them.
        score: rows of images ``[b]`` and of captions ``[b]`` to the head's scores ``[b]``, without gradients; captions
            of image i are rows ``i * captions`` and so on.
        captions: of each image, at least 1.
        batch_size: pairs at once, at least 1.
        path: where scores are kept while they are computed; what is there already is not computed again, but for 16
            pairs, by which another head is noticed.

    Raises:
        ValueError: a file of other neighbours, captions or another head; another number of scores than of pairs, or one
            that is not finite.

    Example:
        >>> import torch
        >>> near = torch.tensor([[1], [0]])
        >>> score_pairs(near, lambda image, caption: (image * 10 + caption).float(), captions=2).scores.tolist()
        [[[2.0, 3.0]], [[10.0, 11.0]]]

    Source:
        EqSim and EqBen, appendix C: METER's similarities in an hour in place of two weeks.
    """
    if captions < 1 or batch_size < 1:
        raise ValueError(f"captions and batch_size must be at least 1, got {captions} and {batch_size}")
    neighbours = neighbours.cpu()
    count, k = neighbours.shape
    images = torch.arange(count).repeat_interleave(k * captions)
    rows = (neighbours[..., None] * captions + torch.arange(captions)).flatten()

    def scored(part: Tensor) -> Tensor:
        with torch.no_grad():
            values = score(images[part], rows[part]).float().cpu()
        if values.shape != part.shape or not bool(torch.isfinite(values).all()):
            raise ValueError(f"expected {len(part)} finite scores, got {tuple(values.shape)} or one that is not finite")
        return values

    scores = torch.full((count * k * captions,), torch.nan)
    if path is not None and Path(path).exists():
        state = _read(Path(path))
        if not torch.equal(state["neighbours"], neighbours) or state["scores"].shape != (count, k, captions):
            raise ValueError(f"{path}: scores of other images or captions; remove it, or name another file")
        scores = state["scores"].flatten()
        _refuse_another_head(Path(path), scores, scored)
    missing = torch.nonzero(torch.isnan(scores)).flatten()
    for number, part in enumerate(torch.split(missing, batch_size), start=1):
        scores[part] = scored(part)
        if path is not None and number % _KEPT_EVERY == 0:
            _write(Path(path), {"neighbours": neighbours, "scores": scores.view(count, k, captions)})
    done = PairScores(neighbours, scores.view(count, k, captions))
    if path is not None:
        done.save(path)
    return done


def _refuse_another_head(path: Path, scores: Tensor, scored: Callable[[Tensor], Tensor]) -> None:
    """Score some of a file's pairs again, spread over all that are there."""
    known = torch.nonzero(~torch.isnan(scores)).flatten()
    if not len(known):
        return
    part = known[:: -(-len(known) // _LOOKED_AT)]
    spread = float(scores[known].double().std(unbiased=False))
    off = (scored(part) - scores[part]).abs()
    if float(off.max()) > _OFF * spread + 1e-6 * float(scores[known].abs().max()):
        pair = int(part[int(off.argmax())])
        raise ValueError(
            f"{path}: scores of another head: pair {pair} has {float(scores[pair]):.6g}, which differs by "
            f"{float(off.max()):.3g} now; remove it, or name another file"
        )


class Negatives(NamedTuple):
    """For each sample of a batch another image, one of its captions, and whether it is a hard one."""

    images: Int[Tensor, " b"]
    captions: Int[Tensor, " b"]
    hard: Tensor


def draw_negatives(
    stored: PairScores, rows: Int[Tensor, " b"], share: float, generator: torch.Generator, *, hardest: int = 16
) -> Negatives:
    """Draw a negative for each image of a batch: a share of hard ones from the stored scores, the others at random.

    Args:
        stored: the scores.
        rows: of the batch's images.
        share: of the batch that gets a hard negative, 0 to 1.
        generator: of the draw.
        hardest: a hard one is drawn among so many pairs of highest score.

    Returns:
        Rows of images and of captions; ``hard`` is a boolean for each. EqSim's v2 is for the hard, v1 for the others.

    Raises:
        ValueError: a share outside 0 to 1, or ``hardest`` below 1.

    Example:
        >>> import torch
        >>> stored = PairScores(torch.tensor([[1, 2], [2, 0], [0, 1]]), torch.tensor([[[0.1], [0.9]]] * 3))
        >>> draw_negatives(stored, torch.tensor([0]), 1.0, torch.Generator().manual_seed(0), hardest=1).images.tolist()
        [2]
    """
    if not 0 <= share <= 1 or hardest < 1:
        raise ValueError(f"expected a share from 0 to 1 and hardest of at least 1, got {share} and {hardest}")
    count, _, captions = stored.scores.shape
    size = len(rows)
    hard = torch.zeros(size, dtype=torch.bool)
    hard[torch.randperm(size, generator=generator)[: round(share * size)]] = True
    flat = stored.scores[rows].flatten(1)
    best = flat.topk(min(hardest, flat.shape[1]), dim=1).indices
    chosen = best.gather(1, torch.randint(best.shape[1], (size, 1), generator=generator))[:, 0]
    near = stored.neighbours[rows].gather(1, (chosen // captions)[:, None])[:, 0]
    # another image than the batch's own: a step of 1 to n - 1 around the circle
    others = (rows + torch.randint(1, count, (size,), generator=generator)) % count
    random_caption = torch.randint(captions, (size,), generator=generator)
    images = torch.where(hard, near, others)
    return Negatives(images, images * captions + torch.where(hard, chosen % captions, random_caption), hard)


def _write(path: Path, state: dict[str, Tensor]) -> None:
    partial = path.with_name(f".{path.name}.partial")  # NAME.partial may be a user's
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, partial)
    partial.replace(path)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        neighbours, scores = state["neighbours"], state["scores"]
        if neighbours.shape != scores.shape[:2] or scores.ndim != 3:
            raise ValueError("shapes that do not belong together")
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} does not hold pair scores ({type(error).__name__}); remove it") from error
    return state
