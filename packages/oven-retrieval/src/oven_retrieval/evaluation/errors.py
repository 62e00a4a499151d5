"""Kinds of wrong answers, each defined by what the knowledge base says of the two entities."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from oven_retrieval.evaluation.intervals import Estimate, wilson
from oven_retrieval.evaluation.scores import Outcomes
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.tokens import fold, words

KINDS: dict[str, str] = {
    "correct": "the right entity and no other",
    "no answer": "nothing was answered, or an answer without an entity",
    "several answers": "one question was answered with different entities",
    "outside": "the answered id is not in the knowledge base",
    "unknown truth": "the right id is not in the knowledge base, so that nothing can be said of the answer",
    "confusable name": "the answer has a name or alias of the right entity, but for case",
    "too generic": "the answer is what the right entity is a kind of",
    "too specific": "the answer is a kind of the right entity",
    "wrong but relevant": "another entity of the right one's category",
    "other category": "of another category: not the kind of thing that was asked for",
    "miscellaneous": "none of these can be told",
}
"""Kind -> what it is. Of those that fit, the first counts."""
PAPER_KINDS = {
    "wrong but relevant": "A, wrong but relevant",
    "too generic": "B, too generic",
    "other category": "C, misunderstood query",
    "miscellaneous": "D, miscellaneous",
}
"""Which kinds of OVEN's table 3 ours stand for; the paper's were told by hand."""

_SENTENCE = re.compile(r"[.;](?:\s|$)")


class KindShare(NamedTuple):
    """How many questions are of a kind, and their share of all in percent with Wilson's interval."""

    kind: str
    questions: int
    share: Estimate


def is_kind_of(kb: KnowledgeBase, row: int, other: int) -> bool:
    """Whether an entity is a kind of another, as far as the knowledge base tells.

    It is where its category is one of the other's names; where its name ends in one of them ("Hoary comma" is a kind of
    "comma"); and where the first sentence of its description holds the other's name ("Sabatia campestris is a species
    of plant"), unless the other's description names it too.
    """
    names = _names(kb, other)
    category = kb.categories[kb.category_codes[row]]
    if category and fold(category) in names:
        return True
    own = words(kb.names[row])
    for name in names:
        part = words(name)
        if part and len(part) < len(own) and own[-len(part) :] == part:
            return True
    return _mentions(kb, row, other) and not _mentions(kb, other, row)


def _names(kb: KnowledgeBase, row: int) -> set[str]:
    return {fold(name) for name in (kb.names[row], *(kb.aliases[i] for i in kb.alias_rows(row)))}


def _mentions(kb: KnowledgeBase, row: int, mentioned: int) -> bool:
    """Whether the first sentence of an entity's description holds the other's name as words."""
    sentence = words(_SENTENCE.split(kb.descriptions[row], maxsplit=1)[0])
    name = words(kb.names[mentioned])
    return bool(name) and any(sentence[i : i + len(name)] == name for i in range(len(sentence) - len(name) + 1))


def _kind(kb: KnowledgeBase, truth: str, answers: tuple[str, ...], row: int, right: int) -> str:
    """The kind of one outcome; `row` is of the first answer, `right` of the right entity."""
    if answers == (truth,):
        return "correct"
    if not any(answers):
        return "no answer"
    if len(answers) > 1:
        return "several answers"
    if row < 0:
        return "outside"
    if right < 0:
        return "unknown truth"
    if _names(kb, row) & _names(kb, right):
        return "confusable name"
    if is_kind_of(kb, right, row):
        return "too generic"
    if is_kind_of(kb, row, right):
        return "too specific"
    categories = [kb.categories[kb.category_codes[r]] for r in (row, right)]
    if all(categories) and fold(categories[0]) == fold(categories[1]):
        return "wrong but relevant"
    return "other category" if all(categories) else "miscellaneous"


def error_kinds(marked: Outcomes, kb: KnowledgeBase) -> list[str]:
    """The kind of each question's outcome, a key of `KINDS`, in the order of the references.

    Args:
        marked: from `outcomes`.
        kb: the knowledge base.

    Example:
        >>> from oven_retrieval.evaluation import Prediction, Reference, outcomes
        >>> references = [Reference("a", "0", "val_seen"), Reference("b", "1", "val_unseen")]
        >>> marked = outcomes(references, [Prediction("a", "0"), Prediction("b", "9")])
        >>> error_kinds(marked, KnowledgeBase.from_names(["Wood duck", "Goose"]))
        ['correct', 'outside']

    Source: OVEN table 3, where 100 answers were sorted by hand into four kinds; the definitions are ours.
    """
    truths = [reference.entity_id for reference in marked.references]
    rows = kb.rows([answers[0] if answers else "" for answers in marked.answers]).tolist()
    return [
        _kind(kb, truth, answers, row, right)
        for truth, answers, row, right in zip(truths, marked.answers, rows, kb.rows(truths).tolist(), strict=True)
    ]


def kind_shares(kinds: list[str]) -> list[KindShare]:
    """Return how often each kind occurs, in the order of `KINDS`, those that do not left out.

    The intervals take questions as independent; where many are about one entity, they are too narrow.

    Example:
        >>> [(share.kind, share.questions) for share in kind_shares(["correct", "correct", "confusable name"])]
        [('correct', 2), ('confusable name', 1)]
    """
    counts = Counter(kinds)
    return [KindShare(kind, counts[kind], wilson(counts[kind], len(kinds))) for kind in KINDS if counts[kind] and kinds]
