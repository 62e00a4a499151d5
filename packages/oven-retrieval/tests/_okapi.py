"""rank_bm25's BM25Okapi as an engine: the definition, every name scored for every query."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from oven_retrieval import build_linker
from oven_retrieval.names import name_places, name_texts
from oven_retrieval.names.pruned import best_entities
from oven_retrieval.ranking import Ranking, check_k

from ._reference import Corpus


class RankBm25:
    """Scores are rounded to 9 decimals before they are ordered: the same terms added in another order differ."""

    prunes = False

    def __init__(self, corpus):
        self._corpus = corpus
        okapi = pytest.importorskip("rank_bm25").BM25Okapi
        self._bm25 = okapi(corpus.tokens, k1=1.2, b=0.75, epsilon=0.25)
        self._documents = Counter(token for name in corpus.tokens for token in set(name))

    def search(self, queries, k=1, allowed=None):
        return self.search_counting(queries, k, allowed)[0]

    def search_counting(self, queries, k=1, allowed=None):
        hits, unknown = Ranking.empty(len(queries), check_k(k)), np.zeros(len(queries), np.int64)
        for i, query in enumerate(queries):
            known_tokens = {token for token in query if token in self._bm25.idf}
            unknown[i] = sum(token not in known_tokens for token in query)
            sharing = [
                n
                for n, frequencies in enumerate(self._bm25.doc_freqs)
                if not known_tokens.isdisjoint(frequencies) and (allowed is None or allowed[n])
            ]
            if not sharing:
                continue
            scores = np.round(self._bm25.get_scores(query)[sharing], 9)
            rows, best = best_entities(scores, self._corpus.owners[sharing], self._corpus.preference[sharing], k)
            hits.rows[i, : len(rows)], hits.scores[i, : len(rows)] = rows, best
        return hits, unknown

    def document_frequency(self, tokens):
        return np.array([self._documents[token] for token in tokens], dtype=np.int64)


def linker_by_definition(kb):
    """A linker whose words are scored by the definition."""
    linker, places = build_linker(kb), name_places(kb)
    tokens = [linker.tokenize(name) for name in name_texts(kb)]
    linker.engine = RankBm25(Corpus(tokens, places.row, places.preference(kb.popularity)))
    return linker
