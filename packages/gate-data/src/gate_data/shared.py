"""Pictures that are tested on and trained on: found by their content, so that a score says what it is worth."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from gate_data.readers import described

if TYPE_CHECKING:
    from gate_data.data import Data, Split


class Shared(NamedTuple):
    """How many test samples have pictures that are trained or validated on, and one such pair."""

    number: int
    test: str = ""
    train: str = ""

    @property
    def sentence(self) -> str:
        """In words; empty where there are none."""
        if not self.number:
            return ""
        picture = "picture is" if self.number == 1 else "pictures are"
        return f"{self.number} test {picture} trained on, too, such as {self.test} ({self.train})"


def pixels_key(image: Tensor) -> bytes:
    """A digest of a picture's pixels."""
    return hashlib.blake2b(image.contiguous().numpy().data, digest_size=16).digest()


def shared_pictures(data: Data[Any], *, folded: bool = False) -> Shared:
    """Test samples whose pictures are among those that train or validate.

    Pictures in memory are compared by their pixels, those in files by what the files hold. Where all splits are
    ``folded`` into one for cross-validation, each picture is in one fold, unless it is there twice.
    """
    if folded:
        return _repeated(data.test)
    names: dict[bytes, str] = {}
    for name, split in (("train", data.train), ("validation", data.validation)):
        for key, at in _keys(split):
            names.setdefault(key, _name(split, name, at))
    if not names:  # nothing is trained
        return Shared(0)
    count, first = 0, Shared(0)
    for key, at in _keys(data.test):
        if key in names:
            first = first if count else Shared(0, _name(data.test, "test", at), names[key])
            count += 1
    return first._replace(number=count)


def _repeated(split: Split[Any]) -> Shared:
    """Samples of one split with a picture that an earlier one has, too."""
    first: dict[bytes, int] = {}
    pairs = []
    for key, index in _keys(split):
        if first.setdefault(key, index) != index:
            pairs.append((index, first[key]))
    if not pairs:
        return Shared(0)
    index, earlier = pairs[0]
    return Shared(len(pairs), _name(split, "test", index), _name(split, "test", earlier))


def _keys(split: Split[Any]) -> Iterator[tuple[bytes, int]]:
    if isinstance(split.images, Tensor):
        yield from ((pixels_key(image), at) for at, image in enumerate(split.images))
    elif len(split):
        yield from ((key, at) for at, key in enumerate(split.images.contents))


def _name(split: Split[Any], name: str, at: int) -> str:
    if isinstance(split.images, Tensor):
        return f"{name} {at}"
    return described(split.images.files[at][0])
