"""What a detector reads about a class besides its name: a text of `knowledge_prompts`' sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gate_data.boxes.files import UNNAMED
from gate_runner.encoders.phrases import Phrase, phrases
from gate_runner.errors import DataError, UsageError

KINDS = {
    "path": "wordnet-path",
    "definition": "wordnet-definition",
    "wiktionary": "wiktionary",
    "gpt3": "gpt3",
}
"""Values of ``--prompts``, and the sources that they read."""


def known_phrases(
    dataset: str,
    classes: Sequence[str],
    kind: str,
    spec: str,
    captions: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[list[Phrase], int]:
    """Class names, each with the first text that a source has of it: ``name: text``.

    Source:
        GLIP's knowledge-augmented inference, which reads ``name: text``.
    """
    from knowledge_prompts import ClassPrompts, KnowledgeFileError, named_sources

    named = {name: {"name": caption["name"]} for name, caption in (captions or {}).items() if "name" in caption}
    plain, renamed = phrases(classes), phrases(classes, named)
    spoken = dict.fromkeys(
        text for name, *variants in zip(classes, plain, renamed, strict=True) if name != UNNAMED
        for text in (name, *(variant.name for variant in variants))
    )  # fmt: skip
    try:
        sources = {source.name: source for source in named_sources(spec, ClassPrompts(dataset, ["{}"], list(spoken)))}
    except KnowledgeFileError as error:
        raise DataError(f"--knowledge-from {spec}: {error}") from error
    except (ValueError, OSError, ImportError) as error:
        raise UsageError(f"--knowledge-from {spec}: {error}") from error
    if KINDS[kind] not in sources:
        raise UsageError(f"--prompts {kind} reads {KINDS[kind]}; {spec} has {', '.join(sources)}")
    source, phrases_read, count = sources[KINDS[kind]], [], 0
    for name, written, other_name in zip(classes, plain, renamed, strict=True):
        tried = [] if name == UNNAMED else [(name, written), (written.name, written), (other_name.name, other_name)]
        phrase, texts = next(((read, items) for key, read in tried if (items := source.items(key))), (written, ()))
        count += bool(texts)
        phrases_read.append(phrase._replace(suffix=f": {texts[0].strip()}") if texts else phrase)
    if not count:
        raise DataError(
            f"--knowledge-from {spec}: {KINDS[kind]} knows none of {len(classes)} classes: {classes[0]!r} …"
        )
    return phrases_read, count
