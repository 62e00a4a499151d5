"""Where an encoder is read out: which block, how its places are pooled, how the result is normalised; without torch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from wary_files.errors import UsageError

CHOICES = ("auto", "all", "last")
"""Words for read-outs: the one that validates best; all of them, scored side by side; the encoder's own output."""
NORMS = ("z", "l2", "ln")
"""Channels on the training split's scale; vectors of length 1; vectors of mean 0 and variance 1."""
_CODE = r"float16|int8|binary|(?:dims|pca)[1-9]\d*"
_FORM = re.compile(
    r"block:[1-9]\d*/(?:attentive|places)|"
    r"(?:last|before-projection|concat|(?:last\+)?block:[1-9]\d*/(?:cls|mean|cls\+mean))"
    rf"(?:/(?:z|l2|ln))?(?:/(?:{_CODE}))?"
)


class Readout(NamedTuple):
    """One way to read an encoder out, such as ``block:9/mean``, ``last/l2/int8`` or ``last+block:9/cls``.

    Example:
        >>> Readout.parse("block:9/mean").block
        9
    """

    place: str
    pooling: str = ""
    norm: str = ""
    code: str = ""

    @property
    def name(self) -> str:
        """As it is written."""
        return "/".join(part for part in self if part)

    @property
    def block(self) -> int:
        """Its number, counted from 1; 0 for an output."""
        return int(self.place.rpartition(":")[2]) if self.pooling else 0

    def parts(self, names: Iterable[str]) -> tuple[str, ...]:
        """The vectors that it puts side by side, of those that an encoder gives by these names."""
        if self.place == "concat":
            return tuple(name for name in names if name != "before-projection")
        if not self.pooling:
            return (self.place,)
        before = ("last",) if self.place.startswith("last+") else ()
        return (*before, *(f"block:{self.block}/{pooling}" for pooling in self.pooling.split("+")))

    @classmethod
    def parse(cls, text: str) -> Readout:
        """The read-out of a name."""
        if not _FORM.fullmatch(text):
            raise UsageError(
                f"{text!r} is no read-out; expected auto, all, last, before-projection, concat, block:N/attentive, "
                "block:N/places (of maps and boxes), block:N/POOLING or last+block:N/POOLING with cls, mean or "
                "cls+mean; behind these /z, /l2, /ln or nothing, and behind that /float16, /int8, /binary, /dimsK, "
                "/pcaK or nothing, e.g. block:9/mean or last/l2/int8"
            )
        where, *parts = text.split("/")
        pooling = parts.pop(0) if "block:" in where else ""
        norm = parts.pop(0) if parts and parts[0] in NORMS else ""
        return cls(where, pooling, norm, parts[0] if parts else "")


def checked(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Read-outs that were asked for, as they are."""
    for text in texts:
        if text not in CHOICES:
            Readout.parse(text)
    return texts
