"""GradCache: the exact gradient of a batch that does not fit, encoding it twice in pieces.

Gradient accumulation alone averages losses of small batches, which is another loss: a pair is compared only within its
piece. Here the features of all pieces are made without a graph, the loss of the whole batch gives their gradients, and
a second pass through the encoders carries these on to the parameters. Encoders with dropout must draw the same masks in
both passes; `torch.random.fork_rng` with a stored state does that.
"""

from __future__ import annotations

import torch

from eqsim import ClipEqSimLoss


def backward_in_pieces(
    encode: torch.nn.Module,
    images: torch.Tensor,
    texts: torch.Tensor,
    loss: ClipEqSimLoss,
    scale: torch.Tensor,
    size: int,
) -> torch.Tensor:
    """Accumulate the whole batch's gradients in the parameters; return its loss."""
    pieces = list(zip(images.split(size), texts.split(size), strict=True))
    with torch.no_grad():
        features = [encode(image, text) for image, text in pieces]
    image_features, text_features = (torch.cat(rows).requires_grad_() for rows in zip(*features, strict=True))
    value = loss(image_features, text_features, scale)
    value.backward()
    gradients = zip(image_features.grad.split(size), text_features.grad.split(size), strict=True)
    for (image, text), (image_gradient, text_gradient) in zip(pieces, gradients, strict=True):
        torch.autograd.backward(encode(image, text), (image_gradient, text_gradient))
    return value.detach()


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
    backward_in_pieces(encode, images, texts, loss, scale, size=8)
    pieces = [parameter.grad for parameter in encode.parameters()]
    return max(float((ours - theirs).abs().max()) for ours, theirs in zip(pieces, whole, strict=True))


if __name__ == "__main__":
    pass
