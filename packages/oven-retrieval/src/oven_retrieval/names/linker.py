"""Names to entities: exact and folded names, aliases, inflections, trigrams where words may miss, BM25.

One file of more than 400 lines: the linker's steps are tried in order and share what was found.
"""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from oven_retrieval.entity import as_texts
from oven_retrieval.folder import FolderError
from oven_retrieval.names.exact import ExactMatches, ExactTable
from oven_retrieval.names.impacts import DAMAGED, K1, B, damage_in
from oven_retrieval.names.inflection import Inflections, LooseMatches
from oven_retrieval.names.likeness import LEAST_ALIKE, likeness
from oven_retrieval.names.loops import loops_for
from oven_retrieval.names.ngrams import LEAST_LIKENESS, NgramIndex
from oven_retrieval.names.places import spoken_in, wanted_languages
from oven_retrieval.names.pruned import PrunedIndex
from oven_retrieval.ranking import Ranking, check_k, joined
from oven_retrieval.tokens import TOKENIZERS, fold, hash64, hash_tokens, one_hash, words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from jaxtyping import Bool, Int64, UInt32, UInt64

    from oven_retrieval.kb import KnowledgeBase
    from oven_retrieval.names.okapi import RankBm25

STEPS = (
    "exact name", "exact alias", "folded name", "folded alias", "inflected name", "inflected alias", "typo", "ngrams",
    "bm25", "none",
)  # fmt: skip
"""Steps of `link` by the number in `Ranking.kinds`; -1, no entity, is the last one: "none"."""
_INFLECTED, _TYPO, _NGRAMS, _BM25 = (STEPS.index(step) for step in ("inflected name", "typo", "ngrams", "bm25"))
TYPO = STEPS[_TYPO]
"""The step whose score is minus the number of edits."""
_ONE_BY_ONE = 8
"""So many names are linked one by one, which is quicker."""
_BLOCK = 65536

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint32] | None
"""Of the languages whose names count; None for all."""


class _Scope(NamedTuple):
    """Which names count, `keys` of their languages and `names` of the engine, None for all; which steps are taken.

    `rows` are the entities that count, None for all.
    """

    keys: UInt32[np.ndarray, " w"] | None = None
    names: Bool[np.ndarray, " n"] | None = None
    exact_first: bool = True
    guesses: bool = True
    rows: Bool[np.ndarray, " rows"] | None = None


_EVERY_NAME = _Scope()


