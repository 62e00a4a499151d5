"""ELEVATER's own files of knowledge, read and written: ``external/*_knowledge.tsv`` and ``gpt3/GPT3_*.tsv``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowledge_prompts.sources.json_records import KnowledgeFileError, read_json, write_text
from knowledge_prompts.sources.knowledge import StoredKnowledge
from knowledge_prompts.sources.wordnet import check_max_nodes, join_path


@dataclass(frozen=True)
class ExternalRecord:
    """What ELEVATER stores about one class.

    Args:
        class_name: Name of the class.
        wiktionary: Wiktionary's definition, or None.
        wordnet_path: Words from the class up to WordNet's root, with underscores; empty where there is none.
        wordnet_definition: WordNet's definition; empty where there is none.
    """

    class_name: str
    wiktionary: str | None = None
    wordnet_path: tuple[str, ...] = ()
    wordnet_definition: str = ""


def read_external(path: str | Path) -> list[ExternalRecord]:
    """Read a file of external knowledge: a JSON list of objects, whatever its ending says.

    A class may come twice with one text: ImageNet has two class names twice, and so has its file.
    """
    records: list[ExternalRecord] = []
    first: dict[str, ExternalRecord] = {}
    for where, entry in _entries(path, ("classname", "def_wiki", "path_wn", "def_wn")):
        wiktionary, nodes, definition = entry["def_wiki"], entry["path_wn"], entry["def_wn"]
        if wiktionary is not None and not isinstance(wiktionary, str):
            raise KnowledgeFileError(f"{where}: field 'def_wiki' is {wiktionary!r}; expected a text or null")
        if nodes != "" and not _is_texts(nodes):
            raise KnowledgeFileError(f"{where}: field 'path_wn' is {nodes!r}; expected a list of texts, or \"\"")
        if not isinstance(definition, str):
            raise KnowledgeFileError(f"{where}: field 'def_wn' is {definition!r}; expected a text")
        record = ExternalRecord(entry["classname"], wiktionary, tuple(nodes), definition)
        if first.setdefault(record.class_name, record) != record:
            raise KnowledgeFileError(f"{where}: field 'classname': {record.class_name!r} differs from an earlier entry")
        records.append(record)
    return records


def write_external(path: str | Path, records: Sequence[ExternalRecord]) -> None:
    """Write records as `read_external` and ELEVATER's toolkit read them. The file appears whole or not at all."""
    rows = [
        {
            "classname": record.class_name,
            "def_wiki": record.wiktionary,
            "path_wn": list(record.wordnet_path) or "",
            "def_wn": record.wordnet_definition,
        }
        for record in records
    ]
    write_text(path, json.dumps(rows))


def read_gpt3(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Read generated knowledge: a JSON list of ``{"classname": …, "gpt3": [texts]}``."""
    texts_of: dict[str, tuple[str, ...]] = {}
    for where, entry in _entries(path, ("classname", "gpt3")):
        name, items = entry["classname"], entry["gpt3"]
        if not _is_texts(items):
            raise KnowledgeFileError(f"{where}: field 'gpt3' is {items!r}; expected a list of texts")
        if name in texts_of:
            raise KnowledgeFileError(f"{where}: field 'classname': {name!r} comes twice")
        texts_of[name] = tuple(items)
    return texts_of


def write_gpt3(path: str | Path, items_by_class: Mapping[str, Sequence[str]]) -> None:
    """Write generated knowledge as `read_gpt3` and ELEVATER's toolkit read it. The file appears whole or not at all."""
    rows = [{"classname": name, "gpt3": list(items)} for name, items in items_by_class.items()]
    write_text(path, json.dumps(rows))


def external_sources(records: Sequence[ExternalRecord], *, max_nodes: int | None = None) -> list[StoredKnowledge]:
    """Three sources over stored records: ``wiktionary``, ``wordnet-definition`` and ``wordnet-path``."""
    check_max_nodes(max_nodes)
    wiki, definitions, paths = {}, {}, {}
    for record in records:
        wiki[record.class_name] = [record.wiktionary] if record.wiktionary else []
        definitions[record.class_name] = [record.wordnet_definition] if record.wordnet_definition else []
        text = join_path(record.wordnet_path, max_nodes)
        paths[record.class_name] = [text] if text else []
    return [
        StoredKnowledge(wiki, name="wiktionary"),
        StoredKnowledge(definitions, name="wordnet-definition"),
        StoredKnowledge(paths, name="wordnet-path"),
    ]


def stored_sources(folder: str | Path, data_set: str, *, gpt3_items: int | None = None) -> list[StoredKnowledge]:
    """All sources that a folder of ELEVATER's files has for a data set.

    Args:
        folder: Folder that holds ``external/`` and ``gpt3/``, as in ELEVATER's toolkit under ``resources/knowledge``.
        data_set: Name of the data set as its files have it, such as ``oxford-flower-102``.
        gpt3_items: Take so many of a class's generated texts at most; None for all five.

    Raises:
        FileNotFoundError: The folder has neither file; the message names both.
        KnowledgeFileError: A file is not in its format.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "gpt3").mkdir()
        >>> write_gpt3(folder / "gpt3" / "GPT3_birds.tsv", {"hen": ["a bird that lays eggs"]})
        >>> [source.name for source in stored_sources(folder, "birds")]
        ['gpt3']
    """
    external, gpt3 = _places(folder, data_set)
    sources: list[StoredKnowledge] = []
    if external.is_file():
        sources += external_sources(read_external(external))
    if gpt3.is_file():
        sources.append(StoredKnowledge(read_gpt3(gpt3), name="gpt3", max_items=gpt3_items))
    if not sources:
        raise FileNotFoundError(f"neither {external} nor {gpt3} exists")
    return sources


def stored_files(folder: str | Path, data_set: str) -> list[Path]:
    """Return the files that `stored_sources` reads of a data set, those that are there."""
    return [path for path in _places(folder, data_set) if path.is_file()]


def _places(folder: str | Path, data_set: str) -> tuple[Path, Path]:
    return Path(folder) / "external" / f"{data_set}_knowledge.tsv", Path(folder) / "gpt3" / f"GPT3_{data_set}.tsv"


def _entries(path: str | Path, needed: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of a file with the place that an error names; each has a class name and the needed fields."""
    for number, entry in enumerate(read_json(path, list), start=1):
        where = f"{path}, entry {number}"
        if not isinstance(entry, dict):
            raise KnowledgeFileError(
                f"{where}: expected an object with {', '.join(needed)}; found {type(entry).__name__}"
            )
        for name in needed:
            if name not in entry:
                raise KnowledgeFileError(f"{where}: field {name!r} is missing; expected {', '.join(needed)}")
        if not isinstance(entry["classname"], str) or not entry["classname"].strip():
            raise KnowledgeFileError(f"{where}: field 'classname' is {entry['classname']!r}; expected a class name")
        yield where, entry


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
