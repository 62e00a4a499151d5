"""Pairs from elsewhere, or those that a review kept, as a folder like a build's: records, pictures, manifest."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqben_builder.building.folder import (
    MANIFEST,
    PAIRS,
    SCHEMA,
    digest,
    file_digest,
    final_hash,
    read_manifest,
    record_of,
    records_in,
)
from eqben_builder.formats.row import PairRow, encode_png
from eqben_builder.writing import write_atomically

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def write_folder(rows: Iterable[PairRow], folder: Path) -> Path:
    """Write pairs of one of EqBen's subsets as records, with PNG pictures and a manifest."""
    files: dict[str, str] = {}
    records: list[dict[str, Any]] = []
    for k, row in enumerate(rows):
        if row.image1 is None:
            raise ValueError(f"pair {row.id!r} has one picture: a folder holds pairs of two")
        names = [f"images/{k // 1000:03d}/{k:06d}_{side}.png" for side in (0, 1)]
        mask = None if row.mask is None else f"masks/{k // 1000:03d}/{k:06d}.png"
        records.append(record_of(row, names[0], names[1], mask))
        for name, picture in zip(names, row.pictures(), strict=True):
            content, ending = picture.encoded()
            files[name] = _store(folder / name, content if ending == ".png" else encode_png(picture.load()))
        if row.mask is not None and mask is not None:
            files[mask] = _store(folder / mask, row.mask.encoded()[0])
    subsets = sorted({record["subset"] for record in records})
    return _finish(folder, records, files, {"subset": "+".join(subsets), "parameters": {}, "versions": {}})


def keep_pairs(source: Path, folder: Path, ids: Collection[str], review: dict[str, Any]) -> Path:
    """Copy a build's folder with some of its pairs only: the same files, and a manifest that says what was left out."""
    files: dict[str, str] = {}
    records = [record for _, record in records_in(source) if record["id"] in ids]
    for record in records:
        mask = record["certificate"].get("mask")
        for name in (record["image0"], record["image1"], *([mask] if isinstance(mask, str) else [])):
            path = (source / name).resolve()
            if not path.is_relative_to(source.resolve()):
                raise ValueError(f"pair {record['id']!r} names a file outside of {source}: {name!r}")
            files[name] = _store(folder / name, path.read_bytes())
    head = read_manifest(source) or {}
    inherited = {key: head[key] for key in ("subset", "duplicate_bits", "parameters", "versions") if key in head}
    return _finish(folder, records, files, inherited | {"review": {"of": head.get("hash"), **review}})


def add_file(folder: Path, name: str, content: bytes) -> None:
    """Put one more file into a whole folder of pairs, and into its manifest."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise ValueError(f"{folder} holds no {MANIFEST}")
    files = {**manifest["files"], name: _store(folder / name, content)}
    manifest |= {"hash": final_hash(files), "files": dict(sorted(files.items()))}
    write_atomically(folder / MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())


def _store(path: Path, content: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return digest(content)


def _finish(folder: Path, records: list[dict[str, Any]], files: dict[str, str], head: dict[str, Any]) -> Path:
    rows = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    write_atomically(folder / PAIRS, rows.encode())
    files[PAIRS] = file_digest(folder / PAIRS)
    manifest = {
        "schema": SCHEMA,
        **head,
        "licences": sorted({record["licence"] for record in records}),
        "complete": True,
        "pairs": len(records),
        "counts": dict(sorted(Counter(record["aspect"] for record in records).items())),
        "dropped": {},
        "bytes": sum((folder / name).stat().st_size for name in files if name != PAIRS),
        "hash": final_hash(files),
        "files": dict(sorted(files.items())),
    }
    write_atomically(folder / MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())
    return folder / MANIFEST
