"""Task types: ours are whole, one of a plug-in's with boxes goes all the way, broken ones are named."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import gate_runner
from gate_data.imports import named
from gate_data.ragged import Ragged
from gate_runner.benchmarks import all_benchmarks, find_benchmark
from gate_runner.errors import DataError, UsageError
from gate_runner.reports import differences
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.stored import read_run
from gate_runner.tasks import TaskType, find_task_type, task_types
from gate_runner.tasks.registry import known_task_type

from .test_plugins import example, install

__all__ = ["example"]


def test_ours_are_whole() -> None:
    types = task_types()
    assert {benchmark.task for benchmark in gate_runner.BENCHMARKS.values()} <= set(types)
    for task_type in types.values():
        assert callable(named(task_type.run))
        assert callable(named(task_type.draw))
    assert find_task_type("few-shot").probe_samples == 130


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two encoders on boxes, in folders."""
    folder = tmp_path_factory.mktemp("detection")
    with pytest.MonkeyPatch.context() as patch:
        _installed(folder, patch)
        return [
            gate_runner.run("squares", encoder=spec, output=folder / spec.replace(":", ""), show=False).folder
            for spec in ("edges:2", "edges:6")
        ]


def _installed(folder: Path, patch: pytest.MonkeyPatch) -> None:
    import tomllib

    from .test_plugins import EXAMPLE

    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(folder / "site", project["entry-points"])
    patch.syspath_prepend(str(EXAMPLE / "src"))
    patch.syspath_prepend(str(folder / "site"))


