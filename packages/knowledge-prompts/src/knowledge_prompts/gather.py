"""The sources that a user names by files and folders, and new files of knowledge from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowledge_prompts.coverage_table import Coverage, coverage
from knowledge_prompts.prompts.class_prompts import ClassPrompts
from knowledge_prompts.sources.elevater_files import ExternalRecord, write_external, write_gpt3
from knowledge_prompts.sources.generated import GeneratedKnowledge, sole_writer
from knowledge_prompts.sources.knowledge import KnowledgeSource, StoredKnowledge
from knowledge_prompts.sources.language_model import LanguageModel
from knowledge_prompts.sources.named import named_sources
from knowledge_prompts.sources.wordnet import WordNet, WordNetDefinition, WordNetPath
from wary_files.text import printable


def gather_sources(
    class_prompts: ClassPrompts,
    *,
    knowledge: str | Path | None = None,
    wordnet: WordNet | None = None,
    sources: Sequence[str] = (),
) -> list[KnowledgeSource]:
    """The sources behind some files and folders. A later one takes the place of an earlier one of its name.

    Args:
        class_prompts: The classes; its name finds the stored files.
        knowledge: Folder of ELEVATER's files (`stored_sources`).
        wordnet: Database for live definitions and paths.
        sources: Any of `source_names`, as ``NAME=PATH`` (`named_sources`), those of other packages included.

    Raises:
        FileNotFoundError: A file or folder is missing.
        KnowledgeFileError: A file is not in its format; names file, line and field.
        ValueError: A source that is not ``NAME=PATH`` of a known name; shows it.

    Example:
        >>> from knowledge_prompts import ClassPrompts
        >>> gather_sources(ClassPrompts("birds", ["a photo of a {}."], ["owl"]))
        []
    """
    gathered: list[KnowledgeSource] = []
    if knowledge is not None:
        gathered += named_sources(f"elevater={knowledge}", class_prompts)
    if wordnet is not None:
        gathered += [WordNetDefinition(wordnet), WordNetPath(wordnet)]
    for spec in sources:
        gathered += named_sources(spec, class_prompts)
    return list({source.name: source for source in gathered}.values())


@dataclass(frozen=True)
class BuiltKnowledge:
    """What `build_files` wrote.

    Args:
        files: The files.
        coverage: Items per class and source, as written.
        failed: Classes that the language model did not answer in full, and why.
        calls: Calls of the language model.
    """

    files: tuple[Path, ...]
    coverage: Coverage
    failed: dict[str, str]
    calls: int = 0

    def lines(self) -> list[str]:
        """The report for people."""
        lines = [f"wrote {path}" for path in self.files] + self.coverage.lines()
        if self.calls:
            lines.append(f"the language model was called {self.calls} times")
        lines += [f"not answered in full: {name}: {reason}" for name, reason in self.failed.items()]
        return [printable(line) for line in lines]


def build_files(
    class_prompts: ClassPrompts,
    folder: str | Path,
    *,
    wordnet: WordNet | None = None,
    wiktionary: KnowledgeSource | None = None,
    model: LanguageModel | None = None,
    cache: str | Path | None = None,
    items_per_class: int = 5,
    shots: int = 3,
    seed: int = 0,
    max_calls: int | None = None,
    retries: int = 2,
    wait: float = 1.0,
    at_once: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> BuiltKnowledge:
    """Make ELEVATER's files of knowledge for any classes.

    ``external/NAME_knowledge.tsv`` is written where WordNet or Wiktionary is given, ``gpt3/GPT3_NAME.tsv`` where a
    language model is. Its example pairs are the classes' Wiktionary definitions; where there are none, WordNet's.

    Args:
        class_prompts: The classes, and the name that the files get.
        folder: Folder for ``external`` and ``gpt3``.
        wordnet: Database for definitions and paths.
        wiktionary: Source of Wiktionary's definitions; the first item of a class is taken.
        model: What answers questions about the classes.
        cache: File of its answers; None for ``gpt3/answers.jsonl`` in the folder.
        items_per_class: Answers per class.
        shots: Example pairs per question.
        seed: Seed of the draw of examples.
        max_calls: The most calls of the model; None for no bound.
        retries: How often a question is repeated.
        wait: Seconds before the first repetition.
        at_once: Questions that are asked at the same time.
        progress: Called after each class that the model was asked about, as ``progress(phase, done, total)``.

    Raises:
        ValueError: No class, no source at all, or no definition to show the model; says which.
        BlockingIOError: Another process is writing into the folder; names it.

    Source: ELEVATER, section 3.1, for any data set in place of its own twenty.

    Example:
        >>> import tempfile
        >>> from knowledge_prompts import ClassPrompts
        >>> class Dictionary:
        ...     name, whole = "wiktionary", False
        ...     def items(self, class_name: str) -> list[str]:
        ...         return [f"{class_name} is a bird"]
        >>> classes = ClassPrompts("birds", ["a photo of a {}."], ["hen", "cock"])
        >>> built = build_files(classes, tempfile.mkdtemp(), wiktionary=Dictionary())
        >>> [file.name for file in built.files], built.coverage.covered
        (['birds_knowledge.tsv'], {'wiktionary': 2})
    """
    if not class_prompts.classes:
        raise ValueError(f"template set {class_prompts.name!r} has no classes; expected at least one class name")
    if wordnet is None and wiktionary is None and model is None:
        raise ValueError("no source was given; expected WordNet, Wiktionary or a language model")
    names = list(dict.fromkeys(class_prompts.classes))
    records = {name: _record(name, wordnet, wiktionary) for name in names}
    wiki = {name: record.wiktionary for name, record in records.items() if record.wiktionary}
    examples = wiki or {n: r.wordnet_definition for n, r in records.items() if r.wordnet_definition}
    if model is not None and not examples:
        raise ValueError("none of the classes has a definition to show the language model; give WordNet or Wiktionary")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with sole_writer(folder):
        files: list[Path] = []
        stored: list[StoredKnowledge] = []
        if wordnet is not None or wiktionary is not None:
            files.append(folder / "external" / f"{class_prompts.name}_knowledge.tsv")
            write_external(files[-1], [records[name] for name in class_prompts.classes])
            if wiktionary is not None:
                stored.append(StoredKnowledge({name: [text] for name, text in wiki.items()}, name="wiktionary"))
            if wordnet is not None:
                definitions = {name: [r.wordnet_definition] for name, r in records.items() if r.wordnet_definition}
                stored.append(StoredKnowledge(definitions, name="wordnet"))
        if model is None:
            return BuiltKnowledge(tuple(files), _coverage(class_prompts, stored), {})
        source = GeneratedKnowledge(
            model,
            examples,
            cache=folder / "gpt3" / "answers.jsonl" if cache is None else cache,
            items_per_class=items_per_class,
            shots=shots,
            seed=seed,
            max_calls=max_calls,
            retries=retries,
            wait=wait,
            at_once=at_once,
        )
        on_class = None if progress is None else functools.partial(progress, "language model")
        answers = source.items_of(names, progress=on_class)
        files.append(folder / "gpt3" / f"GPT3_{class_prompts.name}.tsv")
        write_gpt3(files[-1], answers)
        stored.append(StoredKnowledge(answers, name="gpt3"))
        return BuiltKnowledge(tuple(files), _coverage(class_prompts, stored), dict(source.failed), source.calls)


def _record(name: str, wordnet: WordNet | None, wiktionary: KnowledgeSource | None) -> ExternalRecord:
    items = [] if wiktionary is None else list(wiktionary.items(name))
    return ExternalRecord(
        name,
        items[0] if items else None,
        () if wordnet is None else tuple(wordnet.path(name)),
        "" if wordnet is None else wordnet.definition(name),
    )


def _coverage(class_prompts: ClassPrompts, sources: Sequence[KnowledgeSource]) -> Coverage:
    return coverage(class_prompts.classes, sources, repeated=class_prompts.repeated)
