"""Entities and questions to vectors, with any encoder that has `encode_text` and `encode_image`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from oven_retrieval.folder import Folder, FolderError
from oven_retrieval.kb import KnowledgeBase, Label
from oven_retrieval.models.clip2clip import normalise
from oven_retrieval.names import NameLinker
from oven_retrieval.progress import Progress, Say
from oven_retrieval.ranking import Ranking
from oven_retrieval.vectors import (
    IndexPlan,
    VectorIndex,
    VectorStore,
    build_index,
    build_vectors,
    open_index,
    update_index,
)
from oven_retrieval.vectors.index import KIND as INDEX_KIND
from oven_retrieval.vectors.store import Float32

if TYPE_CHECKING:
    from jaxtyping import Shaped

TEMPLATES = {"name": "{name}", "description": "{name}: {description}"}


class TextEncoder(Protocol):
    """Anything that encodes texts into arrays or tensors [n, d]."""

    def encode_text(self, texts: list[str], /) -> Any:
        """Features of texts, [n, d]."""
        ...


def as_array(features: Any) -> Shaped[np.ndarray, " *shape"]:
    """An array from whatever an encoder returns: arrays, or torch tensors on any device.

    Example:
        >>> as_array([[1, 2]]).tolist()
        [[1, 2]]
    """
    if hasattr(features, "detach"):
        features = features.detach().cpu().float().numpy()
    return np.asarray(features)


def entity_text(kb: KnowledgeBase, row: int, template: str = "name") -> str:
    """The text of an entity that is encoded: its name (as in the paper), or name and description.

    Source: OVEN footnote 2 uses the name alone.
    """
    if template not in TEMPLATES:
        raise ValueError(f"template: expected one of {sorted(TEMPLATES)}, got {template!r}")
    description = kb.descriptions[row] if template == "description" else ""
    return TEMPLATES[template if description else "name"].format_map(
        {"name": kb.names[row], "description": description}
    )


def encode_names(
    kb: KnowledgeBase,
    encoder: TextEncoder,
    path: str | Path,
    *,
    encoder_name: str,
    template: str = "name",
    batch: int = 256,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> VectorStore:
    """Encode the text of every entity, brought to length 1, into a folder; the same call after a kill continues.

    Args:
        kb: the knowledge base.
        encoder: has `encode_text`.
        path: the new folder.
        encoder_name: kept in the folder; a search with another encoder is refused.
        template: `name` or `description`.
        batch: texts per call of the encoder.
        overwrite: replace vectors that are there.
        progress: called with the phase, how many entities are done, and how many there are.
    """

    def encode(first: int, last: int) -> Float32:
        texts = [entity_text(kb, row, template) for row in range(first, last)]
        return normalise(as_array(encoder.encode_text(texts)), label=f"features of entities {first} to {last - 1}")

    name = f"{encoder_name}; {template}"
    return build_vectors(
        encode,
        len(kb),
        path,
        kb=kb.hash,
        encoder=name,
        chunk=batch,
        removed=kb.removed,
        overwrite=overwrite,
        progress=progress,
    )


def add_vectors(
    linker: NameLinker,
    folder: str | Path,
    encoder: TextEncoder,
    *,
    encoder_name: str,
    template: str = "name",
    memory_mb: float | None = None,
    recall: float = 0.96,
    overwrite: bool = False,
    say: Say | None = None,
    progress: Progress | None = None,
) -> VectorIndex:
    """Encode the entities of a project folder into `vectors/` and index them into `index/`.

    Arguments and errors as in `encode_names` and `build_index`.
    """
    store = encode_names(
        linker.kb,
        encoder,
        Path(folder) / "vectors",
        encoder_name=encoder_name,
        template=template,
        overwrite=overwrite,
        progress=progress,
    )
    return build_index(
        store,
        Path(folder) / "index",
        memory_mb=memory_mb,
        recall=recall,
        overwrite=overwrite,
        say=say,
        progress=progress,
    )


def update_vectors(
    folder: str | Path,
    kb: KnowledgeBase,
    make_encoder: Callable[[str], TextEncoder] | None = None,
    *,
    batch: int = 256,
    say: Say | None = None,
) -> VectorIndex:
    """Bring `vectors/` and `index/` of a project up to date with added and removed entities, and open them.

    Only new entities are encoded. Exact search then answers as after encoding everything again; an approximate
    index keeps its centroids (see `update_index`).

    Args:
        folder: the project.
        kb: the knowledge base as it is now.
        make_encoder: gives the encoder of a name that the vectors carry; called where there are new entities.
        batch: texts per call of the encoder.
        say: called with one line per step.
    """
    talk = say or (lambda line: None)
    path = Path(folder) / "vectors"
    store = VectorStore(path)
    index = Path(folder) / "index"
    if index.is_dir():
        built = Folder(index, INDEX_KIND).meta
        if built["vectors"] == store.hash and built["kb"] != store.meta["kb"]:
            update_index(index, store, kb.former_rows)  # it follows from these vectors' entities, not from earlier ones
    if store.meta["kb"] != kb.hash:
        former = kb.former_rows(store.meta["kb"])
        if former is None:
            raise FolderError(
                f"{path}: of the entities {store.meta['kb'][:12]}…, which {kb.path} has never held; encode again"
            )
        store = _moved(store, kb, former, make_encoder, batch, talk)
    if index.is_dir():
        return update_index(index, store, kb.former_rows, say=say)
    return VectorIndex(store, IndexPlan("exact", 0, 0.0, "no index was built"))


def _moved(
    store: VectorStore,
    kb: KnowledgeBase,
    former: npt.NDArray[np.int64],
    make_encoder: Callable[[str], TextEncoder] | None,
    batch: int,
    talk: Say,
) -> VectorStore:
    """The vectors in today's rows; those of new entities are encoded."""
    name, _, template = str(store.meta["encoder"]).rpartition("; ")
    removed = kb.removed
    new = (former < 0) & ~removed
    encode_text: Callable[[list[str]], Any] = list  # never called: no entity is new
    if new.any():
        if make_encoder is None:
            raise ValueError(
                f"{store.path}: {int(new.sum())} new entities to encode with {name!r}; expected an encoder"
            )
        encode_text = make_encoder(name).encode_text
        talk(f"{int(new.sum()):,} new entities to encode with {name}")

    def encode(first: int, last: int) -> Float32:
        vectors = np.zeros((last - first, store.dim), np.float32)
        old = np.flatnonzero(former[first:last] >= 0)
        vectors[old] = store.array[former[first:last][old]]
        fresh = np.flatnonzero(new[first:last])
        for start in range(0, len(fresh), batch):
            part = fresh[start : start + batch]
            texts = [entity_text(kb, first + row, template) for row in part.tolist()]
            vectors[part] = normalise(
                as_array(encode_text(texts)), store.dim, f"features of entities from {first + int(part[0])} on"
            )
        return vectors

    return build_vectors(
        encode,
        len(kb),
        store.path,
        kb=kb.hash,
        encoder=str(store.meta["encoder"]),
        dtype=store.array.dtype,
        chunk=4096,
        removed=removed,
        overwrite=True,
    )


