"""What a class's prompts look like with and without knowledge, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_prompts.prompts.class_prompts import ClassPrompts, load_class_prompts
from knowledge_prompts.prompts.prompt_set import Style, build_prompts
from knowledge_prompts.sources.knowledge import as_sources, check_least_one
from knowledge_prompts.sources.wordnet import WordNet, WordNetDefinition, WordNetPath
from knowledge_prompts.sources.wordnet_files import WordNetMissingError
from wary_files.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from knowledge_prompts.sources.knowledge import KnowledgeSource, Sources


def show_prompts(
    class_name: str,
    *,
    class_prompts: ClassPrompts | str = "generic",
    sources: Sources | None = None,
    wordnet_folder: str | Path | None = None,
    style: Style = "paper",
    max_prompts: int = 5,
) -> list[str]:
    r"""Lines that show the prompts of one class, first without knowledge, then per source.

    Args:
        class_name: Any name; it need not be among a data set's classes.
        class_prompts: Template set, or the name of a built-in one or the path of a file.
        sources: Knowledge sources, a single one, or texts by class name; None for WordNet's definition and path.
        wordnet_folder: Folder of WordNet's database, where ``sources`` is None; None to search the usual places.
        style: Form of a prompt with knowledge (`join_knowledge`).
        max_prompts: Show so many prompts per source; the rest is counted.

    Returns:
        Lines of text, control characters as escapes. Where WordNet is not installed and no folder was given, one of
        them says what to install.

    Raises:
        ValueError: An empty class name, ``max_prompts`` below 1, or an unknown template set; shows it.
        WordNetMissingError: The given folder lacks the files.

    Example:
        >>> from knowledge_prompts import StoredKnowledge
        >>> fish = StoredKnowledge({"tench": ["A freshwater fish."]}, name="own")
        >>> print("\n".join(show_prompts("tench", sources=[fish])))
        tench
          without knowledge (1)
            a photo of a tench.
          own (1)
            a photo of a tench ; A freshwater fish.
    """
    if not class_name.strip():
        raise ValueError("the class name is empty; expected a name such as 'sunflower'")
    check_least_one(max_prompts=max_prompts)
    chosen = load_class_prompts(class_prompts) if isinstance(class_prompts, str) else class_prompts
    missing = ""
    listed: list[KnowledgeSource] = [] if sources is None else as_sources(sources)
    if sources is None:
        try:
            wordnet = WordNet(wordnet_folder)
        except WordNetMissingError as error:
            if wordnet_folder is not None:
                raise
            missing = str(error)
        else:
            listed = [WordNetDefinition(wordnet), WordNetPath(wordnet)]
    lines = [class_name, *_section("without knowledge", list(chosen.plain(class_name)), max_prompts)]
    for source in listed:
        if source.items(class_name):
            prompts = build_prompts(chosen, [source], classes=[class_name], style=style)
            lines += _section(source.name, prompts.texts(0), max_prompts)
        else:
            lines.append(f"  {source.name} (0): knows nothing about {class_name!r}")
    if missing:
        lines.append(f"  with knowledge: {missing}")
    return [printable(line) for line in lines]


def _section(title: str, texts: Sequence[str], max_prompts: int) -> list[str]:
    lines = [f"  {title} ({len(texts)})", *(f"    {text}" for text in texts[:max_prompts])]
    if len(texts) > max_prompts:
        lines.append(f"    ... and {len(texts) - max_prompts} more")
    return lines
