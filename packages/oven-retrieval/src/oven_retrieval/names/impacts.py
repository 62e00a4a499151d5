"""The inverted index as arrays: what each token adds to each name's BM25 score."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..tokens import hash64
from .hits import EPSILON, K1, B

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..folder import Folder, FolderWriter

LENGTHS = 4
"""Upper bounds are kept for names of at least 1, 2, 3 and 4 distinct tokens."""


class Impacts(NamedTuple):
    """Arrays of the index; V tokens, N names, P (token, name) pairs.

    `token_hash` [V] uint64, sorted; `start` [V+1] where the postings of each token begin; `post_record` [P] the names
    of a token as places in
    `records`, greatest impact first; `post_impact` [P] float32; `bound` [V, 4] float32, greatest impact of a token in
    names of at least
    m distinct tokens; `records` [N+P] int64, name after name: a head, then one cell per distinct token; `owner`,
    `preference` [N] int32 as in `Surfaces`.

    A cell of `records` holds two 32-bit numbers, see `unpack`: (number of the name, number of its tokens) in a head,
    (token, impact) after it. All that a name needs to be scored thus lies in one line of the processor's cache.
    """

    token_hash: npt.NDArray[np.uint64]
    start: npt.NDArray[np.int64]
    post_record: npt.NDArray[np.int32]
    post_impact: npt.NDArray[np.float32]
    bound: npt.NDArray[np.float32]
    records: npt.NDArray[np.int64]
    owner: npt.NDArray[np.int32]
    preference: npt.NDArray[np.int32]

    def write(self, folder: FolderWriter) -> None:
        """Write the arrays as columns of a folder."""
        for name, values in self._asdict().items():
            folder.array(f"bm25_{name}", values)

    @classmethod
    def read(cls, folder: Folder) -> Impacts:
        """Map the arrays of a folder."""
        return cls(**{name: folder.array(f"bm25_{name}") for name in cls._fields})


def pack(first: npt.NDArray[np.int32], second: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Put two arrays of 32-bit numbers into the halves of one of 64 bits."""
    cells = np.empty((len(first), 2), dtype=np.int32)
    cells[:, 0], cells[:, 1] = first, second.view(np.int32)
    return cells.view(np.int64)[:, 0]