class NameLinker:
    """Map names to the entities of a knowledge base.

    Order of the answers, which is total:

    1. the step: exact name, exact alias, folded name (case, width, spacing), folded alias; English inflections of a
       name, of an alias (see `forms`); where `typos` is set, names one or two edits away that no word of the
       knowledge base is lost for; names that share most character trigrams, where BM25 finds nothing, or some word
       of the text is in no name, or the text has other letters than English ones; BM25;
    2. among exact names the very same characters, among inflections the fewer changes, among typos the fewer edits,
       and among the last two steps the greater score;
    3. names before aliases;
    4. sentence case (no capital after the first character) before other spellings (not among typos and n-grams);
    5. the greater popularity;
    6. the earlier row of the knowledge base.

    Args:
        kb: the knowledge base.
        exact: its table of names.
        engine: its names under their words.
        tokenizer: name in `TOKENIZERS` that the engine was built with.
        ngrams: its names under their trigrams; None leaves out that step and typos.
        inflections: that step; None leaves it out.
        name_language: `language_key` of each name of the engine; None where no name has one.

    Example:
        >>> import tempfile, pathlib
        >>> from oven_retrieval import Entity, build_kb, build_linker
        >>> entities = [Entity("Q1", "Wood Wood"), Entity("Q2", "WOOD"), Entity("Q3", "Wood"), Entity("Q4", "Duck")]
        >>> kb = build_kb(entities, pathlib.Path(tempfile.mkdtemp()) / "kb")
        >>> links = build_linker(kb).link(["wood", "a fine DUCK.", "?"], k=2)
        >>> links.ids()
        [['Q3', 'Q2'], ['Q4', None], [None, None]]
        >>> links.steps()
        [['folded name', 'folded name'], ['bm25', 'none'], ['none', 'none']]
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        exact: ExactTable,
        engine: PrunedIndex | RankBm25,
        tokenizer: str,
        ngrams: NgramIndex | None = None,
        inflections: Inflections | None = None,
        name_language: UInt32[np.ndarray, " n"] | None = None,
    ) -> None:
        self._name_language = name_language
        self._last_languages: tuple[tuple[str, ...], tuple[UInt32[np.ndarray, " w"], Bool[np.ndarray, " n"]]] | None = (
            None
        )
        self.kb, self.exact, self.engine, self.tokenizer, self.ngrams = kb, exact, engine, tokenizer, ngrams
        self.typos = False
        self.path: Path | None = None  # of an index on disk, for errors
        self.bm25 = (K1, B)
        self.stored: Callable[[KnowledgeBase, dict[str, bool]], NameLinker] | None = None
        self.inflections = inflections
        self.tokenize = check_tokenizer(tokenizer)

    def switch(self, switches: dict[str, bool]) -> None:
        """Set `typos`, and `diacritics` of the inflections."""
        self.typos = switches["typos"]
        if self.inflections is not None:
            self.inflections.diacritics = switches["diacritics"]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of an index on disk, so that another process maps the same arrays; of others a copy."""
        if self.stored is None:
            return _blank, (NameLinker,), vars(self)
        diacritics = self.inflections is not None and self.inflections.diacritics
        return self.stored, (self.kb, {"typos": self.typos, "diacritics": diacritics})

    @property
    def _is_simple(self) -> bool:
        """Whether `guess` knows all that counts."""
        return self.ngrams is not None and self.engine.prunes

    @cached_property
    def _form_keys(self) -> UInt64[np.ndarray, " n"]:
        return np.zeros(0, np.uint64) if self.inflections is None else self.inflections.keys

    def link(
        self,
        names: Sequence[str],
        k: int = 1,
        *,
        exact_first: bool = True,
        guesses: bool = True,
        languages: Sequence[str] | None = None,
        allowed: npt.ArrayLike | None = None,
    ) -> Ranking:
        """The k best entities for each name.

        Args:
            names: any texts; an empty one, or one without a known token, gets no entity.
            k: how many per name, at least 1; places beyond what is found have the row -1, which is no entity.
            exact_first: False for BM25 alone, as in the paper: no other step.
            guesses: False to stop before typos, n-grams and BM25: only names as they are asked, folded or inflected.
            languages: only names and aliases with one of these tags, or with `mul`, count; BM25's statistics stay those
                of all names.
            allowed: [entities] which entities may be answered; each call looks at all names for it, so link many at
                once. The scores are those of a search of all.

        Returns:
            Rows, scores and kinds; scores as `Ranking` says. Its `ids()` and `names()` give None, its `steps()` "none",
            for a name that nothing is like.

        Raises:
            ValueError: a language that no name belongs to, `allowed` of another length or not of truth values, or
                `typos` is set and there are no n-grams.
        """
        if self.typos and self.ngrams is None:
            raise ValueError("typos: this name index has no n-grams to find them by; build it with ngrams=True")
        names = as_texts(names, "names")
        scope = _EVERY_NAME
        if languages is not None or not exact_first or not guesses or allowed is not None:
            scope = self._scope(languages, exact_first, guesses, allowed)
        k = check_k(k)
        try:
            if len(names) == 1:
                links = self._link_one(names[0], k, scope)
            elif len(names) <= _ONE_BY_ONE:
                links = joined([self._link_one(name, k, scope) for name in names] or [_no_links(0, k)])
            else:
                parts = [names[i : i + _BLOCK] for i in range(0, len(names), _BLOCK)]
                links = joined([self._link_block(part, k, scope) for part in parts])
            if links.rows.size and links.rows.max() >= len(self.kb):
                raise FolderError(DAMAGED)
        except IndexError as error:  # the index names a place that there is not
            raise damage_in(self.path, FolderError(DAMAGED)) from error
        except FolderError as error:
            raise damage_in(self.path, error) from error
        links.kb = self.kb
        return links

    def candidates(self, name: str) -> Int64[np.ndarray, " c"]:
        """Rows of all entities that have this name or alias, exact or folded, in the order of the class."""
        return self.exact.find([name]).row

    def weak(self, names: Sequence[str], links: Ranking) -> Bool[np.ndarray, "q k"]:
        """Say which links are weak: found by n-grams or words, and written less than half alike.

        No calibration is needed. Half alike means a `likeness` of 0.5 with a name or alias of the entity.

        Args:
            names: the texts that were linked.
            links: what `link` answered for them.

        Example:
            >>> from oven_retrieval import KnowledgeBase, build_linker
            >>> linker = build_linker(KnowledgeBase.from_names(["Bosch drill 55 inch", "Wood duck"]))
            >>> names = ["Samsung TV 55 inch", "the wood ducks", "wood duk"]
            >>> linker.weak(names, linker.link(names)).tolist()
            [[True], [False], [False]]
        """
        if len(names) != len(links.rows) or links.kinds.shape != links.rows.shape:
            raise ValueError(f"names: expected the texts of {len(links.rows)} links of `link`, got {len(names)}")
        weak: Bool[np.ndarray, "q k"] = np.zeros(links.rows.shape, np.bool_)
        for query, rank in zip(*np.nonzero((links.kinds >= _NGRAMS) & (links.rows >= 0)), strict=True):
            weak[query, rank] = likeness(self.kb, names[query], int(links.rows[query, rank])) < LEAST_ALIKE
        return weak

    def _scope(
        self, languages: Sequence[str] | None, exact_first: bool, guesses: bool, allowed: npt.ArrayLike | None
    ) -> _Scope:
        """What counts in a search that leaves something out."""
        keys, names = self._names_in(languages)
        rows = None
        if allowed is not None:
            rows = np.asarray(allowed)
            if rows.dtype != np.bool_ or rows.shape != (len(self.kb),):
                raise ValueError(
                    f"allowed: expected a truth value for each of the {len(self.kb)} entities, "
                    f"got {rows.dtype} {list(rows.shape)}"
                )
            of_rows = rows[self.engine.owners]
            names = of_rows if names is None else names & of_rows
        return _Scope(keys, names, exact_first, guesses, rows)

    def _names_in(self, languages: Sequence[str] | None) -> tuple[Keys, Bool[np.ndarray, " n"] | None]:
        """Keys of the languages that count and which names of the engine do; what was asked for last is kept."""
        if languages is None:
            return None, None
        tags = tuple(languages)
        if self._last_languages is None or self._last_languages[0] != tags:
            keys = wanted_languages(self.kb, languages)
            assert keys is not None
            allowed = np.isin(np.zeros(0, np.uint32) if self._name_language is None else self._name_language, keys)
            self._last_languages = tags, (keys, allowed)
        return self._last_languages[1]

    def _link_one(self, name: str, k: int, scope: _Scope) -> Ranking:
        """What `_link_block` answers, in less time: most names need one look or one search."""
        answers: dict[int, tuple[int, float]] = {}
        """Step and score of each row."""
        if scope.exact_first:
            folded = fold(name)
            keys = one_hash(folded)
            first, last, has_form = loops_for().look_up(self.exact.key, self._form_keys, keys)
            if first < last:
                for row, step in self.exact.between(first, last, name, folded, scope.keys):
                    if scope.rows is None or scope.rows[row]:
                        answers[row] = step, np.nan
            if len(answers) < k:
                if has_form or self.typos or (self.inflections is not None and self.inflections.has_form_of(folded)):
                    return self._link_block([name], k, scope)
                if self._is_simple and k == 1 and scope.guesses and scope.names is None and folded.isascii():
                    links = self._guess_one(name, folded)
                    if links is not None:
                        return links
        if len(answers) < k and scope.guesses:
            hits, unknown = self.engine.search_counting((self.tokenize(name),), k, scope.names)
            if scope.exact_first and self._asks_ngrams(name, hits, unknown, 0):
                assert self.ngrams is not None
                _add(answers, _NGRAMS, *self.ngrams.entities([name], k, scope.keys, scope.rows))
            elif not answers and hits.rows[0, k - 1] >= 0:
                return Ranking(hits.rows, hits.scores, np.array([[_BM25] * k]))
            _add(answers, _BM25, hits.rows, hits.scores)
        links = _one_place() if k == 1 and answers else _no_links(1, k)
        for rank, (row, (step, score)) in enumerate(islice(answers.items(), k)):
            links.rows[0, rank], links.kinds[0, rank], links.scores[0, rank] = row, step, score
        return links

    def _guess_one(self, name: str, folded: str) -> Ranking | None:
        """The best entity by words or n-grams; None where only `search` and `entities` can tell."""
        assert self.ngrams is not None
        assert isinstance(self.engine, PrunedIndex)
        loops = loops_for(1)
        how, row, score, tied = loops.guess(
            hash_tokens(self.tokenize(name)),
            self.engine.arrays,
            np.frombuffer(folded.encode(), np.uint8),
            self.ngrams.arrays,
            LEAST_LIKENESS,
        )
        if how == loops.UNDECIDED:
            return None
        if how == loops.BY_TRIGRAMS:
            row = self.ngrams.first_row(row, tied)
        kind = (_BM25, _NGRAMS, -1)[how]
        links = _one_place()
        links.rows[0, 0], links.kinds[0, 0], links.scores[0, 0] = row, kind, score if kind >= 0 else np.nan
        return links

    def _link_block(self, names: Sequence[str], k: int, scope: _Scope) -> Ranking:
        links = _no_links(len(names), k)
        if scope.exact_first:
            folded = [fold(name) for name in names]
            keys = hash64(folded)
            exact = _of_rows(self.exact.find(names, scope.keys, keys), scope.rows)
            rank = np.arange(len(exact.query)) - np.searchsorted(exact.query, exact.query)
            first = rank < k
            links.rows[exact.query[first], rank[first]] = exact.row[first]
            links.kinds[exact.query[first], rank[first]] = exact.step[first]
            open_ = _open(links)
            if self.inflections is not None and len(open_):
                without = open_.tolist()
                known = [folded[i] for i in without], keys[open_]
                loose = _of_rows(self.inflections.find([names[i] for i in without], scope.keys, known), scope.rows)
                rows, steps = _beside(loose.query, loose.row, loose.alias + _INFLECTED, len(open_))
                _append(links, open_, rows, np.full(rows.shape, np.nan), steps)
            if self.typos and scope.guesses:
                open_ = _open(links)
                _append(links, open_, *self._typos([names[i] for i in open_.tolist()], k, scope))
        open_ = _open(links)
        if len(open_) and scope.guesses:
            queries = [self.tokenize(names[i]) for i in open_.tolist()]
            hits, unknown = self.engine.search_counting(queries, k, scope.names)
            if scope.exact_first and self.ngrams is not None:
                weak = [
                    number
                    for number, i in enumerate(open_.tolist())
                    if self._asks_ngrams(names[i], hits, unknown, number)
                ]
                weak_queries = open_[weak]
                texts = [names[i] for i in weak_queries.tolist()]
                rows, scores = self.ngrams.entities(texts, k, scope.keys, scope.rows)
                _append(links, weak_queries, rows, scores, np.full(rows.shape, _NGRAMS))
            _append(links, open_, hits.rows, hits.scores, np.full(hits.rows.shape, _BM25))
        return links

    def _asks_ngrams(self, name: str, hits: Ranking, unknown: Int, number: int) -> bool:
        """Whether words alone may miss what is meant: one is in no name, or they are not English letters."""
        return self.ngrams is not None and (hits.rows[number, 0] < 0 or unknown[number] > 0 or not name.isascii())

    def _typos(self, names: Sequence[str], k: int, scope: _Scope) -> tuple[Int, Float, Int]:
        """The k entities with the nearest names: rows, minus the edits, and steps, [q, k]."""
        assert self.ngrams is not None
        rows, scores = np.full((len(names), k), -1, np.int64), np.full((len(names), k), np.nan)
        for number, name in enumerate(names):
            near = self.ngrams.within(name)
            spoken = np.ones(len(near.row), np.bool_) if scope.rows is None else scope.rows[near.row]
            if scope.keys is not None:
                spoken = spoken & spoken_in(self.kb, near.row, near.number, scope.keys)
            edits: dict[int, float] = {}
            for row, score, text, counts in zip(near.row.tolist(), near.score.tolist(), near.text, spoken, strict=True):
                if counts and row not in edits and self._is_typo(name, text):
                    edits[row] = score
            for rank, (row, score) in enumerate(islice(edits.items(), k)):
                rows[number, rank], scores[number, rank] = row, score
        return rows, scores, np.full(rows.shape, _TYPO)

    def _is_typo(self, text: str, name: str) -> bool:
        """Whether a text is a misspelling of a name: all words agree but some that are words of no name.

        A text that only splits or joins a name's words is one; "the boat" is none of "the boot" where boats are known.
        """
        text_words, meant = words(text), words(name)
        while text_words and meant and text_words[0] == meant[0]:
            del text_words[0], meant[0]
        while text_words and meant and text_words[-1] == meant[-1]:
            del text_words[-1], meant[-1]
        if "".join(text_words) == "".join(meant):
            return True
        return bool(text_words) and bool(meant) and not self.engine.document_frequency(text_words).any()


