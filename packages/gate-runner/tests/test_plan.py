"""A plan: numbers without making everything, phases that add up, a budget, commands that run alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gate_runner.benchmarks import BENCHMARKS, Benchmark, DataRequest, resolve
from gate_runner.commands.run import _show
from gate_runner.errors import UsageError
from gate_runner.executors import run
from gate_runner.planning.plan import Choice, Plan, UnitPlan, best_subset, plan
from gate_runner.planning.probe import _train_seconds, count
from gate_runner.runs import RunRequest
from gate_runner.runs.folder import RunFolder, stored_plan
from gate_runner.runs.request import eval_units_of, make_request
from gate_runner.runs.unit import EvalUnit
from gate_runner.settings import Settings
from gate_runner.tasks import find_task_type
from gate_runner.tasks.recipes import recipe_of_family

from ._command import call_here


def part_of(name: str, output: Path, limit: int | None) -> EvalUnit:
    return eval_units_of(RunRequest(resolve([name]), "micro-clip", output, Settings(limit=limit)))[0]


@pytest.mark.parametrize("name", ["acdc", "clevr-math", "mini", "pairs", "digits"])
def test_samples_are_counted_without_making_them_all(name: str, tmp_path: Path) -> None:
    loaded = BENCHMARKS[name].load(part_of(name, tmp_path, 40).source, DataRequest(limit=40))
    counted = count(part_of(name, tmp_path, 40), 8, 64)
    assert counted.samples == (len(loaded.train), len(loaded.validation), len(loaded.test))
    assert len(counted.data.test) < len(loaded.test)
    assert counted.seconds > 0


def test_counts_of_a_whole_stand_in(tmp_path: Path) -> None:
    counted = count(part_of("acdc", tmp_path, None), 8, 64)
    assert counted.samples == (560, 96, 320)
    assert len(counted.data.train) == 8


def test_what_is_no_more_than_the_probe_looks_at_is_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads, load = [], Benchmark.load
    monkeypatch.setattr(Benchmark, "load", lambda self, *source: (loads.append(source), load(self, *source))[1])
    for limit, times in ((8, 1), (9, 2)):
        loads.clear()
        assert count(part_of("clevr-math", tmp_path, limit), 8, 64).samples == (limit,) * 3
        assert len(loads) == times


def test_a_plan_comes_near_what_the_run_takes(own: str, tmp_path: Path) -> None:
    """Not a measurement, which would need a quiet machine: within a factor, and in the right order."""
    benchmarks = [
        replace(part, training={**part.training, "steps": steps, "validate_every": 20})
        for part, steps in zip(resolve(["digits", "iwildcam"]), (20, 60), strict=True)
    ]
    request = RunRequest(benchmarks, f"{own}:grid", tmp_path / "run", Settings(limit=60))
    estimate = plan(request)
    results = run(request)
    planned, seconds = [part.seconds for part in estimate.parts], [part.seconds["total"] for part in results]
    assert planned[0] < planned[1]
    assert sum(seconds) / 4 < sum(planned) < sum(seconds) * 4
    for part, result in zip(estimate.parts, results, strict=True):
        assert part.seconds == pytest.approx(sum(part.phases.values()))
        assert set(part.phases) == {"data", "encode", "train", "test", "rest"}
        assert part.peak_bytes / 2 < result.memory["peak_bytes"] < part.peak_bytes * 2
    assert stored_plan(request.output) == {(part.name, part.seed): part.seconds for part in estimate.parts}


def test_the_time_of_a_solved_head_grows_with_its_images_and_not_with_steps(tmp_path: Path) -> None:
    part, task = part_of("acdc", tmp_path, None), find_task_type("medical-segmentation")
    counted = SimpleNamespace(here=(50, 20, 20), samples=(300, 20, 20), times=lambda split: 6.0)

    def seconds(steps: int) -> float:
        outcome = SimpleNamespace(training={"steps": steps})
        timed = SimpleNamespace(spent={"train": 2.0}, gaps=[1.0] * 7, outcome=outcome)
        return _train_seconds(part, task, cast(Any, counted), cast(Any, timed))

    assert seconds(0) == 12.0
    assert seconds(12) > 300


def test_a_plan_scores_nothing_and_knows_what_would_fail(own: str, tmp_path: Path) -> None:
    request = RunRequest(
        resolve(["ade20k", "digits"]), f"{own}:pooled_only", tmp_path / "run", Settings(limit=40, seeds=(0, 1))
    )
    planned = plan(request)
    assert [path.name for path in request.output.iterdir()] == ["plan.json"]
    assert [part.seed for part in planned.parts] == [0, 1, 0, 1]
    assert all("gives pooled features only" in part.reason for part in planned.parts[:2])
    assert planned.parts[2].seconds == planned.parts[3].seconds > 0
    assert list(stored_plan(request.output)) == [("digits", 0), ("digits", 1)]
    assert stored_plan(tmp_path) == {}


def test_what_is_done_costs_nothing_and_the_run_shows_both(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = RunRequest(resolve(["digits"]), f"{own}:grid", tmp_path / "run", Settings(limit=40))
    first = plan(request)
    run(request)
    header = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("benchmark"))
    assert header.split()[-3:] == ["s", "plan", "source"]
    again = plan(request)
    assert (first.parts[0].done, again.parts[0].done) == (False, True)
    assert again.seconds == 0


@pytest.fixture
def slow_image() -> Iterator[Callable[[int], None]]:
    """Let the probe's clock pass 0.02 s for each of some images."""
    from gate_runner.planning import probe as probing

    seconds = 0.0

    def encoded(images: int) -> None:
        nonlocal seconds
        seconds += 0.02 * images

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probing, "time", SimpleNamespace(perf_counter=lambda: seconds))
        yield encoded


