"""Training images that are moved together with their maps, depths or boxes.

An image and its target are changed in two calls with one sample's generator. Both pass the same steps on the same
canvas, so both draw the same crop and flip; what alters colours comes last and leaves targets alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from gate_data.request import Size, height_width
from gate_runner.tasks.augmentation import own_draws
from vision_adapters.rows import Rows

_LEAST_SEEN = 0.25
"""A box of which a crop leaves less is not an object of the crop."""


@dataclass(frozen=True)
class Moves:
    """How images and targets are moved: ``stretch`` sides of the canvas in sides of the image, then a crop of its size.

    ``turn``: by 0, 90, 180 or 270 degrees; ``light`` and ``noise``: of videos; ``colours``: photometric distortion.
    """

    stretch: float = 1.0
    flip: bool = False
    turn: bool = False
    colours: bool = False
    light: float = 0.0
    noise: float = 0.0

    def in_words(self) -> str:
        """As a recipe's line has it."""
        crop = f"crop of 1/{self.stretch:g} of each side" if self.stretch > 1 else ""
        named = {"flip": self.flip, "quarter turns": self.turn, "colours": self.colours, "light": bool(self.light)}
        words = [crop, *(name for name, applies in named.items() if applies), "noise" if self.noise else ""]
        return " and ".join(word for word in words if word)


OF_TASKS = {
    "segmentation": Moves(2.0, flip=True, colours=True),
    "medical_segmentation": Moves(1.25),
    "video": Moves(2.0, flip=True, turn=True, light=0.2, noise=0.1),
    "depth": Moves(flip=True, colours=True),
    "detection": Moves(1.25, flip=True, colours=True),
}
"""What ``augment=gate`` is where it is not RandAugment.

Segmentation, slices and videos are GATE's (stretch 2048 and crop 1024; 640 and 512; 448 and 224). Depth and detection
are ours: a crop of a stretched image shows everything nearer than its depths say.
"""
OF_NAMES = {"crop": Moves(1.05), "flip": Moves(flip=True), "crop-flip": Moves(1.05, flip=True)}
"""Augmentations by name where targets move, too; crops have about 0.9 of the area."""


class Moved:
    """Applies `Moves` to the samples of images of a size.

    Args:
        moves: which.
        size: of the images in pixels.

    Example:
        >>> moved = Moved(OF_NAMES["flip"], 8)
        >>> image, target = torch.zeros(3, 8, 8, dtype=torch.uint8), torch.zeros(4, 4, dtype=torch.int16)
        >>> image[:, :, :4], target[:, :2] = 255, 7
        >>> generator = lambda: torch.Generator().manual_seed(1)
        >>> left = moved.image(image, generator())[0, 0, 0] == 255
        >>> bool(left) == bool(moved.map(target, generator())[0, 0] == 7)
        True
    """

    def __init__(self, moves: Moves, size: Size) -> None:
        self.moves = moves
        self.high, self.wide = height_width(size)
        self.canvas = (round(moves.stretch * self.high), round(moves.stretch * self.wide))

    def _steps(self) -> list[Any]:
        from torchvision.transforms import v2

        steps: list[Any] = [v2.RandomCrop((self.high, self.wide))] if self.moves.stretch > 1 else []
        steps += [v2.RandomHorizontalFlip()] if self.moves.flip else []
        if self.moves.turn:
            quarters = [v2.RandomRotation((angle, angle)) for angle in (0, 90, 180, 270)]
            steps.append(v2.RandomChoice(quarters))
        return steps

    def image(
        self, image: UInt8[Tensor, "*frames 3 h w"], generator: torch.Generator
    ) -> UInt8[Tensor, "*frames 3 h w"]:
        """An image, or frames that are all moved alike."""
        from torchvision import tv_tensors
        from torchvision.transforms import v2

        steps = self._steps()
        steps += [v2.RandomPhotometricDistort()] if self.moves.colours else []
        steps += [v2.ColorJitter(brightness=self.moves.light)] if self.moves.light else []
        stretched = v2.functional.resize(image, list(self.canvas), v2.InterpolationMode.BICUBIC)
        with own_draws(generator):
            moved = v2.Compose(steps)(tv_tensors.Image(stretched)) if steps else stretched
            if self.moves.noise:
                noise = torch.randn(moved.shape) * self.moves.noise * 255
                moved = (moved.float() + noise).round().clamp(0, 255).to(torch.uint8)
        return torch.as_tensor(moved).contiguous()

    def map(self, target: Shaped[Tensor, "h w"], generator: torch.Generator) -> Shaped[Tensor, "h w"]:
        """A map of classes or depths; values are taken from the nearest pixel, so that no new ones arise."""
        from torchvision import tv_tensors
        from torchvision.transforms import v2

        stretched = _nearest(target, self.canvas)
        steps = self._steps()
        with own_draws(generator):
            moved = v2.Compose(steps)(tv_tensors.Mask(stretched)) if steps else stretched
        return _nearest(torch.as_tensor(moved), (int(target.shape[0]), int(target.shape[1])))

    def boxes(self, truth: Float[Tensor, "m 5"], generator: torch.Generator) -> Float[Tensor, "m 5"]:
        """Objects of an image: class (-1 where there is none), centre, width and height as shares of the image."""
        from torchvision import tv_tensors
        from torchvision.transforms import v2

        scale = truth.new_tensor([self.canvas[1], self.canvas[0]] * 2)
        boxes = tv_tensors.BoundingBoxes(truth[:, 1:] * scale, format="CXCYWH", canvas_size=self.canvas)
        before = boxes[:, 2:].prod(dim=1)
        steps = self._steps()
        with own_draws(generator):
            moved = torch.as_tensor(v2.Compose(steps)(boxes) if steps else boxes)
        seen = moved[:, 2:].prod(dim=1) >= _LEAST_SEEN * before.clamp_min(1e-9)
        classes = torch.where(seen, truth[:, 0], -1.0)
        final = truth.new_tensor([self.wide, self.high] * 2)
        return torch.cat([classes[:, None], moved / final], dim=1)


def _nearest(target: Shaped[Tensor, "h w"], size: tuple[int, int]) -> Shaped[Tensor, "a b"]:
    """A map in another size: each pixel takes the value under its centre."""
    if tuple(target.shape) == size:
        return target
    rows, columns = (
        ((torch.arange(new) + 0.5) * old / new).long().clamp_max(old - 1)
        for new, old in zip(size, target.shape, strict=True)
    )
    return target[rows[:, None], columns[None]]


class MovedTargets:
    """Makes one target, moved as its image is where a generator is given."""

    def __init__(self, targets: Rows, change: Callable[[Tensor, torch.Generator], Tensor]) -> None:
        self.targets, self.change = targets, change

    def __call__(self, index: int, generator: torch.Generator | None) -> Tensor:
        """The target of a sample."""
        target: Tensor = self.targets[index : index + 1][0]
        return target if generator is None else self.change(target, generator)
