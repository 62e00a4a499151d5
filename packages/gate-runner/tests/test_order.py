"""In which order parts are computed: what soon has a result comes first, whatever order they were named in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gate_runner.benchmarks import resolve
from gate_runner.executors import run
from gate_runner.executors.local import shared_out
from gate_runner.executors.run import cheap_first
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import RunRequest, eval_units_of, make_request
from gate_runner.runs.unit import EvalUnit
from gate_runner.settings import Settings


def parts(tmp_path: Path, names: list[str] | str, *seeds: int) -> list[EvalUnit]:
    return eval_units_of(make_request(names, output=tmp_path / "run", settings=Settings(seeds=seeds or (0,))))


@pytest.mark.parametrize("pack", ["small", "full"])
def test_cheap_parts_come_first_and_seeds_of_one_benchmark_stay_together(pack: str, tmp_path: Path) -> None:
    requested = parts(tmp_path, pack, 0, 1)
    ordered = cheap_first(requested)
    costs = [part.benchmark.cost for part in ordered]
    assert costs == sorted(cost for cost in costs if cost is not None)  # each stand-in says its cost
    names = [part.name for part in ordered]
    assert names[::2] == names[1::2]
    assert [part.seed for part in ordered] == [0, 1] * (len(requested) // 2)
    assert {(part.name, part.seed) for part in ordered} == {(part.name, part.seed) for part in requested}


def test_parts_of_unknown_cost_come_last_in_the_order_of_the_request(tmp_path: Path) -> None:
    acdc, mini, unknown = parts(tmp_path, ["acdc", "mini", "vgg"])
    unknown = replace(unknown, benchmark=replace(unknown.benchmark, cost=None))
    assert [part.name for part in cheap_first([unknown, acdc, mini])] == ["micro/mini", "micro/acdc", "micro/vgg"]


def test_several_workers_get_the_longest_parts_behind_one_cheap_part(tmp_path: Path) -> None:
    ordered = cheap_first(parts(tmp_path, "small"))
    given = shared_out(ordered)
    assert given[0] is ordered[0]
    costs = [part.benchmark.cost or 0.0 for part in given[1:]]
    assert costs == sorted(costs, reverse=True)
    assert {part.name for part in given} == {part.name for part in ordered}


class Started(Observer):
    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, name: str, seed: int) -> None:
        self.names.append(name)


def test_a_run_starts_with_the_cheap_part_and_gives_results_as_they_were_named(own: str, tmp_path: Path) -> None:
    watching = Started()
    request = RunRequest(resolve(["imagenet1k", "aircraft"]), f"{own}:grid", tmp_path / "run", Settings(limit=60))
    results = run(request.changed(isolate="none"), observers=[watching])
    assert watching.names == ["micro/aircraft", "micro/imagenet1k"]
    assert [result.name for result in results] == ["micro/imagenet1k", "micro/aircraft"]
