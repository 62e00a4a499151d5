"""Training images, augmented from one generator per seed, step and sample."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from gate_data.request import Size, height_width, size_of
from vision_features.features import images_at

if TYPE_CHECKING:
    from gate_data.pictures import Pictures

GATE = "rand-m9-n3-mstd0.5-inc1"
"""GATE's RandAugment in timm's words."""
Change = Callable[[Any], Any]
Vary = Callable[[Tensor, torch.Generator], Tensor]


@contextmanager
def own_draws(generator: torch.Generator) -> Iterator[None]:
    """Let global generators draw what a sample's generator decides, and put them back as they were."""
    drawn = int(torch.randint(2**31, (1,), generator=generator))
    seed = int(torch.randint(2**31, (1,), generator=torch.Generator().manual_seed(drawn)))
    with kept_generators():
        _seed_all(seed)
        yield


def _seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - timm draws from it
    torch.default_generator.manual_seed(seed)  # not those of GPUs, from which the training draws


@contextmanager
def kept_generators() -> Iterator[None]:
    """Put Python's, NumPy's and torch's global generators back as they were, all but those of GPUs."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 - libraries draw from it
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002 - likewise
        torch.set_rng_state(before[2])


def _posterized(image: Any, bits: int, **_: Any) -> Any:
    """With at least one bit left: the strongest level asks for none, which Pillow refuses."""
    from PIL import ImageOps

    return image if bits >= 8 else ImageOps.posterize(image, max(1, bits))


def change_of(name: str, size: Size) -> Change:
    """What changes an image of Pillow's, by draws from the global generators; see `recipes.checked_augmentation`.

    Source: Cubuk et al. (2020), through timm, with GATE's policy; open_clip's crops, of .9 to 1 of the area.
    """
    if name in ("crop", "flip", "crop-flip"):
        from torchvision.transforms import v2

        crop = [v2.RandomResizedCrop(height_width(size), scale=(0.9, 1.0), interpolation=v2.InterpolationMode.BICUBIC)]
        steps: Change = v2.Compose(
            (crop if "crop" in name else []) + ([v2.RandomHorizontalFlip()] if "flip" in name else [])
        )
        return steps
    from timm.data.auto_augment import rand_augment_transform

    change = rand_augment_transform(
        GATE if name in ("randaugment", "gate") else name, {"translate_const": int(0.45 * min(height_width(size)))}
    )
    for operation in change.ops:
        if operation.name.startswith("Posterize"):
            operation.aug_fn = _posterized
    return change  # type: ignore[no-any-return]


def varied(
    image: UInt8[Tensor, "*frames 3 h w"], change: Change, generator: torch.Generator
) -> UInt8[Tensor, "*frames 3 h w"]:
    """An image, or frames that are all changed alike."""
    from PIL import Image

    drawn, changed = int(torch.randint(2**31, (1,), generator=generator)), []
    seed = int(torch.randint(2**31, (1,), generator=torch.Generator().manual_seed(drawn)))
    for frame in image.reshape(-1, *image.shape[-3:]):
        with kept_generators():
            _seed_all(seed)
            shown = change(Image.fromarray(frame.permute(1, 2, 0).numpy()))
        changed.append(torch.from_numpy(np.asarray(shown).copy()).permute(2, 0, 1))
    return torch.stack(changed).reshape(image.shape)


class Augmented:
    """Makes one sample: its image, or frames, augmented where a generator is given."""

    def __init__(self, images: Tensor | Pictures, name: str = "randaugment", vary: Vary | None = None) -> None:
        self.images = images
        self.vary: Vary = vary or partial(_by, change_of(name, size_of(tuple(images.shape[-2:]))))

    def __call__(self, index: int, generator: torch.Generator | None) -> UInt8[Tensor, "*frames 3 h w"]:
        """The sample of a number."""
        image = images_at(self.images, torch.tensor([index]))[0]
        return image if generator is None else self.vary(image, generator)


def _by(change: Change, image: Tensor, generator: torch.Generator) -> Tensor:
    return varied(image, change, generator)


class Plain:
    """Makes one sample as it is: where worker processes decode, and nothing is augmented."""

    def __init__(self, images: Tensor | Pictures) -> None:
        self.images = images

    def __call__(self, index: int, generator: torch.Generator | None) -> UInt8[Tensor, "*frames 3 h w"]:
        """The sample of a number."""
        del generator
        return images_at(self.images, torch.tensor([index]))[0]
