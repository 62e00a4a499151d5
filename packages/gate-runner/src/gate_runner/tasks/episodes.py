"""Episodes: few-shot problems of many images each, of which the same come again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gate_runner.tasks.training import averaged_sizes, ensemble_rows, most_averaged
from vision_adapters.metrics import Score as Estimate
from vision_adapters.metrics import score_outcomes
from vision_adapters.rows import Rows

if TYPE_CHECKING:
    from gate_runner.tasks.attached import Attached
    from gate_runner.tasks.job import Job
    from gate_runner.tasks.trained import Trained


class EpisodeRows:
    """Episodes as rows: the samples of each, in the shape that its indices have.

    Args:
        rows: of the samples.
        index: of each episode's samples ``[e, ...]``.
    """

    def __init__(self, rows: Rows, index: Tensor) -> None:
        self.source, self.index = rows, index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Tensor | slice, /) -> Float[Tensor, "b ..."]:
        chosen = self.index[rows]
        found: Tensor = self.source[chosen.flatten()]
        return found.reshape(*chosen.shape, *found.shape[1:])


def chosen_classes(
    module: Attached,
    episodes: EpisodeRows,
    *others: Tensor,
    images: int,
    at_once: int,
    states: Sequence[Mapping[str, Tensor]] = (),
) -> dict[int, Int[Tensor, "e q"]]:
    """The class with the highest score at each place of each episode.

    A sample goes through the encoder once, however many episodes it is in.

    Args:
        module: in evaluation mode, with the first state's weights if there are states; left as it is.
        episodes: of one split.
        others: the head's further inputs, a row per episode.
        images: samples per call of the encoder.
        at_once: episodes per call of the head.
        states: of checkpoints, the best first, whose scores are averaged.

    Returns:
        By how many of the checkpoints are averaged, the one of the module itself under 1.
    """
    used, place = torch.unique(episodes.index, return_inverse=True)
    device, sizes = next(module.parameters()).device, averaged_sizes(max(1, len(states)))
    checkpoints = []
    with torch.inference_mode():
        for number in range(max(1, len(states))):
            if number:
                module.load_state_dict(states[number], strict=False)
            parts = [module.features(episodes.source[rows].to(device)).cpu() for rows in used.split(images)]
            checkpoints.append((torch.cat(parts), deepcopy(module.head)))
        if len(states) > 1:
            module.load_state_dict(states[0], strict=False)
        found: dict[int, list[Tensor]] = {size: [] for size in sizes}
        for start in range(0, len(episodes), at_once):
            rows = slice(start, start + at_once)
            rest, total = [other[rows].to(device) for other in others], torch.zeros(())
            for number, (features, head) in enumerate(checkpoints, start=1):
                total = total.to(device) + head(features[place[rows]].to(device), *rest).float()
                if number in found:
                    found[number].append((total / number).argmax(dim=1).cpu())
    return {size: torch.cat(each) for size, each in found.items()}


def tested(
    job: Job,
    fitted: Trained,
    chosen: Callable[[Sequence[Mapping[str, Tensor]]], Mapping[int, Tensor]],
    accuracies: Callable[[Tensor], np.ndarray],
) -> tuple[Estimate, np.ndarray, Tensor, dict[str, Any]]:
    """Accuracy on the test episodes, with the weights that validated best and, of a trained encoder, of ensembles.

    Args:
        job: whose training it was.
        fitted: how it went.
        chosen: the classes that `chosen_classes` finds with given checkpoints.
        accuracies: of such classes, one per episode.

    Returns:
        The score, each episode's accuracy, the classes chosen, and rows for the result.
    """
    tuned = job.settings.tune != "frozen"
    with job.timed("test"):
        choices = chosen([one.state for one in most_averaged(fitted.kept)] if tuned else [])
        by_size = {size: accuracies(each) for size, each in choices.items()}
        scores = {size: score_outcomes("accuracy", each, seed=job.seed) for size, each in by_size.items()}
    rows = {"ensembles": ensemble_rows("accuracy", scores)} if tuned else {}
    return scores[1], by_size[1], choices[1], rows
