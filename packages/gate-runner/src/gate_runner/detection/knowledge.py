"""Knowledge that a detector reads behind a class's name: the texts of `knowledge_prompts`' sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gate_data.boxes.files import UNNAMED
from gate_runner.errors import DataError, UsageError
from gate_runner.settings.values import knowledge_parts
from vision_features.encoders.detectors import Phrase, phrases

_SOURCES = {
    "wn_path": "wordnet-path",
    "wn_def": "wordnet-definition",
    "wiki_def": "wiktionary",
    "gpt3": "gpt3",
}
"""ELEVATER's names of knowledge, and those of our sources."""


class Known(NamedTuple):
    """Phrases with knowledge, and the classes that keep their plain name since no source knows them."""

    phrases: list[Phrase]
    unknown: tuple[str, ...]


def known_phrases(
    dataset: str,
    classes: Sequence[str],
    kind: str,
    spec: str,
    captions: Mapping[str, Mapping[str, str]] | None = None,
) -> Known:
    """Return class names with their knowledge: ``name, text``, once for each text.

    A class is looked up by its own name, by the name that is read, and by the name of its caption. ``kind`` is a value
    of the setting ``prompts``, such as ``wiki_def&gpt3:5``; ``spec`` is ``NAME=PATH`` of `knowledge_prompts`.

    Raises:
        UsageError: a source that is unknown, or has no knowledge of this kind.
        DataError: a file that is not in its form, or knows no class.

    Source:
        GLIP's knowledge-augmented inference; figure 8 of ELEVATER has the kinds.
    """
    from knowledge_prompts import ClassPrompts, KnowledgeFileError, named_sources

    named = {name: {"name": caption["name"]} for name, caption in (captions or {}).items() if "name" in caption}
    plain, renamed = phrases(classes), phrases(classes, named)
    words = dict.fromkeys(
        text for name, *variants in zip(classes, plain, renamed, strict=True) if name != UNNAMED
        for text in (name, *(variant.name for variant in variants))
    )  # fmt: skip
    try:
        sources = {source.name: source for source in named_sources(spec, ClassPrompts(dataset, ["{}"], list(words)))}
    except KnowledgeFileError as error:
        raise DataError(f"setting knowledge_from {spec}: {error}") from error
    except (ValueError, OSError, ImportError) as error:
        raise UsageError(f"setting knowledge_from {spec}: {error}") from error
    parts = knowledge_parts(kind)
    for part, _ in parts:
        if _SOURCES[part] not in sources:
            raise UsageError(f"setting prompts={kind} reads {_SOURCES[part]}; {spec} has {', '.join(sources)}")
    listed, unknown = [], []
    for name, written, other_name in zip(classes, plain, renamed, strict=True):
        tried = [] if name == UNNAMED else [(name, written), (written.name, written), (other_name.name, other_name)]
        phrase, texts = written, []
        for key, read in tried:
            texts = [text for part, most in parts for text in sources[_SOURCES[part]].items(key)[:most]]
            if texts:
                phrase = read
                break
        suffixes = [f", {text.strip()}" for text in texts]
        if not suffixes and name != UNNAMED:
            unknown.append(name)
        listed.append(phrase._replace(suffix=suffixes[0], more=tuple(suffixes[1:])) if suffixes else phrase)
    if not any(phrase.suffix for phrase in listed):
        raise DataError(f"setting knowledge_from {spec}: {kind} knows none of {len(classes)} classes: {classes[0]!r} …")
    return Known(listed, tuple(unknown))
