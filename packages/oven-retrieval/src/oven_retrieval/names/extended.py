"""More entities beside an index of names: no array of the index is written anew, and both are asked.

One file of more than 400 lines: the views of both parts are used nowhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oven_retrieval.building import numbered_rows
from oven_retrieval.entity import Entity
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.names.exact import ExactMatches, build_exact, first_of_each
from oven_retrieval.names.impacts import EPSILON, Statistics, count_tokens, okapi_idf, score_occurrences
from oven_retrieval.names.inflection import FormMatches, Inflections, LooseMatches, build_loose
from oven_retrieval.names.linker import NameLinker
from oven_retrieval.names.ngrams import NearNames, NgramIndex, build_ngrams
from oven_retrieval.names.places import name_places, name_texts
from oven_retrieval.names.pruned import PrunedIndex
from oven_retrieval.ranking import Ranking
from oven_retrieval.tokens import fold, hash64

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32, Int64, UInt32, UInt64

    from oven_retrieval.names.linker import _Scope
    from oven_retrieval.readers import Row

Rows = npt.NDArray[np.int64]


def extend_linker(linker: NameLinker, rows: Iterable[Row | Entity | str | Mapping[str, Any]]) -> NameLinker:
    """Return a linker with more entities, without a build; the one that is given stays as it is.

    Args:
        linker: of `build_linker`, `open_name_index`, or of this function.
        rows: as in `build_kb`; their rows follow the last one of the knowledge base.

    Returns:
        A linker over both, in memory. To keep the entities, give the same ones to `oven_retrieval.add_entities`, and
        bring the index up to date by `update_name_index`.

    Raises:
        ValueError: an id that occurs twice, or is in the knowledge base; a knowledge base without entities.

    Numerics:
        What it costs grows with the entities that are added, not with those that are there. Words and trigrams
        weigh what they weigh among the names before; a word that was in no name weighs as if in one. Of equal
        scores by words or trigrams the more popular entity comes first, then the earlier row.

    Example:
        >>> from oven_retrieval import KnowledgeBase, build_linker, extend_linker
        >>> linker = build_linker(KnowledgeBase.from_names(["Wood duck", "Goose"]))
        >>> linker = extend_linker(linker, ["Teal"])
        >>> linker.link(["teals", "the wood ducks"]).names()
        [['Teal'], ['Wood duck']]
    """
    base, entities = (linker.base, list(linker.added)) if isinstance(linker, _ExtendedLinker) else (linker, [])
    if not isinstance(base.engine, PrunedIndex):
        raise ValueError("linker: expected a linker of the engine 'pruned'")
    if not len(base.kb):
        raise ValueError(f"{base.kb.path} has no entity: build a knowledge base of these in its place")
    further = [entity for _, entity, _ in numbered_rows(rows, "entities", len(base.kb) + len(entities))]
    if not further:
        return linker
    entities += further
    ids = [entity.id for entity in entities]
    present = base.kb.rows(ids) >= 0
    if present.any() or len(set(ids)) < len(ids):
        known = [name for name, is_present in zip(ids, present.tolist(), strict=True) if is_present]
        repeated = known or [name for name in dict.fromkeys(ids) if ids.count(name) > 1]
        raise ValueError(f"id: {repeated[0]!r} is in {base.kb.path} already, or occurs twice; expected each id once")
    new = _ExtendedLinker(base, entities)
    new.switch({"typos": linker.typos, "diacritics": linker.inflections is not None and linker.inflections.diacritics})
    return new


def _again(base: NameLinker, entities: list[Entity], switches: dict[str, bool]) -> NameLinker:
    linker = extend_linker(base, entities)
    linker.switch(switches)
    return linker


class _Listed(list[str]):
    """Texts, as `oven_retrieval.folder.Texts` gives them."""

    def blocks(self, size: int = 65536) -> Iterator[list[str]]:
        """All, in lists of at most `size`."""
        return (self[first : first + size] for first in range(0, len(self), size))


class _Chained(Sequence[str]):
    """Two columns of texts, one after the other."""

    def __init__(self, first: Any, second: _Listed) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]  # slices are not offered
        beyond = index - len(self._first)
        text: str = self._first[index] if beyond < 0 else self._second[beyond]
        return text

    def blocks(self, size: int = 65536) -> Iterator[list[str]]:
        """All, in lists of at most `size`."""
        yield from self._first.blocks(size)
        yield from self._second.blocks(size)


class _FewEntities(KnowledgeBase):
    """A knowledge base of a few entities, in memory."""

    def __init__(self, entities: Sequence[Entity]) -> None:
        self._entities = entities
        self.ids, self.names = (_Listed(getattr(entity, name) for entity in entities) for name in ("id", "name"))  # type: ignore[assignment]
        self.aliases = _Listed(alias for entity in entities for alias in entity.aliases)  # type: ignore[assignment]
        self.descriptions, self.images = (  # type: ignore[assignment]
            _Listed(getattr(entity, name) for entity in entities) for name in ("description", "image")
        )
        self._categories = dict.fromkeys(entity.category for entity in entities)
        self._sets = {"": 0}
        tags = [entity.language for entity in entities]
        tags += [tag for entity in entities for tag in entity.alias_languages or ("",) * len(entity.aliases)]
        self._codes = np.array([self._sets.setdefault(tag, len(self._sets)) for tag in tags], np.int32)

    @cached_property
    def alias_ends(self) -> Int64[np.ndarray, " rows"]:
        return np.cumsum([len(entity.aliases) for entity in self._entities], dtype=np.int64)

    @cached_property
    def popularity(self) -> Float64[np.ndarray, " rows"]:
        return np.array([entity.popularity for entity in self._entities], np.float64)

    @cached_property
    def categories(self) -> list[str]:
        return list(self._categories)

    @cached_property
    def category_codes(self) -> Int32[np.ndarray, " rows"]:
        return np.array([self.categories.index(entity.category) for entity in self._entities], np.int32)

    @property
    def language_sets(self) -> list[str]:
        return list(self._sets)

    @property
    def language_codes(self) -> Int32[np.ndarray, " rows"]:
        return self._codes[: len(self)]

    @property
    def alias_language_codes(self) -> Int32[np.ndarray, " aliases"]:
        return self._codes[len(self) :]

    def __len__(self) -> int:
        return len(self._entities)

    def __getitem__(self, index: int) -> Entity:  # type: ignore[override]
        return self._entities[index]


class _ExtendedKnowledgeBase(KnowledgeBase):
    """A knowledge base and a few entities behind it."""

    is_extended = True

    def __init__(self, base: KnowledgeBase, few: _FewEntities, linker: NameLinker) -> None:
        self._base, self._few, self._extended = base, few, linker
        self.path = base.path
        parts = (repr(few[row]).encode("utf-8", "surrogatepass") for row in range(len(few)))
        self.hash = hashlib.sha256(b"\n".join([base.hash.encode(), *parts])).hexdigest()
        self.meta = {**base.meta, "count": len(base) + len(few)}
        for name in ("ids", "names", "aliases", "descriptions", "images"):
            setattr(self, name, _Chained(getattr(base, name), getattr(few, name)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _kb_of, (self._extended,)

    @property
    def _linker(self) -> NameLinker:
        return self._extended

    @cached_property
    def alias_ends(self) -> Int64[np.ndarray, " rows"]:
        return np.concatenate([self._base.alias_ends, self._few.alias_ends + len(self._base.aliases)])

    @cached_property
    def popularity(self) -> Float64[np.ndarray, " rows"]:
        return np.concatenate([self._base.popularity, self._few.popularity])

    @cached_property
    def categories(self) -> list[str]:
        return [*self._base.categories, *self._few.categories]

    @cached_property
    def category_codes(self) -> Int32[np.ndarray, " rows"]:
        before = len(self._base.categories)
        return np.concatenate([self._base.category_codes, self._few.category_codes + np.int32(before)])

    @property
    def language_sets(self) -> list[str]:
        return [*self._base.language_sets, *self._few.language_sets]

    @property
    def language_codes(self) -> Int32[np.ndarray, " rows"]:
        before = len(self._base.language_sets)
        return np.concatenate([self._base.language_codes, self._few.language_codes + np.int32(before)])

    @property
    def alias_language_codes(self) -> Int32[np.ndarray, " aliases"]:
        before = len(self._base.language_sets)
        return np.concatenate([self._base.alias_language_codes, self._few.alias_language_codes + np.int32(before)])

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Entity:  # type: ignore[override]
        beyond = index - len(self._base)
        return self._base[index] if beyond < 0 else self._few[beyond]

    def alias_rows(self, row: int) -> range:
        beyond, before = row - len(self._base), len(self._base.aliases)
        if beyond < 0:
            return self._base.alias_rows(row)
        own = self._few.alias_rows(beyond)
        return range(own.start + before, own.stop + before)

    def rows(self, ids: Sequence[str]) -> Int64[np.ndarray, " q"]:
        few = {name: len(self._base) + row for row, name in enumerate(self._few.ids)}
        rows = self._base.rows(ids)
        return np.array([few.get(name, row) for name, row in zip(ids, rows.tolist(), strict=True)], np.int64)


def _kb_of(linker: NameLinker) -> KnowledgeBase:
    return linker.kb


class _Both:
    """An index, and one of a few further entities, whose rows follow."""

    def __init__(self, kb: _ExtendedKnowledgeBase, base: Any, few: Any) -> None:
        self.kb, self.base, self.few = kb, base, few

    def popularity_of(self, rows: Rows) -> Float64[np.ndarray, " m"]:
        """Popularity of entities, without a column of all."""
        base, few = self.kb._base.popularity, self.kb._few.popularity
        beyond = rows - len(base)
        if not len(base):
            return few[rows]
        return np.where(beyond < 0, base[np.minimum(rows, len(base) - 1)], few[np.maximum(beyond, 0)])

    def moved(self, rows: Rows) -> Rows:
        """Rows of the few among all; -1 stays."""
        return np.where(rows < 0, -1, rows + len(self.kb._base))

    def best(
        self, first: tuple[Rows, Any], second: tuple[Rows, Any], k: int, empty: float
    ) -> tuple[Rows, npt.NDArray[np.float64]]:
        """The k best of both by score, the greater popularity, the earlier row."""
        rows = np.concatenate([first[0], self.moved(second[0])], axis=1)
        scores = np.concatenate([first[1], second[1]], axis=1)
        key = np.where(rows < 0, -np.inf, np.round(np.where(rows < 0, 0.0, scores), 6))
        popularity = np.where(rows < 0, 0.0, self.popularity_of(np.maximum(rows, 0).ravel()).reshape(rows.shape))
        order = np.lexsort((rows, -popularity, -key), axis=1)[:, :k]
        rows = np.take_along_axis(rows, order, 1)
        return rows, np.where(rows < 0, empty, np.take_along_axis(scores, order, 1))


class _BothExact(_Both):
    def find(
        self,
        names: Sequence[str],
        wanted: UInt32[np.ndarray, " w"] | None = None,
        keys: UInt64[np.ndarray, " q"] | None = None,
    ) -> ExactMatches:
        """As `ExactTable.find`, of both."""
        keys = hash64([fold(name) for name in names]) if keys is None else keys
        parts = []
        for table, first in ((self.base, 0), (self.few, len(self.kb._base))):
            query, at, step, other_form = table.places(names, wanted, keys)
            row = table.row[at].astype(np.int64) + first
            parts.append((row, table.shouted[at], table.alias[at], other_form, step, query))
        row, shouted, alias, other_form, step, query = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((row, -self.popularity_of(row), shouted, alias, other_form, step, query))
        query, row, step = query[order], row[order], step[order]
        once = first_of_each(query, row)
        return ExactMatches(query[once], row[once], step[once].astype(np.int64))


class _BothInflections(_Both):
    diacritics = True

    def find(
        self,
        names: Sequence[str],
        wanted: UInt32[np.ndarray, " w"] | None = None,
        folded: tuple[Sequence[str], UInt64[np.ndarray, " q"]] | None = None,
    ) -> LooseMatches:
        """As `Inflections.find`, of both."""
        first, second = (index.matches(names, wanted, folded) for index in (self.base, self.few))
        second = second._replace(row=self.moved(second.row))
        matches = FormMatches(*(np.concatenate(columns) for columns in zip(first, second, strict=True)))
        return matches.best(self.popularity_of(matches.row), diacritics=self.diacritics)


class _BothEngines(_Both):
    prunes = False

    @cached_property
    def owners(self) -> npt.NDArray[np.integer]:
        """The row that each name belongs to."""
        return np.concatenate([self.base.owners, self.few.owners + len(self.kb._base)])

    def search_counting(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> tuple[Ranking, Int64[np.ndarray, " q"]]:
        """As `PrunedIndex.search_counting`, of both."""
        count = len(self.base.owners)
        masks = (None, None) if allowed is None else (allowed[:count], allowed[count:])
        first, unknown = self.base.search_counting(queries, k, masks[0])
        second, _ = self.few.search_counting(queries, k, masks[1])
        rows, scores = self.best((first.rows, first.scores), (second.rows, second.scores), k, -np.inf)
        for number in np.flatnonzero(unknown).tolist():
            unknown[number] = np.count_nonzero(self.document_frequency(queries[number]) == 0)
        return Ranking(rows, scores), unknown

    def document_frequency(self, tokens: Sequence[str]) -> Int64[np.ndarray, " t"]:
        """How many names hold each token."""
        frequency: Int64[np.ndarray, " t"] = sum(engine.document_frequency(tokens) for engine in (self.base, self.few))
        return frequency


class _BothNgrams(_Both):
    def entities(
        self,
        texts: Sequence[str],
        k: int,
        keys: UInt32[np.ndarray, " w"] | None = None,
        allowed: Bool[np.ndarray, " rows"] | None = None,
    ) -> tuple[Rows, npt.NDArray[np.float64]]:
        """As `NgramIndex.entities`, of both."""
        count = len(self.kb._base)
        masks = (None, None) if allowed is None else (allowed[:count], allowed[count:])
        first, second = (
            index.entities(texts, k, keys, mask) for index, mask in zip((self.base, self.few), masks, strict=True)
        )
        return self.best(first, second, k, np.nan)

    def within(self, text: str) -> NearNames:
        """As `NgramIndex.within`, of both."""
        first, second = self.base.within(text), self.few.within(text)
        number = np.where(second.number < 0, -1, second.number + len(self.kb._base.aliases))
        row, alias, score, numbers = (
            np.concatenate(columns)
            for columns in (
                (first.row, self.moved(second.row)),
                (first.alias, second.alias),
                (first.score, second.score),
                (first.number, number),
            )
        )
        order = np.lexsort((row, -self.popularity_of(row), alias, -score))
        texts = [*first.text, *second.text]
        return NearNames(row[order], alias[order], score[order], [texts[i] for i in order.tolist()], numbers[order])


class _ExtendedLinker(NameLinker):
    """A linker over two indexes."""

    def __init__(self, base: NameLinker, entities: list[Entity]) -> None:
        self.base, self.added = base, entities
        few = _FewEntities(entities)
        kb = _ExtendedKnowledgeBase(base.kb, few, self)
        places = name_places(few)
        preference = places.preference(few.popularity)
        exact = build_exact(name_texts(few), places, few.popularity)
        engine = PrunedIndex(_impacts(base, few, places.row, preference))
        inflections = ngrams = None
        if base.inflections is not None:
            exceptions = base.inflections.exceptions
            own = Inflections(exact, build_loose(name_texts(few), places, exceptions), few.popularity, exceptions)
            inflections = _BothInflections(kb, base.inflections, own)
        if base.ngrams is not None:
            idf = base.ngrams.arrays[-1]
            ngrams = _BothNgrams(kb, base.ngrams, NgramIndex(few, build_ngrams(few, idf=idf), idf))
        parts: Any = (_BothExact(kb, base.exact, exact), _BothEngines(kb, base.engine, engine), ngrams, inflections)
        super().__init__(kb, parts[0], parts[1], base.tokenizer, parts[2], parts[3], None)
        self.bm25 = base.bm25
        self._few_language = places.language

    def __reduce__(self) -> tuple[Any, ...]:
        switches = {"typos": self.typos, "diacritics": self.inflections is not None and self.inflections.diacritics}
        return _again, (self.base, self.added, switches)

    def _names_in(self, languages: Sequence[str] | None) -> Any:
        if languages is not None and self._name_language is None:
            of_base, of_few = self.base._name_language, self._few_language
            counts = len(self.base.engine.owners), len(self.engine.owners) - len(self.base.engine.owners)
            spoken = (
                np.zeros(count, np.uint32) if language is None else language
                for language, count in zip((of_base, of_few), counts, strict=True)
            )
            self._name_language = np.concatenate(list(spoken))
        return super()._names_in(languages)

    def _link_one(self, name: str, k: int, scope: _Scope) -> Ranking:
        return self._link_block([name], k, scope)


def _impacts(base: NameLinker, few: _FewEntities, owners: Rows, preference: Rows) -> Any:
    """The words of a few names, which weigh what they weigh among those of the linker."""
    names, engine = count_tokens(base.tokenize(name) for name in name_texts(few)), base.engine
    assert isinstance(engine, PrunedIndex)
    count, frequency = len(engine.owners), np.maximum(engine.frequency_of(names.token_hash), 1)
    idf = np.log(count - frequency + 0.5) - np.log(frequency + 0.5)
    if (idf <= 0).any() and len(engine.frequencies):
        every = okapi_idf(engine.frequencies, count, EPSILON)
        idf = np.where(idf <= 0, every[engine.frequencies.argmax()], idf)
    idf = np.maximum(idf, 1e-3)
    k1, b = base.bm25
    statistics = Statistics(idf, engine.frequencies.sum() / max(count, 1) or 1.0)
    return score_occurrences(names, owners, preference, k1=k1, b=b, statistics=statistics)
