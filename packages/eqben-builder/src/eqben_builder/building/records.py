"""Pairs as the records of a build's folder, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqben_builder.building.folder import FIELDS, FORM_FIELDS, checked_record, records_in
from eqben_builder.formats.row import PairRow, Picture

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping


def read_records(folder: str | os.PathLike[str]) -> Iterator[PairRow]:
    """Read the pairs of a build folder one by one, also while it still grows and pictures are missing.

    Args:
        folder: What `build` wrote.

    Yields:
        Pairs in the order of their jobs.

    Raises:
        FileNotFoundError: The folder holds no `pairs.jsonl`.
        ValueError: The file, line and field that is wrong.

    Example:
        >>> import tempfile
        >>> from eqben_builder.building import build
        >>> from eqben_builder.micro.builder import MicroBuilder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = build(MicroBuilder(aspects=["count"], size=32), folder, pairs=2)
        ...     [(row.id, row.image0.path.name) for row in read_records(folder)]
        [('micro-000000', '000000_0.png'), ('micro-000001', '000001_0.png')]
    """
    for _, record in records_in(folder):
        yield row_of(record, lambda name, field: Picture(Path(folder) / str(name)))


def row_of(record: Mapping[str, Any], picture: Callable[[Any, str], Picture]) -> PairRow:
    """The pair of a record, whose pictures come from (path, field)."""
    source, certificate = dict(record["source"]), dict(record["certificate"])
    fields, mask = source.pop(FORM_FIELDS, {}), certificate.pop("mask", None)
    extra = {"source": source, "certificate": certificate, "licence": record["licence"]}
    extra |= fields if isinstance(fields, dict) else {FORM_FIELDS: fields}
    images = [picture(record[name], name) for name in ("image0", "image1")]
    captions = (record["caption0"], record["caption1"])
    mask_image = None if mask is None else picture(mask, "mask")
    return PairRow(record["id"], record["subset"], record["aspect"], images[0], images[1], *captions, extra, mask_image)


def record_of(row: PairRow, image0: str, image1: str, mask: str | None = None) -> dict[str, Any]:
    """The record of a pair of one of EqBen's subsets, whose pictures lie there."""
    source = dict(row.source)
    fields = {key: value for key, value in row.extra.items() if key not in ("source", "certificate", "licence")}
    source |= {FORM_FIELDS: fields} if fields else {}
    certificate = dict(row.certificate) | ({} if mask is None else {"mask": mask})
    values = (row.id, row.subset, row.aspect or row.subset, image0, image1, *row.captions, source, certificate)
    record = dict(zip(FIELDS, (*values, str(row.extra.get("licence") or "unknown")), strict=True))
    return checked_record(record, f"pair {row.id!r}")
