"""Small videos whose frames tell their time, and what builders of videos are asked about them."""

from __future__ import annotations

import numpy as np
import pytest

from eqben_builder.building import Dropped
from eqben_builder.formats import PairRow, Picture

RATE = 10


def write_clip(path, seconds, levels=None):
    """Each second has a grey of its own, so that a frame tells its time."""
    av = pytest.importorskip("av")
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for k in range(seconds * RATE):
            level = (levels or [20 * s + 10 for s in range(seconds)])[k // RATE]
            image = np.full((48, 64, 3), level, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    return path


def second(image):
    return round((float(image.mean()) - 10) / 20)


def reasons(results):
    return sorted(result.reason for result in results if isinstance(result, Dropped))


def record_of(result, subset):
    extra = {"source": result.source, "certificate": result.certificate}
    return PairRow("x", subset, result.aspect, Picture(), Picture(), *result.captions, extra)
