"""The files of the benchmarks that stand beside EqBen: Winoground's examples and VALSE's foils."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from eqben_builder.formats.json_files import json_lines
from eqben_builder.formats.row import PairRow, Picture, picture_at, text
from eqben_builder.formats.zips import opened_zip

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENDINGS = (".png", ".jpg", ".jpeg")
#: Of VALSE's three annotators, so many must have found the caption right and the foil wrong.
VALSE_VOTES = 2


def read_winoground(path: Path, root: Path) -> Iterator[PairRow]:
    """Read Winoground's `examples.jsonl`."""
    find = _finder(root)
    for count, (where, row) in enumerate(json_lines(path)):
        pictures = [find(text(row.get(name), where, name), where, name) for name in ("image_0", "image_1")]
        captions = [text(row.get(name), where, name) for name in ("caption_0", "caption_1")]
        known = {"id", "image_0", "image_1", "caption_0", "caption_1"}
        extra = {key: value for key, value in row.items() if key not in known}
        aspect = str(row.get("collapsed_tag") or "")
        name = str(row.get("id", count))
        yield PairRow(name, "winoground", aspect, pictures[0], pictures[1], captions[0], captions[1], extra)


def _finder(root: Path) -> Any:
    archive = root / "images.zip"
    members: dict[str, str] = {}
    if archive.is_file():
        with opened_zip(archive) as opened:
            members = {PurePosixPath(name).name: name for name in opened.namelist() if not name.endswith("/")}

    def find(name: str, where: str, field: str) -> Picture:
        candidates = [name, *(name + ending for ending in _ENDINGS)]
        for place in (root / "images", root):
            for candidate in candidates:
                if (place / candidate).is_file():
                    return picture_at(place, candidate, where, field)
        for candidate in candidates:
            if candidate in members:
                return Picture(archive, members[candidate])
        raise FileNotFoundError(
            f"{where}: field {field!r} names no picture in {root}, its images or images.zip: {name!r}"
        )

    return find


def read_valse(path: Path, root: Path, content: Any, votes: int = VALSE_VOTES) -> Iterator[PairRow]:
    """VALSE's images, captions and foils; rows that fewer than `votes` annotators confirmed are left out."""
    for name, row in content.items():
        where = f"{path}, row {name!r}"
        if not isinstance(row, dict):
            raise ValueError(f"{where}: expected an object, found {type(row).__name__}")
        given = row.get("mturk") or {}
        if isinstance(given, dict) and isinstance(given.get("caption"), int) and given["caption"] < votes:
            continue
        caption = row.get("caption")
        caption = text(caption[0] if isinstance(caption, list) and caption else caption, where, "caption")
        foil = row.get("foil")
        foil = text(foil[0] if isinstance(foil, list) and foil else foil, where, "foil")
        picture = picture_at(root, row.get("image_file"), where, "image_file")
        extra = {key: value for key, value in row.items() if key not in ("caption", "foil", "image_file")}
        aspect = str(row.get("linguistic_phenomena") or path.stem)
        yield PairRow(str(name), "valse", aspect, picture, None, caption, foil, extra)
