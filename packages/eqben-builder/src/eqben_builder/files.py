"""Pairs on disk: PNG pictures and one JSON file in EqBen's flat form, read back with every field checked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image

from eqben_builder.micro import Pair, Scene, certify, render

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TEXTS = ("image0", "image1", "caption0", "caption1")


class PairRow(NamedTuple):
    """One row of a pair file: two pictures, two captions, and what else the row holds."""

    image0: Path
    image1: Path
    caption0: str
    caption1: str
    extra: dict[str, Any]


def write_pairs(pairs: Iterable[Pair], folder: str | os.PathLike[str], *, size: int = 224) -> Path:
    """Draw certified pairs and write them as PNG pictures and `pairs.json`.

    The JSON is a flat list of `{image0, image1, caption0, caption1}`, the form of EqBen's Kubric and Stable Diffusion
    parts, with `kind`, `field` and both scene graphs added to each row; picture paths are relative to the file.

    Args:
        pairs: Each of them is certified before anything is drawn.
        folder: Made where it is missing; files of the same names are replaced.
        size: Side of the pictures in pixels, 8 to 4096.

    Returns:
        The path of `pairs.json`, which is written last, and atomically.

    Raises:
        ValueError: A pair that is not minimal, by its index and reason.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from eqben_builder.micro import minimal_pair
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_pairs([minimal_pair(np.random.default_rng(0), "count")], folder, size=64)
        ...     read_pairs(path)[0].extra["kind"]
        'count'
    """
    kept = list(pairs)
    for index, pair in enumerate(kept):
        try:
            certify(pair)
        except ValueError as error:
            raise ValueError(f"pair {index}: {error}") from error
    target = Path(folder)
    (target / "images").mkdir(parents=True, exist_ok=True)
    rows = []
    for index, pair in enumerate(kept):
        row: dict[str, Any] = {}
        for side, picture in enumerate(render([pair.scene0, pair.scene1], size).images):
            row[f"image{side}"] = f"images/{index:06d}_{side}.png"
            Image.fromarray(picture).save(target / row[f"image{side}"], optimize=False)
        row |= {"caption0": pair.caption0, "caption1": pair.caption1, "kind": pair.kind, "field": pair.field}
        rows.append(row | {"scene0": pair.scene0.to_dict(), "scene1": pair.scene1.to_dict()})
    partial = target / "pairs.json.partial"
    partial.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    partial.replace(target / "pairs.json")
    return target / "pairs.json"


def read_pairs(path: str | os.PathLike[str]) -> list[PairRow]:
    """Read a flat pair file, such as `write_pairs` writes.

    Args:
        path: A JSON list of objects with at least `image0, image1, caption0, caption1`.

    Returns:
        Rows with the pictures' absolute paths; scene graphs in `extra` are `Scene` objects.

    Raises:
        ValueError: The file, the row and the field that is missing, of the wrong type, or leads out of the folder.
        FileNotFoundError: A picture that is not there, with its row.
    """
    source = Path(path).resolve()
    try:
        rows = json.loads(source.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{source}, line {error.lineno}: {error.msg}") from error
    if not isinstance(rows, list):
        raise ValueError(f"{source}: expected a list of rows, found {type(rows).__name__}")
    return [_row(source, index, row) for index, row in enumerate(rows)]


def _row(source: Path, index: int, row: Any) -> PairRow:
    where = f"{source}, row {index}"
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected an object, found {type(row).__name__}")
    for field in _TEXTS:
        if not isinstance(row.get(field), str):
            raise ValueError(f"{where}: field {field!r} should be a text, found {row.get(field)!r}")
    pictures = []
    for field in _TEXTS[:2]:
        picture = (source.parent / row[field]).resolve()
        if not picture.is_relative_to(source.parent):
            raise ValueError(f"{where}: field {field!r} leads out of the file's folder: {row[field]!r}")
        if not picture.is_file():
            raise FileNotFoundError(f"{where}: field {field!r} names no picture: {row[field]!r}")
        pictures.append(picture)
    extra = {name: value for name, value in row.items() if name not in _TEXTS}
    for field in {"scene0", "scene1"} & set(extra):
        try:
            extra[field] = Scene.from_dict(extra[field])
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(f"{where}: field {field!r}: {error}") from error
    return PairRow(pictures[0], pictures[1], row["caption0"], row["caption1"], extra)


def read_pictures(rows: Sequence[PairRow]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The pictures of some rows, uint8 [n, 2, height, width, 3].

    Raises:
        ValueError: A picture whose size is not that of the first.
    """
    pictures = []
    for row in rows:
        for path in (row.image0, row.image1):
            with Image.open(path) as image:
                pictures.append(np.asarray(image.convert("RGB")))
            if pictures[-1].shape != pictures[0].shape:
                raise ValueError(f"{path} has the shape {pictures[-1].shape}, the first picture {pictures[0].shape}")
    if not pictures:
        raise ValueError("no rows to read pictures of")
    return np.stack(pictures).reshape(len(rows), 2, *pictures[0].shape)
