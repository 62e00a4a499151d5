"""Qdrant: a server's address, or a folder for its embedded mode; needs the extra `qdrant`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oven_retrieval.export.target import ExportError, Record
from oven_retrieval.ranking import Ranking
from oven_retrieval.vectors.store import Float32


def _qdrant() -> Any:
    try:
        import qdrant_client
    except ModuleNotFoundError as error:
        if error.name != "qdrant_client":
            raise
        raise ImportError("exporting to Qdrant needs qdrant-client: pip install 'oven-retrieval[qdrant]'") from error
    return qdrant_client


class QdrantCollection:
    """A Qdrant collection."""

    def __init__(self, target: str, name: str, *, timeout: int = 60, api_key: str | None = None) -> None:
        self.name = name
        self._remote = target.startswith(("http://", "https://"))
        qdrant = _qdrant()
        server = {"url": target, "timeout": timeout, "api_key": api_key, "check_compatibility": False}
        self._client = qdrant.QdrantClient(**(server if self._remote else {"path": target}))
        client_errors = qdrant.http.exceptions
        self.errors: tuple[type[Exception], ...] = (
            client_errors.ApiException,
            client_errors.ResponseHandlingException,
        )
        self._models = qdrant.models

    def prepare(self, dim: int) -> None:
        """Create it for vectors of this width, or check that it has them."""
        if not self._client.collection_exists(self.name):
            self._client.create_collection(
                self.name, vectors_config=self._models.VectorParams(size=dim, distance=self._models.Distance.DOT)
            )
            return
        vector_params = self._client.get_collection(self.name).config.params.vectors
        dot = self._models.Distance.DOT
        if (
            not isinstance(vector_params, self._models.VectorParams)
            or vector_params.size != dim
            or vector_params.distance != dot
        ):
            raise ExportError(
                f"{self.name}: is there with {vector_params}, expected vectors of {dim} under inner product"
            )

    def count(self) -> int:
        """How many vectors it holds."""
        return int(self._client.count(self.name, exact=True).count)

    def source(self, row: int) -> str | None:
        """`source` of what is stored under a row."""
        points = self._client.retrieve(self.name, [row], with_payload=True)
        return None if not points else str((points[0].payload or {}).get("source"))

    def write(self, records: Sequence[Record], vectors: Float32) -> None:
        """Store; the payload is the record."""
        payloads = [{name: value for name, value in record._asdict().items() if name != "row"} for record in records]
        points = [
            self._models.PointStruct(id=record.row, vector=vector, payload=payload)
            for record, vector, payload in zip(records, vectors.tolist(), payloads, strict=True)
        ]
        self._client.upsert(self.name, points=points, wait=True)

    def finish(self) -> None:
        """Nothing to do: each write waits."""

    def search(self, queries: Float32, k: int) -> Ranking:
        """The k rows with the greatest inner product, compared exactly."""
        exact = self._models.SearchParams(exact=True) if self._remote else None  # the embedded mode is always exact
        requests = [
            self._models.QueryRequest(query=query.tolist(), limit=k, params=exact, with_payload=False)
            for query in queries
        ]
        ranking = Ranking.empty(len(queries), k, dtype=np.float32)
        for number, response in enumerate(self._client.query_batch_points(self.name, requests=requests)):
            for rank, point in enumerate(response.points):
                ranking.rows[number, rank], ranking.scores[number, rank] = int(point.id), point.score
        return ranking

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()
