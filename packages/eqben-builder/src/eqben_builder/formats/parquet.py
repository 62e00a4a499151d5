"""Parquet with Winoground's columns, which `datasets` loads with the images decoded."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqben_builder.formats.row import PairRow, Picture, text
from eqben_builder.untrusted import object_of, parse_json
from wary_files.limits import most, within
from wary_files.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PICTURES = ("image_0", "image_1", "mask")
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
    features |= {name: {"_type": "Image"} for name in _PICTURES}
    return pa.schema(columns, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def write_parquet(
    rows: Iterable[PairRow], folder: Path, split: str = "test", shard_bytes: int = SHARD_BYTES
) -> list[Path]:
    """Write shards `SPLIT-00000-of-00003.parquet`, holding no more than some rows in memory."""
    pa, partial, stream = _pyarrow(), list[Path](), iter(rows)
    schema = _schema(pa)
    while (first := next(stream, None)) is not None:
        partial.append(folder / f"{split}-{len(partial):05d}.partial")
        with pa.parquet.ParquetWriter(partial[-1], schema, compression="zstd") as writer:
            size, waiting = 0, list[dict[str, Any]]()
            for row in chain([first], stream):
                waiting.append(_columns(row))
                size += sum(len(waiting[-1][f"image_{side}"]["bytes"]) for side, _ in enumerate(row.pictures()))
                if len(waiting) == _ROWS or size >= shard_bytes:
                    writer.write_table(pa.Table.from_pylist(waiting, schema))
                    waiting = []
                if size >= shard_bytes:
                    break
            if waiting:
                writer.write_table(pa.Table.from_pylist(waiting, schema))
    final = [folder / f"{split}-{number:05d}-of-{len(partial):05d}.parquet" for number in range(len(partial))]
    for path, name in zip(partial, final, strict=True):
        path.replace(name)
    return final


def _columns(row: PairRow) -> dict[str, Any]:
    columns: dict[str, Any] = dict.fromkeys(_PICTURES)
    for kind, picture in zip(_PICTURES, (row.image0, row.image1, row.mask), strict=True):
        if picture is not None:
            content, ending = picture.encoded()
            path = f"{row.id.replace('/', '_')}_{kind.removeprefix('image_')}{ending}"
            columns[kind] = {"bytes": content, "path": path}
    extra = json_text(dict(row.extra), default=str)
    texts = (row.id, row.subset, row.aspect, row.caption0, row.caption1, extra)
    for name, value in zip(_TEXTS, texts, strict=True):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ValueError(f"pair {row.id!r}: {name} holds half a letter, which parquet has not: {value!r:.80}")
    return columns | dict(zip(_TEXTS, texts, strict=True))


def read_parquet(paths: list[Path]) -> Iterator[PairRow]:
    """Read shards in the order of their names, some rows at a time."""
    pa = _pyarrow()
    number = 0
    for path in sorted(paths):
        try:
            file = pa.parquet.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, FileNotFoundError | PermissionError):
                raise
            raise ValueError(f"{path} is no parquet file: {' '.join(str(error).split())}") from error
        with file:
            names = set(file.schema_arrow.names)
            missing = [name for name in ("image_0", "image_1", "caption_0", "caption_1") if name not in names]
            if missing:
                raise ValueError(f"{path}: no column {', '.join(missing)}; there are {', '.join(sorted(names))}")
            at = 0
            for row in listed(batches(file, path), path):
                yield _row(f"{path}, row {at}", row, str(number))
                at, number = at + 1, number + 1


def batches(file: Any, path: Path) -> Iterator[Any]:
    """Record batches of an open file, of so few rows that none is beyond the limit, though all hold its longest value.

    A file may store a long text once and name it in each row.
    """
    sizes = [file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups)]
    for group, size in enumerate(sizes):
        within(size, "bytes", f"{path}, row group {group}")
    for group, size in enumerate(sizes):
        rows = max(1, min(_ROWS, most("bytes") // max(1, size)))
        yield from file.iter_batches(batch_size=rows, row_groups=[group])


def listed(tables: Iterable[Any], path: Path) -> Iterator[dict[str, Any]]:
    """The rows of batches or tables; whatever Arrow cannot give, such as a date that Python has not, is one line."""
    try:
        for table in tables:
            yield from table.to_pylist()
    except (_pyarrow().ArrowException, OSError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())[:300]}") from error


def _row(where: str, row: dict[str, Any], name: str) -> PairRow:
    """The pair of a row; columns that are not ours, as Winoground's own files have, become fields of `extra`."""
    pictures: dict[str, Picture] = {}
    for kind in _PICTURES:
        held = row.get(kind)
        content = held.get("bytes") if isinstance(held, dict) else held
        if isinstance(content, bytes) and content:
            pictures[kind] = Picture(content=content, origin=f"{where}, {kind}")
        elif kind != "mask" and not (content is None and kind == "image_1"):
            raise ValueError(f"{where}: field {kind!r} holds no image's bytes")
    captions = [text(row.get(field), where, field) for field in ("caption_0", "caption_1")]
    extra = {key: value for key, value in row.items() if key not in (*_TEXTS, *_PICTURES)}
    if isinstance(row.get("extra"), str) and row["extra"]:
        extra |= object_of(parse_json(row["extra"], f"{where}, field 'extra'"), f"{where}, field 'extra'")
    return PairRow(
        str(name if row.get("id") is None else row["id"]),
        _name(row, "subset") or ("winoground" if "collapsed_tag" in row else "pairs"),
        _name(row, "aspect") or _name(row, "collapsed_tag"),
        pictures["image_0"],
        pictures.get("image_1"),
        captions[0],
        captions[1],
        extra,
        pictures.get("mask"),
    )


def _name(row: dict[str, Any], field: str) -> str:
    """A field as a name; empty if there is none. The number 0 is a name."""
    value = row.get(field)
    return "" if value is None else str(value)
