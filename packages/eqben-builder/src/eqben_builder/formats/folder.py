"""Pairs from elsewhere, or those that a review kept, as a folder like a build's: records, images, manifest."""

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
)
from eqben_builder.formats.row import PairRow, encode_png
from eqben_builder.writing import write_atomically
from wary_files.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def write_folder(rows: Iterable[PairRow], folder: Path) -> Path:
    """Write pairs of one of EqBen's subsets as records, with PNG images and a manifest."""
    files: dict[str, str] = {}
    records: list[dict[str, Any]] = []
    for k, row in enumerate(rows):
        if row.image1 is None:
            raise ValueError(f"pair {row.id!r} has one image: a folder holds pairs of two")
        names = [f"images/{k // 1000:03d}/{k:06d}_{side}.png" for side in (0, 1)]
        mask = None if row.mask is None else f"masks/{k // 1000:03d}/{k:06d}.png"
        records.append(record_of(row, names[0], names[1], mask))
        for name, picture in zip(names, row.pictures(), strict=True):
            content, ending = picture.encoded()
            files[name] = _store(folder / name, content if ending == ".png" else encode_png(picture.load()))
        if row.mask is not None and mask is not None:
            files[mask] = _store(folder / mask, row.mask.encoded()[0])
    lines = "".join(f"{json_text(record)}\n" for record in records)
    write_atomically(folder / PAIRS, lines.encode())
    size = sum((folder / name).stat().st_size for name in files)
    files[PAIRS] = file_digest(folder / PAIRS)
    manifest = {
        "schema": SCHEMA,
        "subset": "+".join(sorted({record["subset"] for record in records})),
        "parameters": {},
        "versions": {},
        "licences": sorted({record["licence"] for record in records}),
        "complete": True,
        "pairs": len(records),
        "counts": dict(sorted(Counter(record["aspect"] for record in records).items())),
        "dropped": {},
        "bytes": size,
        "hash": final_hash(files),
        "files": dict(sorted(files.items())),
    }
    write_atomically(folder / MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())
    return folder / MANIFEST


def add_file(folder: Path, name: str, content: bytes, about: Mapping[str, Any]) -> None:
    """Put one more file into a whole folder of pairs, and into its manifest, with what else the manifest is to say."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise ValueError(f"{folder} holds no {MANIFEST}")
    files = {**manifest["files"], name: _store(folder / name, content)}
    manifest |= {**about, "hash": final_hash(files), "files": dict(sorted(files.items()))}
    write_atomically(folder / MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())


def _store(path: Path, content: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return digest(content)
