"""Images that are tested on and trained on: found by their content, so that a score says what it is worth."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from gate_data.readers import described

if TYPE_CHECKING:
    from gate_data.data import Data, Split


class Shared(NamedTuple):
    """How many test samples have images that are trained or validated on, and one such pair."""

    number: int
    test: str = ""
    train: str = ""

    @property
    def sentence(self) -> str:
        """In words; empty where there are none."""
        if not self.number:
            return ""
        picture = "image is" if self.number == 1 else "images are"
        return f"{self.number} test {picture} trained on, too, such as {self.test} ({self.train})"


def pixels_key(image: Tensor) -> bytes:
    """A digest of an image's pixels."""
    return hashlib.blake2b(image.contiguous().numpy().data, digest_size=16).digest()


def shared_pictures(data: Data[Any], *, folded: bool = False) -> Shared:
    """Test samples whose images are among those that train or validate.

    Images in memory are compared by their pixels, those in files by what the files hold. Where all splits are
    ``folded`` into one for cross-validation, each image is in one fold, unless it is there twice.
    """
    owners: dict[bytes, tuple[Split[Any], str, int]] = {}
    for name, split in () if folded else (("train", data.train), ("validation", data.validation)):
        for at, key in enumerate(_keys(split)):
            owners.setdefault(key, (split, name, at))
    if not owners and not folded:  # nothing is trained
        return Shared(0)
    pairs = []
    for at, key in enumerate(_keys(data.test)):
        if key in owners:
            pairs.append((at, owners[key]))
        elif folded:
            owners[key] = (data.test, "test", at)
    if not pairs:
        return Shared(0)
    at, owner = pairs[0]
    return Shared(len(pairs), _name(data.test, "test", at), _name(*owner))


def _keys(split: Split[Any]) -> Iterable[bytes]:
    if isinstance(split.images, Tensor):
        return map(pixels_key, split.images)
    return split.images.contents if len(split) else ()


def _name(split: Split[Any], name: str, at: int) -> str:
    if isinstance(split.images, Tensor):
        return f"{name} {at}"
    return described(split.images.files[at][0])
