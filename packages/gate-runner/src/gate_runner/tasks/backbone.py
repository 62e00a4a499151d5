"""The encoder as a task sees it: rows to train on, and a module that takes a head from them to outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from gate_runner.features import Kind
from gate_runner.tasks.attached import Attached
from gate_runner.tasks.features import rows_of
from gate_runner.tasks.scaling import Scale

if TYPE_CHECKING:
    from gate_data.request import SplitName
    from gate_runner.tasks.job import Job
    from vision_adapters.rows import Rows


class Backbone(Protocol):
    """What a task trains on; tasks never ask whether the encoder itself is trained.

    Attributes:
        width: channels of the features that a head gets.
        grid: rows and columns of the places, where the features are of places.
        scale: of the features, as they come from the encoder before any training.
    """

    width: int
    grid: tuple[int, int]
    scale: Scale

    def rows(self, name: SplitName) -> Rows:
        """The samples of a split: their features where the encoder is frozen, their images where it is trained."""
        ...

    def attach(self, head: nn.Module, *others: Scale | None) -> Attached:
        """A module from such rows, and a head's other inputs, to the head's outputs.

        Args:
            head: called as ``head(features, *others)``.
            others: the scale of each further input, or None for one that is left as it is.
        """
        ...


class Scaled(Attached):
    """A head on inputs that are centred and scaled first.

    Args:
        head: called on the inputs.
        scales: of each input; None leaves one as it is.
    """

    def __init__(self, head: nn.Module, *scales: Scale | None) -> None:
        super().__init__()
        self.head = head
        self.scales = nn.ModuleList(nn.Identity() if scale is None else scale for scale in scales)

    @property
    def scale(self) -> Scale:
        """Of the first input, which are the encoder's features."""
        first = self.scales[0]
        assert isinstance(first, Scale)
        return first

    def features(self, rows: Tensor) -> Tensor:
        """Features on their scale."""
        found: Tensor = self.scale(rows)
        return found

    def forward(self, *inputs: Tensor) -> Tensor:
        """What the head says."""
        found: Tensor = self.head(*(scale(each) for scale, each in zip(self.scales, inputs, strict=True)))
        return found


class Frozen:
    """Every image goes through the encoder once, and heads are trained on what comes out.

    Args:
        job: whose encoder, data and store of features.
        kind: ``"pooled"`` features, one per image or frame, those of the ``"backbone"``, or of ``"patches"``.

    Raises:
        MissingCapabilityError: the encoder gives pooled features only, or has no projection behind a backbone.
    """

    def __init__(self, job: Job, kind: Kind) -> None:
        self.job, self.kind = job, kind
        self.grid = job.encoder.encode_patches(job.data.train.images[:1]).grid if kind == "patches" else (1, 1)
        self._train = self._encoded("train")
        self.scale = Scale.of(self._train)
        self.width = len(self.scale.mean)

    def rows(self, name: SplitName) -> Rows:
        """Features, encoded once."""
        return self._train if name == "train" else self._encoded(name)

    def attach(self, head: nn.Module, *others: Scale | None) -> Scaled:
        """The head on features of the training split's scale."""
        return Scaled(head, self.scale, *others)

    def _encoded(self, name: SplitName) -> Rows:
        return rows_of(self.job, getattr(self.job.data, name), self.kind, name)


def make_backbone(job: Job, kind: Kind) -> Backbone:
    """The backbone of a job, as its settings ask for it."""
    if job.settings.tune != "frozen":
        from gate_runner.tasks.tuned import Tuned

        return Tuned(job, kind)
    with torch.no_grad():
        return Frozen(job, kind)
