"""What a suite is: a record and a reader of its own; and how its subsets make up the averages that people print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from eqben_builder.suites.files import Files, SuiteRow


class Pooled(NamedTuple):
    """All questions of some subsets together; names may hold `*`."""

    subsets: tuple[str, ...]


class Without(NamedTuple):
    """A subset that is averaged over groups, without some of the groups."""

    subset: str
    groups: frozenset[str]


#: A subset's name, a pattern (the mean of the subsets that it fits), questions pooled, a subset without some of its
#: groups, or the mean of parts.
Part = str | Pooled | Without | tuple["Part", ...]


class Average(NamedTuple):
    """One of a suite's averages: its name says whose it is, and `measure` what is averaged."""

    name: str
    part: Part
    measure: str


@dataclass(frozen=True)
class Suite:
    """A compositional suite.

    Args:
        id: Of the command line, and of its folder under the data root.
        title: As its authors call it.
        read: Its original files -> questions.
        averages: Those that are published.
        counts: Subset -> questions in the version that is known; another number is noted.
        licence: Of the annotations.
        source: Repository and commit, or data set, that the reader was written after.
        authors_ties: What the authors' scoring makes of a tie; ours is always wrong.
        macro: Subset that is averaged over groups -> so many questions a group must have to count.
        expected: The files, in words.
        note: What a reader of the scores must know.

    Example:
        >>> from eqben_builder.suites import SUITES
        >>> SUITES["sugarcrepe"].counts["swap_obj"], [average.name for average in SUITES["sugarcrepe"].averages]
        (245, ['mean of 7', 'pooled', 'vl_compo'])
    """

    id: str
    title: str
    read: Callable[[Files], Iterator[SuiteRow]]
    averages: tuple[Average, ...]
    licence: str
    source: str
    expected: str
    counts: Mapping[str, int] = field(default_factory=dict)
    authors_ties: Mapping[str, Literal["right"]] = field(default_factory=dict)
    macro: Mapping[str, int] = field(default_factory=dict)
    note: str = ""


class SuiteData(NamedTuple):
    """A suite as it was read.

    rows: The questions whose images are all there.
    missing: Images that are not there, by name, with how many questions want each.
    left_out: Subset -> questions that were left out for want of an image.
    notes: What a reader of the scores should know: other counts than published, questions that cannot be won.

    Example:
        >>> from eqben_builder.suites import micro_suite
        >>> data = micro_suite(pairs=1, size=32)
        >>> len(data.rows), dict(data.missing)
        (15, {})
    """

    suite: Suite
    rows: list[SuiteRow]
    missing: Mapping[str, int]
    left_out: Mapping[str, int]
    notes: tuple[str, ...]


def fitting(pattern: str, subsets: Sequence[str]) -> list[str]:
    """The subsets that a name or pattern fits."""
    return [name for name in subsets if fnmatchcase(name, pattern)]
