"""Features of training images: of the image as the encoder takes it, or the mean over random crops of it."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageOps
from torch import Tensor

from gate_data.request import Size, height_width
from gate_runner.tasks.features import rows_of
from vision_features.encoders.transforms import OwnTransform

if TYPE_CHECKING:
    from gate_data.data import Split
    from gate_runner.tasks.job import Job
    from vision_features.features import Kind

LEAST_AREA = 0.5
"""Of a crop, as a share of the image's."""
_SHAPES = (3 / 4, 4 / 3)
_TRIES = 10


def features_of(job: Job, split: Split, kind: Kind, name: str, views: int) -> Float[Tensor, "n d"]:
    """Return features of images ``[n, d]``, averaged over random crops if there are to be several views.

    Source:
        Zhang et al., Tip-Adapter (2022): its cache is the mean over ten epochs of augmented images, of crops of half
        the area or more, mirrored half of the time.
    """
    if views == 1:
        plain: Tensor = rows_of(job, split, kind, name)[:].float()
        return plain
    size = job.encoder.image_size
    total: Tensor | None = None
    for view in range(views):
        crop = random_crop(size, view, job.seed)
        rows = job.encoded(split, kind, f"{name}-view{view}", transform=crop)[:].float()
        total = rows.clone() if total is None else total + rows
    assert total is not None
    return total / views


def random_crop(size: Size, view: int, seed: int) -> OwnTransform:
    """Return a transform to a random crop, which depends on the image, the view and the seed alone."""
    high, wide = height_width(size)

    def crop(image: Image.Image) -> Image.Image:
        rng = np.random.default_rng([zlib.crc32(image.tobytes()), view, seed])
        box = _box(image.width, image.height, rng)
        shown = image.resize((wide, high), Image.Resampling.BICUBIC, box=box)
        return ImageOps.mirror(shown) if rng.random() < 0.5 else shown

    return OwnTransform(f"view {view} of seed {seed}: crops of {LEAST_AREA:g} to 1 of the area, mirrored", crop)


def _box(width: int, height: int, rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Return a box inside an image, of a share of its area; the whole image if no shape fits into it."""
    for _ in range(_TRIES):
        area = width * height * rng.uniform(LEAST_AREA, 1)
        shape = np.exp(rng.uniform(*np.log(_SHAPES)))
        across, down = round((area * shape) ** 0.5), round((area / shape) ** 0.5)
        if 0 < across <= width and 0 < down <= height:
            left, top = rng.integers(0, width - across + 1), rng.integers(0, height - down + 1)
            return float(left), float(top), float(left + across), float(top + down)
    return 0.0, 0.0, float(width), float(height)
