"""Seen and unseen entities; training, validation and test examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

SPLITS = ("train", "val", "test")


class Example(NamedTuple):
    """What a split is decided by: the image, the entity, and its stratum (source and super-category)."""

    image_id: str
    entity_id: str
    stratum: str


@dataclass(frozen=True, slots=True)
class SplitRules:
    """How much goes where.

    Args:
        unseen: share of the entities that no training example has, above 0 and below 1.
        unseen_val: share of those that are for validation, the others being for the test.
        val: share of images of seen entities that are for validation.
        test: likewise for the test.
        seed: of the draw.

    Raises:
        ValueError: a share out of its range.

    Example:
        >>> SplitRules(unseen=0.5, seed=3).val
        0.05

    Source: OVEN has 2,004 unseen entities for validation and 10,156 for the test beside 7,943 seen ones (figure 3),
    whence the two defaults: .6 and 1/6. Of its seen examples 1.2 % are for validation and 6.8 % for the test; ours
    are greater, because data sets of one's own are smaller.
    """

    unseen: float = 0.6
    unseen_val: float = 1 / 6
    val: float = 0.05
    test: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse shares that leave a part empty."""
        for name in ("unseen", "unseen_val", "val", "test"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name}: expected a share above 0 and below 1, got {getattr(self, name)!r}")
        if self.val + self.test >= 1:
            raise ValueError(f"val, test: expected less than 1 together, got {self.val!r} and {self.test!r}")


def _draw(seed: int, kind: str, text: str) -> int:
    """A number of 64 bits that only depends on seed, kind and text: no order of reading, no other item."""
    digest = blake2b(f"{seed}\x00{kind}\x00{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _spread(items: Sequence[str], share: float) -> set[str]:
    """Every so-many-th item, so that any stretch of the list has its share."""
    return {item for i, item in enumerate(items) if int((i + 1) * share + 1e-9) > int(i * share + 1e-9)}


def split_examples(examples: Sequence[Example], rules: SplitRules) -> list[str]:
    """The split of each example: `train`, `val_seen`, `val_unseen`, `test_seen`, `test_unseen`, or "" to leave out.

    Entities are drawn as unseen in equal shares of each stratum, the rest may be trained on. An image has all its
    examples in one split: that of an unseen entity on it (the test before validation), else one drawn for it. An
    entity is then called seen if and only if a training example has it; an unseen one is in validation or in the
    test, never in both. What would break a rule is left out: examples of unseen entities that are on an image of
    the other split.

    Source: OVEN sections 2 and 3 ask for unseen entities without training examples; that validation and test do not
    share them, and that no image is in two splits, is ours.
    """
    strata: dict[str, set[str]] = {}
    for example in examples:
        strata.setdefault(example.stratum, set()).add(example.entity_id)
    placed: set[str] = set()
    ordered = []
    for stratum in sorted(strata):
        new = strata[stratum] - placed
        placed |= new
        ordered += sorted(new, key=lambda entity: (_draw(rules.seed, "entity", entity), entity))
    unseen = _spread(ordered, rules.unseen)
    for_val = _spread([entity for entity in ordered if entity in unseen], rules.unseen_val)

    image_split: dict[str, str] = {}
    for example in examples:
        if example.entity_id in unseen:
            held_out = "val" if example.entity_id in for_val else "test"
            image_split[example.image_id] = max(held_out, image_split.get(example.image_id, held_out), key=SPLITS.index)
    for example in examples:
        if example.image_id not in image_split:
            draw = _draw(rules.seed, "image", example.image_id) / 2**64
            image_split[example.image_id] = (
                "test" if draw < rules.test else "val" if draw < rules.test + rules.val else "train"
            )
    trained = {e.entity_id for e in examples if image_split[e.image_id] == "train"}
    in_test = {e.entity_id for e in examples if image_split[e.image_id] == "test" and e.entity_id not in for_val}
    result = []
    for example in examples:
        split = image_split[example.image_id]
        is_seen = example.entity_id in trained
        if not is_seen and example.entity_id in (in_test if split == "val" else for_val if split == "test" else ()):
            split = ""
        elif split != "train":
            split += "_seen" if is_seen else "_unseen"
        result.append(split)
    return result
