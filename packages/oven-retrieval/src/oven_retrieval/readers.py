"""Entity files, read one line at a time: Wiki6M jsonl, plain JSONL, CSV, lines of names, WordNet, Wikidata's dump."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from oven_retrieval.entity import Entity, EntityFileError, tagged
from oven_retrieval.text_files import Reading, csv_objects, json_objects, numbered_lines, open_text
from oven_retrieval.wikidata import WikidataDump
from oven_retrieval.wordnet import read_wordnet_nouns
from wary_files.text import comma_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

WIKI6M_FIELDS = {
    "id": "wikidata_id",
    "name": "wikipedia_title",
    "description": "wikipedia_summary",
    "image": "wikipedia_image_url",
    "content": "wikipedia_content",
}
_OWN_FIELDS = ("id", "name", "aliases", "description", "category", "image", "popularity", "language", "content")
ALIAS_SEPARATOR = "|"

Row = tuple[int, Entity, str]
"""Line number (from 1), the entity, and the start of the page's text where the file has it (for filters)."""


def _text(record: Mapping[str, Any], field: str) -> str:
    value = record.get(field)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{field}: expected a text, got {value!r:.80}")


def _languages_of(value: Any, name: str, language: str, field: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Aliases that are given as one list, or as an object with a list by language; see `tagged`."""
    if not isinstance(value, dict):
        return language, _aliases(value, field), ()
    pairs = [(text, tag.lower()) for tag, listed in value.items() for text in _aliases(listed, f"{field}.{tag}")]
    return tagged(pairs, name, language)


def _aliases(value: Any, field: str) -> tuple[str, ...]:
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        value = value.split(ALIAS_SEPARATOR)
    if not isinstance(value, list) or not all(isinstance(alias, str) for alias in value):
        raise ValueError(f"{field}: expected a list of texts, got {value!r:.80}")
    return tuple(alias for alias in value if alias.strip())


def _popularity(value: Any, field: str) -> float:
    if value is None or value == "":
        return 0.0
    is_odd = isinstance(value, bool) or (isinstance(value, str) and ("_" in value or not value.isascii()))
    try:
        if not is_odd:  # 1_0 is a number in Python's own source
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{field}: expected a number, got {value!r:.80}{comma_hint(value)}")


def _entity(record: Mapping[str, Any], names: Mapping[str, str]) -> Entity:
    for required in ("id", "name"):
        if record.get(names[required]) is None:
            raise ValueError(f"{names[required]}: missing; the fields are {', '.join(map(repr, list(record)[:12]))}")
    try:
        name = _text(record, names["name"])
        language, aliases, alias_languages = _languages_of(
            record.get(names["aliases"]), name, _text(record, names["language"]).lower(), names["aliases"]
        )
        return Entity(
            id=_text(record, names["id"]),
            name=name,
            aliases=aliases,
            language=language,
            alias_languages=alias_languages,
            description=_text(record, names["description"]),
            category=_text(record, names["category"]),
            image=_text(record, names["image"]) or None,
            popularity=_popularity(record.get(names["popularity"]), names["popularity"]),
        )
    except ValueError as error:
        field, colon, problem = str(error).partition(":")
        raise ValueError(f"{names.get(field, field)}{colon}{problem}") from None


class FileRows:
    """The rows of an entity file, one at a time, and which share of the file they were."""

    def __init__(self, rows: Iterator[Row], reading: Reading) -> None:
        self._rows, self.share = rows, reading.share

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        return next(self._rows)


def entity_of(record: Mapping[str, Any]) -> Entity:
    """Make an entity of a dictionary with the fields of a JSON line, of which `id` and `name` are required."""
    return _entity(record, {field: field for field in _OWN_FIELDS})


def _rows(path: str | Path, records: Iterator[tuple[int, dict[str, Any]]], fields: Mapping[str, str]) -> Iterator[Row]:
    unknown = set(fields) - set(_OWN_FIELDS)
    if unknown:
        raise ValueError(f"fields: unknown {sorted(unknown)}, expected a subset of {list(_OWN_FIELDS)}")
    names = {field: fields.get(field, field) for field in _OWN_FIELDS}
    for number, record in records:
        try:
            content = record.get(names["content"])
            yield number, _entity(record, names), content[:400] if isinstance(content, str) else ""
        except ValueError as error:
            raise EntityFileError(path, number, str(error)) from None


def read_jsonl(path: str | Path, *, fields: Mapping[str, str] | None = None) -> Iterator[Row]:
    """Stream a JSON-lines file of entities."""
    reading = Reading(path)
    return FileRows(_rows(path, json_objects(path, reading), fields or {}), reading)


def read_wiki6m(path: str | Path) -> Iterator[Row]:
    """Stream OVEN's `Wiki6M_ver_1_0.jsonl` or its title-only form; only the id and the title are required."""
    reading = Reading(path)
    return FileRows(_rows(path, json_objects(path, reading), WIKI6M_FIELDS), reading)


def read_csv(path: str | Path, *, fields: Mapping[str, str] | None = None) -> Iterator[Row]:
    """Stream a CSV file with a header; aliases are one cell with `|` between them. Errors as in `read_jsonl`."""
    reading, names = Reading(path), fields or {}
    required = [names.get(field, field) for field in ("id", "name")]
    return FileRows(_rows(path, csv_objects(path, reading, required=required), names), reading)


def read_names(path: str | Path) -> Iterator[Row]:
    """Stream a text file with a name on each line; ids are the names' places, blank lines do not count."""
    reading = Reading(path)

    def rows() -> Iterator[Row]:
        place = 0
        for number, line in numbered_lines(path, reading):
            if line.strip():
                yield number, Entity(id=str(place), name=line.strip()), ""
                place += 1

    return FileRows(rows(), reading)


READERS: dict[str, Callable[[str | Path], Iterable[Row]]] = {
    "wiki6m": read_wiki6m,
    "jsonl": read_jsonl,
    "csv": read_csv,
    "names": read_names,
    "wordnet": read_wordnet_nouns,
    "wikidata": WikidataDump,
}


def guess_format(path: str | Path) -> str:
    """Name of the reader for a file: by its ending, then by the fields of its first line."""
    if Path(path).is_dir():
        return "wordnet"
    name = Path(path).name.removesuffix(".gz").removesuffix(".bz2")
    if name.endswith(".csv"):
        return "csv"
    if name.endswith(".txt"):
        return "names"
    if not name.endswith((".jsonl", ".json", ".ndjson")):
        raise ValueError(
            f"{path}: expected a name that ends in .jsonl, .csv or .txt (or .gz after it), or a format of "
            f"{', '.join(READERS)}"
        )
    with open_text(path) as file:
        if file.readline(10).removeprefix("\ufeff").strip() == "[":
            return "wikidata"
    for _, record in json_objects(path):
        return "wiki6m" if WIKI6M_FIELDS["name"] in record else "jsonl"
    return "jsonl"


def read_entities(
    path: str | Path, file_format: str | None = None, *, languages: Sequence[str] | None = None
) -> Iterable[Row]:
    r"""Stream an entity file of any of the known formats.

    Args:
        path: the file; for `wordnet` WordNet's folder.
        file_format: `wiki6m`, `jsonl`, `csv`, `names`, `wordnet` or `wikidata`; None finds out.
        languages: of `wikidata`, the most wanted first; English where None.

    Raises:
        ValueError: a format that does not exist, or languages where the format has none.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "kb.csv"
        >>> _ = path.write_text("id,name\nQ31,Belgium\n", encoding="utf-8")
        >>> [entity.name for _, entity, _ in read_entities(path)]
        ['Belgium']
    """
    chosen = guess_format(path) if file_format is None else file_format
    if chosen not in READERS:
        raise ValueError(f"format: expected one of {list(READERS)}, got {file_format!r}")
    if languages is not None:
        if chosen != "wikidata":
            raise ValueError(f"languages: only a wikidata dump has them, {path} is {chosen}")
        return WikidataDump(path, languages)
    return READERS[chosen](path)
