"""Class maps beside their images: one shape, and turned where a map was drawn on an image that EXIF turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gate_data.errors import DataError
from gate_data.readers.source import File, Source, Turned, described
from gate_data.readers.upright import Frame, frame_of, frames_of, of_one_shape, turned_map
from wary_files.text import number_of


def turned_maps(pictures: Sequence[File], maps: Sequence[File]) -> tuple[list[File | Turned], str]:
    """Each image's class map as it lies on the image that is seen, and what a reader must know.

    A map of the sides that an image has in its file is turned with it. Maps of other sides but one shape, smaller or
    larger, are taken as they are.

    Raises:
        DataError: maps of another shape than their images, or no telling how maps of turned images are meant; the
            message has their number and the first.
    """
    shown, drawn = frames_of(pictures), frames_of(maps)
    ways = [_way(picture, own) for picture, own in zip(shown, drawn, strict=True)]
    if odd := [row for row, way in enumerate(ways) if way == "neither"]:
        picture, own = shown[odd[0]], drawn[odd[0]]
        assert picture is not None
        assert own is not None
        raise DataError(
            f"{len(odd)} of {len(maps)} class maps have another shape than their images, such as "
            f"{described(maps[odd[0]])}: {own.upright[0]} x {own.upright[1]} for {picture.upright[0]} x "
            f"{picture.upright[1]} of {described(pictures[odd[0]])}; draw them on the images as stored or as shown"
        )
    undecided = [row for row, way in enumerate(ways) if way == "either"]
    if undecided and {"seen", "stored"} <= {*ways}:
        raise DataError(
            "of images that EXIF turns, some class maps are as stored and some as seen, and nothing tells how "
            f"{len(undecided)} are meant, such as {described(maps[undecided[0]])}: turn the images' pixels, and "
            "remove EXIF's orientation"
        )
    is_stored = "stored" in ways
    turned: list[File | Turned] = []
    for picture, file, way in zip(shown, maps, ways, strict=True):
        is_turned = picture is not None and (way == "stored" or (way == "either" and is_stored))
        turned.append(Turned(file, picture.orientation) if is_turned and picture is not None else file)
    return turned, "; ".join(_remarks(turned, ways, shown, drawn))


def laid_on(values: np.ndarray, source: Source, picture: File) -> np.ndarray:
    """The values ``[h, w]`` of a class map as they lie on the image that is seen.

    Raises:
        DataError: they have another shape than the image; shows both.
    """
    try:
        frame = frame_of(picture)
    except DataError:
        return values  # the image's own reader says more
    size = (values.shape[1], values.shape[0])
    if of_one_shape(size, frame.upright):
        return values
    if frame.orientation != 1 and of_one_shape(size, frame.stored):
        return turned_map(values, frame.orientation)
    raise DataError(
        f"{described(source)} is a class map of {size[0]} x {size[1]} for {frame.upright[0]} x {frame.upright[1]} of "
        f"{described(picture)}; expected one shape: make the map of the image as it is"
    )


def _way(picture: Frame | None, own: Frame | None) -> str:
    if picture is None or own is None:
        return ""  # what cannot be read is said where it is decoded
    size = own.upright
    seen, stored = of_one_shape(size, picture.upright), of_one_shape(size, picture.stored)
    if picture.orientation == 1 or not (seen or stored):
        return "" if seen else "neither"
    if own.orientation != 1:
        return "" if seen else "neither"  # turned by itself
    return "either" if seen and stored else "seen" if seen else "stored"


def _remarks(
    turned: Sequence[File | Turned], ways: Sequence[str], shown: Sequence[Frame | None], drawn: Sequence[Frame | None]
) -> list[str]:
    count = sum(isinstance(source, Turned) for source in turned)
    smaller = sum(
        picture is not None and own is not None and sorted(picture.stored) != sorted(own.stored)
        for picture, own in zip(shown, drawn, strict=True)
    )
    unknown = 0 if {"seen", "stored"} & {*ways} else ways.count("either")
    remarks = []
    if count:
        remarks.append(
            f"{number_of(count, 'class map turned with its image', 'class maps turned with their images')}, by EXIF"
        )
    if smaller:
        of_one, of_several = "class map has other sides than its image", "class maps have other sides than their images"
        remarks.append(f"{number_of(smaller, of_one, of_several)}, in the same shape")
    if unknown:
        remarks.append(f"EXIF turns {unknown} images: their class maps are taken as the images are seen")
    return remarks
