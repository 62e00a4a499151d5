"""Entities and questions to vectors, with any encoder that has `encode_text` and `encode_image`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from oven_retrieval.folder import FolderError
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.models.clip2clip import normalise
from oven_retrieval.names import NameLinker
from oven_retrieval.progress import Progress, Say
from oven_retrieval.ranking import Ranking
from oven_retrieval.tokens import one_hash
from oven_retrieval.vectors import VectorIndex, VectorStore, build_index, build_vectors, open_index, update_index
from oven_retrieval.vectors.plan import IndexPlan
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
    """An array from whatever an encoder returns: arrays, or torch tensors on any device."""
    if hasattr(features, "detach"):
        features = features.detach().cpu().float().numpy()
    return np.asarray(features)


def check_template(template: str) -> None:
    """Raise a ``ValueError`` for a template that there is not."""
    if template not in TEMPLATES:
        raise ValueError(f"template: expected one of {sorted(TEMPLATES)}, got {template!r}")


def entity_text(kb: KnowledgeBase, row: int, template: str = "name") -> str:
    """The text of an entity that is encoded: its name (as in the paper), or name and description.

    Source: OVEN footnote 2 uses the name alone.
    """
    check_template(template)
    description = kb.descriptions[row] if template == "description" else ""
    return TEMPLATES[template if description else "name"].format_map(
        {"name": kb.names[row], "description": description}
    )


def encode_names(
    kb: KnowledgeBase,
    encoder: TextEncoder | Callable[[], TextEncoder],
    path: str | Path,
    *,
    encoder_name: str,
    template: str = "name",
    batch: int = 256,
    dtype: npt.DTypeLike = np.float16,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> VectorStore:
    """Encode the text of every entity, brought to length 1, into a folder; the same call after a kill continues.

    Vectors of the same texts by the same encoder that are there already are taken over.
    """
    name = f"{encoder_name}; {template}"
    hashes = np.fromiter((one_hash(entity_text(kb, row, template))[0] for row in range(len(kb))), np.uint64, len(kb))
    former, before = np.full(len(kb), -1, np.int64), None
    if overwrite and Path(path).is_dir():
        with contextlib.suppress(FolderError):  # damaged, of an earlier version or by another encoder: all is encoded
            before = VectorStore(path, encoder=name, verify=True)
            former = before.rows_of(hashes)
    new = former < 0
    model: Any = encoder
    if new.any() and not hasattr(encoder, "encode_text"):
        model = encoder()

    def encode(first: int, last: int) -> Float32:
        fresh = np.flatnonzero(new[first:last])
        encoded = None
        if len(fresh):
            part = [entity_text(kb, first + row, template) for row in fresh.tolist()]
            label = f"features of entities {first + int(fresh[0])} to {first + int(fresh[-1])}"
            encoded = normalise(as_array(model.encode_text(part)), label=label)
            if before is None or len(fresh) == last - first:
                return encoded
        if before is None:
            raise ValueError(f"{kb.path}: expected at least one entity to encode, got none")
        vectors = before.array[np.maximum(former[first:last], 0)].astype(np.float32)
        if encoded is not None:
            vectors[fresh] = encoded
        return vectors

    return build_vectors(
        encode,
        len(kb),
        path,
        kb=kb.hash,
        encoder=name,
        dtype=dtype,
        chunk=batch,
        texts=hashes,
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
    """Bring `vectors/` and `index/` of a project up to date with its entities, and open them.

    Only texts that have no vector yet are encoded; an index is built anew.
    """
    store, index = VectorStore(Path(folder) / "vectors"), Path(folder) / "index"
    if store.meta["kb"] != kb.hash:
        name, _, template = str(store.meta["encoder"]).rpartition("; ")

        def load() -> TextEncoder:
            if make_encoder is None:
                raise ValueError(f"{store.path}: new texts to encode with {name!r}; expected an encoder")
            if say is not None:
                say(f"new texts to encode with {name}")
            return make_encoder(name)

        store = encode_names(
            kb,
            load,
            store.path,
            encoder_name=name,
            template=template,
            batch=batch,
            dtype=store.array.dtype,
            overwrite=True,
        )
    # Where nothing is left to search, an index of before stays: it is built anew in its way once there are entities.
    if index.is_dir() and len(store):
        return update_index(index, store, say=say)
    return VectorIndex(store, IndexPlan("exact", 0, 0.0, "no index was built"))


def open_vectors(folder: str | Path, kb: KnowledgeBase, *, encoder_name: str, template: str = "name") -> VectorIndex:
    """Open what `add_vectors` has written."""
    store = VectorStore(Path(folder) / "vectors", kb=kb.hash, encoder=f"{encoder_name}; {template}")
    if (Path(folder) / "index").is_dir() and len(store):
        return open_index(Path(folder) / "index", store)
    return VectorIndex(store, IndexPlan("exact", 0, 0.0, "no index was built"))


def search_features(index: VectorIndex, features: Any, k: int = 1) -> Ranking:
    """The k entities whose texts are nearest to features of images or texts, by cosine: CLIP zero-shot retrieval.

    Source: OVEN section 4.1, which calls it the naive application of CLIP.
    """
    return index.search(normalise(as_array(features), index.vectors.dim), k)
