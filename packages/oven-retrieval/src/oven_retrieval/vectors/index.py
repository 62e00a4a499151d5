"""Approximate search with FAISS: built in parts that survive a kill, tuned and measured against exact search."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
import numpy.typing as npt

from oven_retrieval.folder import Folder, FolderError
from oven_retrieval.folder_writer import FolderWriter
from oven_retrieval.progress import Progress, Say
from oven_retrieval.ranking import Ranking, check_k
from oven_retrieval.vectors.exact import Rows, exact_search, recall_at
from oven_retrieval.vectors.plan import IndexPlan, plan_index
from oven_retrieval.vectors.store import Float32, VectorStore, check_vectors
from wary_files.durable import locks, own_file

if TYPE_CHECKING:
    from collections.abc import Iterator


KIND = "oven-vector-index"
_TRAIN_PER_LIST = 50
_ADDED_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What was measured on the sample queries after the build.

    `recall_1`, `recall_10` against exact search; `wanted` recall at 1; `probes` lists visited per query;
    `milliseconds` of processor time per
    query in one batch, `exact_milliseconds` of exact search; `megabytes` of the index; `queries` how many;
    `cross_modal` whether they were given (else stored vectors were asked for themselves, which is easier).
    """

    recall_1: float
    recall_10: float
    wanted: float
    probes: int
    milliseconds: float
    exact_milliseconds: float
    megabytes: float
    queries: int
    cross_modal: bool

    def __str__(self) -> str:
        met = "" if self.recall_1 >= self.wanted else f", below the wanted {self.wanted}"
        kind = "given queries" if self.cross_modal else "stored vectors as queries (other modalities find less)"
        return (
            f"recall@1 {self.recall_1:.3f}{met}, recall@10 {self.recall_10:.3f} "
            f"against exact search on {self.queries} {kind}; {self.probes} probes, "
            f"{self.milliseconds:.3f} ms per query (exact {self.exact_milliseconds:.3f}), {self.megabytes:.1f} MB"
        )


class VectorIndex:
    """A searchable set of vectors: exact, or inverted lists.

    Args:
        vectors: the rows; kept for exact search.
        plan: what was built.
        index: the FAISS index; None for exact search.
        report: what was measured; None before.

    Example:
        >>> from oven_retrieval.vectors import ArrayRows
        >>> index = VectorIndex(ArrayRows(np.eye(3)), plan_index(3, 3))
        >>> index.search([[0.0, 1.0, 0.0]]).rows.tolist(), index.probes
        ([[1]], 0)
    """

    def __init__(self, vectors: Rows, plan: IndexPlan, index: Any = None, report: IndexReport | None = None) -> None:
        self.vectors, self.plan, self.report = vectors, plan, report
        self._index = index

    @property
    def probes(self) -> int:
        """Lists visited per query; 0 for exact search."""
        return 0 if self._index is None else int(faiss.extract_index_ivf(self._index).nprobe)

    @probes.setter
    def probes(self, value: int) -> None:
        if self._index is not None:
            faiss.extract_index_ivf(self._index).nprobe = value

    @property
    def megabytes(self) -> float:
        """Memory of the codes and the centroids; 0 for exact search, which maps the stored vectors."""
        if self._index is None:
            return 0.0
        lists = faiss.extract_index_ivf(self._index)
        return float(self._index.ntotal * (lists.code_size + 8) + lists.nlist * lists.d * 4) / 1e6

    def search(self, queries: npt.ArrayLike, k: int = 1) -> Ranking:
        """The k rows with the greatest inner product. Arguments and errors as in `exact_search`."""
        if self._index is None:
            return exact_search(queries, self.vectors, k)
        matrix = check_vectors(queries, self.vectors.dim, "queries")
        scores, rows = self._index.search(matrix, check_k(k))
        if rows.size and not -1 <= int(rows.min()) <= int(rows.max()) < len(self.vectors):
            wrong = rows[(rows < -1) | (rows >= len(self.vectors))][0]
            store = getattr(self.vectors, "path", "the vectors")
            raise FolderError(
                f"the index names row {wrong}, {store} has {len(self.vectors):,}: it was changed; rebuild it"
            )
        scores = np.where(rows < 0, -np.inf, scores).astype(np.float32)
        order = np.lexsort((np.where(rows < 0, np.iinfo(np.int64).max, rows), -scores), axis=1)
        return Ranking(rows.astype(np.int64), scores).ordered(order)  # FAISS leaves ties open


