"""One question of a suite, whatever its shape: some pictures, some captions, and which belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from eqben_builder.formats import Picture

#: captions: one picture, the right caption first, then wrong ones. pairs: two pictures, the i-th caption is the i-th's.
#: paraphrases: one picture, right captions, then one wrong one. images: one caption, the right picture first.
#: statement: one picture, one caption, true or false.
Shape = Literal["captions", "pairs", "paraphrases", "images", "statement"]


@dataclass(frozen=True)
class SuiteRow:
    """One question.

    Args:
        id: Unique in its suite.
        subset: As the authors name it: a file, a split, a tag.
        shape: What is asked.
        images: Decoded when they are asked for.
        captions: In the order of the shape.
        cluster: What questions share that are not independent, most often the picture's name.
        group: What the subset is averaged over where its score is a macro average, such as a relation.
        sets: Name of a measure -> name of the set of questions that must all be right.
        label: Of a statement: whether it is true.

    Raises:
        ValueError: Numbers of pictures and captions that the shape does not have.

    Example:
        >>> from eqben_builder.formats import Picture
        >>> row = SuiteRow("0", "swap_obj", "captions", (Picture(content=b""),), ("a on b", "b on a"), "139.jpg")
        >>> row.subset
        'swap_obj'
    """

    id: str
    subset: str
    shape: Shape
    images: tuple[Picture, ...]
    captions: tuple[str, ...]
    cluster: str
    group: str = ""
    sets: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    label: bool | None = None

    def __post_init__(self) -> None:
        pictures, texts = len(self.images), len(self.captions)
        fits = {
            "captions": pictures == 1 and texts >= 2,
            "pairs": pictures == 2 and texts == 2,
            "paraphrases": pictures == 1 and texts >= 3,
            "images": pictures >= 2 and texts == 1,
            "statement": pictures == 1 and texts == 1 and self.label is not None,
        }[self.shape]
        if not fits:
            raise ValueError(f"question {self.id!r} of shape {self.shape!r} has {pictures} pictures, {texts} captions")
