"""Milvus: a server's address, or a `.db` path for its embedded mode; needs the extra `milvus`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oven_retrieval.export.target import ExportError, Record
from oven_retrieval.ranking import Ranking
from oven_retrieval.vectors.store import Float32

LONGEST = 65_535
"""Bytes of a Milvus VARCHAR; longer texts are cut at a character."""


def cut(text: str, limit: int = LONGEST) -> str:
    """A text of at most `limit` bytes of UTF-8."""
    encoded = text.encode("utf-8", "replace")
    return encoded[:limit].decode("utf-8", "ignore") if len(encoded) > limit else text


def _milvus() -> Any:
    try:
        import pymilvus
    except ModuleNotFoundError as error:
        if error.name != "pymilvus":
            raise
        raise ImportError("exporting to Milvus needs pymilvus: pip install 'oven-retrieval[milvus]'") from error
    return pymilvus


class MilvusCollection:
    """A Milvus collection with an exact (FLAT) index."""

    def __init__(self, target: str, name: str, *, timeout: float = 60, token: str = "") -> None:
        if not target.startswith(("http://", "https://")) and not target.endswith(".db"):
            raise ExportError(f"target: expected http://…, https://… or a path that ends in .db, got {target!r}")
        self.name = name
        milvus = _milvus()
        self.errors: tuple[type[Exception], ...] = (milvus.MilvusException,)
        try:
            # What it is given here bounds the connecting alone; a request without a limit of its own waits for ever.
            self._client = milvus.MilvusClient(uri=target, token=token, timeout=timeout)
        except milvus.MilvusException as error:
            raise ExportError(f"{target}: {error.message}") from None
        self._types, self._timeout = milvus.DataType, timeout

    def _ask(self, request: str, *arguments: Any, **options: Any) -> Any:
        return getattr(self._client, request)(self.name, *arguments, timeout=self._timeout, **options)

    def prepare(self, dim: int) -> None:
        """Create it for vectors of this width, or check that it has them."""
        if self._ask("has_collection"):
            fields = {field["name"]: field for field in self._ask("describe_collection")["fields"]}
            stored_dim = int(fields.get("vector", {}).get("params", {}).get("dim", 0))
            if stored_dim != dim or not {"row", *Record._fields} <= fields.keys():
                raise ExportError(
                    f"{self.name}: is there with vectors of {stored_dim} and the fields {sorted(fields)}, "
                    f"expected {dim} and {sorted({'vector', *Record._fields})}"
                )
            self._ask("load_collection")
            return
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("row", self._types.INT64, is_primary=True)
        for field in Record._fields[1:]:
            schema.add_field(field, self._types.VARCHAR, max_length=LONGEST)
        schema.add_field("vector", self._types.FLOAT_VECTOR, dim=dim)
        index = self._client.prepare_index_params()
        index.add_index("vector", index_type="FLAT", metric_type="IP")
        self._ask("create_collection", schema=schema, index_params=index)
        self._ask("load_collection")

    def count(self) -> int:
        """How many vectors it holds."""
        return int(self._ask("query", filter="", output_fields=["count(*)"])[0]["count(*)"])

    def source(self, row: int) -> str | None:
        """`source` of what is stored under a row."""
        records = self._ask("query", filter=f"row == {int(row)}", output_fields=["source"])
        return None if not records else str(records[0]["source"])

    def write(self, records: Sequence[Record], vectors: Float32) -> None:
        """Store; texts that are too long for Milvus are cut."""
        rows: list[dict[str, Any]] = []
        for record, vector in zip(records, vectors.tolist(), strict=True):
            texts = {name: cut(str(value)) for name, value in record._asdict().items() if name != "row"}
            rows.append({"row": record.row, **texts, "vector": vector})
        self._ask("upsert", rows)

    def finish(self) -> None:
        """Write out what Milvus holds in memory."""
        self._ask("flush")

    def search(self, queries: Float32, k: int) -> Ranking:
        """The k rows with the greatest inner product."""
        ranking = Ranking.empty(len(queries), k, dtype=np.float32)
        for number, hits in enumerate(self._ask("search", data=queries.tolist(), limit=k)):
            for rank, hit in enumerate(hits):
                ranking.rows[number, rank], ranking.scores[number, rank] = int(hit["row"]), float(hit["distance"])
        return ranking

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()
