"""A head behind a backbone, whether what is in front of it is trained or not."""

from __future__ import annotations

from torch import Tensor, nn


class Attached(nn.Module):
    """A head behind a backbone: called on the backbone's rows and the head's other inputs.

    Attributes:
        head: called on the features and the other inputs.
    """

    head: nn.Module

    def features(self, rows: Tensor) -> Tensor:
        """What the head gets of such rows, ``[b, ..., *rows]`` to ``[b, ..., *features]``."""
        raise NotImplementedError
