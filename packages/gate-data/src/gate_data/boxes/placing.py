"""Boxes of annotations in the pixels of upright images: what was annotated lying down is turned, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from gate_data.errors import DataError
from gate_data.readers.upright import Corners, Frame, Sides, frame_of, frames_of, of_one_shape

_Way = Literal["seen", "stored", "either", "neither"]
_EDGE = 1.5
"""Pixels by which a box may leave its image: exports round, and some count the last pixel."""


class Place(NamedTuple):
    """Where an image's boxes lie: the sides that they were drawn in, and how these become the upright image's."""

    frame: Frame
    drawn: Sides
    is_turned: bool = False

    @property
    def size(self) -> Sides:
        """Width and height of the upright image."""
        return self.frame.upright

    def box(self, corners: Corners) -> Corners:
        """A box in pixels of the upright image."""
        across, down = self._scales
        left, top, wide, high = corners
        scaled = left * across, top * down, wide * across, high * down
        if self.drawn == (self.frame.stored if self.is_turned else self.frame.upright):
            scaled = corners
        return self.frame.turned(scaled) if self.is_turned else scaled

    def area(self, area: float) -> float:
        """An area in square pixels of the upright image."""
        across, down = self._scales
        return area * across * down

    @property
    def _scales(self) -> tuple[float, float]:
        target = self.frame.stored if self.is_turned else self.frame.upright
        return target[0] / self.drawn[0], target[1] / self.drawn[1]


def places_of(
    where: str, files: Sequence[str], sizes: Sequence[Sides | None], boxes: Sequence[Sequence[Corners]]
) -> tuple[list[Place], list[str]]:
    """Each image's place, and what a reader must know of them.

    Args:
        where: what the annotations are called in an error.
        files: the images.
        sizes: width and height that the annotations say, None where they say none: boxes are then as it is seen.
        boxes: of each image.

    Raises:
        DataError: sizes of another shape than the images, boxes of upright images beside stored sizes or the other
            way, or an image without a size that cannot be read.
    """
    frames: list[Frame] = []
    for file, frame, size in zip(files, frames_of(files), sizes, strict=True):
        if frame is None:  # what cannot be decoded is said, or left out, where images are decoded
            frame = Frame(size) if size is not None else frame_of(file)
        frames.append(frame)
    ways = [_way(frame, size) for frame, size in zip(frames, sizes, strict=True)]
    _refuse(where, files, frames, sizes, ways)
    places = []
    is_stored = "stored" in ways
    for frame, size, way in zip(frames, sizes, ways, strict=True):
        places.append(Place(frame, size or frame.upright, way == "stored" or (way == "either" and is_stored)))
    for file, place, listed in zip(files, places, boxes, strict=True):
        _refuse_other_way(where, file, place, listed)
    return places, _remarks(places, ways)


def _way(frame: Frame, size: Sides | None) -> _Way:
    """How an image's boxes were drawn, by the size that was noted down with them."""
    if size is None or frame.orientation == 1:
        return "seen" if size is None or of_one_shape(size, frame.upright) else "neither"
    seen, stored = of_one_shape(size, frame.upright), of_one_shape(size, frame.stored)
    if frame.orientation <= 4 or (seen and stored):
        return "either" if seen else "neither"
    return "seen" if seen else "stored" if stored else "neither"


def _refuse(
    where: str, files: Sequence[str], frames: Sequence[Frame], sizes: Sequence[Sides | None], ways: Sequence[_Way]
) -> None:
    if odd := [row for row, way in enumerate(ways) if way == "neither"]:
        is_size, said_size = frames[odd[0]].upright, sizes[odd[0]] or frames[odd[0]].upright
        raise DataError(
            f"{where}: {len(odd)} of {len(files)} images have another shape than the annotations say, such as "
            f"{files[odd[0]]}: it is {is_size[0]} x {is_size[1]}, not {said_size[0]} x {said_size[1]}; correct width "
            "and height, or leave them out if boxes are in the image's own pixels"
        )
    undecided = [row for row, way in enumerate(ways) if way == "either"]
    known = {way for way, frame, size in zip(ways, frames, sizes, strict=True) if size and frame.is_lying}
    if undecided and {"seen", "stored"} <= known:
        raise DataError(
            f"{where}: of images that EXIF turns, some have the stored size and some the visible one, and nothing "
            f"tells how {len(undecided)} are meant, such as {files[undecided[0]]}: turn their pixels, and remove "
            "EXIF's orientation"
        )


def _refuse_other_way(where: str, file: str, place: Place, boxes: Sequence[Corners]) -> None:
    """Refuse boxes that lie in the image only if it is turned the other way."""
    if not place.frame.is_lying:
        return
    wide, high = place.drawn
    for left, top, width, height in boxes:
        right, bottom = left + width, top + height
        if (right > wide + _EDGE or bottom > high + _EDGE) and right <= high + _EDGE and bottom <= wide + _EDGE:
            raise DataError(
                f"{where}: EXIF turns {file}, and the box from {left:g}, {top:g} to {right:g}, {bottom:g} lies in "
                f"{high} x {wide}, not in {wide} x {high}: write the width and height that the boxes are drawn in"
            )


def _remarks(places: Sequence[Place], ways: Sequence[_Way]) -> list[str]:
    turned = sum(place.is_turned for place in places)
    scaled = sum(place.drawn != (place.frame.stored if place.is_turned else place.size) for place in places)
    is_known = "stored" in ways or any(
        way == "seen" and place.frame.is_lying for way, place in zip(ways, places, strict=True)
    )
    unknown = 0 if is_known else ways.count("either")
    remarks = []
    if turned:
        remarks.append(f"boxes of {turned} images turned with them, by EXIF")
    if scaled:
        remarks.append(f"boxes of {scaled} images scaled: the annotations give other widths and heights")
    if unknown:
        remarks.append(f"EXIF turns {unknown} images: their boxes are taken as the images are seen")
    return remarks