def open_vectors(folder: str | Path, kb: KnowledgeBase, *, encoder_name: str, template: str = "name") -> VectorIndex:
    """Open what `add_vectors` has written."""
    store = VectorStore(Path(folder) / "vectors", kb=kb.hash, encoder=f"{encoder_name}; {template}")
    if (Path(folder) / "index").is_dir():
        return open_index(Path(folder) / "index", store)
    return VectorIndex(store, IndexPlan("exact", 0, 0.0, "no index was built"))


def search_features(index: VectorIndex, features: Any, k: int = 1) -> Ranking:
    """The k entities whose texts are nearest to features of images or texts, by cosine: CLIP zero-shot retrieval.

    Source: OVEN section 4.1, which calls it the naive application of CLIP.
    """
    return index.search(normalise(as_array(features), index.vectors.dim), k)


def describe_neighbours(label: Label, queries: Sequence[str], neighbours: Ranking) -> list[dict[str, Any]]:
    """One record per query: its own text and its entities with id, name and score."""
    return [
        {
            "query": query,
            "entities": [
                {**dict(zip(("id", "name"), label(row), strict=True)), "score": round(float(score), 4)}
                for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
                if row >= 0
            ],
        }
        for query, rows, scores in zip(queries, neighbours.rows, neighbours.scores, strict=True)
    ]
