"""METER's way with EqSim: pair scores of a matching head, kept in a file, and a fine-tuning with them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from eqsim import EqSimITMLoss
from eqsim.pair_scores import draw_negatives, nearest_images, score_pairs


class Fusion(nn.Module):
    """A fusion encoder in small: a picture's and a caption's features together to one logit of a match."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.vision = nn.Linear(12, width)
        self.head = nn.Sequential(nn.Linear(2 * width + 12, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, image: Tensor, caption: Tensor) -> Tensor:
        """Logits ``[b]`` of images ``[b, 12]`` with captions ``[b, 12]``."""
        seen = self.vision(image)
        logits: Tensor = self.head(torch.cat([seen, self.vision(caption), image * caption], dim=1))[:, 0]
        return logits


def main(steps: int = 150) -> dict[str, float]:
    """Train on made-up pictures with two captions each; return accuracies, EqSim's term and hard pairs."""
    generator = torch.Generator().manual_seed(0)
    count, captions = 96, 2
    images = torch.randn(count, 12, generator=generator)
    texts = images.repeat_interleave(captions, 0) + 0.3 * torch.randn(captions * count, 12, generator=generator)
    torch.manual_seed(0)
    model = Fusion(16)
    before = accuracy(model, images, texts, captions)
    with TemporaryDirectory() as folder:  # a file of the training set in earnest
        neighbours = nearest_images(model.vision(images).detach(), 24)  # coarse: 128 in the paper
        stored = score_pairs(
            neighbours, lambda image, caption: torch.sigmoid(model(images[image], texts[caption])), captions,
            path=Path(folder) / "pairs.pt",
        )  # fmt: skip
    matching, close, distant = nn.BCEWithLogitsLoss(), EqSimITMLoss("v2"), EqSimITMLoss("v1")
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    equivariance, hard_pairs = 0.0, 0
    for _ in range(steps):
        rows = torch.randperm(count, generator=generator)[:32]
        own = rows * captions + torch.randint(captions, (32,), generator=generator)
        negatives = draw_negatives(stored, rows, 0.5, generator)
        others, false = images[negatives.images], texts[negatives.captions]
        # four scores of a sample and its negative: both pictures with both captions
        s_ii, s_ij = model(images[rows], texts[own]), model(images[rows], false)
        s_ji, s_jj = model(others, texts[own]), model(others, false)
        logits, matched = torch.cat([s_ii, s_ij]), torch.cat([torch.ones(32), torch.zeros(32)])
        hard = negatives.hard
        hard_pairs += int(hard.sum())
        regularised = close(s_ii[hard], s_ij[hard], s_ji[hard], s_jj[hard])
        regularised = regularised + distant(s_ii[~hard], s_ij[~hard], s_ji[~hard], s_jj[~hard])
        loss = matching(logits, matched) + 0.1 * regularised
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        equivariance = float(regularised.detach())
    after = accuracy(model, images, texts, captions)
    return {"before": before, "after": after, "equivariance": equivariance, "hard": hard_pairs / (32 * steps)}


@torch.no_grad()
def accuracy(model: Fusion, images: Tensor, texts: Tensor, captions: int) -> float:
    """Share of images whose best caption of all is one of their own."""
    count = len(images)
    pairs = model(images.repeat_interleave(len(texts), 0), texts.repeat(count, 1)).view(count, len(texts))
    return float((pairs.argmax(dim=1) // captions == torch.arange(count)).float().mean())


if __name__ == "__main__":
    pass
