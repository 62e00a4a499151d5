"""Searching shards, in this process or on a Ray cluster."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_runner.commands.oven.options import check_best, encoder_name
from gate_runner.commands.oven.pictures import read_pictures

if TYPE_CHECKING:
    from oven_retrieval.shards import ShardedSearch, ShardLayout
    from oven_retrieval.vectors import Neighbours


def search_shards(
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
    """One record per query, as of the unsharded search.

    Args:
        folder: of `shard`.
        ray: address of a cluster, `local`, or None for this process.
        encoder: the encoder that `build` was given; for images and texts.
        images: to look for.
        texts: to look for.
        names: to link.
        k: entities per query.
        template: as in `build`.
        device: torch device.

    Returns:
        The records: names first, then images, then texts.

    Raises:
        UsageError: nothing to look for, no encoder, or a shard that cannot be asked.
    """
    from gate_runner.errors import UsageError
    from oven_retrieval.shards import ShardedSearch, ShardError, ShardLayout

    if not images and not texts and not names:
        raise UsageError("search --shards: expected --name, --image or --text, got none")
    try:
        layout = ShardLayout.read(folder)
        check_best(k, layout.firsts[-1])
        search = ShardedSearch(layout, None if ray is None else _workers(layout, ray))
        try:
            records = _names(search, names, k) if names else []
            if images or texts:
                records += _vectors(search, encoder, images, texts, k, template, device)
        finally:
            search.close()
    except (ShardError, ImportError) as error:
        raise UsageError(f"search --shards: {error}") from None
    return records


def _workers(layout: ShardLayout, address: str) -> Any:
    import ray

    from oven_retrieval.shards.ray_workers import RayWorkers

    if address == "local":
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        there = ray.cluster_resources().get("CPU", 1.0)  # type: ignore[no-untyped-call]  # ray leaves it without types
        cpus = float(there) / len(layout)
        return RayWorkers(layout, cpus=min(1.0, round(cpus - 0.005, 2)))
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    return RayWorkers(layout)


def _names(search: ShardedSearch, names: list[str], k: int) -> list[dict[str, Any]]:
    import numpy as np

    from oven_retrieval import STEPS

    links = search.link(names, k)
    known = search.records(links.rows)
    return [
        {
            "query": name,
            "entities": [
                {
                    "id": known[row][0],
                    "name": known[row][1],
                    "step": STEPS[step],
                    "score": None if np.isnan(score) else round(float(score), 4),
                }
                for row, step, score in zip(rows.tolist(), steps.tolist(), scores.tolist(), strict=True)
                if row >= 0
            ],
        }
        for name, rows, steps, scores in zip(names, links.rows, links.steps, links.scores, strict=True)
    ]


def _vectors(
    search: ShardedSearch,
    encoder: str | None,
    images: list[Path],
    texts: list[str],
    k: int,
    template: str,
    device: str,
) -> list[dict[str, Any]]:
    from gate_runner.encoders import load_encoder
    from gate_runner.errors import UsageError
    from oven_retrieval.encoding import as_array
    from oven_retrieval.models import normalise

    if encoder is None:
        raise UsageError("search --shards: expected --encoder with --image and --text")
    model = load_encoder(encoder, device=device)
    wanted = f"{encoder_name(model)}; {template}"
    if search.layout.encoder != wanted:
        raise UsageError(f"search --shards: the vectors are of {search.layout.encoder!r}, expected {wanted!r}")
    records = []
    if images:
        found = search.search(normalise(as_array(model.encode_image(read_pictures(images, model.image_size)))), k)
        records += _describe(search, [str(path) for path in images], found)
    if texts:
        records += _describe(search, texts, search.search(normalise(as_array(model.encode_text(texts))), k))
    return records


def _describe(search: ShardedSearch, labels: list[str], found: Neighbours) -> list[dict[str, Any]]:
    known = search.records(found.rows)
    return [
        {
            "query": label,
            "entities": [
                {"id": known[row][0], "name": known[row][1], "score": round(float(score), 4)}
                for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
                if row >= 0
            ],
        }
        for label, rows, scores in zip(labels, found.rows, found.scores, strict=True)
    ]
