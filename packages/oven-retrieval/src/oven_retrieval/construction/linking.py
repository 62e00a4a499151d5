"""Labels to entities in two stages: an exact name or redirect, then a linker; disambiguation pages are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.construction.screening import label_problem
from oven_retrieval.filters import is_disambiguation
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.names import STEPS, NameLinker
from oven_retrieval.tokens import fold, words

LEAST_OVERLAP = 0.5
"""The least `name_overlap` of a candidate that n-grams or BM25 give."""
_NOT_EXACT = ("inflected name", "inflected alias", "typo", "ngrams", "bm25")


SECOND_STAGE = "second stage"
Candidates = Callable[[Sequence[str]], Sequence[Sequence[int]]]
"""From labels to rows of the knowledge base, best first; -1 for none."""


class LabelLink(NamedTuple):
    """What became of a label.

    `row` the entity, -1 for none; `step` how it was found; `rivals` how many other entities have the very name, at the
    same step; `problem` why there is none.
    """

    row: int
    step: str
    rivals: int
    problem: str | None


def name_overlap(label: str, names: Sequence[str]) -> float:
    """The greatest share of words that a label has in common with one of an entity's names (Dice's coefficient).

    2 |A ∩ B| / (|A| + |B|) over sets of words
    """
    label_words = set(words(label))
    shares = [
        2 * len(label_words & name_words) / (len(label_words) + len(name_words))
        for name in names
        if (name_words := set(words(name)))
    ]
    return max(shares, default=0.0) if label_words else 0.0


def link_labels(
    linker: NameLinker, labels: Sequence[tuple[str, str]], *, second: Candidates | None = None
) -> list[LabelLink]:
    """Link labels to entities.

    First stage: entities that have the label as a name or alias, exact before folded; a redirect is an alias here.
    Disambiguation pages are refused. Of several, those of the label's own category come first, then the linker's
    order decides. Second stage, for labels without such an entity: the first of inflections, typos where the linker has
    them, n-grams and BM25 that is no disambiguation page, shares enough words with the label, and whose own name could
    be a label ("two cats" is not "two").

    Args:
        linker: of the knowledge base.
        labels: (label, category or "") each.
        second: the second stage by a model of yours, such as a generative linker: from labels to rows of candidates,
            best first; the first that is no disambiguation page is taken.

    Returns:
        One link per label; `step` is "second stage" where `second` gave it.

    Raises:
        ValueError: `second` gives another number of answers than labels, or a row that is not in the knowledge base.

    Example:
        >>> from oven_retrieval import KnowledgeBase, build_linker
        >>> linker = build_linker(KnowledgeBase.from_names(["Wood duck", "Goose"]))
        >>> links = link_labels(linker, [("wood duck", ""), ("a goose", ""), ("car", "")])
        >>> [(link.row, link.step) for link in links]
        [(0, 'folded name'), (1, 'inflected name'), (-1, '')]

    Source: OVEN's appendix 10.1. Its first stage is Wikipedia's search interface without suggestions, its second is
    GENRE; whether a label whose exact match is a disambiguation page goes on to the second stage it does not say, here
    it does.
    """
    kb = linker.kb
    matches = linker.exact.find([label for label, _ in labels])
    bounds = np.searchsorted(matches.query, np.arange(len(labels) + 1))
    links: list[LabelLink | None] = []
    for number, (_, category) in enumerate(labels):
        at = slice(bounds[number], bounds[number + 1])
        links.append(_exact(kb, matches.row[at], matches.step[at], category))
    open_ = [number for number, link in enumerate(links) if link is None]
    if second is not None:
        texts = [labels[number][0] for number in open_]
        for number, rows in zip(open_, _candidates(second, texts, len(kb)), strict=True):
            links[number] = _first_page(kb, [(row, SECOND_STAGE) for row in rows])
        return [link for link in links if link is not None]
    linked = linker.link([labels[number][0] for number in open_], 10)
    for number, rows, steps in zip(open_, linked.rows, linked.kinds, strict=True):
        label = labels[number][0]
        near = [
            (int(row), STEPS[step])
            for row, step in zip(rows, steps, strict=True)
            if row >= 0
            and STEPS[step] in _NOT_EXACT
            and label_problem(kb.names[int(row)]) is None
            and (STEPS[step] not in ("ngrams", "bm25") or name_overlap(label, _names(kb, int(row))) >= LEAST_OVERLAP)
        ]
        links[number] = _first_page(kb, near)
    return [link for link in links if link is not None]


def _candidates(second: Candidates, texts: Sequence[str], entities: int) -> list[list[int]]:
    """What a model of the second stage answers: rows of each label, without those that stand for none."""
    answers = second(texts) if texts else []
    if len(answers) != len(texts):
        raise ValueError(f"second: expected candidates for {len(texts)} labels, got {len(answers)}")
    candidates = [[int(row) for row in rows if row >= 0] for rows in answers]
    for text, rows in zip(texts, candidates, strict=True):
        if any(row >= entities for row in rows):
            raise ValueError(f"second: {text!r:.60}: expected rows below {entities}, got {max(rows)}")
    return candidates


def _names(kb: KnowledgeBase, row: int) -> list[str]:
    return [kb.names[row], *(kb.aliases[i] for i in kb.alias_rows(row))]


def _exact(
    kb: KnowledgeBase, rows: npt.NDArray[np.int64], steps: npt.NDArray[np.int64], category: str
) -> LabelLink | None:
    pages = [
        (int(row), int(step)) for row, step in zip(rows, steps, strict=True) if not is_disambiguation(kb[int(row)])
    ]
    if not pages:
        return None
    folded_category = fold(category)
    fitting = [
        page for page in pages if folded_category and fold(kb.categories[kb.category_codes[page[0]]]) == folded_category
    ]
    chosen = fitting or pages
    row, step = chosen[0]
    rivals = sum(rival_step == step for _, rival_step in chosen[1:])
    return LabelLink(row, STEPS[step], rivals, None)


def _first_page(kb: KnowledgeBase, candidates: Sequence[tuple[int, str]]) -> LabelLink:
    for row, step in candidates:
        if not is_disambiguation(kb[row]):
            return LabelLink(row, step, 0, None)
    return LabelLink(-1, "", 0, "only disambiguation pages" if candidates else "no entity with such a name")
