"""Episodes: few-shot problems of many images each, of which the same come again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vision_adapters.rows import Rows
from vision_adapters.training.backbones import EncoderWithHead
from vision_adapters.training.head import Inputs
from vision_adapters.training.predictions import averaged_sizes


class EpisodeRows:
    """Episodes as rows: the samples of each, in the shape that its indices have."""

    def __init__(self, rows: Rows, index: Tensor) -> None:
        self.source, self.index = rows, index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Tensor | slice, /) -> Float[Tensor, "b ..."]:
        chosen = self.index[rows]
        loaded: Tensor = self.source[chosen.flatten()]
        return loaded.reshape(*chosen.shape, *loaded.shape[1:])


class _Projected(nn.Module):
    """A linear projection that starts as the identity, and a factor of squared distances."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(dim, dim, bias=False)
        nn.init.eye_(self.project.weight)
        self.log_scale = nn.Parameter(torch.tensor(-float(np.log(dim))))


class EpisodeHead(_Projected):
    """Prototypes of a whole batch of episodes; untrained, it scores exactly as those of the features themselves."""

    def __init__(self, dim: int, ways: int, shots: int) -> None:
        super().__init__(dim)
        self.ways, self.shots = ways, shots

    def forward(self, samples: Float[Tensor, "e w m d"]) -> Float[Tensor, "e ways wq"]:
        """Scores of each class for each query; an episode holds, for each class, its shots and then its queries."""
        projected = self.project(samples)
        prototypes = projected[:, :, : self.shots].mean(dim=2)
        queries = projected[:, :, self.shots :].flatten(1, 2)
        squared = torch.cdist(queries, prototypes, compute_mode="donot_use_mm_for_euclid_dist").square()
        return -(squared * self.log_scale.exp()).transpose(1, 2)


class PrototypeHead(_Projected):
    """Prototypes of padded episodes."""

    def forward(self, samples: Tensor, shots: Tensor) -> Tensor:
        """``[e, w, m, d]`` to scores ``[e, w, wm]`` of each class at each place; absent classes get -inf."""
        projected = self.project(samples)
        weight = shots.to(projected.dtype)[..., None]
        prototypes = (projected * weight).sum(dim=2) / weight.sum(dim=2).clamp_min(1)
        squared = torch.cdist(projected.flatten(1, 2), prototypes).square()
        scores = -(squared * self.log_scale.exp()).transpose(1, 2)
        return scores.masked_fill(~shots.any(dim=2)[:, :, None], float("-inf"))


class EncodedEpisodes:
    """Episodes whose samples went through the encoder once for each checkpoint, however many episodes share them.

    Args:
        module: with the first checkpoint's weights, which it has again afterwards.
        inputs: `EpisodeRows`, then further inputs of the head.
        images: samples that are encoded at once.
        states: checkpoints, whose mean scores are given; the module's own weights alone without any.
    """

    def __init__(
        self, module: EncoderWithHead, inputs: Inputs, *, images: int, states: Sequence[Mapping[str, Tensor]] = ()
    ) -> None:
        episodes, *self._extras = inputs
        assert isinstance(episodes, EpisodeRows)
        used, self._position = torch.unique(episodes.index, return_inverse=True)
        self._device, self._sizes = next(module.parameters()).device, averaged_sizes(max(1, len(states)))
        self._checkpoints = []
        with torch.no_grad():
            for number in range(max(1, len(states))):
                if number:
                    module.load_state_dict(states[number], strict=False)
                parts = [module.features(episodes.source[rows].to(self._device)).cpu() for rows in used.split(images)]
                self._checkpoints.append((torch.cat(parts), deepcopy(module.head)))
            if len(states) > 1:
                module.load_state_dict(states[0], strict=False)

    def scores(self, at_once: int) -> Iterator[dict[int, Float[Tensor, "e ways q"]]]:
        """Yield the mean scores of so many episodes at a time, by the number of checkpoints."""
        for start in range(0, len(self._position), at_once):
            rows, by_size = slice(start, start + at_once), dict[int, Tensor]()
            with torch.no_grad():
                further, total = [extra[rows].to(self._device) for extra in self._extras], torch.zeros(())
                for number, (features, head) in enumerate(self._checkpoints, start=1):
                    scored = head(features[self._position[rows]].to(self._device), *further)
                    total = total.to(self._device) + scored.float()
                    if number in self._sizes:
                        by_size[number] = total / number
            yield by_size

    def chosen(self, at_once: int) -> dict[int, Int[Tensor, "e q"]]:
        """Return the class with the highest score at each place of each episode, by the number of checkpoints."""
        by_size: dict[int, list[Tensor]] = {size: [] for size in self._sizes}
        for batch in self.scores(at_once):
            for size, scores in batch.items():
                by_size[size].append(scores.argmax(dim=1).cpu())
        return {size: torch.cat(pieces) for size, pieces in by_size.items()}


def chosen_classes(
    module: EncoderWithHead,
    inputs: Inputs,
    *,
    images: int,
    at_once: int,
    states: Sequence[Mapping[str, Tensor]] = (),
) -> dict[int, Int[Tensor, "e q"]]:
    """Return the class with the highest score at each place of each episode, see `EncodedEpisodes`."""
    return EncodedEpisodes(module, inputs, images=images, states=states).chosen(at_once)