def unpack(cells: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The two halves of each cell.

    Example:
        >>> first, second = unpack(pack(np.array([7], np.int32), np.array([1.5], np.float32)))
        >>> first.tolist(), second.view(np.float32).tolist()
        ([7], [1.5])
    """
    halves = cells.view(np.int32)
    return halves[0::2], halves[1::2]


def okapi_idf(document_frequency: npt.NDArray[np.int64], documents: int, epsilon: float) -> npt.NDArray[np.float64]:
    """Inverse document frequency of each token, as rank_bm25 defines it.

    idf = ln(N - n + 1/2) - ln(n + 1/2); where that is negative, epsilon times the mean over all tokens.

    Example:
        >>> okapi_idf(np.array([1, 1, 4]), 5, 0.25).round(3).tolist()
        [1.099, 1.099, 0.092]

    Source: rank_bm25's BM25Okapi (Trotman, Puurula and Burgess 2014 review the variants).
    """
    n = document_frequency.astype(np.float64)
    idf = np.log(documents - n + 0.5) - np.log(n + 0.5)
    mean = float(np.sum(idf)) / len(idf) if len(idf) else 0.0
    return np.where(idf < 0, epsilon * mean, idf)


def build_impacts(
    tokens: Iterable[Sequence[str]],
    owners: npt.NDArray[np.int64] | None = None,
    preference: npt.NDArray[np.int64] | None = None,
    *,
    k1: float = K1,
    b: float = B,
    epsilon: float = EPSILON,
) -> Impacts:
    """Index names given as token lists, which are read once.

    impact(t, d) = idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b |d| / mean |d|))

    Args:
        tokens: one token list per name.
        owners: [n] entity of each name; the name's own number where None.
        preference: [n] a permutation of 0..n-1, smaller first among equal scores; the name's own number where None.
        k1: at least 0.
        b: 0 to 1.
        epsilon: see `okapi_idf`.

    Raises:
        ValueError: a parameter out of its range, or lengths that differ.

    Numerics:
        Impacts are computed in float64 and kept as float32 (relative error 6e-8). Memory while building: the
        vocabulary as Python texts, and about 60 bytes per (token, name) pair.
    """
    if not k1 >= 0 or not 0 <= b <= 1:
        raise ValueError(f"k1, b: expected k1 >= 0 and 0 <= b <= 1, got {k1!r}, {b!r}")
    vocabulary: dict[str, int] = {}
    flat, lengths, full_lengths = array("i"), array("i"), array("i")
    frequencies: dict[int, int] = {}  # only of tokens that a name repeats: rare among names
    for name in tokens:
        distinct = dict.fromkeys(name)
        if len(distinct) != len(name):
            for offset, token in enumerate(distinct):
                frequencies[len(flat) + offset] = name.count(token)
        flat.extend([vocabulary.setdefault(token, len(vocabulary)) for token in distinct])
        lengths.append(len(distinct))
        full_lengths.append(len(name))
    count = len(lengths)
    for label, given in (("owners", owners), ("preference", preference)):
        if given is not None and len(given) != count:
            raise ValueError(f"{label}: expected {count} values, one per name, got {len(given)}")

    hashes = hash64(vocabulary)
    by_hash = np.argsort(hashes, kind="stable")
    number = np.empty(len(hashes), dtype=np.int32)
    number[by_hash] = np.arange(len(hashes), dtype=np.int32)
    doc_token = number[_view(flat)]
    doc_length = _view(lengths).astype(np.int64)
    doc_start = np.concatenate([[0], np.cumsum(doc_length)])
    tf = np.ones(len(flat), dtype=np.float64)
    if frequencies:
        tf[np.fromiter(frequencies.keys(), np.int64, len(frequencies))] = list(frequencies.values())

    document_frequency = np.bincount(doc_token, minlength=len(hashes))
    full = _view(full_lengths).astype(np.float64)
    mean_length = full.mean() if count and full.any() else 1.0
    norm = np.repeat(k1 * (1 - b + b * full / mean_length), doc_length)
    impact = okapi_idf(document_frequency, count, epsilon)[doc_token] * tf * (k1 + 1) / (tf + norm)
    doc_impact = impact.astype(np.float32)

    order = np.lexsort((-doc_impact, doc_token))
    start = np.concatenate([[0], np.cumsum(document_frequency)]).astype(np.int64)
    docs = np.repeat(np.arange(count, dtype=np.int32), doc_length)
    heads = doc_start[:-1] + np.arange(count)
    records = np.empty(len(flat) + count, dtype=np.int64)
    if len(records) > np.iinfo(np.int32).max:
        raise ValueError(f"tokens: expected at most 2**31 names and tokens together, got {len(records)}")
    records[heads] = pack(np.arange(count, dtype=np.int32), doc_length.astype(np.int32))
    records[np.arange(len(flat)) + docs + 1] = pack(doc_token, doc_impact)
    rows = np.arange(count)
    return Impacts(
        token_hash=hashes[by_hash],
        start=start,
        post_record=heads[docs[order]].astype(np.int32),
        post_impact=doc_impact[order],
        bound=_bounds(doc_impact[order], doc_length[docs[order]], start),
        records=records,
        owner=(rows if owners is None else owners).astype(np.int32),
        preference=(rows if preference is None else preference).astype(np.int32),
    )


def _view(values: array[int]) -> npt.NDArray[Any]:
    return np.frombuffer(values, dtype=np.int32) if len(values) else np.zeros(0, np.int32)


def _bounds(
    impact: npt.NDArray[np.float32], length: npt.NDArray[np.int64], start: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """Greatest impact of each token over names of at least m distinct tokens, [V, LENGTHS]; 0 without one."""
    bound = np.zeros((len(start) - 1, LENGTHS), dtype=np.float32)
    if len(impact):
        for m in range(LENGTHS):
            bound[:, m] = np.maximum.reduceat(np.where(length > m, impact, np.float32(0)), start[:-1])
    return bound
