"""What a head is trained behind: features that are there, or an encoder that learns with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from vision_adapters.rows import Rows
from vision_adapters.training.scale import Scale

SplitName = Literal["train", "validation", "test"]


class EncoderWithHead(nn.Module):
    """A head behind an encoder, or behind features that are there already: from rows to the head's outputs.

    `scales` are those of the head's further inputs. `embed` takes rows ``[b, *row]``, which may have further axes in
    front (frames, episodes), to features with the encoder's weights. With `follows` the encoder is in training mode
    with the head, so that statistics of normalisation layers move and dropout drops; one of which only a part learns is
    not.
    """

    def __init__(
        self,
        head: nn.Module,
        scale: Scale,
        *scales: Scale | None,
        encoder: nn.Module | None = None,
        embed: Callable[[Tensor], Tensor] | None = None,
        follows: bool = True,
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.scale = encoder, head, scale
        self.others = nn.ModuleList(nn.Identity() if further is None else further for further in scales)
        self._embed, self._follows = embed, follows

    def train(self, mode: bool = True) -> EncoderWithHead:
        """Training or evaluation mode; see ``follows``."""
        super().train(mode)
        if self.encoder is not None and not self._follows:
            self.encoder.eval()
        return self

    def features(self, rows: Tensor) -> Tensor:
        """What the head gets of rows ``[b, ..., *row]``: features ``[b, ..., *feature]`` on their scale."""
        features = rows
        if self._embed is not None:
            embedded = self._embed(rows.reshape(-1, *rows.shape[-3:]))
            features = embedded.reshape(*rows.shape[:-3], *embedded.shape[1:])
        return self._as_head(self.scale(features))

    def _as_head(self, values: Tensor) -> Tensor:
        """Numbers in the precision of the head's weights: features are stored as float16, or are NumPy's float64."""
        weight = next((weight for weight in self.head.parameters() if weight.is_floating_point()), None)
        return values if weight is None or not values.is_floating_point() else values.to(weight.dtype)

    def forward(self, rows: Tensor, *further: Tensor) -> Tensor:
        """The head's outputs."""
        scaled = (self._as_head(scale(values)) for scale, values in zip(self.others, further, strict=True))
        outputs: Tensor = self.head(self.features(rows), *scaled)
        return outputs


class Backbone(Protocol):
    """What a head is trained behind; who makes the head never asks whether an encoder is trained with it.

    A head gets features of `width` channels, of places in `grid` rows and columns; `scale` is theirs before any
    training.
    """

    width: int
    grid: tuple[int, int]
    scale: Scale

    def rows(self, name: SplitName) -> Rows:
        """The samples of a split: their features where the encoder is frozen, their images where it is trained."""
        ...

    def attach(self, head: nn.Module, *scales: Scale | None) -> EncoderWithHead:
        """A module from such rows, and a head's other inputs (each with a scale or None), to the head's outputs."""
        ...


class FrozenFeatures:
    """A backbone that is the identity: the rows are a frozen encoder's features.

    Args:
        rows: a split's features, by its name; asked once for each split.
        grid: rows and columns of the places, of features of places.

    Example:
        >>> import torch
        >>> features = {"train": torch.tensor([[1.0, 0.0], [3.0, 4.0]])}
        >>> backbone = FrozenFeatures(features.__getitem__)
        >>> backbone.width, backbone.attach(nn.Linear(2, 5))(features["train"]).shape
        (2, torch.Size([2, 5]))
    """

    def __init__(self, rows: Callable[[SplitName], Rows], *, grid: tuple[int, int] = (1, 1)) -> None:
        self.grid, self._make = grid, rows
        self._rows: dict[SplitName, Rows] = {}
        self.scale = Scale.of(self.rows("train"))
        self.width = len(self.scale.mean)

    def rows(self, name: SplitName) -> Rows:
        """Features of a split."""
        if name not in self._rows:
            self._rows[name] = self._make(name)
        return self._rows[name]

    def attach(self, head: nn.Module, *scales: Scale | None) -> EncoderWithHead:
        """The head on features of the training split's scale."""
        return EncoderWithHead(head, self.scale, *scales)


class TrainedEncoder:
    """A backbone that learns with its head: rows are images.

    Args:
        encoder: the module whose weights learn.
        embed: images ``[n, c, h, w]`` to features, through the encoder.
        rows: a split's images, by its name.
        scale: of the features before any training.
        unfreeze: called when the first head is attached: leaves gradients to the weights that learn, see
            `vision_adapters.finetune.choose_weights`. Until then the encoder is as it came.
        grid: rows and columns of the places, of features of places.
        follows: see `EncoderWithHead`.

    Example:
        >>> import torch
        >>> encoder, images = nn.Sequential(nn.Flatten(), nn.Linear(12, 4)), torch.zeros(5, 3, 2, 2)
        >>> backbone = TrainedEncoder(encoder, encoder, lambda split: images, Scale(torch.zeros(4), torch.ones(4)))
        >>> backbone.attach(nn.Linear(4, 2))(backbone.rows("train")).shape
        torch.Size([5, 2])
    """

    def __init__(
        self,
        encoder: nn.Module,
        embed: Callable[[Tensor], Tensor],
        rows: Callable[[SplitName], Rows],
        scale: Scale,
        *,
        unfreeze: Callable[[], Any] | None = None,
        grid: tuple[int, int] = (1, 1),
        follows: bool = True,
    ) -> None:
        self.encoder, self.scale, self.grid = encoder, scale, grid
        self.width = len(scale.mean)
        self._embed, self._make, self._unfreeze, self._follows = embed, rows, unfreeze, follows

    def rows(self, name: SplitName) -> Rows:
        """Images of a split."""
        return self._make(name)

    def attach(self, head: nn.Module, *scales: Scale | None) -> EncoderWithHead:
        """Encoder, scale and head as one module."""
        if self._unfreeze is not None:
            self._unfreeze()
            self._unfreeze = None
        return EncoderWithHead(
            head, self.scale, *scales, encoder=self.encoder, embed=self._embed, follows=self._follows
        )
