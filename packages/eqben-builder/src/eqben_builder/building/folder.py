"""A build folder: images, `pairs.jsonl`, a journal while it grows, and a manifest when it is whole.

A pair is committed in two phases: its images are written under temporary names and renamed, its rows are appended to
`pairs.jsonl`; then one line of `journal.jsonl` says which job this was and how long `pairs.jsonl` is now. What a killed
build left after its last whole journal line is cut off when it is continued, so that nothing is lost or doubled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from eqben_builder.formats.row import PairRow, Picture
from eqben_builder.writing import settle, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import FileIO

SCHEMA = "eqben-builder/1"
#: EqBen's five, the micro world, and "own" for pairs of a builder that is not of this package.
SUBSETS: tuple[str, ...] = ("ag", "gebc", "youcook2", "kubric", "sd", "micro", "own")
#: Of a row of `pairs.jsonl`, in their order: images as paths in the folder, source and certificate as objects.
FIELDS = ("id", "subset", "aspect", "image0", "image1", "caption0", "caption1", "source", "certificate", "licence")
#: Within a record's source: fields of the form that a pair came from, for which a record has no place.
FORM_FIELDS = "fields"
MANIFEST, PAIRS, JOURNAL = "manifest.json", "pairs.jsonl", "journal.jsonl"
#: Metadata that builds of 0.2.0 and before have beside them; they follow from a build, and no hash holds them.
DESCRIPTION = "croissant.json"


class Entry(NamedTuple):
    """One journal line: a job that is done.

    job: Its index.
    end: Length of `pairs.jsonl` after it, in bytes.
    files: Path -> (SHA-256, bytes) of each image and mask it wrote.
    hashes: Two perceptual hashes for each pair it kept.
    kept: Number of pairs kept, for each aspect.
    dropped: Number of pairs dropped, for each reason.
    """

    job: int
    end: int
    files: dict[str, tuple[str, int]]
    hashes: list[tuple[int, int]]
    kept: dict[str, int]
    dropped: dict[str, int]


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def final_hash(files: dict[str, str]) -> str:
    """One hash over all pairs and images: SHA-256 of the lines "hash  path", in the order of the paths."""
    return digest("".join(f"{files[path]}  {path}\n" for path in sorted(files)).encode("utf-8", "replace"))


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest, or None where there is none.

    Raises:
        ValueError: A manifest that is not JSON, or of another schema.

    Example:
        >>> read_manifest(Path("no-such-folder")) is None
        True
    """
    path = folder / MANIFEST
    if not path.exists():
        return None
    try:
        manifest = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        schema = manifest.get("schema") if isinstance(manifest, dict) else type(manifest).__name__
        raise ValueError(f"{path}: field 'schema' is {schema!r}, expected {SCHEMA!r}")
    return manifest


def checked_record(record: object, where: str = "record") -> dict[str, Any]:
    """A row of `pairs.jsonl`; a `ValueError` with the field that is missing, unknown or wrong."""
    if not isinstance(record, dict):
        raise ValueError(f"{where}: expected an object, found {type(record).__name__}")
    for name in FIELDS:
        if name not in record:
            raise ValueError(f"{where}: field {name!r} is missing")
    unknown = sorted(map(str, set(record) - set(FIELDS)))
    if unknown:
        raise ValueError(f"{where}: unknown field {unknown[0]!r}, expected {', '.join(FIELDS)}")
    for name in FIELDS:
        value = record[name]
        if name in ("source", "certificate"):
            if not isinstance(value, Mapping):
                raise ValueError(f"{where}: field {name!r} should be an object, found {value!r}")
        elif not isinstance(value, str) or not value.strip():
            raise ValueError(f"{where}: field {name!r} should be a text that is not empty, found {value!r}")
    if record["subset"] not in SUBSETS:
        raise ValueError(f"{where}: field 'subset' is {record['subset']!r}, expected one of {', '.join(SUBSETS)}")
    for name in ("image0", "image1"):
        path = PurePosixPath(record[name])
        if path.is_absolute() or ".." in path.parts or "\\" in str(path) or ":" in path.parts[0]:
            raise ValueError(f"{where}: field {name!r} leads out of the folder: {record[name]!r}")
    if record["image0"] == record["image1"]:
        raise ValueError(f"{where}: fields 'image0' and 'image1' are the same: {record['image0']!r}")
    first, second = (" ".join(record[name].split()).lower() for name in ("caption0", "caption1"))
    if first == second:
        raise ValueError(f"{where}: fields 'caption0' and 'caption1' say the same: {record['caption0']!r}")
    return record


