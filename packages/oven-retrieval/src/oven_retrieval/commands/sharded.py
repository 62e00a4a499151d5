"""Searching shards, in this process or on a Ray cluster."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oven_retrieval.commands.encoders import Encoders, encoder_name
from oven_retrieval.commands.options import check_best

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Int64

    from oven_retrieval.kb import Label
    from oven_retrieval.shards import ShardedSearch, ShardLayout


def search_shards(
    encoders: Encoders,
    folder: Path,
    ray: str | None,
    encoder: str | None,
    images: list[Path],
    texts: list[str],
    names: list[str],
    k: int,
    template: str,
    device: str,
) -> list[dict[str, Any]]:
    """One record per query, as of the unsharded search."""
    from oven_retrieval.shards import ShardedSearch, ShardError, ShardLayout

    if not images and not texts and not names:
        raise ValueError("search --shards: expected --name, --image or --text, got none")
    try:
        layout = ShardLayout.read(folder)
        check_best(k, layout.firsts[-1])
        search = ShardedSearch(layout, None if ray is None else _workers(layout, ray))
        try:
            records = _names(search, names, k) if names else []
            if images or texts:
                records += _vectors(encoders, search, encoder, images, texts, k, template, device)
        finally:
            search.close()
    except (ShardError, ImportError) as error:
        raise ValueError(f"search --shards: {error}") from None
    return records


def _workers(layout: ShardLayout, address: str) -> Any:
    # Ray keeps to the loopback only where it is told so before it is imported; else it listens on every interface.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray

    from oven_retrieval.shards.ray_workers import RayWorkers

    if address == "local":
        ray.init(
            include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, _node_ip_address="127.0.0.1"
        )
        cluster_cpus = ray.cluster_resources().get("CPU", 1.0)  # type: ignore[no-untyped-call]  # ray leaves it without types
        cpus = float(cluster_cpus) / len(layout)
        return RayWorkers(layout, cpus=min(1.0, round(cpus - 0.005, 2)))
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    return RayWorkers(layout)


def _labels(search: ShardedSearch, rows: Int64[np.ndarray, "q k"]) -> Label:
    return search.records(rows).__getitem__


def _names(search: ShardedSearch, names: list[str], k: int) -> list[dict[str, Any]]:
    from oven_retrieval.workspace import describe_links

    links = search.link(names, k)
    return list(describe_links(_labels(search, links.rows), names, links))


def _vectors(
    encoders: Encoders,
    search: ShardedSearch,
    encoder: str | None,
    images: list[Path],
    texts: list[str],
    k: int,
    template: str,
    device: str,
) -> list[dict[str, Any]]:
    from oven_retrieval.encoding import as_array, describe_neighbours
    from oven_retrieval.models import normalise

    if encoder is None:
        raise ValueError("search --shards: expected --encoder with --image and --text")
    model = encoders.load(encoder, device)
    expected = f"{encoder_name(model)}; {template}"
    if search.layout.encoder != expected:
        raise ValueError(f"search --shards: the vectors are of {search.layout.encoder!r}, expected {expected!r}")
    records = []
    if images:
        neighbours = search.search(normalise(as_array(model.encode_image(encoders.read(images, model.image_size)))), k)
        records += describe_neighbours(_labels(search, neighbours.rows), [str(path) for path in images], neighbours)
    if texts:
        neighbours = search.search(normalise(as_array(model.encode_text(texts))), k)
        records += describe_neighbours(_labels(search, neighbours.rows), texts, neighbours)
    return records
