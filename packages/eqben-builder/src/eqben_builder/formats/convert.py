"""Read pairs from whatever holds them, and write them as whatever somebody needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from eqben_builder.building.folder import PAIRS, file_digest, read_manifest, records_in, row_of
from eqben_builder.formats.eqben import FORMS, read_eqben, read_valse, read_winoground, write_eqben
from eqben_builder.formats.folder import write_folder
from eqben_builder.formats.parquet import read_parquet, write_parquet
from eqben_builder.formats.row import PairRow, Picture, picture_at
from eqben_builder.untrusted import parse_json
from eqben_builder.writing import new_folder
from wary_files.json_files import read_json

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

#: What `write_as` writes.
WRITERS: dict[str, Callable[[Iterable[PairRow], Path], Any]] = {
    "parquet": write_parquet,
    **{f"eqben-{form}": partial(write_eqben, form=form) for form in FORMS},
    "folder": write_folder,
}


class Source(NamedTuple):
    """What a path was found to hold: the name of its form, the files, and the JSON where it had to be parsed."""

    form: str
    paths: list[Path]
    content: Any = None


def detect(path: str | os.PathLike[str]) -> Source:
    """Which form a file or folder has: "folder", "parquet", "winoground", "eqben" or "valse"."""
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(f"{folder} does not exist")
    if folder.is_dir():
        if (folder / PAIRS).is_file():
            return Source("folder", [folder / PAIRS])
        for pattern in ("*.parquet", "data/*.parquet"):
            if files := sorted(folder.glob(pattern)):
                return Source("parquet", files)
        if (folder / "examples.jsonl").is_file():
            return Source("winoground", [folder / "examples.jsonl"])
        if not (folder / "pairs.json").is_file():
            looked_for = f"{PAIRS}, *.parquet, data/*.parquet, examples.jsonl, pairs.json"
            raise ValueError(f"{folder} holds no pairs: looked for {looked_for}")
        folder /= "pairs.json"
    if folder.suffix == ".parquet":
        return Source("parquet", [folder])
    if folder.suffix == ".jsonl":
        with folder.open("rb") as file:
            first = next((line for line in file if line.strip()), b"")
        row = parse_json(first, f"{folder}, first line")
        names = set(row) if isinstance(row, dict) else set()
        for field, form in (("certificate", "folder"), ("image_0", "winoground")):
            if field in names:
                return Source(form, [folder])
        raise ValueError(f"{folder} is none of the known jsonl files: its first line holds {sorted(names)}")
    if folder.suffix == ".json":
        content = read_json(folder)
        rows = list(content.values()) if isinstance(content, dict) else []
        valse = bool(rows) and isinstance(rows[0], dict) and "foil" in rows[0]
        return Source("valse" if valse else "eqben", [folder], content)
    raise ValueError(f"{folder}: pairs are read from .json, .jsonl and .parquet files, and from folders")


def read_any(path: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None) -> Iterator[PairRow]:
    """Read pairs from any form that is known, one by one.

    A build's folder, parquet shards, EqBen's three JSON forms, Winoground's `examples.jsonl` or parquet file, VALSE's
    JSON files.

    Args:
        path: A file or a folder.
        images: The folder that image paths are relative to, where it is not the file's own.

    Yields:
        `PairRow`s in the order of the source. Images are decoded when they are asked for.

    Raises:
        ValueError: A form that is not known; the file, row and field that is wrong; an id that two pairs share.
        FileNotFoundError: Nothing at `path`, or an image that is not there, with its row.
        ImportError: An extra that is missing, by name.

    Example:
        >>> import tempfile
        >>> from eqben_builder.building import build
        >>> from eqben_builder.micro.builder import MicroBuilder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = build(MicroBuilder(size=32), f"{folder}/pairs", pairs=2)
        ...     _ = write_as(read_any(f"{folder}/pairs"), f"{folder}/flat", "eqben-flat")
        ...     rows = list(read_any(f"{folder}/flat"))
        ...     len(rows), rows[0].image0.load().shape
        (6, (32, 32, 3))
    """
    return _unlike(_rows(detect(path), images), str(path))


def _unlike(rows: Iterator[PairRow], where: str) -> Iterator[PairRow]:
    """The rows, until an id comes a second time: two builds in one folder, or shards read twice."""
    counts: dict[str, int] = {}
    for number, row in enumerate(rows):
        if counts.setdefault(row.id, number) != number:
            raise ValueError(f"{where}: pairs {counts[row.id]} and {number} share the id {row.id!r}")
        yield row


def _rows(source: Source, images: str | os.PathLike[str] | None) -> Iterator[PairRow]:
    (first, *_) = source.paths
    root = Path(images) if images is not None else first.parent
    if source.form == "parquet":
        return read_parquet(source.paths)
    if source.form == "folder":
        return _from_folder(first, root)
    if source.form == "winoground":
        return read_winoground(first, root)
    if source.form == "valse":
        return read_valse(first, root, source.content)
    return read_eqben(first, root, source.content)


def _from_folder(path: Path, root: Path) -> Iterator[PairRow]:
    """Pairs of a build, whose rows and images are those of its manifest once it is whole."""
    manifest = read_manifest(path.parent) or {}
    files = manifest.get("files") if manifest.get("complete") is True else None
    digests: dict[str, str] = files if isinstance(files, dict) else {}
    if PAIRS in digests and file_digest(path.parent / PAIRS) != digests[PAIRS]:
        raise ValueError(
            f"{path.parent / PAIRS} is not the file of the manifest, whose SHA-256 is {digests[PAIRS]:.16}…: "
            f"eqben verify {path.parent} names every difference"
        )
    for where, record in records_in(path.parent):

        def picture(name: Any, field: str, where: str = where) -> Picture:
            return replace(picture_at(root, name, where, field), sha256=digests.get(name))

        yield row_of(record, picture)


def write_as(rows: Iterable[PairRow], output: str | os.PathLike[str], form: str) -> Path:
    """Write pairs in a form of `WRITERS`; the folder appears when all of it is written.

    Args:
        rows: Taken one by one: a generator of any length will do.
        output: A folder that does not exist yet.
        form: "parquet", "folder", or one of EqBen's: "eqben-flat" (of its Kubric and SD), "eqben-ag", "eqben-video" (of
            GEBC and YouCook2), "eqben-all" (four rows a pair).

    Returns:
        The folder.

    Raises:
        ValueError: An unknown form; no pairs at all; what the form cannot hold.
        FileExistsError: The folder is there already.
        FolderBusyError: Another process writes it.

    Example:
        >>> import tempfile
        >>> from eqben_builder.building import build
        >>> from eqben_builder.micro.builder import MicroBuilder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = build(MicroBuilder(aspects=["count"], size=32), f"{folder}/pairs", pairs=2)
        ...     written = write_as(read_any(f"{folder}/pairs"), f"{folder}/flat", "eqben-flat")
        ...     sorted(path.name for path in written.iterdir())
        ['images', 'pairs.json']
    """
    if form not in WRITERS:
        raise ValueError(f"form {form!r} is not one of {', '.join(WRITERS)}")
    target = Path(output)
    count = 0

    def counted() -> Iterator[PairRow]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    with new_folder(target) as partial:
        WRITERS[form](counted(), partial)
        if not count:
            raise ValueError(f"there are no pairs to write to {target}")
    return target
