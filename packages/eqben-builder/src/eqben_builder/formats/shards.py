"""Formats that other loaders read: ImageFolder with a `metadata.jsonl`, and WebDataset's tar shards."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqben_builder.formats.row import PairRow, Picture, picture_at, row_from, stored_pictures, texts_of
from eqben_builder.untrusted import json_lines, object_of, parse_json, within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_METADATA = "metadata.jsonl"
SHARD_PAIRS = 1000
_END = 1024


def write_imagefolder(rows: Iterable[PairRow], folder: Path) -> Path:
    """Write `images/` and a `metadata.jsonl` whose `image_0_file_name` and `image_1_file_name` point into it.

    `datasets.load_dataset("imagefolder", data_dir=...)` gives the columns image_0, image_1, caption_0, caption_1, id,
    subset, aspect and extra (a JSON text), and mask where the pairs have masks.
    """
    (folder / "images").mkdir(exist_ok=True)
    partial = folder / f"{_METADATA}.partial"
    with partial.open("w", encoding="utf-8") as file:
        for k, row in enumerate(rows):
            line: dict[str, Any] = {}
            for kind, content, ending in stored_pictures(row):
                line[f"{kind}_file_name"] = f"images/{k:06d}_{kind.removeprefix('image_')}{ending}"
                (folder / line[f"{kind}_file_name"]).write_bytes(content)
            file.write(json.dumps(line | texts_of(row), ensure_ascii=False) + "\n")
    partial.replace(folder / _METADATA)
    return folder / _METADATA


def read_imagefolder(path: Path, root: Path) -> Iterator[PairRow]:
    """Read a `metadata.jsonl` of `write_imagefolder`, line by line."""
    for count, (where, row) in enumerate(json_lines(path)):
        pictures = {
            kind: picture_at(root, row.get(field), where, field)
            for kind, field in ((kind, f"{kind}_file_name") for kind in ("image_0", "image_1", "mask"))
            if row.get(field) is not None or kind == "image_0"
        }
        yield row_from(row, pictures, where, str(count))


def write_webdataset(rows: Iterable[PairRow], folder: Path, shard_pairs: int = SHARD_PAIRS) -> list[Path]:
    """Write shards `pairs-000000.tar`, one after the other; the same pairs give the same bytes.

    A sample has the members KEY.image_0.png, KEY.image_1.png (or .jpg), KEY.json and, where there is a mask,
    KEY.mask.png; no more than one pair is held.
    """
    shards: list[Path] = []
    archive: tarfile.TarFile | None = None
    try:
        for k, row in enumerate(rows):
            if k % shard_pairs == 0:
                if archive is not None:
                    archive.close()
                shards.append(folder / f"pairs-{len(shards):06d}.tar")
                archive = tarfile.open(shards[-1], "w")  # noqa: SIM115 - closed when its shard is full
            assert archive is not None
            key = f"{k:08d}"
            for kind, content, ending in stored_pictures(row):
                _add(archive, f"{key}.{kind}{ending}", content)
            _add(archive, f"{key}.json", json.dumps(texts_of(row), ensure_ascii=False).encode())
    finally:
        if archive is not None:
            archive.close()
    return shards


def read_webdataset(paths: list[Path]) -> Iterator[PairRow]:
    """Read shards in the order of their names, one sample at a time; nothing is extracted."""
    for path in sorted(paths):
        _check_end(path)
        key, parts = "", dict[str, bytes]()
        try:
            with tarfile.open(path, "r|") as archive:
                for member in archive:
                    if not member.isfile():
                        continue
                    stem, _, ending = re.sub(r"^\./", "", member.name).partition(".")
                    if stem != key and parts:
                        yield _sample(f"{path}, sample {key!r}", key, parts)
                        parts = {}
                    key = stem
                    within(member.size, "member_bytes", f"{path}, member {member.name!r}")
                    file = archive.extractfile(member)
                    parts[ending] = file.read() if file is not None else b""
        except tarfile.TarError as error:
            raise ValueError(f"{path} is no whole tar file: {error}") from error
        if parts:
            yield _sample(f"{path}, sample {key!r}", key, parts)


def _check_end(path: Path) -> None:
    """A tar file that was cut between two members reads like a whole one, but for its end of two empty blocks."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - _END))
        if file.read() != bytes(_END):
            raise ValueError(f"{path} is no whole tar file: it does not end in two empty blocks")


def _sample(where: str, key: str, parts: dict[str, bytes]) -> PairRow:
    if "json" not in parts:
        raise ValueError(f"{where}: no member .json; there are {', '.join(sorted(parts))}")
    pictures = {ending.split(".")[0]: Picture(content=parts[ending]) for ending in reversed(parts) if ending != "json"}
    if not pictures.keys() & {"image_0", "image_1"}:
        raise ValueError(f"{where}: no member .image_0.png or .image_0.jpg; there are {', '.join(sorted(parts))}")
    if "image_0" not in pictures:
        pictures["image_0"] = pictures.pop("image_1")
    return row_from(object_of(parse_json(parts["json"], where), where), pictures, where, key)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
