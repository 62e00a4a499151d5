"""The same result from Ray. `test_executors` runs this file by itself."""

from __future__ import annotations

from .test_executors import found


def test_ray():
    import ray

    assert found("ray:2").best == found("serial").best
    assert not ray.is_initialized()