def test_a_slow_encoder_is_asked_for_few_images(slow_image: Callable[[int], None]) -> None:
    import torch

    from gate_runner.planning import probe as probing
    from vision_features.encoders.encoder import Encoder

    batch_sizes: list[int] = []

    def slow(images: torch.Tensor) -> torch.Tensor:
        batch_sizes.append(len(images))
        slow_image(len(images))
        return images.flatten(1)[:, :5] + torch.arange(len(images))[:, None]

    sampler = probing.Sampler(Encoder("slow", 8, slow))
    first = sampler.wrapped().encode_image(torch.rand(100, 3, 8, 8))
    second = sampler.wrapped().encode_image(torch.rand(7, 3, 8, 8))
    assert (first.shape, second.shape) == ((100, 5), (7, 5))
    assert 74 <= batch_sizes[2] <= 75
    assert sum(batch_sizes) < 90
    assert sampler.per_image == pytest.approx(0.02)


def test_blocks_are_measured_on_few_images(slow_image: Callable[[int], None]) -> None:
    import torch

    from gate_runner.planning import probe as probing
    from vision_features.encoders.blocks import Block, Blocks
    from vision_features.encoders.encoder import Encoder

    sizes: list[int] = []

    def slow(images: torch.Tensor) -> Blocks:
        sizes.append(len(images))
        slow_image(len(images))
        flat = images.flatten(1)
        return Blocks(flat[:, :5], None, (Block(None, flat[:, None, :6], (1, 1)),))

    sampler = probing.Sampler(Encoder("slow", 8, lambda images: images.flatten(1), blocks=slow))
    given = sampler.wrapped().encode_blocks(torch.rand(100, 3, 8, 8))
    assert (given.pooled.shape, given.blocks[0].places.shape) == ((100, 5), (100, 1, 6))
    assert sum(sizes) < 90
    assert sampler.per_image == pytest.approx(0.02)
    assert sampler.values == 100 * 11


def test_a_plan_measures_in_the_precision_of_runs(tmp_path: Path) -> None:
    import torch

    from gate_runner.planning import probe as probing
    from vision_features.encoders.encoder import Encoder

    types: list[torch.dtype] = []

    def noted(images: torch.Tensor) -> torch.Tensor:
        product = images.flatten(1) @ torch.ones(192, 5)
        types.append(product.dtype)
        return product

    (part,) = eval_units_of(RunRequest(resolve(["digits"]), "x", tmp_path, Settings(limit=20, precision="bfloat16")))
    encoder = Encoder("noted", 8, noted)
    probing.probe(part, encoder)
    assert set(types) == {torch.bfloat16}
    assert encoder.precision == "float32"


