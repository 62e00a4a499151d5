"""What an encoder takes on this machine, and which encoders are the same in all but name."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from gate_runner.encoders.encoder import Encoder
    from gate_runner.runs.stored import StoredRun
    from gate_runner.settings import Settings

_SAME = 1e-4
"""Of features' size, up to which two encoders' are the same."""


@dataclass(frozen=True)
class Costs:
    """What an encoder takes on this machine.

    Args:
        images_per_second: in batches, of pictures that are decoded already.
        milliseconds: for one picture alone, the median, likewise.
        parameters: weights, or None where they cannot be seen.
        weight_bytes: memory of weights and buffers.
        dollars: for a million pictures, or None without a price.
        read_per_second: pictures a second with reading and decoding, over the choice's own runs; None where these took
            all features from the cache.

    Example:
        >>> Costs(100.0, 12.0, 5, 20, None).images_per_second
        100.0
    """

    images_per_second: float
    milliseconds: float
    parameters: int | None
    weight_bytes: int
    dollars: float | None
    read_per_second: float | None = None


class Measured(NamedTuple):
    """An encoder's costs, the widths of its read-outs, and its features of a few pictures of noise."""

    costs: Costs
    widths: dict[str, int]
    features: Tensor


def measured(spec: str, settings: Settings, price: float | None, runs: Iterable[StoredRun]) -> Measured:
    """Load an encoder and measure it; ``runs`` are its own of the choice."""
    import torch

    from gate_runner.encoders.loading import device_for, load_encoder

    encoder = load_encoder(spec, device=device_for(settings.device))
    per_second = rate(encoder, min(32, settings.batch_size))
    weights = 0
    if encoder.module is not None:
        weights = sum(tensor.nbytes for tensor in (*encoder.module.parameters(), *encoder.module.buffers()))
    dollars = None if price is None else price / 3600 / per_second * 1e6
    results = [result for run in runs for result in run.results if result.memory.get("encoded")]
    seconds = sum(result.seconds.get("encode", 0.0) for result in results)
    read = sum(int(result.memory["encoded"]) for result in results) / seconds if seconds else None
    costs = Costs(per_second, 1000 / rate(encoder, 1), encoder.parameters(), weights, dollars, read)
    noise = torch.randint(0, 256, (4, *encoder.shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return Measured(costs, encoder.readouts(), encoder.encode_image(noise).float().cpu())


def twins(features: Mapping[str, Tensor]) -> dict[str, str]:
    """Encoders whose features are those of one before them, and of which."""
    first: list[str] = []
    same: dict[str, str] = {}
    for spec, rows in features.items():
        for earlier in first:
            earlier_rows = features[earlier]
            if rows.shape == earlier_rows.shape and float((rows - earlier_rows).abs().max()) <= _SAME * float(
                earlier_rows.abs().max()
            ):
                same[spec] = earlier
                break
        else:
            first.append(spec)
    return same


def rate(encoder: Encoder, batch: int, seconds: float = 0.2) -> float:
    """Pictures a second, by the median of as many calls as fit into the time, at least three, after one unmeasured."""
    import torch

    pictures = torch.randint(0, 256, (batch, *encoder.shape), dtype=torch.uint8)
    times: list[float] = []
    encoder.encode_image(pictures).cpu()
    begun = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        encoder.encode_image(pictures).cpu()
        times.append(time.perf_counter() - start)
    return batch / statistics.median(times)
