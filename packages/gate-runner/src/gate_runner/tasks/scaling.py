"""Features on one scale, whatever the encoder's own."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


class Scale:
    """Mean 0 and standard deviation 1 in every channel, as measured on the training split.

    Args:
        train: features whose last axis is the channel.
    """

    def __init__(self, train: Float[Tensor, "n *places d"]) -> None:
        flat = train.reshape(-1, train.shape[-1])
        self.mean = flat.mean(dim=0)
        self.std = flat.std(dim=0, correction=0).clamp_min(1e-6)

    def __call__(self, features: Float[Tensor, "n *places d"]) -> Float[Tensor, "n *places d"]:
        """The same features, centred and scaled."""
        return (features - self.mean) / self.std