Matches = TypeVar("Matches", ExactMatches, LooseMatches)


def _of_rows(matches: Matches, rows: Bool[np.ndarray, " rows"] | None) -> Matches:
    """The matches whose entities count."""
    if rows is None:
        return matches
    counts = rows[matches.row]
    return type(matches)(*(column[counts] for column in matches))


def _blank(kind: type[NameLinker]) -> NameLinker:
    return kind.__new__(kind)


def _add(answers: dict[int, tuple[int, float]], step: int, rows: Int, scores: Float) -> None:
    """Put entities of one query behind those of the steps before."""
    for row, score in zip(rows[0].tolist(), scores[0].tolist(), strict=True):
        if row >= 0:
            answers.setdefault(row, (step, score))


def _append(
    links: Ranking,
    queries: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
    steps: npt.NDArray[np.int64],
) -> None:
    """Put entities behind those of the steps before, each entity once."""
    new = (rows >= 0) & ~np.any(rows[:, :, None] == links.rows[queries][:, None, :], axis=2)
    rank = np.count_nonzero(links.rows[queries] >= 0, axis=1)[:, None] + np.cumsum(new, axis=1) - 1
    new &= rank < links.rows.shape[1]
    at, column = np.nonzero(new)
    target = (queries[at], rank[at, column])
    links.rows[target], links.scores[target] = rows[at, column], scores[at, column]
    links.kinds[target] = steps[at, column]


