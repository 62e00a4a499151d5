"""What an export needs of a vector database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from oven_retrieval.ranking import Ranking
from oven_retrieval.vectors.store import Float32


class ExportError(RuntimeError):
    """A collection that is not what was exported, or a database that does not take what it is given.

    Example:
        >>> str(ExportError("entities: holds 3 vectors, expected 4"))
        'entities: holds 3 vectors, expected 4'
    """


class Record(NamedTuple):
    """What is stored with a vector, under the entity's row; `source` says which knowledge base and encoder.

    Example:
        >>> Record(0, "Q1", "Wood duck", "", "bird", "kb@encoder").entity_id
        'Q1'
    """

    row: int
    entity_id: str
    name: str
    description: str
    category: str
    source: str


class Collection(Protocol):
    """A named set of vectors with records, compared by inner product.

    Example:
        >>> sorted(name for name in vars(Collection) if not name.startswith("_"))
        ['close', 'count', 'finish', 'prepare', 'search', 'source', 'write']
    """

    name: str
    errors: tuple[type[Exception], ...]
    """What its client raises where the database does not answer."""

    def prepare(self, dim: int) -> None:
        """Create it for vectors of this width, or check that it has them."""
        ...

    def count(self) -> int:
        """How many vectors it holds."""
        ...

    def source(self, row: int) -> str | None:
        """`source` of what is stored under a row; None where nothing is."""
        ...

    def write(self, records: Sequence[Record], vectors: Float32) -> None:
        """Store; what is there under the same rows is replaced."""
        ...

    def finish(self) -> None:
        """Make what was written searchable and countable."""
        ...

    def search(self, queries: Float32, k: int) -> Ranking:
        """The k rows with the greatest inner product."""
        ...

    def close(self) -> None:
        """Give the connection back."""
        ...