@pytest.mark.usefixtures("example")
def test_boxes_are_scored_kept_compared_and_drawn(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = read_run(runs[1])
    (result,) = stored.results
    assert (result.status, result.task, result.scores[0].metric) == ("ok", "quarters", "ap50")
    score = result.scores[0]
    assert score.chance < score.low <= score.value <= score.high
    outcomes = stored.outcomes(result)
    assert isinstance(outcomes, Ragged)
    assert len(outcomes) == result.data["test"] == 120
    from gate_stripes.detection import average_precision

    assert average_precision(outcomes, np.ones((1, 120)))[0] == pytest.approx(score.value, abs=1e-12)
    quick = partial(gate_runner.compare, permutations=99, resamples=50)
    comparison = quick(*runs)
    (contrast,) = comparison.contrasts
    assert contrast.test.samples == 120
    assert contrast.test.second == pytest.approx(score.value, abs=1e-12)
    assert contrast.test.difference == pytest.approx(contrast.test.second - contrast.test.first)
    monkeypatch.setattr(differences, "compare", quick)
    page = gate_runner.report(*runs, pictures=2)
    assert page.count("<img ") == 2
    assert "true: " in page
    assert "ap50" in page


@pytest.mark.usefixtures("example")
def test_it_is_planned(tmp_path: Path) -> None:
    planned = gate_runner.plan("squares", encoder="edges:2", output=tmp_path / "run", isolate="none", limit=80)
    (part,) = planned.parts
    assert part.reason == ""
    assert part.phases["train"] > 0


@pytest.mark.usefixtures("example")
def test_a_changed_file_of_ragged_outcomes_is_noticed(runs: list[Path]) -> None:
    stored = read_run(runs[0])
    (result,) = stored.results
    path = RunFolder(runs[0]).samples_file(result.name, result.seed)
    content = path.read_bytes()
    with np.load(path) as file:
        arrays = dict(file)
    arrays["column score"] = arrays["column score"] + 1
    np.savez(path, **arrays)
    with pytest.raises(UsageError, match="was changed after its result was written"):
        stored.outcomes(result)
    path.write_bytes(content)


def test_average_precision_is_that_of_a_slow_loop(example: Path) -> None:
    """Every image repeated as often as its weight says, one detection after another, in Python's own floats."""
    from gate_stripes.detection import average_precision

    rng = np.random.default_rng(3)
    images = []
    for _ in range(12):
        true = rng.integers(0, 3, rng.integers(0, 3))
        numbers = rng.integers(0, 3, rng.integers(1, 5))
        images.append(
            {
                "label": np.concatenate([true, numbers]).astype(float),
                "score": np.concatenate([0 * true, rng.random(len(numbers))]),
                "hit": np.concatenate([0.0 * true - 1, rng.integers(0, 2, len(numbers)).astype(float)]),
            }
        )
    weights = rng.integers(0, 3, 12)
    repeated = [image for image, weight in zip(images, weights, strict=True) for _ in range(weight)]
    areas = []
    for label in range(3):
        rows = [tuple(column[k] for column in image.values()) for image in repeated for k in range(len(image["hit"]))]
        true = sum(1 for kind, _, hit in rows if kind == label and hit < 0)
        ordered = sorted(((-score, hit) for kind, score, hit in rows if kind == label and hit >= 0))
        groups: dict[float, list[float]] = {}
        for less, hit in ordered:
            groups.setdefault(less, []).append(hit)
        points, value, every = [], 0.0, 0
        for hits in groups.values():  # copies of one image have one score: they come together
            value, every = value + sum(hits), every + len(hits)
            points.append((sum(hits), value / every))
        area = sum(gain * max(precision for _, precision in points[at:]) for at, (gain, _) in enumerate(points))
        areas.append(area / true if true else 0.0)
    whole = Ragged.of(images)
    assert average_precision(whole, weights[None].astype(float))[0] == pytest.approx(np.mean(areas))


def test_what_lacks_a_part_is_refused() -> None:
    for lacking, message in (
        ({"id": ""}, "task type '' lacks its id"),
        ({"summary": ""}, "task type 'x' lacks its summary"),
        ({"run": ""}, "lacks its run"),
        ({"draw": "nowhere"}, "draw is 'nowhere'; expected a function, or its 'module:name'"),
        ({"statistics": {"ap": 3}}, "ap is 3; expected a function"),
        ({"probe_samples": 0}, "probe_samples must be at least 1, not 0"),
    ):
        with pytest.raises(UsageError, match=message):
            replace(TaskType("x", "nothing", "a:b"), **lacking)  # type: ignore[arg-type]  # that is what is tested


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("from gate_runner.tasks import find_task_type\nmade = find_task_type('few-shot')", "a TaskType 'few-shot' al"),
        ("from gate_runner.tasks import TaskType\nmade = TaskType('x', '', 'a:b')", "task type 'x' lacks its summary"),
        ("made = {}['x']", "KeyError: 'x'"),
    ],
)
def test_a_broken_task_type_is_warned_about_and_left_out(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"broken_{abs(hash(code))}"
    (tmp_path / f"{module}.py").write_text(code)
    install(tmp_path, {"gate_runner.tasks": {"mine": f"{module}:made"}}, "broken")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(RuntimeWarning, match=f"plug-in {module}:made is left out: .*{message}"):
        assert "x" not in task_types()


def test_results_stay_readable_without_their_plug_in() -> None:
    assert known_task_type("gone").id == "gone"
    with pytest.raises(UsageError, match="unknown task type 'relationl'; nearest: relational"):
        find_task_type("relationl")


@pytest.mark.usefixtures("example")
def test_a_benchmark_of_the_plug_in_uses_its_task() -> None:
    assert "squares" in all_benchmarks()
    assert find_benchmark("squares").task == "quarters"


NEAREST_MEAN = """
from gate_runner.tasks import TaskType
made = TaskType("nearest-mean", "cosines with class means", "nearest_mean:run", trains=False, own_metrics=("acc@1",))

def run(job):
    import torch
    import torch.nn.functional as F
    from gate_runner.tasks.features import pooled
    from gate_runner.tasks.job import Outcome
    from gate_runner.tasks.scoring import score
    from vision_adapters.rows.counting import log_frequencies
    train, test = (F.normalize(pooled(job, getattr(job.data, name), name)) for name in ("train", "test"))
    labels, classes = job.data.train.targets, len(job.data.classes)
    means = torch.stack([train[labels == label].mean(0) for label in range(classes)])
    blind = log_frequencies(labels, classes).expand(len(test), -1)
    ((scored, measured),) = score(job, test @ F.normalize(means).T, job.data.test.targets, blind)
    return Outcome((scored,), measured.outcomes, {"steps": 0})
"""


def test_a_task_of_a_plug_in_takes_samples_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from .test_own_data import folders

    (tmp_path / "nearest_mean.py").write_text(NEAREST_MEAN)
    install(tmp_path, {"gate_runner.tasks": {"mine": "nearest_mean:made"}}, "nearest-mean")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = folders(tmp_path / "paint") / "benchmark.toml"
    lines = '[benchmark]\nid = "paint-pots"\ntask = "nearest-mean"\n{}[data]\nkind = "folders"\n'
    file.write_text(lines.format('samples = "image-classification"\n'))
    (result,) = gate_runner.run(str(file), output=tmp_path / "run", show=False)
    assert (result.task, result.scores[0].metric) == ("nearest-mean", "acc@1")
    assert result.scores[0].low > result.scores[0].chance
    file.write_text(lines.format(""))
    with pytest.raises(DataError, match=r"line 3: field 'benchmark.task' is 'nearest-mean': no such task"):
        gate_runner.run(str(file), output=tmp_path / "other", show=False)
    file.write_text(lines.format('samples = "knn"\n').replace("nearest-mean", "nearest-man"))
    with pytest.raises(DataError, match=r"benchmark.toml, line 3: unknown task type 'nearest-man'; nearest: nearest-"):
        gate_runner.run(str(file), output=tmp_path / "other", show=False)
