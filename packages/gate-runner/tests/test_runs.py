"""A run as a whole: on a cheap encoder and few samples, from the first check to the last file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate_runner.benchmarks import BENCHMARKS, Benchmark, resolve
from gate_runner.errors import UsageError
from gate_runner.executors import run
from gate_runner.runs import Result, RunRequest
from gate_runner.runs.folder import RunFolder
from gate_runner.settings import Settings
from paired_scores.metrics import METRICS

STEPPED = {"lr": 1e-2, "steps": 600, "batch_size": 128, "validate_every": 50}
"""A linear head that is trained in steps, which can be interrupted, where it would be solved."""
RATE = {"lr": 1e-2}
"""Said by the settings: of whatever is trained in steps."""


def quick(names: list[str], **numbers: int) -> list[Benchmark]:
    """Benchmarks with a short training: what is tested is the run, not the score."""
    short = {"steps": 6, "validate_every": 3, "episodes": 20, **numbers}
    return [
        replace(
            benchmark, training={key: short.get(key, value) for key, value in (benchmark.training or STEPPED).items()}
        )
        for benchmark in resolve(names)
    ]


@pytest.fixture
def request_for(own: str, tmp_path: Path) -> RunRequest:
    return RunRequest(
        quick(["cifar100"], steps=40, validate_every=10),
        f"{own}:grid",
        tmp_path / "run",
        Settings(limit=64, recipe_fields=RATE),
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def comparable(path: Path) -> dict[str, Any]:
    """A result without what may differ between two runs: the times and the energy."""
    content: dict[str, Any] = json.loads(path.read_text())
    for varying in ("seconds", "energy", "memory", "digest"):
        content.pop(varying)
    return content


def test_every_kind_of_small_gives_scores_and_files(own: str, tmp_path: Path) -> None:
    results = []
    trained = ["acdc", "ade20k", "cifar100", "clevr-math", "iwildcam"]
    for pack, limit in ((trained, 8), (["mini"], 60)):
        results += run(RunRequest(quick(pack), f"{own}:grid", tmp_path / f"run{limit}", Settings(limit=limit)))
    assert [result.reason for result in results if result.status != "ok"] == []
    for result in results:
        benchmark = BENCHMARKS[result.benchmark]
        assert [score.metric for score in result.scores] == [METRICS[name].name for name in benchmark.metrics]
        assert all(score.low <= score.value <= score.high for score in result.scores)
        assert result.name == f"micro/{result.benchmark}"
        assert result.note == "synthetic stand-in"
        folder = RunFolder(tmp_path / f"run{result.settings['limit']}")
        assert Result.from_file(folder.result_file(result.name, 0)).to_json() == result.to_json()
        samples = np.load(folder.samples_file(result.name, 0))["outcomes"]
        headline = result.scores[0]
        again = METRICS[headline.metric].aggregate(samples, np.ones((1, len(samples))))[0]
        assert again == pytest.approx(headline.value, abs=1e-12)
        assert not folder.unfinished_file(result.name, 0).exists()


def test_two_runs_give_the_same_json(request_for: RunRequest, tmp_path: Path) -> None:
    other = replace(request_for, output=tmp_path / "other")
    run(request_for)
    run(other)
    paths = [RunFolder(request.output).result_file("micro/cifar100", 0) for request in (request_for, other)]
    assert comparable(paths[0]) == comparable(paths[1])


def test_another_seed_is_another_head_on_the_same_data(request_for: RunRequest) -> None:
    first, second = run(request_for.changed(seeds=(0, 1)))
    assert first.data == second.data
    assert first.training["validation"] != second.training["validation"]


def test_the_same_command_computes_nothing_again(request_for: RunRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(request_for)
    before = files(request_for.output / "results")

    def never(*_: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr("gate_runner.tasks.run_task", never)
    assert run(request_for) == first
    assert files(request_for.output / "results") == before


def test_a_failing_benchmark_is_a_row_and_the_rest_goes_on(own: str, tmp_path: Path) -> None:
    request = RunRequest(quick(["ade20k", "digits"]), f"{own}:pooled_only", tmp_path / "run", Settings(limit=40))
    failed, passed = run(request)
    assert failed.status == "failed"
    assert "gives pooled features only; this needs patch features" in failed.reason
    assert passed.status == "ok"
    folder = RunFolder(request.output)
    assert folder.finished("micro/ade20k", 0) is None  # it is tried again next time
    text = folder.failure_file("micro/ade20k", 0).read_text()
    assert text.startswith("Traceback (most recent call last):")
    assert text.rstrip().splitlines()[-1].startswith("vision_features.errors.MissingCapabilityError: ")
    assert not folder.failure_file("digits", 0).exists()
    folder.save(replace(passed, name="micro/ade20k"), np.zeros(3))  # as if it had succeeded the next time
    assert not folder.failure_file("micro/ade20k", 0).exists()


def test_an_interrupted_training_ends_as_an_undisturbed_one(
    request_for: RunRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = run(request_for)[0]
    cut = replace(request_for, output=tmp_path / "cut")

    from gate_runner.runs.display import PlainDisplay

    class Impatient(PlainDisplay):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            if phase == "train" and done == 27:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(cut, Impatient())
    assert RunFolder(cut.output).unfinished_file("micro/cifar100", 0).exists()
    steps = []

    class Counting(PlainDisplay):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            if phase == "train":
                steps.append(done)

    continued = run(cut, Counting())[0]
    assert steps[0] == 21  # after the last validation
    measured: dict[str, Any] = {"seconds": {}, "energy": {}, "memory": {}}
    assert replace(continued, **measured) == replace(undisturbed, **measured)


def test_a_folder_of_another_run_is_refused_untouched(request_for: RunRequest, own: str) -> None:
    run(request_for)
    before = files(request_for.output)
    for wrong, message in (
        (request_for.changed(limit=32), "with limit 64, not 32"),
        (replace(request_for, encoder=f"{own}:pooled_only"), "with encoder"),
    ):
        with pytest.raises(UsageError, match=message):
            run(wrong)
    assert files(request_for.output) == before


def test_a_half_written_result_is_named(request_for: RunRequest) -> None:
    run(request_for)
    path = RunFolder(request_for.output).result_file("micro/cifar100", 0)
    path.write_text(path.read_text()[:100])
    with pytest.raises(UsageError, match=f"{path.name} is not a result file"):
        run(request_for)
    path.write_text('{"schema": "gate-runner/result/0"}')
    with pytest.raises(UsageError, match="schema is 'gate-runner/result/0', expected 'gate-runner/result/4'"):
        run(request_for)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limit": 0}, "--limit must be at least 1, not 0"),
        ({"batch_size": 0}, "setting batch_size must be at least 1, not 0"),
        ({"source": "hubb"}, "has no source 'hubb'; it has: local, hub, micro"),
        ({"data_root": Path("nowhere")}, "data root nowhere is not a folder"),
        ({"micro_batches": 0}, "setting micro_batches must be at least 1, not 0"),
        ({"limmit": 3}, "unknown option 'limmit'; nearest: limit"),
    ],
)
def test_bad_requests_touch_nothing(request_for: RunRequest, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(request_for.changed(**change))
    assert not request_for.output.exists()


def test_nothing_to_run_and_no_encoder_touch_nothing(request_for: RunRequest) -> None:
    for change, message in (({"benchmarks": []}, "nothing to run"), ({"encoder": "micro-clop"}, "nearest: micro-clip")):
        with pytest.raises(UsageError, match=message):
            run(replace(request_for, **change))
    assert not request_for.output.exists()


def test_nan_in_the_middle_of_the_data_is_a_reason(
    request_for: RunRequest, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vision_features.encoders.encoder import Encoder

    whole = Encoder.encode_image

    def sometimes(self: Encoder, images: Any) -> Any:
        features = whole(self, images).clone()
        if len(images) > 2:
            features[1] = float("nan")
        return features

    monkeypatch.setattr(Encoder, "encode_image", sometimes)
    (result,) = run(request_for.changed(batch_size=16))
    assert result.reason == (
        f"encoder '{own}:grid' gave NaN or infinity for 1 of 16 images encoded together, the first at index 1 of the "
        "train split"
    )


def test_few_shot_says_when_there_are_too_few_classes(own: str, tmp_path: Path) -> None:
    (result,) = run(RunRequest(quick(["mini"]), f"{own}:grid", tmp_path / "run", Settings(limit=24)))
    assert (
        "train split: 5 ways need as many classes with 6 samples (shots + queries), but 4 of 4 classes have"
        in result.reason
    )
