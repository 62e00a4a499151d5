"""ELEVATER's own files of knowledge, read and written: ``external/*_knowledge.tsv`` and ``gpt3/GPT3_*.tsv``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowledge_prompts.sources.json_records import Record, complaint, list_records, write_text
from knowledge_prompts.sources.stored import StoredKnowledge
from knowledge_prompts.sources.wordnet import check_max_nodes, join_path


@dataclass(frozen=True)
class ExternalRecord:
    """What ELEVATER stores about one class.

    Args:
        class_name: Name of the class.
        wiktionary: Wiktionary's definition, or None.
        wordnet_path: Words from the class up to WordNet's root, with underscores; empty where there is none.
        wordnet_definition: WordNet's definition; empty where there is none.

    Example:
        >>> ExternalRecord("hen", wordnet_definition="adult female chicken").wordnet_path
        ()
    """

    class_name: str
    wiktionary: str | None = None
    wordnet_path: tuple[str, ...] = ()
    wordnet_definition: str = ""


def read_external(path: str | Path) -> list[ExternalRecord]:
    """Read a file of external knowledge: a JSON list of objects, whatever its ending says.

    Args:
        path: File with ``classname``, ``def_wiki`` (text or null), ``path_wn`` (list, or "") and ``def_wn`` (text).

    Returns:
        The records in the file's order. ImageNet has two class names twice, and so has its file.

    Raises:
        KnowledgeFileError: Names file, line and field. Also where one class has two different entries.
        FileNotFoundError: There is no such file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "birds.tsv"
        >>> write_external(path, [ExternalRecord("hen", wordnet_definition="adult female chicken")])
        >>> read_external(path)[0].wordnet_definition
        'adult female chicken'
    """
    records: list[ExternalRecord] = []
    first: dict[str, tuple[int, ExternalRecord]] = {}
    for record in list_records(path):
        fields = _fields(path, record, ("classname", "def_wiki", "path_wn", "def_wn"))
        wiktionary, nodes, definition = fields["def_wiki"], fields["path_wn"], fields["def_wn"]
        if wiktionary is not None and not isinstance(wiktionary, str):
            raise complaint(path, record.line, f"field 'def_wiki' is {wiktionary!r}; expected a text or null")
        if nodes != "" and not _is_texts(nodes):
            raise complaint(path, record.line, f"field 'path_wn' is {nodes!r}; expected a list of texts, or \"\"")
        if not isinstance(definition, str):
            raise complaint(path, record.line, f"field 'def_wn' is {definition!r}; expected a text")
        entry = ExternalRecord(fields["classname"], wiktionary, tuple(nodes), definition)
        line, before = first.setdefault(entry.class_name, (record.line, entry))
        if before != entry:
            raise complaint(path, record.line, f"field 'classname': {entry.class_name!r} differs from line {line}'s")
        records.append(entry)
    return records


def write_external(path: str | Path, records: Sequence[ExternalRecord]) -> None:
    """Write records as `read_external` and ELEVATER's toolkit read them. The file appears whole or not at all.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "birds.tsv"
        >>> write_external(path, [ExternalRecord("hen", wiktionary="A female chicken.")])
        >>> path.read_text()[:20]
        '[{"classname": "hen"'
    """
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
    """Read generated knowledge: a JSON list of ``{"classname": …, "gpt3": [texts]}``.

    Raises:
        KnowledgeFileError: Names file, line and field. Also where a class comes twice.
        FileNotFoundError: There is no such file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "birds.tsv"
        >>> write_gpt3(path, {"hen": ["a bird that lays eggs"]})
        >>> read_gpt3(path)
        {'hen': ('a bird that lays eggs',)}
    """
    texts_of: dict[str, tuple[str, ...]] = {}
    for record in list_records(path):
        fields = _fields(path, record, ("classname", "gpt3"))
        name, items = fields["classname"], fields["gpt3"]
        if not _is_texts(items):
            raise complaint(path, record.line, f"field 'gpt3' is {items!r}; expected a list of texts")
        if name in texts_of:
            raise complaint(path, record.line, f"field 'classname': {name!r} comes twice")
        texts_of[name] = tuple(items)
    return texts_of


def write_gpt3(path: str | Path, items_by_class: Mapping[str, Sequence[str]]) -> None:
    """Write generated knowledge as `read_gpt3` and ELEVATER's toolkit read it. The file appears whole or not at all.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "birds.tsv"
        >>> write_gpt3(path, {"hen": ["a bird that lays eggs"]})
        >>> path.read_text()[:20]
        '[{"classname": "hen"'
    """
    rows = [{"classname": name, "gpt3": list(items)} for name, items in items_by_class.items()]
    write_text(path, json.dumps(rows))


def external_sources(
    records: Sequence[ExternalRecord], *, max_nodes: int | None = None, separator: str = ", ", underscores: bool = False
) -> list[StoredKnowledge]:
    """Three sources over stored records: ``wiktionary``, ``wordnet-definition`` and ``wordnet-path``.

    Args:
        records: What `read_external` gives.
        max_nodes: Keep so many nodes of a path at most; None for the whole path. The toolkit keeps 3.
        separator: Text between two nodes of a path. The toolkit has one space.
        underscores: Keep WordNet's underscores inside a node, as the toolkit does.

    Example:
        >>> tench = ExternalRecord("tench", "A freshwater fish.", ("tench", "bony_fish"), "a fish of Europe")
        >>> [(source.name, source.items("tench")[0]) for source in external_sources([tench])][2]
        ('wordnet-path', 'tench, bony fish')
    """
    check_max_nodes(max_nodes)
    wiki, definitions, paths = {}, {}, {}
    for record in records:
        wiki[record.class_name] = [record.wiktionary] if record.wiktionary else []
        definitions[record.class_name] = [record.wordnet_definition] if record.wordnet_definition else []
        text = join_path(record.wordnet_path, max_nodes=max_nodes, separator=separator, underscores=underscores)
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
    external = Path(folder) / "external" / f"{data_set}_knowledge.tsv"
    gpt3 = Path(folder) / "gpt3" / f"GPT3_{data_set}.tsv"
    sources: list[StoredKnowledge] = []
    if external.is_file():
        sources += external_sources(read_external(external))
    if gpt3.is_file():
        sources.append(StoredKnowledge(read_gpt3(gpt3), name="gpt3", max_items=gpt3_items))
    if not sources:
        raise FileNotFoundError(f"neither {external} nor {gpt3} exists")
    return sources


def _fields(path: str | Path, record: Record, needed: Sequence[str]) -> dict[str, Any]:
    value = record.value
    if not isinstance(value, dict):
        raise complaint(path, record.line, f"expected an object with {', '.join(needed)}; found {type(value).__name__}")
    for name in needed:
        if name not in value:
            raise complaint(path, record.line, f"field {name!r} is missing; expected {', '.join(needed)}")
    if not isinstance(value["classname"], str) or not value["classname"].strip():
        raise complaint(path, record.line, f"field 'classname' is {value['classname']!r}; expected a class name")
    return value


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
