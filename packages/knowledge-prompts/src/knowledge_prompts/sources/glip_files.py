"""GLIP's files of knowledge for detection: YAML, keyed by class name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from knowledge_prompts.sources.json_records import KnowledgeFileError, read_text
from knowledge_prompts.sources.knowledge import StoredKnowledge
from knowledge_prompts.sources.wordnet import join_path

_TEXTS = {"def_wiki": "wiktionary", "def_wn": "wordnet-definition", "path_wn": "wordnet-path", "gpt3": "gpt3"}
"""Fields, and the names of our sources."""


def glip_sources(path: str | Path) -> list[StoredKnowledge]:
    """Four sources over a file such as ``odinw_benchmark35_knowledge_and_gpt3.yaml``.

    Args:
        path: YAML with an entry for each class: ``def_wiki`` (text or null), ``def_wn`` (text), ``path_wn`` (list, or
            "") and ``gpt3`` (list of texts); a field that is missing is knowledge that there is not.

    Returns:
        ``wiktionary``, ``wordnet-definition``, ``wordnet-path`` and ``gpt3``.

    Raises:
        KnowledgeFileError: names file, class and field, or the line that is no YAML.
        FileNotFoundError: there is no such file.
        ImportError: PyYAML is not installed; names the extra.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "knowledge.yaml"
        >>> _ = path.write_text("hen: {def_wn: adult female chicken, path_wn: [hen, domestic_fowl]}")
        >>> [source.items("hen") for source in glip_sources(path)]
        [(), ('adult female chicken',), ('hen, domestic fowl',), ()]

    Source: the ``knowledge/`` folder of GLIP's repository, by which ELEVATER's detectors read knowledge.
    """
    try:
        import yaml
    except ImportError as error:
        raise ImportError("GLIP's files are YAML: pip install 'knowledge-prompts[yaml]'") from error
    text = read_text(path)
    try:
        content: Any = yaml.safe_load(text)  # the parser in C dies of deep nesting
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        raise KnowledgeFileError(f"{path}, line {line}: not YAML ({getattr(error, 'problem', None)})") from None
    except RecursionError:
        raise KnowledgeFileError(f"{path}: nested too deeply") from None
    if not isinstance(content, Mapping):
        raise KnowledgeFileError(f"{path}: expected one entry for each class, found {type(content).__name__}")
    by_source: dict[str, dict[str, list[str]]] = {name: {} for name in _TEXTS.values()}
    for key, entry in content.items():
        if not isinstance(entry, Mapping):
            raise KnowledgeFileError(f"{path}, class {key!r}: expected fields, found {entry!r}")
        for field, name in _TEXTS.items():
            by_source[name][str(key)] = _texts(path, key, field, entry.get(field))
    return [StoredKnowledge(items, name=name) for name, items in by_source.items()]


def _texts(path: str | Path, key: object, field: str, value: Any) -> list[str]:
    listed = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise KnowledgeFileError(f"{path}, class {key!r}, field {field!r}: expected texts, found {value!r}")
    texts = [join_path(listed)] if field == "path_wn" else [text.strip() for text in listed]
    return [text for text in texts if text]
