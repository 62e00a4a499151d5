"""How many items each source has for each class, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knowledge_prompts.prompts.class_prompts import check_class_names
from knowledge_prompts.sources.knowledge import Sources, StoredKnowledge, as_sources
from wary_files.text import printable


@dataclass(frozen=True, eq=False)  # tables of arrays are compared by their fields
class Coverage:
    """Items per class and source.

    Args:
        classes: Class names, one per row.
        sources: Names of the sources, one per column.
        items: ``[classes, sources]``, number of items.
        unused: For each source that can tell, the names that it stores and that no class has.

    Example:
        >>> import numpy as np
        >>> table = Coverage(("hen", "axolotl"), ("gpt3",), np.array([[5], [0]]), {})
        >>> table.covered, table.without_knowledge
        ({'gpt3': 1}, ['axolotl'])
    """

    classes: tuple[str, ...]
    sources: tuple[str, ...]
    items: NDArray[np.int64]
    unused: dict[str, tuple[str, ...]]

    @property
    def covered(self) -> dict[str, int]:
        """Number of classes that each source knows."""
        counts = np.count_nonzero(self.items, axis=0)
        return {name: int(counts[column]) for column, name in enumerate(self.sources)}

    @property
    def any_source(self) -> int:
        """Number of classes that at least one source knows."""
        return int((self.items > 0).any(axis=1).sum())

    @property
    def without_knowledge(self) -> list[str]:
        """Classes that no source knows."""
        return [name for name, row in zip(self.classes, self.items, strict=True) if not (row > 0).any()]

    def lines(self, max_names: int = 10) -> list[str]:
        """The table's sums for people, the classes without knowledge, and the stored names that no class has."""
        total = len(self.classes)
        width = max(len(name) for name in (*self.sources, "any source"))
        lines = [f"{name:<{width}}  {count:>5} of {total}" for name, count in self.covered.items()]
        lines.append(f"{'any source':<{width}}  {self.any_source:>5} of {total}")
        if self.without_knowledge:
            lines.append(f"without knowledge: {_some(self.without_knowledge, max_names)}")
        lines += [
            f"{name} stores, for no class: {_some(names, max_names)}" for name, names in self.unused.items() if names
        ]
        return [printable(line) for line in lines]

    def table(self) -> str:
        """The whole table as tab-separated text, one line per class under a line of headings."""
        names = (printable(" ".join(name.split())) for name in self.classes)
        rows = [["class", *(printable(" ".join(name.split())) for name in self.sources)]]
        rows += [[name, *map(str, counts)] for name, counts in zip(names, self.items, strict=True)]
        return "".join("\t".join(row) + "\n" for row in rows)


def coverage(classes: Sequence[str], sources: Sources, *, repeated: Sequence[str] = ()) -> Coverage:
    """Count the items that each source has for each class.

    Args:
        classes: Class names.
        sources: Knowledge sources of different names, a single one, or texts by class name.
        repeated: Class names that the data set really has more than once.

    Raises:
        TypeError: Something that is not a source; shows it.
        ValueError: No classes, a class twice, or two sources of one name; shows which.

    Example:
        >>> from knowledge_prompts import StoredKnowledge
        >>> table = coverage(["tench", "orca"], [StoredKnowledge({"tench": ["A fish."], "owl": []}, name="own")])
        >>> table.covered, table.without_knowledge, table.unused
        ({'own': 1}, ['orca'], {'own': ('owl',)})

    Source: ELEVATER, section 3.1, speaks of each source's coverage; its figures are those of its stored files.
    """
    check_class_names(classes, repeated=repeated)
    listed = as_sources(sources)
    counts = [[len(source.items(name)) for source in listed] for name in classes]
    unused = {source.name: tuple(source.unused(classes)) for source in listed if isinstance(source, StoredKnowledge)}
    shape = (len(classes), len(listed))
    items = np.array(counts, dtype=np.int64).reshape(shape)
    return Coverage(tuple(classes), tuple(source.name for source in listed), items, unused)


def _some(names: Sequence[str], limit: int) -> str:
    more = f", ... and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