@locks("path")
def build_index(
    vectors: VectorStore,
    path: str | Path,
    *,
    plan: IndexPlan | None = None,
    memory_mb: float | None = None,
    recall: float = 0.96,
    queries: npt.ArrayLike | None = None,
    seed: int = 0,
    least_probes: int = 1,
    overwrite: bool = False,
    say: Say | None = None,
    progress: Progress | None = None,
) -> VectorIndex:
    """Build an index, tune it and measure it.

    Args:
        vectors: the stored vectors.
        path: the new folder.
        plan: what to build; None for `plan_index(len, dim, memory_mb=memory_mb, recall=recall)`.
        memory_mb: memory for the index.
        recall: wanted recall at 1; lists are visited until it is reached on the sample queries.
        queries: [q, d] sample, of the kind that will be asked; stored vectors where None.
        seed: of the samples for training and measuring.
        least_probes: lists that are visited at least.
        overwrite: replace an index that is there.
        say: called with what was planned and measured.
        progress: called with the phase, how many vectors are added, and how many there are.

    Returns:
        The index, with its `report`.

    Raises:
        ValueError: no index fits the memory; bad queries.

    Example:
        >>> import tempfile
        >>> from oven_retrieval.vectors import build_vectors
        >>> folder = Path(tempfile.mkdtemp())
        >>> store = build_vectors(lambda a, b: np.eye(8)[a:b], 8, folder / "vectors", kb="k", encoder="one-hot")
        >>> index = build_index(store, folder / "index")
        >>> index.plan.factory, index.search(np.eye(8)[:2]).rows.tolist()
        ('exact', [[0], [1]])
    """
    chosen = plan or plan_index(len(vectors), vectors.dim, memory_mb=memory_mb, recall=recall)
    talk = say or (lambda line: None)
    talk(chosen.reason)
    sample, cross_modal = _sample(vectors, queries, seed)
    with FolderWriter(path, KIND, overwrite=overwrite) as folder:
        index = None
        if chosen.factory != "exact":
            index = _trained(vectors, chosen, seed, progress)
        built = VectorIndex(vectors, chosen, index)
        built.report = measure(built, sample, recall=recall, cross_modal=cross_modal, least=least_probes)
        talk(str(built.report))
        if index is not None:
            file = Path(path).with_name(f"{Path(path).name}.faiss")
            _write_index(index, own_file(file))
            folder.adopt("index", file)
        folder.meta = {
            "vectors": vectors.hash,
            "memory_mb": memory_mb,
            "given": plan is not None,
            "plan": asdict(chosen),
            "report": asdict(built.report),
        }
    return built


@locks("path")
def update_index(path: str | Path, vectors: VectorStore, *, say: Say | None = None) -> VectorIndex:
    """Build an index anew, as it was built before, where its vectors have changed since; and open it.

    It visits at least as many lists as before: queries of another kind than stored vectors may have asked for them.

    Raises:
        FolderError: the index is damaged.

    Example:
        >>> import tempfile
        >>> from oven_retrieval.vectors import build_vectors
        >>> folder = Path(tempfile.mkdtemp())
        >>> store = build_vectors(lambda a, b: np.eye(8)[a:b], 8, folder / "vectors", kb="k", encoder="one-hot")
        >>> _ = build_index(store, folder / "index")
        >>> update_index(folder / "index", store).search(np.eye(8)[5:6]).rows.tolist()
        [[5]]
    """
    folder = Folder(path, KIND, verify=True)
    if folder.meta["vectors"] == vectors.hash:
        return open_index(path, vectors, verify=False)
    plan, report = stored_plan(folder)
    least = max(1, min(report.probes, plan.lists))
    given = plan if folder.meta.get("given") else None
    memory = folder.meta.get("memory_mb")
    return build_index(
        vectors,
        path,
        plan=given,
        memory_mb=memory,
        recall=report.wanted,
        least_probes=least,
        overwrite=True,
        say=say,
    )


def open_index(path: str | Path, vectors: VectorStore, *, verify: bool = True) -> VectorIndex:
    """Open an index of `build_index`.

    Raises:
        FolderError: damaged, or built from other vectors (both hashes are shown).

    Example:
        >>> import tempfile
        >>> from oven_retrieval.vectors import build_vectors
        >>> folder = Path(tempfile.mkdtemp())
        >>> store = build_vectors(lambda a, b: np.eye(8)[a:b], 8, folder / "vectors", kb="k", encoder="one-hot")
        >>> _ = build_index(store, folder / "index")
        >>> open_index(folder / "index", store).search(np.eye(8)[3:4]).rows.tolist()
        [[3]]
    """
    folder = Folder(path, KIND, verify=verify)
    if folder.meta["vectors"] != vectors.hash:
        raise FolderError(
            f"{folder.path}: built from the vectors {folder.meta['vectors'][:12]}…, "
            f"expected those of {vectors.path}, {vectors.hash[:12]}…; bring it up to date, or build it again"
        )
    plan, report = stored_plan(folder)
    return VectorIndex(vectors, plan, None if plan.factory == "exact" else stored_index(folder, vectors.dim), report)


def stored_plan(folder: Folder) -> tuple[IndexPlan, IndexReport]:
    """How an index was made, as its manifest says."""
    try:
        return IndexPlan(**folder.meta["plan"]), IndexReport(**folder.meta["report"])
    except TypeError as error:
        raise FolderError(f"{folder.path}: its manifest holds no plan or no report of an index ({error})") from None


