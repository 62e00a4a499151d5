"""Knowledge from WordNet: the definition of a class, and its path up to the root."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from knowledge_prompts.sources.wordnet_files import PARTS_OF_SPEECH, Synset, WordNetFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_Result = TypeVar("_Result")

# WordNet's rules of detachment (its manual page morphy(7WN)): ending, and what replaces it.
_ENDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "n": (
        ("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
        ("men", "man"), ("ies", "y"),
    ),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}  # fmt: skip


class WordNet:
    """Look-ups of class names in WordNet's database.

    Args:
        folder: Folder with the database files; None to search the usual places.
        compatible: Do exactly what made ELEVATER's stored values: class names with a space are not found, a path takes
            a detour by the first word of the first synset, names have only the relation "is a kind of", and a
            definition keeps what is left when its quotations are cut out. Without it: spaces match underscores, the
            path starts at the class's own first synset, "is one of" counts too (a country is a kind of region), and a
            definition ends where its examples start.

    Raises:
        WordNetMissingError: The files were not found; the message says which package brings them.

    Numerics: Look-ups are remembered, 4,096 per kind.

    Source: ELEVATER, section 3.1 (def_path, def_wn); the compatible rule was found by comparing with its 994 stored
        definitions and paths, all of which it reproduces (``benchmarks/stored_values.py``).

    Example:
        >>> WordNet().definition("hen")  # doctest: +SKIP
        'adult female chicken'
    """

    def __init__(self, folder: str | Path | None = None, *, compatible: bool = False) -> None:
        self.files = WordNetFiles(folder)
        self.compatible = compatible
        self._first = _remember(self._find_first)
        self._read = _remember(self._read_synset)

    def first_synset(self, name: str) -> Synset | None:
        """The most frequent meaning of a name: nouns before verbs, adjectives and adverbs; None where there is none."""
        return self._first(name.lower() if self.compatible else re.sub(r"\s+", "_", name.strip().lower()))

    def definition(self, name: str) -> str:
        """Definition of a name; empty where WordNet lacks it."""
        synset = self.first_synset(name)
        if synset is None:
            return ""
        if self.compatible:
            return re.sub(r'".*?"', "", synset.gloss).strip().strip("; ")
        return re.split(r'[;:,]?\s*"', synset.gloss, maxsplit=1)[0].strip("; ")

    def path(self, name: str) -> list[str]:
        """Words from a name up to the root, one per synset, as WordNet writes them; empty where WordNet lacks it."""
        synset = self.first_synset(name)
        if synset is not None and self.compatible:
            synset = self.first_synset(synset.words[0])
        nodes: list[str] = []
        visited: set[tuple[str, int]] = set()
        while synset is not None and (synset.part_of_speech, synset.offset) not in visited:
            visited.add((synset.part_of_speech, synset.offset))
            nodes.append(synset.words[0])
            synset = self._hypernym(synset)
        return nodes

    def _hypernym(self, synset: Synset) -> Synset | None:
        kinds = ("@",) if self.compatible else ("@", "@i")
        above = [self._read((pos, offset)) for symbol, pos, offset in synset.pointers if symbol in kinds]
        return min(above, key=self._sort_key, default=None)

    def _sort_key(self, synset: Synset) -> str:
        word = synset.words[0].lower()
        senses = self.files.offsets(word, synset.part_of_speech)
        number = senses.index(synset.offset) + 1 if synset.offset in senses else 0
        return f"{word}.{synset.part_of_speech}.{number:02d}"

    def _find_first(self, name: str) -> Synset | None:
        for part_of_speech in PARTS_OF_SPEECH:
            for form in self._forms(name, part_of_speech):
                offsets = self.files.offsets(form, part_of_speech)
                if offsets:
                    return self._read((part_of_speech, offsets[0]))
        return None

    def _forms(self, name: str, part_of_speech: str) -> list[str]:
        """The name and its base forms that the index has, for one part of speech."""
        irregular = self.files.base_forms(name, part_of_speech)
        if irregular:
            return [name, *irregular]
        forms = [name]
        tried = [name]
        while forms:
            listed = [form for form in tried if self.files.offsets(form, part_of_speech)]
            if listed:
                return listed
            forms = [
                form[: len(form) - len(ending)] + replacement
                for form in forms
                for ending, replacement in _ENDINGS[part_of_speech]
                if form.endswith(ending)
            ]
            tried = forms
        return []

    def _read_synset(self, key: tuple[str, int]) -> Synset:
        return self.files.synset(*key)


def _remember(function: Callable[..., _Result]) -> Callable[..., _Result]:
    return lru_cache(maxsize=4096)(function)


class WordNetDefinition:
    """Knowledge source: the definition of a class's first synset.

    Args:
        wordnet: Where to look; None for the installed database.
        name: Name of the source.

    Source: ELEVATER, section 3.1, def_wn.

    Example:
        >>> WordNetDefinition().items("hen")  # doctest: +SKIP
        ['adult female chicken']
    """

    whole = False

    def __init__(self, wordnet: WordNet | None = None, *, name: str = "wordnet-definition") -> None:
        self.wordnet = WordNet() if wordnet is None else wordnet
        self.name = name

    def items(self, class_name: str) -> list[str]:
        """The definition, or nothing."""
        definition = self.wordnet.definition(class_name)
        return [definition] if definition else []


class WordNetPath:
    """Knowledge source: the words from a class up to WordNet's root, as one text.

    Args:
        wordnet: Where to look; None for the installed database.
        max_nodes: Keep so many nodes at most, from the class up; None for the whole path. The toolkit keeps 3.
        name: Name of the source.

    Raises:
        ValueError: ``max_nodes`` below 1; the message shows it.

    Source: ELEVATER, section 3.1, def_path: the whole path. The toolkit cuts it to three nodes.

    Example:
        >>> WordNetPath(max_nodes=3).items("hen")  # doctest: +SKIP
        ['hen, chicken, domestic fowl']
    """

    whole = False

    def __init__(
        self,
        wordnet: WordNet | None = None,
        *,
        max_nodes: int | None = None,
        name: str = "wordnet-path",
    ) -> None:
        check_max_nodes(max_nodes)
        self.wordnet = WordNet() if wordnet is None else wordnet
        self.max_nodes, self.name = max_nodes, name

    def items(self, class_name: str) -> list[str]:
        """The path as one text, or nothing."""
        text = join_path(self.wordnet.path(class_name), self.max_nodes)
        return [text] if text else []


def check_max_nodes(max_nodes: int | None) -> None:
    """Refuse a path of no nodes."""
    if max_nodes is not None and max_nodes < 1:
        raise ValueError(f"max_nodes is {max_nodes}; expected at least 1, or None for the whole path")


def join_path(nodes: Sequence[str], max_nodes: int | None = None) -> str:
    """A path as one text, its underscores as spaces."""
    return ", ".join(node.replace("_", " ") for node in nodes[:max_nodes])