def _open(links: Ranking) -> Int:
    """Queries that have a place left."""
    return np.flatnonzero(links.rows[:, -1] < 0)


def _beside(
    query: npt.NDArray[np.int64], row: npt.NDArray[np.int64], step: npt.NDArray[np.int64], queries: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Ragged answers as a matrix, -1 where a query has fewer."""
    rank = np.arange(len(query)) - np.searchsorted(query, query)
    shape = (queries, int(rank.max(initial=-1)) + 1)
    rows, steps = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
    rows[query, rank], steps[query, rank] = row, step
    return rows, steps


def _one_place() -> Ranking:
    """Room for one entity, to be filled: `_no_links` costs three times as much."""
    return Ranking(np.empty((1, 1), np.int64), np.empty((1, 1)), np.empty((1, 1), np.int64))


def _no_links(queries: int, k: int) -> Ranking:
    links = Ranking.empty(queries, k, np.nan)
    links.kinds = links.rows.copy()
    return links


def check_tokenizer(tokenizer: str) -> Callable[[str], list[str]]:
    """The tokenizer of this name, or say which there are."""
    if tokenizer not in TOKENIZERS:
        raise ValueError(f"tokenizer: expected one of {sorted(TOKENIZERS)}, got {tokenizer!r}")
    return TOKENIZERS[tokenizer]
