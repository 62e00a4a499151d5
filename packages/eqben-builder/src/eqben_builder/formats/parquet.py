"""Parquet with Winoground's columns, which `datasets` loads with the pictures decoded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqben_builder.formats.row import PairRow, Picture, row_from, stored_pictures, texts_of
from eqben_builder.untrusted import within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TEXTS = ("id", "subset", "aspect", "caption_0", "caption_1", "extra")
_ROWS = 64
SHARD_BYTES = 400_000_000


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("parquet needs pyarrow: pip install 'eqben-builder[parquet]'") from error
    return pyarrow


def _schema(pa: Any) -> Any:
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = [("id", pa.string()), ("image_0", image), ("image_1", image), ("caption_0", pa.string())]
    columns += [("caption_1", pa.string()), ("subset", pa.string()), ("aspect", pa.string()), ("extra", pa.string())]
    columns += [("mask", image)]
    features: dict[str, Any] = {name: {"dtype": "string", "_type": "Value"} for name, _ in columns}
    features |= {name: {"_type": "Image"} for name in ("image_0", "image_1", "mask")}
    return pa.schema(columns, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def write_parquet(
    rows: Iterable[PairRow],
    folder: Path,
    split: str = "test",
    shard_bytes: int = SHARD_BYTES,
    *,
    validation: float = 0.0,
) -> list[Path]:
    """Write shards `SPLIT-00000-of-00003.parquet`, holding no more than some rows in memory.

    A hash decides which pairs go into a split "validation", over the video where the source names one and else over the
    id: pairs of one video stay together, and the same pair falls on the same side whatever else is written.
    """
    if not 0.0 <= validation < 1.0:
        raise ValueError(f"validation = {validation!r} lies outside [0, 1)")
    pa = _pyarrow()
    names = [split, "validation"] if validation else [split]
    splits = {name: _Shards(pa, folder, name, shard_bytes) for name in names}
    try:
        for row in rows:
            splits["validation" if validation and _place(row) < validation else split].add(row)
    finally:
        for shards in splits.values():
            shards.close()
    return [path for shards in splits.values() for path in shards.named()]


def _place(row: PairRow) -> float:
    """Where a pair falls in [0, 1)."""
    source = row.extra.get("source")
    video = source.get("video") if isinstance(source, Mapping) else None
    digest = hashlib.sha256(f"{row.subset} {video or row.id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


class _Shards:
    """The growing shards of one split."""

    def __init__(self, pa: Any, folder: Path, split: str, shard_bytes: int) -> None:
        self.pa, self.folder, self.split, self.shard_bytes = pa, folder, split, shard_bytes
        self.schema = _schema(pa)
        self.partial: list[Path] = []
        self.writer: Any = None
        self.waiting: list[dict[str, Any]] = []
        self.held = 0

    def add(self, row: PairRow) -> None:
        """Append a row, and begin a new shard after one that is full."""
        if self.writer is None:
            self.partial.append(self.folder / f"{self.split}-{len(self.partial):05d}.partial")
            self.writer = self.pa.parquet.ParquetWriter(self.partial[-1], self.schema, compression="zstd")
            self.held = 0
        self.waiting.append(_columns(row))
        self.held += sum(len(self.waiting[-1][f"image_{side}"]["bytes"]) for side, _ in enumerate(row.pictures()))
        if self.held >= self.shard_bytes:
            self.close()
        elif len(self.waiting) == _ROWS:
            self._flush()

    def _flush(self) -> None:
        if self.waiting:
            self.writer.write_table(self.pa.Table.from_pylist(self.waiting, self.schema))
            self.waiting = []

    def close(self) -> None:
        """Close the shard that is open."""
        if self.writer is not None:
            try:
                self._flush()
            finally:
                self.writer.close()
                self.writer = None

    def named(self) -> list[Path]:
        """Give the shards their names, now that their number is known."""
        final = []
        for number, path in enumerate(self.partial):
            final.append(path.with_name(f"{self.split}-{number:05d}-of-{len(self.partial):05d}.parquet"))
            path.replace(final[-1])
        return final


def _columns(row: PairRow) -> dict[str, Any]:
    columns: dict[str, Any] = {"image_1": None, "mask": None}
    for kind, content, ending in stored_pictures(row):
        path = f"{row.id.replace('/', '_')}_{kind.removeprefix('image_')}{ending}"
        columns[kind] = {"bytes": content, "path": path}
    return columns | texts_of(row)


def read_parquet(paths: list[Path]) -> Iterator[PairRow]:
    """Read shards in the order of their names, some rows at a time."""
    pa = _pyarrow()
    number = 0
    for path in sorted(paths):
        try:
            file = pa.parquet.ParquetFile(path)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} is no parquet file: {error}") from error
        with file:
            names = set(file.schema_arrow.names)
            missing = [name for name in ("image_0", "image_1", "caption_0", "caption_1") if name not in names]
            if missing:
                raise ValueError(f"{path}: no column {', '.join(missing)}; there are {', '.join(sorted(names))}")
            for group in range(file.metadata.num_row_groups):
                within(file.metadata.row_group(group).total_byte_size, "member_bytes", f"{path}, row group {group}")
            at = 0
            for batch in file.iter_batches(batch_size=_ROWS):
                for row in batch.to_pylist():
                    yield _row(f"{path}, row {at}", row, number)
                    at, number = at + 1, number + 1


def _row(where: str, row: dict[str, Any], number: int) -> PairRow:
    pictures: dict[str, Picture | None] = {}
    for name in ("image_0", "image_1", "mask"):
        held = row.get(name)
        content = held.get("bytes") if isinstance(held, dict) else held
        if isinstance(content, bytes) and content:
            pictures[name] = Picture(content=content)
        elif name != "mask" and not (content is None and name == "image_1"):
            raise ValueError(f"{where}: field {name!r} holds no picture's bytes")
    fields = [key for key in row if key not in (*_TEXTS, "image_0", "image_1", "mask")]
    return row_from(row, pictures, where, str(number), fields)