def records_in(folder: str | os.PathLike[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of a build folder, each with "file, line N"; of a line that a build is still writing, nothing."""
    path = Path(folder) / PAIRS
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is no build folder: it holds no {PAIRS}")
    is_growing = (path.parent / JOURNAL).is_file()  # a file of one's own may end without a newline
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if is_growing and not line.endswith(b"\n"):
                break
            where = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{where}: {error}") from error
            yield where, checked_record(row, where)


def read_records(folder: str | os.PathLike[str]) -> Iterator[PairRow]:
    """Read the pairs of a build folder one by one, also while it still grows and images are missing.

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
    """The pair of a record, whose images come from (path, field)."""
    source, certificate = dict(record["source"]), dict(record["certificate"])
    fields, mask = source.pop(FORM_FIELDS, {}), certificate.pop("mask", None)
    extra = {"source": source, "certificate": certificate, "licence": record["licence"]}
    extra |= fields if isinstance(fields, dict) else {FORM_FIELDS: fields}
    images = [picture(record[name], name) for name in ("image0", "image1")]
    captions = (record["caption0"], record["caption1"])
    mask_image = None if mask is None else picture(mask, "mask")
    return PairRow(record["id"], record["subset"], record["aspect"], images[0], images[1], *captions, extra, mask_image)


def record_of(row: PairRow, image0: str, image1: str, mask: str | None = None) -> dict[str, Any]:
    """The record of a pair of one of EqBen's subsets, whose images lie there."""
    source = dict(row.source)
    fields = {key: value for key, value in row.extra.items() if key not in ("source", "certificate", "licence")}
    source |= {FORM_FIELDS: fields} if fields else {}
    certificate = dict(row.certificate) | ({} if mask is None else {"mask": mask})
    values = (row.id, row.subset, row.aspect or row.subset, image0, image1, *row.captions, source, certificate)
    record = dict(zip(FIELDS, (*values, str(row.extra.get("licence") or "unknown")), strict=True))
    return checked_record(record, f"pair {row.id!r}")


def places(name: str) -> tuple[str, str, str]:
    """Where a pair's two images and its mask lie; `name` is its id without the subset."""
    shelf = f"{int(name.split('-')[0]) // 1000:03d}"
    return f"images/{shelf}/{name}_0.png", f"images/{shelf}/{name}_1.png", f"masks/{shelf}/{name}.png"


class Ledger:
    """The growing half of a build folder: appends jobs, and finds on opening what an earlier process committed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: list[Entry] = []
        self._journal_end = 0
        self._pairs_end = 0
        for entry, end in _journal_lines(folder / JOURNAL):
            if not _intact(folder, entry):
                break
            self.entries.append(entry)
            self._journal_end, self._pairs_end = end, entry.end
        self._pairs = _opened(folder / PAIRS, self._pairs_end)
        self._journal = _opened(folder / JOURNAL, self._journal_end)

    def commit(
        self,
        job: int,
        records: list[dict[str, Any]],
        files: dict[str, bytes],
        hashes: list[tuple[int, int]],
        dropped: dict[str, int],
    ) -> Entry:
        """Write one job's images and rows, then its journal line; after an `OSError` all is as it was before."""
        counts: dict[str, int] = {}
        for record in records:
            counts[record["aspect"]] = counts.get(record["aspect"], 0) + 1
        try:
            for path, content in files.items():
                target = self.folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                partial = target.with_name(f"{target.name}.partial")
                partial.unlink(missing_ok=True)  # what a killed process left, or a link that leads elsewhere
                partial.write_bytes(content)
                partial.replace(target)
            rows = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records).encode()
            _append(self._pairs, rows)
            sums = {path: (digest(content), len(content)) for path, content in files.items()}
            entry = Entry(job, self._pairs_end + len(rows), sums, hashes, counts, dropped)
            line = f"{json.dumps(entry._asdict())}\n".encode()
            _append(self._journal, line)
        except OSError:
            self._roll_back(files)
            raise
        self._pairs_end = entry.end
        self._journal_end += len(line)
        self.entries.append(entry)
        return entry

    def _roll_back(self, files: dict[str, bytes]) -> None:
        for path in files:
            target = self.folder / path
            target.unlink(missing_ok=True)
            target.with_name(f"{target.name}.partial").unlink(missing_ok=True)
        self._pairs = _reopened(self._pairs, self.folder / PAIRS, self._pairs_end)
        self._journal = _reopened(self._journal, self.folder / JOURNAL, self._journal_end)

    def close(self) -> None:
        """Close both files, their content safely on the disk."""
        for file in (self._pairs, self._journal):
            if not file.closed:
                os.fsync(file.fileno())
                file.close()

    def finish(self, manifest: dict[str, Any]) -> None:
        """Remove what no pair refers to, write the manifest, and drop the journal."""
        self.close()
        named = {path for entry in self.entries for path in entry.files}
        for kind in ("images", "masks"):
            for path in sorted((self.folder / kind).rglob("*")):
                if path.is_file() and path.relative_to(self.folder).as_posix() not in named:
                    path.unlink()
        # Only what cannot be lost any more is called complete.
        settle(self.folder)
        write_atomically(self.folder / MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())
        (self.folder / JOURNAL).unlink(missing_ok=True)


def _append(file: FileIO, content: bytes) -> None:
    # Unbuffered: a write that a full disk cuts short must not be tried again when the file is closed.
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[file.write(remaining) or 0 :]


def _opened(path: Path, length: int) -> FileIO:
    if path.is_symlink():
        raise ValueError(f"{path} is a link: a build writes its own files alone")
    file = path.open("ab", buffering=0)
    file.truncate(length)
    return file


def _reopened(file: FileIO, path: Path, length: int) -> FileIO:
    file.close()
    return _opened(path, length)


def _journal_lines(path: Path) -> Iterator[tuple[Entry, int]]:
    """Whole journal lines, each with where it ends; the rest of a line that a killed process left is not one."""
    if not path.exists():
        return
    end = 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            row = json.loads(line if line.endswith(b"\n") else b"")
            files = {name: (str(value[0]), int(value[1])) for name, value in row["files"].items()}
            hashes = [(int(first), int(second)) for first, second in row["hashes"]]
            entry = Entry(int(row["job"]), int(row["end"]), files, hashes, dict(row["kept"]), dict(row["dropped"]))
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
            return
        if entry.end < 0:
            return
        end += len(line)
        yield entry, end


def _intact(folder: Path, entry: Entry) -> bool:
    """Whether the rows and images that a journal line speaks of are there and whole."""
    pairs = folder / PAIRS
    if not pairs.exists() or pairs.stat().st_size < entry.end:
        return False
    for name, (sha, size) in entry.files.items():
        path = folder / name
        try:
            if path.stat().st_size != size or file_digest(path) != sha:
                return False
        except OSError:
            return False
    return True
