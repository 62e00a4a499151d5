"""Texts of other methods, keyed by class name: CuPL's sentences and visual descriptors."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from knowledge_prompts.sources.json_records import complaint, object_records
from knowledge_prompts.sources.stored import StoredKnowledge


def read_named_texts(path: str | Path) -> dict[str, list[str]]:
    """Read a JSON object of lists of texts by class name.

    Raises:
        KnowledgeFileError: Names file, line and class. Also where a class comes twice.
        FileNotFoundError: There is no such file.

    Example:
        >>> import json, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "texts.json"
        >>> _ = path.write_text(json.dumps({"hen": ["has two legs"]}))
        >>> read_named_texts(path)
        {'hen': ['has two legs']}
    """
    texts_of: dict[str, list[str]] = {}
    for record in object_records(path):
        value = record.value
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise complaint(path, record.line, f"class {record.key!r}: expected a list of texts, found {value!r:.60}")
        texts_of[record.key] = [" ".join(text.split()) for text in value if text.strip()]
    return texts_of


def cupl(path: str | Path, *, loose: bool = False, name: str = "cupl") -> StoredKnowledge:
    """CuPL's sentences, each of them a whole prompt.

    Args:
        path: JSON object of lists of sentences by class name.
        loose: Match names without regard to case, hyphens and underscores.
        name: Name of the source.

    Raises:
        KnowledgeFileError: Names file, line and class.

    Numerics: Matched by name, never by position: files of one data set exist in different orders.

    Source: Pratt et al. 2023, "What does a platypus look like?": a class is the mean of its sentences' embeddings.

    Example:
        >>> import json, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "cupl.json"
        >>> _ = path.write_text(json.dumps({"hen": ["A hen has a red comb."]}))
        >>> cupl(path).items("hen")
        ('A hen has a red comb.',)
    """
    return StoredKnowledge(read_named_texts(path), name=name, whole=True, loose=loose)


def visual_descriptors(
    path: str | Path,
    *,
    form: Literal["prompt", "knowledge"] = "prompt",
    loose: bool = False,
    name: str = "visual-descriptors",
) -> StoredKnowledge:
    """Visual descriptors, as whole prompts (``hen, which has two legs``) or as knowledge behind a template.

    Args:
        path: JSON object of lists of descriptors by class name.
        form: ``prompt`` makes each descriptor a whole prompt; ``knowledge`` leaves it as it is, behind a template.
        loose: Match names without regard to case, hyphens and underscores.
        name: Name of the source.

    Raises:
        KnowledgeFileError: Names file, line and class.
        ValueError: Another form; the message shows it.

    Numerics: The published method averages the scores of a class's descriptors, this one their embeddings, then
        normalises: the ranking is the same up to the length of each class's mean.

    Source: Menon and Vondrick 2023, "Visual classification via description from large language models".

    Example:
        >>> import json, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "descriptors.json"
        >>> _ = path.write_text(json.dumps({"hen": ["has two legs"]}))
        >>> visual_descriptors(path).items("hen")
        ('hen, which has two legs',)
    """
    texts = read_named_texts(path)
    if form == "knowledge":
        return StoredKnowledge(texts, name=name, loose=loose)
    if form != "prompt":
        raise ValueError(f"form is {form!r}; expected 'prompt' or 'knowledge'")
    sentences = {key: [descriptor_sentence(key, text) for text in items] for key, items in texts.items()}
    return StoredKnowledge(sentences, name=name, whole=True, loose=loose)


def descriptor_sentence(class_name: str, descriptor: str) -> str:
    """A class and one descriptor, joined by the words that its beginning asks for."""
    first = descriptor.split(maxsplit=1)[0].lower() if descriptor.split() else ""
    if first in ("a", "an", "used"):
        verb = "is "
    elif first in ("has", "often", "typically", "may", "can"):
        verb = ""
    else:
        verb = "has "
    return f"{class_name}, which {verb}{descriptor}"
