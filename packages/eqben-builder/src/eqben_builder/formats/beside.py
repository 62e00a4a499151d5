"""What EqBen's JSON forms have no room for, in a file beside them: masks, sources, certificates, in one form ids."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqben_builder.formats.json_files import json_lines, object_of
from eqben_builder.formats.row import PairRow, picture_at, text

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Lies beside `pairs.json`: one object a pair, in the order in which the pairs were written.
BESIDE = "pairs.extra.jsonl"


def line_of(row: PairRow, number: int, folder: Path) -> dict[str, Any]:
    """A pair's line, its mask stored in `masks/`."""
    line: dict[str, Any] = {"id": row.id, "subset": row.subset, "aspect": row.aspect}
    if row.mask is not None:
        content, ending = row.mask.encoded()
        line["mask"] = f"masks/{number:06d}{ending}"
        (folder / "masks").mkdir(exist_ok=True)
        (folder / line["mask"]).write_bytes(content)
    return line | {"extra": dict(row.extra)}


def write_beside(lines: list[dict[str, Any]], folder: Path) -> None:
    """Write all lines."""
    content = "".join(f"{json.dumps(line, ensure_ascii=False, default=str)}\n" for line in lines)
    (folder / BESIDE).write_text(content, encoding="utf-8")


def beside(rows: Iterator[PairRow], path: Path, root: Path, *, by_place: bool) -> Iterator[PairRow]:
    """The rows of `path` with what stands beside it, where it does.

    Args:
        rows: As the form itself gives them.
        path: The form's own JSON file.
        root: The folder that masks are relative to.
        by_place: The form holds no ids: its k-th pair is the k-th line.

    Raises:
        ValueError: File, line and field; fewer lines than pairs, or an id that has no line.
    """
    extra = path.with_name(BESIDE)
    if path.name != "pairs.json" or not extra.is_file():
        yield from rows
        return
    lines = [_checked(where, line, root) for where, line in json_lines(extra)]
    by_id = {line["id"]: line for line in lines}
    for number, row in enumerate(rows):
        line = (lines[number] if number < len(lines) else None) if by_place else by_id.get(row.id)
        if line is None:
            raise ValueError(f"{extra} has no line for pair {number if by_place else row.id!r} of {path}")
        named = {key: line[key] for key in ("id", "subset", "aspect")}
        yield replace(row, **named, mask=line["mask"], extra={**row.extra, **line["extra"]})


def _checked(where: str, line: dict[str, Any], root: Path) -> dict[str, Any]:
    mask = line.get("mask")
    return {
        "id": text(line.get("id"), where, "id"),
        "subset": text(line.get("subset"), where, "subset"),
        "aspect": str(line.get("aspect") or ""),
        "mask": None if mask is None else picture_at(root, mask, where, "mask"),
        "extra": object_of(line.get("extra", {}), where),
    }
