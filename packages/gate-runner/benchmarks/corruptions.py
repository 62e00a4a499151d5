"""Our corruptions against the published code of ImageNet-C, with the same draws: differences in steps of 0 to 255.

Takes ``ImageNet-C/imagenet_c/imagenet_c/corruptions.py`` of hendrycks/robustness and, for its motion blur (the original
calls ImageMagick through Wand), ``imagecorruptions/corruptions.py`` of bethgelab/imagecorruptions. Both are run as they
are, with stand-ins for what newer NumPy, SciPy and scikit-image no longer have. Draws of both sides come from one
legacy stream; impulse noise, which scikit-image draws there, from one generator given to both. Frost is published with
six photographs, in whose place ours draws a texture: the published code is given that texture.

    python packages/gate-runner/benchmarks/corruptions.py robustness/…/corruptions.py imagecorruptions/…/corruptions.py
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import io
import json
import os
import platform
import sys
import types
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image
from scipy import ndimage

from gate_runner.shifts.corruptions import CORRUPTIONS

RESULTS = Path(__file__).parent / "results" / "corruptions.json"
OTHER = ("motion_blur",)
"""Compared with the second file."""


class Legacy:
    """A generator's methods, drawn from NumPy's legacy stream, which the published code draws from."""

    def normal(self, mean: float, spread: float, shape: Any) -> np.ndarray:
        """Normal values."""
        return np.random.normal(mean, spread, shape)  # noqa: NPY002

    def uniform(self, low: float, high: float, shape: Any = None) -> Any:
        """Uniform values."""
        return np.random.uniform(low, high, shape)  # noqa: NPY002

    def poisson(self, rate: np.ndarray) -> np.ndarray:
        """Counts."""
        return np.random.poisson(rate)  # noqa: NPY002

    def integers(self, low: int, high: int, shape: Any) -> np.ndarray:
        """Whole numbers below the high end."""
        return np.random.randint(low, high, size=shape)  # noqa: NPY002


def published(path: Path) -> Any:
    """A published file as a module."""
    stands = {name: mock.MagicMock() for name in ("wand", "wand.image", "wand.api", "wand.color")}
    stands["wand.image"].Image = object
    old: Any = types.ModuleType("scipy.ndimage.interpolation")
    old.map_coordinates = ndimage.map_coordinates
    resources: Any = types.ModuleType("pkg_resources")
    resources.resource_filename = lambda *names: ""
    stands |= {"scipy.ndimage.interpolation": old, "pkg_resources": resources}
    spec = importlib.util.spec_from_file_location(f"published_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, stands):
        spec.loader.exec_module(module)
    blurred = module.gaussian

    def gaussian(image: np.ndarray, sigma: float, multichannel: bool = False, **how: Any) -> np.ndarray:
        return np.asarray(blurred(image, sigma, **({"channel_axis": -1} if multichannel else {}), **how))

    module.gaussian = gaussian
    return module


def motion_image(other: Any) -> type:
    """What stands for Wand's image: motion blur by the second file."""

    class MotionImage:
        def __init__(self, blob: bytes) -> None:
            self.pixels = np.asarray(Image.open(io.BytesIO(blob)))

        def motion_blur(self, radius: int, sigma: float, angle: float) -> None:
            moved = other._motion_blur(self.pixels.astype(float), radius, sigma, angle)
            self.pixels = np.round(np.clip(moved, 0, 255)).astype(np.uint8)

        def make_blob(self) -> bytes:
            file = io.BytesIO()
            Image.fromarray(self.pixels).save(file, "PNG")
            return file.getvalue()

    return MotionImage


def by_published(module: Any, name: str, image: np.ndarray, strength: int) -> np.ndarray:
    """What the published code makes of an image, of 0 to 255."""
    if name == "impulse_noise":
        noisy = functools.partial(module.sk.util.random_noise, rng=np.random.default_rng(1))
        with mock.patch.object(module.sk.util, "random_noise", noisy):
            return np.asarray(module.impulse_noise(image, strength + 1), float)
    if name == "frost":
        black = CORRUPTIONS["frost"](np.zeros((224, 224, 3)), 0, np.random.default_rng(1)) / 0.4
        photograph = np.pad(black * 255, ((0, 1), (0, 1), (0, 0)))[..., ::-1]  # one place to crop from, and BGR
        with mock.patch.object(module.cv2, "imread", return_value=photograph):
            return np.asarray(module.frost(image, strength + 1), float)
    given: Any = Image.fromarray(image) if name in ("jpeg_compression", "pixelate") else image.copy()
    return np.asarray(getattr(module, name)(given, strength + 1), float)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robustness", type=Path)
    parser.add_argument("imagecorruptions", type=Path)
    parser.add_argument("--only", nargs="+", choices=CORRUPTIONS, help="corruptions to compare; the others' rows stay")
    arguments = parser.parse_args()
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    for name, stand in (("float_", np.float64), ("fromstring", np.frombuffer)):  # gone from NumPy 2
        setattr(np, name, stand)
    other = published(arguments.imagecorruptions)
    module = published(arguments.robustness)
    module.MotionImage = motion_image(other)
    noise = np.random.default_rng(0).integers(0, 255, (12, 12, 3), np.uint8)
    image = np.asarray(Image.fromarray(noise).resize((224, 224), Image.Resampling.BICUBIC))
    result: dict[str, Any] = json.loads(RESULTS.read_text()) if arguments.only else {}
    for name in arguments.only or CORRUPTIONS:
        differences = []
        for strength in range(5):
            np.random.seed(1)  # noqa: NPY002
            theirs = by_published(other if name in OTHER else module, name, image, strength)
            np.random.seed(1)  # noqa: NPY002
            draws: Any = np.random.default_rng(1) if name in ("impulse_noise", "frost") else Legacy()
            shown = np.clip(CORRUPTIONS[name](image / 255, strength, draws), 0, 1) * 255
            differences.append(np.abs(shown - theirs))
        result[name] = {
            "mean_difference": [round(float(part.mean()), 4) for part in differences],
            "greatest_difference": [round(float(part.max()), 3) for part in differences],
        }
        print(name, result[name], flush=True)
    result["machine"] = {"python": platform.python_version(), "numpy": np.__version__}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
