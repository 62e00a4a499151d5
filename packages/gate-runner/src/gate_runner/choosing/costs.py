"""What encoders cost on this machine: speed, weights, memory; and encoders that stay loaded while there is room."""

from __future__ import annotations

import statistics
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gate_runner.machine.resources import free_memory, release

if TYPE_CHECKING:
    from torch import Tensor

    from vision_features.encoders.encoder import Encoder

_SAME = 1e-4
"""Share of features' size up to which two encoders' are the same."""
BUSY = 1.2
"""How many times the clock's seconds may exceed the processor's before the machine counts as busy."""
_HELD = 0.25
"""Share of the free memory that loaded encoders may take together."""


@dataclass(frozen=True)
class Costs:
    """What an encoder takes on this machine.

    Args:
        images_per_second: in batches, of images that are decoded already; from processor time where ``busy``.
        milliseconds: for one image alone, the median, likewise.
        parameters: weights, or None where they cannot be seen.
        weight_bytes: memory of weights and buffers.
        read_per_second: images a second with reading and decoding, over the choice's own runs, by the clock; None
            where these took all features from the cache.
        dollars: for a million images, or None without a price.
        clock_per_second: images a second in batches by the clock.
        slow: images a second in the slower quarter of the batches, which says how far the speed varied.
        fast: likewise in the faster quarter.
        busy: other work took so much of the machine that the clock's figure is more than 20 % below the processor's.
    """

    images_per_second: float
    milliseconds: float
    parameters: int | None
    weight_bytes: int
    read_per_second: float | None = None
    dollars: float | None = None
    clock_per_second: float | None = None
    slow: float | None = None
    fast: float | None = None
    busy: bool = False


class Speed(NamedTuple):
    """Images a second: of the median call, and of the calls at the slower and the faster quartile."""

    median: float
    slow: float
    fast: float

    @classmethod
    def of(cls, batch: int, seconds: Sequence[float]) -> Speed:
        """From the seconds of each call."""
        quick, median, slow = statistics.quantiles(seconds, n=4, method="inclusive")
        return cls(batch / median, batch / slow, batch / quick)


class Measured(NamedTuple):
    """An encoder's costs, the widths of its read-outs, and its features of a few images of noise."""

    costs: Costs
    widths: Mapping[str, int]
    features: Tensor


def measured(encoder: Encoder, batch: int, price: float | None = None) -> Measured:
    """Measure an encoder; ``price`` is in dollars for an hour of this machine."""
    import torch

    weights = 0
    if encoder.module is not None:
        weights = sum(tensor.nbytes for tensor in (*encoder.module.parameters(), *encoder.module.buffers()))
    clock, processor = speeds(encoder, batch)
    busy = processor is not None and processor.median > BUSY * clock.median
    alone_clock, alone_processor = speeds(encoder, 1)
    batches = processor if busy and processor is not None else clock
    alone = alone_processor if busy and alone_processor is not None else alone_clock
    dollars = None if price is None else price / 3600 / batches.median * 1e6
    costs = Costs(
        batches.median,
        1000 / alone.median,
        encoder.parameters(),
        weights,
        dollars=dollars,
        clock_per_second=clock.median,
        slow=batches.slow,
        fast=batches.fast,
        busy=busy,
    )
    noise = torch.randint(0, 256, (4, *encoder.shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return Measured(costs, dict(encoder.readouts()), encoder.encode_image(noise).float().cpu())


def speeds(encoder: Encoder, batch: int, seconds: float = 0.2) -> tuple[Speed, Speed | None]:
    """Return images a second by the clock, and by processor time.

    Processor time is that of all threads over their number, so both are equal on a machine without other work. On a
    GPU it says nothing of the encoder, and is None. At least three calls are measured, after one that is not.
    """
    import torch

    noise = torch.randint(0, 256, (batch, *encoder.shape), generator=torch.Generator(), dtype=torch.uint8)
    encoder.encode_image(noise).cpu()
    clock: list[float] = []
    processor: list[float] = []
    begun = time.perf_counter()
    while len(clock) < 3 or time.perf_counter() - begun < seconds:
        start, used = time.perf_counter(), time.process_time()
        encoder.encode_image(noise).cpu()
        clock.append(time.perf_counter() - start)
        processor.append((time.process_time() - used) / torch.get_num_threads())
    if encoder.device.type != "cpu" or min(processor) <= 0:
        return Speed.of(batch, clock), None
    return Speed.of(batch, clock), Speed.of(batch, processor)


def twins(features: Mapping[str, Tensor]) -> dict[str, str]:
    """Encoders whose features of the same images are those of one before them, and of which."""
    same: dict[str, str] = {}
    for spec, rows in features.items():
        for earlier, others in features.items():
            if earlier == spec:
                break
            if others.shape == rows.shape and float((rows - others).abs().max()) <= _SAME * float(others.abs().max()):
                same[spec] = earlier
                break
    return same


class LoadedEncoders:
    """Encoders by their specs, each loaded when it is first asked for and held while there is room.

    Args:
        device: a torch device, or ``"auto"``.
        room: bytes of weights that may be held together; by default a quarter of the memory that is free on the device.
    """

    def __init__(self, device: str = "auto", room: int | None = None) -> None:
        self.device, self.room = device, room
        self._held: OrderedDict[str, Encoder] = OrderedDict()

    def get(self, spec: str) -> Encoder:
        """Return an encoder; those that were not asked for the longest go where there is no room for all.

        Raises:
            UsageError: the spec is wrong.
            EncoderError: the encoder does not load.
        """
        from vision_features.encoders.loading import device_for, load_encoder

        if spec in self._held:
            self._held.move_to_end(spec)
            return self._held[spec]
        device = device_for(self.device)
        if self.room is None:
            self.room = _room(device)
        self._fit(0)
        encoder = load_encoder(spec, device=device)
        self._held[spec] = encoder
        self._fit(1)
        return encoder

    def _fit(self, at_least: int) -> None:
        """Let go of the first ones until the others fit."""
        gone = False
        while len(self._held) > at_least and sum(map(_bytes, self._held.values())) > (self.room or 0):
            self._held.popitem(last=False)
            gone = True
        if gone:
            release()


def _bytes(encoder: Encoder) -> int:
    if encoder.module is None:
        return 0
    return sum(tensor.nbytes for tensor in (*encoder.module.parameters(), *encoder.module.buffers()))


def _room(device: str) -> int:
    """Return how many bytes of weights may be held on a device."""
    import torch

    if device.startswith("cuda"):
        return int(_HELD * torch.cuda.mem_get_info(device)[0])
    return int(_HELD * (free_memory() or 0))
