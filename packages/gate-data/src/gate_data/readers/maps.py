"""Class maps: the values of an annotation become classes, and what counts nowhere -100."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int16, Shaped
from PIL import Image

from gate_data.errors import DataError
from gate_data.readers.decode import open_picture
from gate_data.readers.source import File, Member, Source, Stored, Turned, described
from gate_data.readers.turning import laid_on
from gate_data.readers.upright import orientation_of, turned_map
from wary_files.limits import reading, within

IGNORED = -100
"""What a pixel has that counts nowhere."""
_UNKNOWN = -32768
_WIDEST = 2**31 - 1
Value = TypeVar("Value", bound=Any)


@dataclass(frozen=True)
class ClassMap:
    """How an annotation's values become classes.

    Args:
        classes: value to class.
        ignored: values that count nowhere.
        others: what every other value becomes: a class, `IGNORED`, or None for an error.
        key: the variable's name where annotations are MATLAB files.
        colours: colour to value, where annotations are coloured images.

    Example:
        >>> ClassMap({7: 0, 8: 1}, ignored=(0,)).apply(np.array([[0, 7, 8]]), "a.png").tolist()
        [[-100, 0, 1]]
    """

    classes: Mapping[int, int]
    ignored: Iterable[int] = ()
    others: int | None = None
    key: str = ""
    colours: Mapping[tuple[int, int, int], int] | None = None
    _table: Int16[np.ndarray, " v"] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values = {**{int(value): IGNORED for value in self.ignored}, **self.classes}
        table = np.full(max(values) + 1, _UNKNOWN if self.others is None else self.others, dtype=np.int16)
        for value, label in values.items():
            table[value] = label
        object.__setattr__(self, "_table", table)

    def read(self, source: Source, side: int | None = None, picture: Source | None = None) -> Int16[np.ndarray, "h w"]:
        """The classes in an image, a MATLAB file or a row of an HDF5 file, of a side by the nearest pixel.

        Where the image is given, one in a file of its own, a map of another shape is refused with both sizes, and one
        of its stored shape is turned by the image's EXIF.
        """
        values = self._values(source)
        if isinstance(picture, str | Member) and not isinstance(source, Turned):
            values = laid_on(values, source, picture)
        top = int(values.max()) if values.size else 0
        if (values.size and int(values.min()) < 0) or (self.others is None and top >= len(self._table)):
            wrong = int(values.min()) if int(values.min()) < 0 else top
            raise DataError(f"{described(source)} has the value {wrong}, expected 0 to {len(self._table) - 1}")
        if side is not None:
            drawn = Image.fromarray(values.astype(np.int32))
            values = np.asarray(drawn.resize((side, side), Image.Resampling.NEAREST))
        return self.apply(values, described(source))

    def apply(self, values: Shaped[np.ndarray, "h w"], name: str) -> Int16[np.ndarray, "h w"]:
        """Classes of an array of values."""
        within = values < len(self._table)
        classes = self._table[np.where(within, values, 0)]
        classes = np.where(within, classes, np.int16(_UNKNOWN if self.others is None else self.others))
        if (classes == _UNKNOWN).any():
            value = int(values[classes == _UNKNOWN].flat[0])
            raise DataError(f"{name} has the value {value}, which is no class: {self._expected()}")
        return classes.astype(np.int16)

    def _expected(self) -> str:
        """Return the values that a map may have, in words."""
        known = sorted(int(value) for value in self.classes)
        span = len(known) > 1 and known[-1] - known[0] == len(known) - 1
        shown = f"{known[0]} to {known[-1]}" if span else ", ".join(map(str, known[:20]))
        ignored = ", ".join(str(value) for value in sorted(map(int, self.ignored))[:20])
        return f"classes have {shown}{f'; {ignored} counts nowhere' if ignored else ''}"

    def _values(self, source: Source) -> Shaped[np.ndarray, "h w"]:
        if isinstance(source, Stored):
            from gate_data.readers.arrays import stored_array

            return whole_numbers(stored_array(source), described(source))
        if isinstance(source, Turned):
            return turned_map(self._values(source.source), source.orientation)
        assert isinstance(source, str | Member)
        if self.key:
            from gate_data.readers.arrays import read_matlab

            values = np.asarray(read_matlab(source, self.key))
            if values.ndim != 2:
                raise DataError(f"{described(source)}: {self.key} has the shape {values.shape}, expected two axes")
            return whole_numbers(values, described(source))
        return self._of_picture(source)

    def _of_picture(self, source: File) -> Shaped[np.ndarray, "h w"]:
        with reading(described(source), "an annotation"), open_picture(source) as image:
            within(image.width * image.height, "pixels", described(source))
            image.load()  # numpy asks for the shape first, and of TIFF, Pillow turns pixels as it loads them
            values = np.asarray(image.convert("RGB") if self.colours is not None else image)
            orientation = orientation_of(image)
        if self.colours is not None:
            return turned_map(self._of_colours(values, source), orientation)
        if values.ndim != 2:
            raise DataError(f"{described(source)} has the shape {values.shape}, expected one channel")
        return turned_map(whole_numbers(values, described(source)), orientation)

    def _of_colours(self, values: np.ndarray, source: File) -> Shaped[np.ndarray, "h w"]:
        assert self.colours is not None
        packed = (values.astype(np.int64) * (65536, 256, 1)).sum(axis=2)
        packed_colours = np.array([red * 65536 + green * 256 + blue for red, green, blue in self.colours])
        order = np.argsort(packed_colours)
        rank = np.searchsorted(packed_colours[order], packed).clip(max=len(packed_colours) - 1)
        indices = order[rank]
        if (packed_colours[indices] != packed).any():
            row, column = np.argwhere(packed_colours[indices] != packed)[0]
            colour = tuple(int(value) for value in values[row, column])
            raise DataError(f"{described(source)} has the colour {colour} in row {row}, column {column}: no class")
        chosen: np.ndarray = np.array(list(self.colours.values()))[indices]
        return chosen


def whole_numbers(values: Shaped[np.ndarray, "h w"], name: str) -> Shaped[np.ndarray, "h w"]:
    """Values of a kind that cannot hold shares; where there is one, it would become the class below."""
    if values.dtype.kind != "f":
        return values
    odd = values[~(np.floor(values) == values)]
    if odd.size or np.abs(values).max(initial=0) > _WIDEST:
        shown = float(odd.flat[0]) if odd.size else float(np.abs(values).max())
        raise DataError(f"{name} has the value {shown:g}, expected whole numbers of classes")
    return values.astype(np.int64)


def ranked(values: Iterable[Value]) -> dict[Value, int]:
    """Each value to its rank, from 0."""
    return {value: rank for rank, value in enumerate(sorted(values))}
