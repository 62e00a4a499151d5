"""Scores that somebody computed elsewhere: an npz or csv file, read in the order of the pairs or refused."""

from __future__ import annotations

import csv
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqben_builder.untrusted import opened_csv
from wary_files.limits import within
from wary_files.text import comma_hint

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtyping import Float64
    from numpy.typing import NDArray

COLUMNS = ("c0_i0", "c0_i1", "c1_i0", "c1_i1")
"""Names of the four similarities of a pair, the caption first; a foil row has only the first and the third."""

_SHOWN = 10


def read_scores(
    path: str | os.PathLike[str], ids: Sequence[str] | None = None, *, foils: bool = False
) -> Float64[np.ndarray, "n 2 *images"]:
    r"""Read the similarities of pairs, and refuse what is missing, doubled or not a number.

    npz: an array "scores" [n, 2, 2] (caption, image); "ids" may stand beside it. csv: the columns of `COLUMNS`, "id".

    Args:
        path: A file that ends in .npz or .csv.
        ids: The pairs' ids, in the order that the scores shall have. Where the file has ids, it may list them in any
            order; where it has none, it must hold as many rows, in this order.
        foils: Read only c0_i0 and c1_i0, for pairs of one image.

    Returns:
        float64 [n, 2, 2] with `scores[k, caption, image]`; [n, 2] for foils.

    Raises:
        ValueError: The file, and the rows or ids that are missing, doubled, unknown or not finite; its length.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "s.csv"
        ...     _ = path.write_text("id,c0_i0,c0_i1,c1_i0,c1_i1\nb,1,2,3,4\na,5,6,7,8\n")
        ...     read_scores(path, ["a", "b"])[0].tolist()
        [[5.0, 6.0], [7.0, 8.0]]
    """
    source = Path(path)
    if source.suffix.lower() == ".npz" and source.exists() and not source.is_file():
        raise ValueError(f"{source} is no npz file of plain arrays: it is a folder or a pipe")
    readers = {".npz": _npz, ".csv": _csv}
    if source.suffix.lower() not in readers:
        raise ValueError(f"{source}: scores are read from {', '.join(readers)}, not from {source.suffix or 'this'!r}")
    columns = ("c0_i0", "c1_i0") if foils else COLUMNS
    names, values = readers[source.suffix.lower()](source, columns)
    wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(wrong):
        raise ValueError(f"{source}: {len(wrong)} rows hold a score that is no finite number: rows {_some(wrong)}")
    if ids is not None or names is not None:  # ids of the file's own, too, may not come twice
        values = values[_order(source, names, names or [] if ids is None else list(ids), len(values))]
    if not len(values):
        raise ValueError(f"{source} holds no scores")
    return values if foils else values.reshape(-1, 2, 2)


def _order(source: Path, names: list[str] | None, ids: list[str], rows: int) -> list[int]:
    if names is None:
        if rows != len(ids):
            raise ValueError(f"{source}: {rows} rows of scores for {len(ids)} pairs, and no ids to match them by")
        return list(range(rows))
    at: dict[str, int] = {}
    doubled = [row for row, name in enumerate(names) if at.setdefault(name, row) != row]
    if doubled:
        raise ValueError(f"{source}: rows {_some(doubled)} repeat an id ({names[doubled[0]]!r} in row {doubled[0]})")
    missing = [name for name in ids if name not in at]
    if missing:
        pairs = _some([k for k, name in enumerate(ids) if name not in at])
        raise ValueError(f"{source}: no scores for {len(missing)} pairs, such as {missing[0]!r} (pairs {pairs})")
    unknown = sorted(set(at) - set(ids), key=at.__getitem__)
    if unknown:
        rows_ = _some([at[name] for name in unknown])
        raise ValueError(f"{source}: rows {rows_} name no pair of the source, such as {unknown[0]!r}")
    return [at[name] for name in ids]


def _npz(source: Path, columns: Sequence[str]) -> tuple[list[str] | None, NDArray[np.float64]]:
    try:
        with zipfile.ZipFile(source) as archive:
            for member in archive.infolist():
                within(member.file_size, "bytes", f"{source}, array {member.filename!r}")
        with np.load(source, allow_pickle=False) as arrays:
            held = {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise
    except Exception as error:  # NumPy parses headers as Python source, with that parser's errors
        raise ValueError(f"{source} is no npz file of plain arrays: {error}") from error
    ids = [str(name) for name in held["ids"].tolist()] if "ids" in held else None
    if "scores" not in held:
        raise ValueError(f"{source}: no array 'scores'; it holds {sorted(held)}")
    if held["scores"].dtype.kind not in "iuf":
        raise ValueError(f"{source}: array 'scores' holds {held['scores'].dtype}, expected numbers")
    scores = np.asarray(held["scores"], dtype=np.float64)
    if len(columns) == 4 and scores.ndim == 3 and scores.shape[1:] == (2, 2):
        scores = scores.reshape(len(scores), 4)
    if scores.ndim != 2 or scores.shape[1] != len(columns):
        shape = "(n, 2, 2)" if len(columns) == 4 else "(n, 2)"
        raise ValueError(f"{source}: array 'scores' has the shape {scores.shape}, expected {shape}")
    if ids is not None and len(ids) != len(scores):
        raise ValueError(f"{source}: {len(ids)} ids for {len(scores)} rows of scores")
    return ids, scores


def _csv(source: Path, columns: Sequence[str]) -> tuple[list[str] | None, NDArray[np.float64]]:
    with opened_csv(source) as file:
        reader = csv.DictReader(_strict(source, file))
        header = reader.fieldnames or []
        doubled = [name for name in dict.fromkeys(header) if header.count(name) > 1]
        if doubled:
            raise ValueError(f"{source}, line 1: column {doubled[0]!r} comes twice")
        absent = [name for name in columns if name not in header]
        if absent:
            raise ValueError(f"{source}, line 1: no column {', '.join(absent)}; there are {', '.join(header):.200}")
        ids, values = [], []
        for row in reader:
            where = f"{source}, line {reader.line_num}"
            values.append([_number(row[name], f"{where}: field {name!r}") for name in columns])
            if beyond := row.get(None):  # what a table's row has beyond its columns
                raise ValueError(f"{where}: {len(beyond)} fields more than columns")
            ids.append(str(row.get("id")))
    scores = np.array(values, dtype=np.float64).reshape(len(values), len(columns))
    return (ids if "id" in header else None), scores


def _strict(source: Path, file: Iterable[str]) -> Iterator[str]:
    """The lines of a table of numbers and ids, in which a row is a line: a quote holds no rows."""
    for number, line in enumerate(file, start=1):
        if line.count('"') % 2:
            raise ValueError(f"{source}, line {number}: a quote is opened and not closed")
        yield line


def _number(text: str | None, where: str) -> float:
    """A number as files mean it, in plain digits: not ``1_0``, or another script's."""
    try:
        if text is not None and re.fullmatch(r"\s*[+-]?[0-9.]+([eE][+-]?[0-9]+)?\s*|nan|[+-]?inf", text):
            return float(text)
    except ValueError:  # digits with two points
        pass
    shown = repr(text)
    shown = shown if len(shown) <= 80 else f"{shown[:80]}…"
    raise ValueError(f"{where} should be a number, found {shown}{comma_hint(text)}")


def _some(rows: Iterable[Any]) -> str:
    listed = [str(row) for row in rows]
    return ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
