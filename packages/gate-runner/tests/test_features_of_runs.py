"""Runs take features from the cache: each image is encoded once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate_runner.benchmarks import BENCHMARKS
from gate_runner.executors import run
from gate_runner.runs import RunRequest
from gate_runner.runs.results import Result
from gate_runner.settings import Settings
from vision_features.encoders.encoder import Encoder
from vision_features.features import cache

Cold = Callable[[], Path]


def request_with(own: str, output: Path, **options: Any) -> RunRequest:
    benchmark = BENCHMARKS["clevr-math"]
    training = {**benchmark.training, "steps": 6, "validate_every": 3}
    settings = Settings(limit=24, batch_size=16, device="cpu", recipe_fields={"head_width": 16}).changed(**options)
    return RunRequest([replace(benchmark, training=training)], f"{own}:grid", output, settings)


def scored(own: str, output: Path, **options: Any) -> Result:
    (result,) = run(request_with(own, output, **options))
    return result


def test_a_run_gives_the_same_whether_features_are_held_stored_or_made_again(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cold_cache: Cold
) -> None:
    in_memory = scored(own, tmp_path / "held")
    assert in_memory.status == "ok", in_memory.reason
    monkeypatch.setattr(cache, "IN_MEMORY", 0)
    read = scored(own, tmp_path / "read")
    cold_cache()
    again = scored(own, tmp_path / "again", feature_cache="1kB")
    assert "do not fit under the cap" in caplog.text
    # the scale is then measured in parts, in float64, which moves its last bits
    assert again.scores == read.scores
    assert [row["acc@1"] for row in read.training["validation"]] == pytest.approx(
        [row["acc@1"] for row in in_memory.training["validation"]], abs=0.06
    )


def test_seeds_benchmarks_and_runs_encode_a_picture_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cold_cache: Cold
) -> None:
    calls: list[int] = []
    plain = Encoder.encode_backbone

    def counting(self: Encoder, images: Any) -> Any:
        if len(images) > 2:  # as many has the check of an encoder, which another test may have seen made
            calls.append(len(images))
        return plain(self, images)

    monkeypatch.setattr(Encoder, "encode_backbone", counting)
    how = Settings(limit=40, seeds=(0, 1, 2), device="cpu")
    first = run(RunRequest([BENCHMARKS["digits"]], "micro-clip", tmp_path / "a", how))
    assert sum(calls) == 3 * 40  # three splits once for three seeds
    # of both kinds of features, the second of which is there with the first
    assert [result.memory["reused"] for result in first] == [120, 240, 240]
    whole = run(RunRequest([BENCHMARKS["digits"]], "micro-clip", tmp_path / "b", how.changed(seeds=[0])))
    assert sum(calls) == 3 * 40
    assert whole[0].scores == first[0].scores
    assert whole[0].samples_sha256 == first[0].samples_sha256
