"""GradCache: the exact gradient of a batch that does not fit, encoding it twice in pieces.

Gradient accumulation alone averages losses of small batches, which is another loss: a pair is compared only within its
piece.
"""

from __future__ import annotations

import torch

from eqsim import ClipEqSimLoss, backward_in_pieces


class Towers(torch.nn.Module):
    """Two linear towers; put real encoders in their place."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = torch.nn.Linear(20, 16), torch.nn.Linear(12, 16)

    def forward(self, images: torch.Tensor, texts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode both sides."""
        return self.image(images), self.text(texts)


def main() -> float:
    """Return the largest difference between the gradients in pieces and those of the whole batch at once."""
    torch.manual_seed(0)
    encode, loss = Towers().double(), ClipEqSimLoss(weight=0.5)
    images, texts = torch.randn(30, 20).double(), torch.randn(30, 12).double()
    scale = torch.tensor(10.0, dtype=torch.float64)
    loss(*encode(images, texts), scale).backward()
    whole = [parameter.grad.clone() for parameter in encode.parameters()]
    encode.zero_grad()
    parts = list(zip(images.split(8), texts.split(8), strict=True))
    backward_in_pieces(loss, lambda part: encode(*part), parts, scale)
    pieces = [parameter.grad for parameter in encode.parameters()]
    return max(float((ours - theirs).abs().max()) for ours, theirs in zip(pieces, whole, strict=True))


if __name__ == "__main__":
    pass
