"""Texts of other methods, keyed by class name: CuPL's sentences and visual descriptors."""

from __future__ import annotations

from pathlib import Path

from knowledge_prompts.sources.json_records import KnowledgeFileError, read_json
from knowledge_prompts.sources.knowledge import StoredKnowledge


def read_named_texts(path: str | Path) -> dict[str, list[str]]:
    """Read a JSON object of lists of texts by class name."""
    texts_of: dict[str, list[str]] = {}
    for name, texts in read_json(path, dict).items():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise KnowledgeFileError(f"{path}, class {name!r}: expected a list of texts, found {texts!r:.60}")
        texts_of[name] = [" ".join(text.split()) for text in texts if text.strip()]
    return texts_of


def cupl(path: str | Path, *, loose: bool = False, name: str = "cupl") -> StoredKnowledge:
    """CuPL's sentences, each of them a whole prompt.

    Args:
        path: JSON object of lists of sentences by class name.
        loose: Match names without regard to case, hyphens and underscores.
        name: Name of the source.

    Raises:
        KnowledgeFileError: Names file and class.

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


def visual_descriptors(path: str | Path, *, loose: bool = False, name: str = "visual-descriptors") -> StoredKnowledge:
    """Visual descriptors as whole prompts: ``hen, which has two legs``.

    Args:
        path: JSON object of lists of descriptors by class name.
        loose: Match names without regard to case, hyphens and underscores.
        name: Name of the source.

    Raises:
        KnowledgeFileError: Names file and class.

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
    sentences = {key: [descriptor_sentence(key, text) for text in items] for key, items in texts.items()}
    return StoredKnowledge(sentences, name=name, whole=True, loose=loose)


def descriptor_sentence(class_name: str, descriptor: str) -> str:
    """Join a class and one English descriptor by the words that its first word requires.

    Example:
        >>> descriptor_sentence("deer", "antlers"), descriptor_sentence("deer", "a brown coat")
        ('deer, which has antlers', 'deer, which is a brown coat')

    Source: `make_descriptor_sentence` of Menon and Vondrick's code (Visual classification via description from large
        language models, 2023), which looks at the first letters and writes "which is antlers": here whole words count.
    """
    first = descriptor.split(maxsplit=1)[0].lower() if descriptor.split() else ""
    if first in ("a", "an", "used"):
        verb = "is "
    elif first in ("has", "often", "typically", "may", "can"):
        verb = ""
    else:
        verb = "has "
    return f"{class_name}, which {verb}{descriptor}"
