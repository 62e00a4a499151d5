"""A suite's files under a data root, and the questions read from them: images that are missing are counted."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from eqben_builder.formats.row import Picture, text
from eqben_builder.untrusted import opened_zip
from wary_files.json_files import read_json
from wary_files.limits import most, variable, within
from wary_files.tables import held_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Roots of images that several suites share, beside the suite's own folder.
SHARED = ("", "coco", "visual_genome", "flickr30k", "swig")


#: captions: one image, the right caption first, then wrong ones. pairs: two images, the i-th caption is the i-th's.
#: paraphrases: one image, right captions, then one wrong one. images: one caption, the right image first.
#: statement: one image, one caption, true or false.
Shape = Literal["captions", "pairs", "paraphrases", "images", "statement"]


@dataclass(frozen=True)
class SuiteRow:
    """One question.

    Args:
        id: Unique in its suite.
        subset: As the authors name it: a file, a split, a tag.
        shape: What is asked.
        images: Decoded when they are asked for.
        captions: In the order of the shape.
        cluster: What questions share that are not independent, most often the image's name.
        group: What the subset is averaged over where its score is a macro average, such as a relation.
        sets: Name of a measure -> name of the set of questions that must all be right.
        label: Of a statement: whether it is true.

    Raises:
        ValueError: Numbers of images and captions that the shape does not have.

    Example:
        >>> from eqben_builder.formats import Picture
        >>> row = SuiteRow("0", "swap_obj", "captions", (Picture(content=b""),), ("a on b", "b on a"), "139.jpg")
        >>> row.subset
        'swap_obj'
    """

    id: str
    subset: str
    shape: Shape
    images: tuple[Picture, ...]
    captions: tuple[str, ...]
    cluster: str
    group: str = ""
    sets: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    label: bool | None = None

    def __post_init__(self) -> None:
        pictures, texts = len(self.images), len(self.captions)
        fits = {
            "captions": pictures == 1 and texts >= 2,
            "pairs": pictures == 2 and texts == 2,
            "paraphrases": pictures == 1 and texts >= 3,
            "images": pictures >= 2 and texts == 1,
            "statement": pictures == 1 and texts == 1 and self.label is not None,
        }[self.shape]
        if not fits:
            raise ValueError(f"question {self.id!r} of shape {self.shape!r} has {pictures} images, {texts} captions")


class Files:
    """Where one suite is read from, and what was found amiss.

    Images are decoded as the authors' code and whoever published scores decode them, by
    `Image.open(...).convert("RGB")`, which drops transparency and EXIF's orientation.
    """

    def __init__(self, root: Path, name: str) -> None:
        if not root.is_dir():
            raise FileNotFoundError(f"{root} is no folder")
        self.own = root / name if (root / name).is_dir() else root
        self.bases = list(dict.fromkeys([self.own, *(root / folder for folder in SHARED)]))
        self.missing: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.notes: list[str] = []
        self.sets: Counter[tuple[str, str]] = Counter()
        """Questions of each set, by measure and name, missing images or not."""
        self._at = ""  # the entry that is read, for errors about its images and captions

    def find(self, *names: str) -> Path:
        """The first of these annotation files that is there."""
        for name in map(_inner, names):
            if _is_there(self.own / name):
                return self.own / name
        raise FileNotFoundError(f"{self.own} holds none of {', '.join(names)}")

    def has(self, *names: str) -> bool:
        """Whether one of these files is there."""
        return any((self.own / name).is_file() for name in names)

    def json(self, *names: str, kind: type[list[Any]] | type[dict[str, Any]]) -> Iterator[tuple[str, Any, Any]]:
        """The entries of a JSON list or object, each with the place that errors name and its index or key."""
        path = self.find(*names)
        content = read_json(path)
        if not isinstance(content, kind):
            raise ValueError(f"{path}: expected a JSON {kind.__name__}, found a {type(content).__name__}")
        entries = content.items() if isinstance(content, dict) else enumerate(content)
        for key, entry in entries:
            self._at = f"{path}, row {key!r}: "
            yield self._at.removesuffix(": "), key, entry
        self._at = ""

    def tables(self, pattern: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
        """CSV files of this pattern, in the folder or in zip files of it, by name."""
        contents = {path.name: path.read_bytes() for path in sorted(self.own.rglob(pattern))}
        for path in sorted(self.own.rglob("*.zip")):
            with opened_zip(path) as archive:
                for member in archive.infolist():
                    inside = PurePosixPath(member.filename)
                    if inside.match(pattern) and inside.name not in contents and not inside.name.startswith("._"):
                        within(member.file_size, "bytes", f"{path}:{member.filename}")
                        contents[inside.name] = archive.read(member)
        for name, content in contents.items():
            rows = [row for _, row in csv_rows(content, name)]
            self._at = f"{name}: "
            yield name, rows
        self._at = ""

    def picture(self, *places: str, box: Sequence[float | str] | None = None) -> Picture | str:
        """The first of these that is there, or the first one's name; a box is left, top, width and height."""
        try:
            for name in places:
                _inner(name)
            pixels = None if box is None else _box(box, places[0])
        except ValueError as error:
            raise ValueError(f"{self._at}{error}") from None
        for base in self.bases:
            for name in places:
                if _is_there(base / name):
                    return Picture(base / name, box=pixels, plain=True)
        return places[0]

    def row(
        self,
        name: str,
        subset: str,
        shape: Shape,
        images: Sequence[Picture | str],
        captions: Sequence[str],
        cluster: str,
        *,
        group: str = "",
        sets: Mapping[str, str] | None = None,
        label: bool | None = None,
    ) -> Iterator[SuiteRow]:
        """The question, or none where an image of it is missing, which is counted."""
        if not isinstance(captions, list | tuple) or not all(isinstance(caption, str) for caption in captions):
            raise ValueError(f"{self._at}captions should be a list of texts, found {str(captions)[:60]}")
        self.sets.update((sets or {}).items())
        absent = [image for image in images if isinstance(image, str)]
        self.missing.update(absent)
        if absent:
            self.left_out[subset] += 1
            return
        pictures = tuple(
            image if image.plain else replace(image, plain=True) for image in images if isinstance(image, Picture)
        )
        try:
            row = SuiteRow(name, subset, shape, pictures, tuple(captions), cluster, group, dict(sets or {}), label)
        except ValueError as error:
            raise ValueError(f"{self._at}{error}") from None
        yield row


