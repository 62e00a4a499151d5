"""Sources by name and path, as a command line gives them; other packages can add names.

A package adds a source by an entry point of the group ``knowledge_prompts.sources``: its name is what stands before the
``=``, its object a function of a path and the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from knowledge_prompts.prompts.class_prompts import ClassPrompts
from knowledge_prompts.sources.elevater_files import stored_sources
from knowledge_prompts.sources.glip_files import glip_sources
from knowledge_prompts.sources.knowledge import KnowledgeSource
from knowledge_prompts.sources.named_texts import cupl, visual_descriptors
from knowledge_prompts.sources.wiktextract import Wiktextract
from knowledge_prompts.sources.wordnet import WordNet, WordNetDefinition, WordNetPath

GROUP = "knowledge_prompts.sources"
Opener = Callable[[Path, ClassPrompts], Sequence[KnowledgeSource]]


def _wordnet(folder: Path, _: ClassPrompts) -> list[KnowledgeSource]:
    database = WordNet(folder)
    return [WordNetDefinition(database), WordNetPath(database)]


_BUILT_IN: dict[str, Opener] = {
    "cupl": lambda path, _: [cupl(path)],
    "elevater": lambda path, prompts: stored_sources(path, prompts.name),
    "glip": lambda path, _: glip_sources(path),
    "visual-descriptors": lambda path, _: [visual_descriptors(path)],
    "wiktionary": lambda path, prompts: [Wiktextract(path, prompts.classes)],
    "wordnet": _wordnet,
}


def source_names(*, plug_ins: bool = True) -> list[str]:
    """The names that `named_sources` knows.

    Args:
        plug_ins: those that other packages add, too.

    Returns:
        Names, sorted.

    Example:
        >>> [name for name in source_names() if name.startswith("w")]
        ['wiktionary', 'wordnet']
    """
    return sorted({*_BUILT_IN, *(entry_points(group=GROUP).names if plug_ins else ())})


def named_sources(spec: str, class_prompts: ClassPrompts) -> list[KnowledgeSource]:
    """The sources that one ``NAME=PATH`` stands for.

    Args:
        spec: Such as ``cupl=prompts.json`` or ``elevater=resources/knowledge``; the names are `source_names`.
        class_prompts: The classes, for sources that look up their names.

    Returns:
        One source or several, such as WordNet's definition and path.

    Raises:
        ValueError: No ``=``, an unknown name, or a name that two packages add; shows it, and the names there are.
        FileNotFoundError: The path does not exist.
        KnowledgeFileError: The file is not in the source's format.

    Example:
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> from knowledge_prompts import ClassPrompts
        >>> birds = ClassPrompts("birds", ["a photo of a {}."], ["owl"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "own.json"
        ...     _ = path.write_text(json.dumps({"owl": ["An owl at night."]}))
        ...     [source] = named_sources(f"cupl={path}", birds)
        >>> source.items("owl")
        ('An owl at night.',)
    """
    name, equals, path = spec.partition("=")
    if not equals or not path:
        raise ValueError(f"source {spec!r}: expected NAME=PATH, with a name of {', '.join(source_names())}")
    opener = _opener(name)
    if not Path(path).exists():
        raise FileNotFoundError(f"source {spec!r}: {path} does not exist")
    return list(opener(Path(path), class_prompts))


def _opener(name: str) -> Opener:
    added = list(entry_points(group=GROUP, name=name))
    if len(added) + (name in _BUILT_IN) > 1:
        owners = [entry.value for entry in added] + (["knowledge_prompts itself"] if name in _BUILT_IN else [])
        raise ValueError(f"source {name!r} is added by {' and by '.join(owners)}; uninstall all but one")
    if added:
        opener: Opener = added[0].load()
        return opener
    if name not in _BUILT_IN:
        raise ValueError(f"source {name!r} is unknown; expected one of {', '.join(source_names())}")
    return _BUILT_IN[name]