def stored_index(folder: Folder, dim: int) -> Any:
    """FAISS's own index of vectors of a width; refused where it is of another kind than `build_index` writes."""
    file = folder.file("index")
    try:
        with _no_more_room_than(file.stat().st_size if "PQ" not in str(folder.meta["plan"]) else _PQ_TABLE):
            index = faiss.read_index(str(file))
        lists = faiss.extract_index_ivf(index)
    except (RuntimeError, MemoryError) as error:  # FAISS's words for a file that is none of its own
        message = (str(error).splitlines() or ["no memory"])[0]
        raise FolderError(f"{file}: FAISS cannot read it ({message}); `oven update --rebuild`") from None
    measured = index.d, index.metric_type, lists.metric_type
    if measured != (dim, faiss.METRIC_INNER_PRODUCT, faiss.METRIC_INNER_PRODUCT) or lists.nprobe < 1:
        raise FolderError(
            f"{file}: an index of {index.d} numbers, metric {index.metric_type} and {lists.nprobe} probes; expected "
            f"{dim}, {faiss.METRIC_INNER_PRODUCT} and at least 1; `oven update --rebuild`"
        )
    return index


_READING = threading.Lock()


_PQ_TABLE = 2 << 30
"""Bytes of the largest table that FAISS computes while it reads an index of product quantisers."""


@contextmanager
def _no_more_room_than(size: int) -> Iterator[None]:
    """Let FAISS make room for so many bytes or rounds at once, where its version can be told so."""
    limits = ("deserialization_vector_byte_limit", "deserialization_loop_limit")
    known = [name for name in limits if hasattr(faiss, f"set_{name}")]
    with _READING:
        before = [getattr(faiss, f"get_{name}")() for name in known]
        for name in known:
            getattr(faiss, f"set_{name}")(max(1, size))
        try:
            yield
        finally:
            for name, limit in zip(known, before, strict=True):
                getattr(faiss, f"set_{name}")(limit)


def measure(index: VectorIndex, queries: Float32, *, recall: float, cross_modal: bool, least: int = 1) -> IndexReport:
    """Visit `least` lists, twice as many … until the recall at 1 on these queries is reached, and report the cost."""
    k = min(10, len(index.vectors))
    start = time.process_time()
    exact = exact_search(queries, index.vectors, k)
    exact_ms = (time.process_time() - start) / len(queries) * 1000
    probes = least
    while True:
        index.probes = probes
        start = time.process_time()
        neighbours = index.search(queries, k)
        spent = (time.process_time() - start) / len(queries) * 1000
        first = recall_at(neighbours.rows, exact.rows, 1)
        if index.plan.lists == 0 or first >= recall or probes >= index.plan.lists:
            break
        probes = min(2 * probes, index.plan.lists)
    return IndexReport(
        recall_1=first,
        recall_10=recall_at(neighbours.rows, exact.rows, k),
        wanted=recall,
        probes=index.probes,
        milliseconds=spent,
        exact_milliseconds=exact_ms,
        megabytes=index.megabytes,
        queries=len(queries),
        cross_modal=cross_modal,
    )


def _sample(vectors: VectorStore, queries: npt.ArrayLike | None, seed: int) -> tuple[Float32, bool]:
    if queries is not None:
        sample = check_vectors(queries, vectors.dim, "queries")
        if not len(sample):
            raise ValueError("queries: expected at least one, got none")
        return sample, True
    rows = np.random.default_rng(seed).choice(np.arange(len(vectors)), min(1000, len(vectors)), replace=False)
    return np.asarray(vectors.array[np.sort(rows)], dtype=np.float32), False


def _trained(vectors: VectorStore, plan: IndexPlan, seed: int, progress: Progress | None) -> Any:
    """Inverted lists, trained on a sample, with all vectors in them."""
    index = faiss.index_factory(vectors.dim, plan.factory, faiss.METRIC_INNER_PRODUCT)
    sample = np.random.default_rng(seed + 1).permutation(len(vectors))[: _TRAIN_PER_LIST * plan.lists]
    index.train(np.asarray(vectors.array[np.sort(sample)], dtype=np.float32))
    for first in range(0, len(vectors), _ADDED_AT_ONCE):
        rows = np.arange(first, min(first + _ADDED_AT_ONCE, len(vectors)))
        index.add_with_ids(np.asarray(vectors.array[rows], dtype=np.float32), rows)
        if progress is not None:
            progress("index", int(rows[-1]) + 1, len(vectors))
    return index


def _write_index(index: Any, file: Path) -> None:
    try:
        faiss.write_index(index, str(file))
    except RuntimeError as error:  # FAISS's word for a full disk
        file.unlink(missing_ok=True)
        raise OSError(f"{file}: cannot be written ({str(error).splitlines()[0]})") from error