def test_workers_share_what_a_plan_takes() -> None:
    parts = [UnitPlan(name, name, 0, seconds, 0) for name, seconds in (("a", 30.0), ("b", 20.0), ("c", 25.0))]
    assert Plan("e", 5.0, tuple(parts)).seconds == 80
    assert Plan("e", 5.0, tuple(parts), workers=2).seconds == 50
    assert Plan("e", 5.0, (replace(parts[0], done=True), *parts[1:]), workers=2).seconds == 30


def test_a_budget_keeps_what_tells_the_most() -> None:
    import itertools

    import eevee
    from eevee.searching.search import Evaluator
    from eevee.tables.standard import standardise

    seconds = {"acdc": 36.0, "ade20k": 40.0, "cifar100": 12.0, "clevr-math": 45.0, "mini": 9.0, "digits": 1.0}
    choice = best_subset(seconds, 60.0)
    assert sum(seconds[name] for name in choice.benchmarks) <= 60
    assert choice.unjudged == ("digits",)
    assert set(choice.benchmarks) | set(choice.left_out) == set(seconds)
    table = eevee.load_table("gate")
    evaluate = Evaluator(eevee.RidgeScorer(), standardise(table))
    names = [name for name in seconds if name != "digits"]
    fitting = [
        subset
        for size in range(1, 6)
        for subset in itertools.combinations(names, size)
        if sum(seconds[name] for name in subset) <= 60
    ]
    errors = evaluate([tuple(sorted(table.positions(subset))) for subset in fitting])
    assert choice.error == pytest.approx(min(errors))
    assert set(choice.benchmarks) == set(fitting[errors.index(min(errors))])


def test_a_budget_that_nothing_fits_says_what_is_needed() -> None:
    with pytest.raises(UsageError, match=r"no benchmark of GATE's table fits 5 s .* the cheapest, mini, takes 9 s"):
        best_subset({"mini": 9.0, "acdc": 36.0}, 5.0)


def test_the_commands_of_a_plan_run_alone(own: str, tmp_path: Path) -> None:
    arguments = [
        "plan", "digits", "--encoder", f"{own}:grid", "--limit", "40", "--output", "out", "--seed", "0", "--seed", "3",
        "--isolate", "none",
    ]  # fmt: skip
    done = call_here(*arguments, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["schema"] == "gate-runner/plan/2"
    assert record["startup_seconds"] > 0
    command = record["parts"][1]["command"]
    assert command[0] == "gate-runner"
    ran = call_here(*command[1:], cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert RunFolder(Path("out")).finished("digits", 3) is not None
    assert RunFolder(Path("out")).finished("digits", 0) is None


def test_a_plan_of_trainings_is_shown_with_its_recipes_and_what_a_budget_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = make_request("small", "micro-clip", output=tmp_path, settings=Settings(tune="full", wise_ft=0.5))
    recipe = asdict(recipe_of_family(request.settings, "vit", "image-classification"))
    parts = [
        UnitPlan(name, f"micro/{name}", 0, 60.0, 10**9, {"train": 60.0}, recipe=recipe) for name in ("acdc", "mini")
    ]
    parts.append(UnitPlan("cifar100", "micro/cifar100", 0, 60.0, 10**9, {"train": 60.0}, recipe=recipe))
    _show(Plan("micro-clip", 1.0, tuple(parts), choice=Choice(("acdc",), ("ade20k",), (), 0.25, 0.5)), request)
    out = capsys.readouterr().out
    assert "micro/acdc, micro/mini: AdamW at 0.0001" in out
    assert "micro/cifar100: AdamW at 0.0001" in out
    assert out.count("heads start at the class prompts") == 1
    assert "left out for the budget: ade20k" in out
    assert f"gate-runner run acdc --output {tmp_path} (and" in out
