"""Features on one scale, whatever the encoder's own."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from gate_runner.benchmarks.data import Split
from gate_runner.tasks.job import Job


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


def scaled_splits(job: Job, encode: Callable[[Job, Split, str], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Features of the training, validation and test split, on the training split's scale.

    Args:
        job: whose encoder and data.
        encode: job, split and the split's name to features whose last axis is the channel.

    Returns:
        Three tensors.
    """
    data = job.data
    train = encode(job, data.train, "train")
    scale = Scale(train)
    validation, test = encode(job, data.validation, "validation"), encode(job, data.test, "test")
    return scale(train), scale(validation), scale(test)
