"""Constrained decoding: a model may only generate names that exist."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

_TOKEN_BYTES = 4
_BLOCK = 4096
"""Names whose next token is looked at together."""


class HasTolist(Protocol):
    """A tensor of token numbers, [length]."""

    def tolist(self) -> list[int]:
        """As a list."""
        ...


class NameTrie:
    """All names as token sequences, sorted: names with one prefix lie side by side, and each step is a bisection.

    Args:
        sequences: token numbers of each name, without start and end marks; equal ones are kept, so that entities with
            one name are all returned.
        end: number of the token that ends a text; it is allowed where a name is complete.

    Raises:
        ValueError: there is no name, or one is empty or holds the end mark or a negative number; its row is shown.

    Numerics:
        4 bytes per token and 24 per name: 6 million names of 5 tokens take about 260 MB, and about 4 times that while
        they are sorted. A step looks at whole blocks of names, and leaves out the rest of those that go on alike: 1 ms
        for 10,000 allowed tokens among a million names. The first step's are computed once.

    Example:
        >>> trie = NameTrie([[5, 6], [5, 7, 8], [5, 6, 9]], end=1)
        >>> trie.allowed([]), trie.allowed([5]), trie.allowed([5, 6]), trie.allowed([5, 7, 8]), trie.allowed([4])
        ([5], [6, 7], [1, 9], [1], [])
        >>> trie.rows([5, 6])
        [0]

    Source: prefix-constrained generation as in De Cao et al. 2021 (GENRE); OVEN section 6 leaves it to future work.
    Theirs is a trie of dictionaries.
    """

    def __init__(self, sequences: Iterable[Sequence[int]], end: int) -> None:
        self.end = end
        names: list[bytes] = []
        for row, sequence in enumerate(sequences):
            name = tuple(sequence)
            if not name or min(name) < 0 or end in name:
                raise ValueError(
                    f"sequences: row {row} is {list(name)}; expected tokens of at least 0 without the end mark {end}"
                )
            names.append(struct.pack(f">{len(name)}i", *name))  # such bytes are ordered as the numbers are
        if not names:
            raise ValueError("sequences: expected at least one name, got none")
        self._order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
        lengths = np.array([len(name) for name in names], dtype=np.int64)[self._order] // _TOKEN_BYTES
        self._stop = np.cumsum(lengths)
        self._start = self._stop - lengths
        joined = b"".join(names[i] for i in self._order)
        self._tokens: npt.NDArray[np.int32] = np.frombuffer(joined, ">i4").astype(np.int32)
        self.longest = int(lengths.max())
        self._first = self._next(0, len(names), 0)

    def __len__(self) -> int:
        return len(self._order)

    def allowed(self, prefix: Sequence[int]) -> list[int]:
        """Tokens that may follow, rising, after the end mark where a name is complete; none where no name begins so."""
        if not prefix:
            return list(self._first)
        low, high = self._range(prefix)
        return self._next(low, high, len(prefix))

    def rows(self, sequence: Sequence[int]) -> list[int]:
        """Numbers of the names that are exactly this sequence, rising."""
        low, high = self._range(sequence)
        while low < high and self._length(low) == len(sequence):
            low += 1
        begin = self._range(sequence)[0]
        return sorted(self._order[begin:low].tolist())

    def _length(self, position: int) -> int:
        return int(self._stop[position] - self._start[position])

    def _token(self, position: int, depth: int) -> int:
        """Token of a name at a depth; -1 where the name is over, which sorts first."""
        at = int(self._start[position]) + depth
        return int(self._tokens[at]) if at < self._stop[position] else -1

    def _bisect(self, low: int, high: int, depth: int, token: int, after: bool) -> int:
        while low < high:
            middle = (low + high) // 2
            middle_token = self._token(middle, depth)
            if middle_token < token or (after and middle_token == token):
                low = middle + 1
            else:
                high = middle
        return low

    def _range(self, prefix: Sequence[int]) -> tuple[int, int]:
        low, high = 0, len(self)
        for depth, token in enumerate(prefix):
            low, high = self._bisect(low, high, depth, token, False), self._bisect(low, high, depth, token, True)
        return low, high

    def _next(self, low: int, high: int, depth: int) -> list[int]:
        """Tokens at a depth of the names low..high-1, which are alike before it."""
        tokens: list[int] = []
        while low < high:
            block = slice(low, min(low + _BLOCK, high))
            at = self._start[block] + depth
            values = np.where(at < self._stop[block], self._tokens[np.minimum(at, len(self._tokens) - 1)], -1)
            tokens += values[np.flatnonzero(np.diff(values, prepend=-2))].tolist()
            low = block.stop
            if low < high and self._token(low, depth) == tokens[-1]:
                low = self._bisect(low, high, depth, tokens[-1], True)
        if tokens and tokens[0] < 0:
            tokens[0] = self.end
        return tokens


def allowed_tokens_fn(trie: NameTrie, prompt_length: int | None = None) -> Callable[[int, HasTolist], list[int]]:
    """The `prefix_allowed_tokens_fn` that transformers' `generate` takes.

    Args:
        trie: the names, in the model's own tokens.
        prompt_length: tokens before the name: the prompt's of a decoder-only model, 1 (the start token) of an
            encoder-decoder. None takes what is there at the first call, which is right for any model; the function
            then serves one call of `generate`.

    Returns:
        A function of (number in the batch, tokens so far) to the tokens that may follow. After a complete name, and
        after anything that begins none, only the end mark may.

    Example:
        >>> trie = NameTrie([[5, 6], [5, 7]], end=1)
        >>> allowed_tokens_fn(trie, prompt_length=2)(0, np.array([3, 3, 5]))
        [6, 7]
    """
    if prompt_length is not None and prompt_length < 0:
        raise ValueError(f"prompt_length: expected at least 0, got {prompt_length}")
    before = prompt_length

    def allowed(batch: int, tokens: HasTolist) -> list[int]:
        nonlocal before
        so_far: list[Any] = tokens.tolist()
        before = len(so_far) if before is None else before
        prefix = so_far[before:]
        if trie.end in prefix:
            return [trie.end]
        return trie.allowed(prefix) or [trie.end]

    return allowed
