"""A loss in the style of sentence-transformers: a module that gets the features of both columns and returns a scalar.

sentence-transformers calls a loss as loss(sentence_features, labels), where the model turns each column's inputs into
{"sentence_embedding": ...}. Nothing of that library is needed to write such a loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from eqsim import ClipEqSimLoss

if TYPE_CHECKING:
    from collections.abc import Iterable


class EqSimRankingLoss(torch.nn.Module):
    """In-batch negatives and EqSim between the first column (images, queries) and the second (texts, documents)."""

    def __init__(self, model: torch.nn.Module, scale: float = 20.0, weight: float = 0.5) -> None:
        super().__init__()
        self.model, self.scale = model, scale
        self.loss = ClipEqSimLoss(weight=weight)

    def forward(self, sentence_features: Iterable[dict[str, torch.Tensor]], labels: object = None) -> torch.Tensor:
        """Return the loss of a batch; the pairs themselves are the labels."""
        first, second = (self.model(features)["sentence_embedding"] for features in sentence_features)
        return self.loss(first, second, self.scale)


class BagOfWords(torch.nn.Module):
    """Stands for a SentenceTransformer: token ids to the mean of their embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.EmbeddingBag(40, 16)

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Embed a batch."""
        return {"sentence_embedding": self.words(features["input_ids"])}


def main(steps: int = 8) -> list[float]:
    """Train on one batch; return its losses."""
    torch.manual_seed(0)
    model = BagOfWords()
    loss = EqSimRankingLoss(model)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    columns = [{"input_ids": torch.randint(40, (10, 5))} for _ in range(2)]
    history = []
    for _ in range(steps):
        value = loss(columns)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        history.append(float(value.detach()))
    return history


if __name__ == "__main__":
    pass
