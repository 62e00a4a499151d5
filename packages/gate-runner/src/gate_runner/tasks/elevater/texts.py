"""Class texts with each kind of knowledge, every different text encoded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from gate_runner.errors import DataError
from gate_runner.settings.axes import CONTROLS
from gate_runner.tasks.elevater.shipped_texts import TEXTS
from gate_runner.tasks.features import Embedder
from knowledge_prompts.class_words import ClassWords

if TYPE_CHECKING:
    from knowledge_prompts import ClassPrompts, KnowledgeSource, PromptSet

_BOTH = ("wordnet-definition", "wordnet-path")
"""What ``wordnet`` is."""


@dataclass(frozen=True)
class ClassTexts:
    """Unit rows that stand for the classes, or why there are none, and the texts that they were made of.

    ``known`` counts the classes about which a source says something; ``unknown`` names the others, which are read by
    their plain prompts; it is empty if knowledge was not requested. ``texts`` counts the ``different`` texts.
    """

    weights: Float[Tensor, "k d"] | None
    known: int = 0
    texts: int = 0
    reason: str = ""
    prompts: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def class_texts(
    dataset: str,
    classes: Sequence[str],
    knowledge: str,
    embed: Embedder,
    folder: Path | None = None,
    words: ClassWords | None = None,
) -> ClassTexts:
    """Embeddings of a data set's classes, with one kind of knowledge or none."""
    from knowledge_prompts import build_prompts

    prompts = class_prompts(dataset, classes) if words is None else None
    if prompts is None:
        if knowledge != "none":
            return ClassTexts(None, reason=f"no knowledge is stored for the classes of {dataset}")
        own = (words or ClassWords()).built(classes)
        return _embedded(embed, own, words is not None and bool(words.knowledge))
    sources: list[KnowledgeSource] = []
    if knowledge != "none":
        stored = _real(dataset, prompts, folder)
        if isinstance(stored, str):
            return ClassTexts(None, reason=stored)
        control = knowledge in CONTROLS  # a class without knowledge keeps its plain prompts
        named = partial(_named, stored, prompts.classes)
        sources = _control(named, knowledge, prompts.classes) if control else named(knowledge)
    built = build_prompts(prompts, sources, classes=list(classes))
    return _embedded(embed, built, knowledge != "none")


def _embedded(embed: Embedder, built: PromptSet, knowledge: bool) -> ClassTexts:
    from knowledge_prompts import class_embeddings

    silent = tuple(built.without_knowledge) if built.sources else tuple(built.classes)
    unknown = silent if knowledge else ()
    embeddings = class_embeddings(embed, built)
    weights = torch.from_numpy(embeddings.weights).float()
    return ClassTexts(
        weights,
        len(built.classes) - len(unknown) if knowledge else 0,
        embeddings.encoded,
        prompts=tuple(" | ".join(built.texts(index)) for index in range(len(built.classes))),
        named=tuple(built.classes),
        different=tuple(built.unique_texts()),
        unknown=unknown,
    )


def class_prompts(dataset: str, classes: Sequence[str]) -> ClassPrompts | None:
    """Templates and names of a data set; None where none are shipped, so that the data's own names stand alone."""
    from knowledge_prompts import ClassPrompts, built_in_sets, load_class_prompts

    if dataset in TEXTS:
        own = TEXTS[dataset]
        prompts = ClassPrompts(dataset, list(own.templates), list(own.classes))
    elif dataset in built_in_sets():
        prompts = load_class_prompts(dataset)
    else:
        return None
    strange = [name for name in classes if name not in set(prompts.classes)]
    if len(classes) != len(prompts.classes) or strange:
        free = [name for name in prompts.classes if name not in set(classes)]
        shown = "; ".join(f"{theirs!r} / {ours!r}" for theirs, ours in zip(strange, free, strict=False))[:400]
        raise DataError(
            f"{dataset}: {len(classes)} class names in the data and {len(prompts.classes)} in the templates do not "
            f"match (data / templates): {shown or 'their numbers differ'}"
        )
    return prompts


def _named(stored: Mapping[str, KnowledgeSource], classes: Sequence[str], knowledge: str) -> list[KnowledgeSource]:
    """The sources that a value of ``--knowledge`` names, of those that know a class."""
    from knowledge_prompts import StoredKnowledge

    sources: list[KnowledgeSource] = []
    for part in knowledge.split("+"):
        name, _, count = part.partition("-")
        if name == "gpt3" and count and "gpt3" in stored:
            like = stored["gpt3"]
            first = {label: list(like.items(label))[: int(count)] for label in classes}
            sources.append(StoredKnowledge(first, name="gpt3", whole=like.whole))
        else:
            parts = _BOTH if part == "wordnet" and part not in stored else (part,)
            sources += [stored[each] for each in parts if each in stored]
    return sources


def _control(
    named: Callable[[str], list[KnowledgeSource]], control: str, classes: Sequence[str]
) -> list[KnowledgeSource]:
    """As many random words as the best real source has, or what it says of other classes; nothing where it is none."""
    from knowledge_prompts.sources.random_words import RandomWords, vocabulary_of

    like = next((known[0] for source in ("gpt3", "wiktionary", "wordnet") if (known := named(source))), None)
    if like is None:
        return []
    if control == "random-words":
        return [RandomWords(like=like, vocabulary=vocabulary_of(like, classes), seed=0)]
    return [_others(like, classes)]


def _others(like: KnowledgeSource, classes: Sequence[str]) -> KnowledgeSource:
    """What a source says of the class half the list away, among those that it knows."""
    from knowledge_prompts import StoredKnowledge

    described = [name for name in classes if like.items(name)]
    step = max(1, len(described) // 2)
    moved = {name: list(like.items(described[(at + step) % len(described)])) for at, name in enumerate(described)}
    return StoredKnowledge(moved, name="other-classes", whole=like.whole)


def _real(dataset: str, prompts: ClassPrompts, folder: Path | None) -> dict[str, KnowledgeSource] | str:
    """The real sources that know at least one class, or why none can be read."""
    from knowledge_prompts import StoredKnowledge, stored_sources

    if dataset in TEXTS:
        return {name: StoredKnowledge(items, name=name) for name, items in TEXTS[dataset].knowledge.items()}
    if folder is None:
        return "no folder of knowledge was given (--setting knowledge_folder=FOLDER)"
    stored = stored_sources(folder, dataset)
    return {source.name: source for source in stored if any(source.items(name) for name in prompts.classes)}
