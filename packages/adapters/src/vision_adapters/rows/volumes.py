"""Volumes whose slices are samples: the slices of each as one map."""

from __future__ import annotations

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from vision_adapters.losses import IGNORED


def tall_maps(maps: Shaped[Tensor, "n h w"], volumes: Int[Tensor, " n"]) -> Shaped[Tensor, "v sh w"]:
    """The pixels of all slices of a volume as one tall map; shorter volumes end in pixels that are not scored (-100).

    Args:
        maps: a map of each slice.
        volumes: the volume of each slice; slices of one volume follow one another.

    Raises:
        ValueError: another number of volumes than of slices.

    Example:
        >>> tall_maps(torch.arange(3)[:, None, None], torch.tensor([4, 4, 7])).tolist()
        [[[0], [1]], [[2], [-100]]]
    """
    if len(maps) != len(volumes):
        raise ValueError(f"{len(maps)} slices have {len(volumes)} numbers of volumes; expected one each")
    _, counts = torch.unique_consecutive(volumes, return_counts=True)
    gathered = maps.new_full((len(counts), int(counts.max()), *maps.shape[1:]), IGNORED)
    for volume, slices in zip(gathered, torch.split(maps, counts.tolist()), strict=True):
        volume[: len(slices)] = slices
    return gathered.flatten(1, 2)