def csv_rows(content: bytes, where: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV file with a header, each with "file, line N"; a quote that swallows others is refused."""
    reader = csv.reader(io.StringIO(_decoded(content, where), newline=""), strict=True)
    names: list[str] | None = None
    while True:
        line = f"{where}, line {reader.line_num + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{line} is no row of a table: {error}; is a quote opened and not closed?") from error
        if not cells:
            continue
        if names is None:
            names = cells
            if doubled := [name for name, count in Counter(names).items() if count > 1]:
                raise ValueError(f"{line}: column {doubled[0]!r} comes twice")
            continue
        if len(cells) != len(names):
            raise ValueError(f"{line}: {len(cells)} fields, expected {len(names)}; is a quote opened and not closed?")
        if held := held_row(cells):
            raise ValueError(f"{line}: a quote opens in this row and holds another, {held[:60]!r}; close or double it")
        yield line, dict(zip(names, cells, strict=True))


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} is no table in UTF-8: {error}") from error


def _inner(path: str) -> str:
    """A place that a file names, where it does not lead out of the folder."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts:
        raise ValueError(f"the file {path!r} leads out of its folder")
    return path


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def field_of(row: Any, name: str, where: str) -> Any:
    """A field of a JSON object; a `ValueError` names the place, the field, and what there is."""
    if not isinstance(row, dict) or name not in row:
        names = ", ".join(map(str, row)) if isinstance(row, dict) else type(row).__name__
        raise ValueError(f"{where}: no field {name!r}; there are {names}")
    return row[name]


def text_of(row: Any, name: str, where: str) -> str:
    """A field that is a text."""
    return text(field_of(row, name, where), where, name)


def list_of(value: Any, where: str) -> list[Any]:
    """A field's value that is a list."""
    if not isinstance(value, list):
        raise ValueError(f"{where} should be a list, found {str(value)[:60]}")
    return value


def whole_number(value: Any, where: object) -> int:
    """An id as a number: a whole one, or its digits as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    raise ValueError(f"{where}: {str(value)[:60]!r} is no whole number")


def _box(box: Sequence[float | str], where: str) -> tuple[int, int, int, int]:
    """Left, top, width and height in whole pixels: the four edges are rounded, as Pillow rounds them."""
    try:
        x, y, width, height = (float(value) for value in box)
        finite = all(abs(value) < 1e9 for value in (x, y, width, height))
    except (TypeError, ValueError, OverflowError):
        finite = False
    if not finite:
        raise ValueError(f"the box {tuple(box)} of {where}: expected left, top, width and height in pixels")
    left, top, right, bottom = round(x), round(y), round(x + width), round(y + height)
    if right <= left or bottom <= top:
        raise ValueError(f"the box {tuple(box)} of {where} holds no pixel")
    return left, top, right - left, bottom - top


@dataclass(frozen=True)
class ColumnPicture(Picture):
    """An image in a table; of an arrow file only what is looked at is in memory."""

    table: Any = field(default=None, repr=False, compare=False)
    column: str = ""
    row: int = 0

    def read(self) -> bytes:
        """The bytes as they are stored."""
        held = self.table.column(self.column)[self.row].as_py()
        content = held.get("bytes") if isinstance(held, dict) else held
        if not isinstance(content, bytes) or not content:
            raise ValueError(f"{self.name}: column {self.column!r} holds no image's bytes in row {self.row}")
        return content


def column_picture(table: Any, column: str, row: int, path: Path) -> ColumnPicture:
    """The image of a row; a `ValueError` where there is no such column."""
    if column not in table.column_names:
        raise ValueError(f"{path}: no column {column!r}; there are {', '.join(table.column_names)}")
    return ColumnPicture(path, f"{column}, row {row}", table=table, column=column, row=row)


def tables_of(folder: Path, *patterns: str) -> Iterator[tuple[Path, Any]]:
    """The tables of a folder's files, by name, in the folder itself or in its `data`."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("parquet and arrow files need pyarrow: pip install 'eqben-builder[parquet]'") from error
    paths = [path for pattern in patterns for path in sorted(folder.rglob(pattern))]
    if not paths:
        raise FileNotFoundError(f"{folder} holds no {' or '.join(patterns)}")
    for path in paths:
        try:
            if path.suffix == ".parquet":
                table = _unpacked(pa, path)
            else:
                table = pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
                table.validate(full=True)  # Arrow believes offsets, and would read beside the file, or end the process
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())[:300]}") from error
        if doubled := [name for name, count in Counter(table.column_names).items() if count > 1]:
            raise ValueError(f"{path}: column {doubled[0]!r} comes twice")
        yield path, table


#: A table may take so many times its file's bytes, or what one member of an archive may.
_UNPACKED = 20


def _unpacked(pa: Any, path: Path) -> Any:
    """The table of a parquet file; one that unpacks to too much is refused while it is read."""
    from eqben_builder.formats.parquet import batches

    size, held, limit = 0, [], max(most("bytes"), _UNPACKED * path.stat().st_size)
    with pa.parquet.ParquetFile(path) as file:
        for batch in batches(file, path):
            size += batch.nbytes
            if size > limit:
                raise ValueError(f"{path} unpacks to more than {limit:,} bytes; {variable('bytes')} sets another limit")
            held.append(batch)
        return pa.Table.from_batches(held, file.schema_arrow)
