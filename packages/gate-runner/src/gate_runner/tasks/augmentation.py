"""Training images, augmented from one generator per seed, step and sample."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from gate_runner.features import images_at

if TYPE_CHECKING:
    from gate_data.pictures import Pictures

GATE = "rand-m9-n3-mstd0.5-inc1"
"""GATE's RandAugment in timm's words."""


@contextmanager
def globals_from(generator: torch.Generator) -> Iterator[None]:
    """Seed Python's, NumPy's and torch's global generators, from which libraries draw, and put them back afterwards."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 - timm draws from it
    seed = int(torch.randint(2**31, (1,), generator=generator))
    try:
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - likewise
        torch.manual_seed(seed)
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002 - likewise
        torch.set_rng_state(before[2])


def _posterized(image: Any, bits: int, **_: Any) -> Any:
    """With at least one bit left: the strongest level asks for none, which Pillow refuses."""
    from PIL import ImageOps

    return image if bits >= 8 else ImageOps.posterize(image, max(1, bits))


class Augmented:
    """Makes one sample: its image, or frames, augmented where a generator is given.

    Args:
        images: in memory or in files.
        policy: of timm's RandAugment.

    Source: Cubuk et al. (2020), through timm; GATE's code for the policy. All frames of a clip are changed alike.
    """

    def __init__(self, images: Tensor | Pictures, policy: str = GATE) -> None:
        from timm.data.auto_augment import rand_augment_transform

        self.images = images
        self.change: Any = rand_augment_transform(policy, {"translate_const": int(0.45 * images.shape[-1])})
        for operation in self.change.ops:
            if operation.name.startswith("Posterize"):
                operation.aug_fn = _posterized

    def __call__(self, index: int, generator: torch.Generator | None) -> UInt8[Tensor, "*frames 3 s s"]:
        """The sample of a number."""
        image = images_at(self.images, torch.tensor([index]))[0]
        if generator is None:
            return image
        from PIL import Image

        seed, changed = int(torch.randint(2**31, (1,), generator=generator)), []
        for frame in image.reshape(-1, *image.shape[-3:]):
            with globals_from(torch.Generator().manual_seed(seed)):
                shown = self.change(Image.fromarray(frame.permute(1, 2, 0).numpy()))
            changed.append(torch.from_numpy(np.asarray(shown).copy()).permute(2, 0, 1))
        return torch.stack(changed).reshape(image.shape)
