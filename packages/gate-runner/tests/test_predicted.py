"""What was predicted of each sample: it agrees with the outcome, is kept beside it, and reports say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from markupsafe import escape
from PIL import Image

import gate_runner
from gate_data.boxes.objects import Objects
from gate_data.data import Data
from gate_data.imports import named
from gate_data.ragged import Ragged
from gate_runner.benchmarks import DataRequest, find_benchmark
from gate_runner.detection.scoring import found_of, match
from gate_runner.errors import DataError
from gate_runner.reports.contents import gather
from gate_runner.reports.page import build_page
from gate_runner.reports.pictures import reload_samples
from gate_runner.runs.folder import read_samples
from gate_runner.runs.stored import StoredRun, read_run
from gate_runner.tasks import find_task_type
from gate_runner.tasks.predicted import an_episode, mistaken
from vision_adapters.detection.matching import overlaps

LIMIT = 12
CLASSES = ("cifar100", "clevr-math", "ucf", "imagenet1k", "oven")
OTHERS = ("clevr", "chexpert", "happy", "nycc", "flickr30k", "winoground", "iwildcam")
PARTS = ("ade20k", "acdc", "mini")
"""Those of which parts are predicted: pixels, slices, queries."""


EPISODES = "mini"
"""It needs five classes of six samples: more than the others."""


def loaded(name: str) -> Data[Any]:
    return find_benchmark(name).load("micro", DataRequest(limit=40 if name == EPISODES else LIMIT))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoredRun]:
    """A stored run by benchmark: one of episodes, and one of all others."""
    stored = {}
    for limit, names in ((40, [EPISODES]), (LIMIT, [name for name in (*CLASSES, *OTHERS, *PARTS) if name != EPISODES])):
        folder = tmp_path_factory.mktemp("runs") / str(limit)
        listed = [f"micro/{name}" for name in names]
        done = gate_runner.run(
            listed,
            encoder="micro-dense",
            output=folder,
            limit=limit,
            recipe_fields={"steps": 3, "lr": 1e-3},
            show=False,
        )
        assert not done.failed
        stored.update(dict.fromkeys(names, read_run(folder)))
    return stored


def stored_answers(runs: Mapping[str, StoredRun], name: str) -> tuple[np.ndarray, np.ndarray]:
    run = runs[name]
    (result,) = run.named(f"micro/{name}")
    predicted = run.predicted(result)
    assert predicted is not None
    return predicted, np.asarray(run.outcomes(result))


@pytest.mark.parametrize("name", CLASSES)
def test_a_right_class_is_a_right_outcome(runs: dict[str, StoredRun], name: str) -> None:
    truth = loaded(name).test.targets.numpy()
    predicted, outcomes = stored_answers(runs, name)
    sure = np.isin(outcomes, (0.0, 1.0))  # ties share their places
    assert sure.mean() > 0.9
    np.testing.assert_array_equal((predicted == truth)[sure], outcomes[sure] == 1.0)


def test_the_others_agree_with_their_outcomes_too(runs: dict[str, StoredRun]) -> None:
    def truth(name: str) -> np.ndarray:
        targets: np.ndarray = loaded(name).test.targets.numpy()
        return targets

    typed, outcomes = stored_answers(runs, "clevr")
    np.testing.assert_array_equal(typed == truth("clevr"), outcomes > 0)
    labels, scores = stored_answers(runs, "chexpert")
    np.testing.assert_array_equal(labels, scores[:, 0] > 0.5)
    heads, outcomes = stored_answers(runs, "happy")
    np.testing.assert_allclose((heads == truth("happy")).mean(axis=1), outcomes)
    choice, outcomes = stored_answers(runs, "nycc")
    np.testing.assert_array_equal(choice == truth("nycc"), outcomes == 1.0)
    values, errors = stored_answers(runs, "iwildcam")
    np.testing.assert_allclose(np.abs(values - truth("iwildcam")), errors, atol=1e-5)
    pairs, outcomes = stored_answers(runs, "winoground")
    assert outcomes[(pairs != [0, 1]).any(axis=1)].max() == 0.0  # a group is right only where both images are
    (result,) = runs["flickr30k"].named("micro/flickr30k")
    recall = next(score.value for score in result.scores if score.metric == "i2t_r@1")
    captions, _ = stored_answers(runs, "flickr30k")
    test = loaded("flickr30k").test
    owner = captions // (len(test.texts or ()) // len(test))
    assert np.mean(owner == np.arange(len(test))) == pytest.approx(recall)


@pytest.mark.parametrize("name", [*CLASSES, *OTHERS, *PARTS])
def test_every_prediction_has_words(runs: dict[str, StoredRun], name: str) -> None:
    data = loaded(name)
    predicted, _ = stored_answers(runs, name)
    say = named(find_task_type(find_benchmark(name).task).say)
    assert all(say(data, predicted[index], index) for index in range(len(predicted)))


def test_a_page_shows_it(runs: dict[str, StoredRun]) -> None:
    """A benchmark of each way to say it: classes, an answer, labels, captions, a value, pixels, queries."""
    shown = ("cifar100", "clevr", "chexpert", "flickr30k", "iwildcam", "ade20k", EPISODES)
    for name in shown:
        stored = replace(runs[name], results=runs[name].named(f"micro/{name}"))
        page, contents, data = build_page([stored], pictures=2), gather([stored]), loaded(name)
        (row,) = contents.rows
        predicted, outcomes = stored_answers(runs, name)
        say = named(find_task_type(row.task).say)
        again, _ = reload_samples(contents, row)
        assert again is not None
        examples, _ = again.hardest(2)
        assert len(examples) == 2, name
        for example in examples:
            assert example.predicted == say(data, predicted[example.index], example.index)
            assert str(escape(example.caption)) in page
        assert len(outcomes) == len(predicted)
        page = re.sub("<details>.*?</details>", "", page, flags=re.DOTALL)  # what stands behind confusions
        assert page.count("; predicted: ") == 2 * 2  # in a caption and its image's words


def test_the_queries_of_an_episode_agree_with_its_outcome(runs: dict[str, StoredRun]) -> None:
    predicted, outcomes = stored_answers(runs, "mini")
    own = np.arange(predicted.shape[1])[:, None]
    np.testing.assert_allclose((predicted == own).mean(axis=(1, 2)), outcomes)
    assert an_episode(None, np.array([[0, 1, 1], [1, 1, 0]]), 0) == (  # type: ignore[arg-type]  # no data is asked
        "3 of 6 queries right; class 1 taken for class 2 (twice), class 2 taken for class 1 (once)"
    )


def test_the_queries_of_gates_episodes_agree_too(own: str, tmp_path: Path) -> None:
    fields = {"steps": 2, "lr": 1e-3}
    done = gate_runner.run(
        "micro/mini-gate", encoder=f"{own}:grid", output=tmp_path / "run", recipe_fields=fields, show=False
    )
    assert not done.failed
    stored = read_run(tmp_path / "run")
    (result,) = stored.results
    predicted, outcomes = stored.predicted(result), stored.outcomes(result)
    assert predicted is not None
    is_query = predicted >= 0
    right = (is_query & (predicted == np.arange(predicted.shape[1])[:, None])).sum(axis=(1, 2))
    np.testing.assert_allclose(right / is_query.sum(axis=(1, 2)), np.asarray(outcomes))


def test_the_most_confused_pair_of_a_map_is_that_of_a_slow_count() -> None:
    draw = torch.Generator().manual_seed(0)
    truth = torch.randint(-1, 4, (6, 5, 7), generator=draw)
    truth[truth < 0] = -100
    predicted = torch.randint(0, 4, (6, 5, 7), generator=draw)
    predicted[5] = truth[5].clamp_min(0)
    confused = mistaken(predicted, truth, 4)
    assert confused[5].tolist() == [-1, -1, 0]
    for row in range(5):
        pairs = [(t, s) for t, s in zip(truth[row].flatten().tolist(), predicted[row].flatten().tolist(), strict=True)]
        counts = {pair: pairs.count(pair) for pair in pairs if pair[0] >= 0 and pair[0] != pair[1]}
        pair = (int(confused[row, 0]), int(confused[row, 1]))
        assert counts[pair] == max(counts.values())
        assert confused[row, 2] == pytest.approx(counts[pair] / sum(t >= 0 for t, _ in pairs))


def test_the_objects_found_are_those_of_a_slow_count() -> None:
    draw = np.random.default_rng(0)
    objects, boxes = [], []
    for picture in range(60):
        count = int(draw.integers(0, 5))
        box = np.concatenate([draw.uniform(0, 20, (count, 2)), draw.uniform(4, 9, (count, 2))], axis=1)
        label = draw.integers(0, 3, count)
        objects.append({"box": box, "label": label, "crowd": np.arange(count) == 3})
        near = np.concatenate([box + draw.normal(0, picture / 10, box.shape), draw.uniform(4, 9, (3, 4))]).clip(0.1)
        boxes.append({
            "box": near,
            "label": np.concatenate([label, draw.integers(0, 3, 3)]),
            "score": draw.permutation(count + 3) / 9,
        })  # fmt: skip
    truth = Objects.of(objects, [(40, 40)] * 60)
    summary = found_of(match(truth, Ragged.of(boxes)), 3)
    for picture, (mine, theirs) in enumerate(zip(objects, boxes, strict=True)):
        free = [row for row in range(len(mine["label"])) if not mine["crowd"][row]]
        count, hit = len(free), 0
        for at in np.argsort(-theirs["score"])[:count]:
            shares = [
                (float(overlaps(theirs["box"][at], mine["box"][row], np.array(False))), row)
                for row in free
                if mine["label"][row] == theirs["label"][at]
            ]
            if shares and max(shares)[0] >= 0.5:
                free.remove(max(shares)[1])
                hit += 1
        assert summary[picture, :2].tolist() == [count, hit]
        missed = [int(mine["label"][row]) for row in free]
        assert summary[picture, 2] in ({-1} if not missed else {label for label in missed if missed.count(label) == max(
            map(missed.count, missed))})  # fmt: skip


def test_boxes_have_words_in_a_report(tmp_path: Path) -> None:
    pytest.importorskip("faster_coco_eval")
    done = gate_runner.run("micro/odinw-shapes", output=tmp_path, limit=20, recipe_fields={"steps": 2}, show=False)
    assert not done.failed
    assert "found by the best" in gate_runner.report(tmp_path, pictures=2)


def test_files_from_before_are_read_and_changed_ones_refused(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    gate_runner.run("digits", encoder="micro-dense", output=folder, limit=40, show=False)
    stored = read_run(folder)
    (result,) = stored.results
    path = next((folder / "samples").glob("*.npz"))
    outcomes = read_samples(path)
    assert isinstance(outcomes, np.ndarray)
    np.savez_compressed(path, outcomes=outcomes, predicted=np.zeros(len(outcomes), np.int32))
    np.testing.assert_array_equal(stored.outcomes(result), outcomes)
    with pytest.raises(DataError, match="was changed after its result was written"):
        stored.predicted(result)
    np.savez_compressed(path, outcomes=outcomes)  # what is promised by the result is not there
    with pytest.raises(DataError, match="was changed"):
        stored.predicted(result)


def test_runs_that_disagree_are_named(tmp_path: Path) -> None:
    for spec in ("micro-dense", "micro-dense/random"):
        gate_runner.run("digits", encoder=spec, output=tmp_path / spec, limit=40, seeds=(0, 1), show=False)
    page = gate_runner.report(tmp_path / "micro-dense", tmp_path / "micro-dense/random", pictures=8)
    captions = page.partition("Hardest examples</h2>")[2]
    assert "by micro-dense (2 seeds)" in captions
    assert "micro-dense/random" in captions


def test_pictures_of_ones_own_data_are_drawn(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    for name, colour in (("red", 0), ("blue", 2)):
        (tmp_path / "mine" / name).mkdir(parents=True)
        for number in range(12):
            pixels = torch.randint(0, 120, (32, 32, 3), generator=draw)
            pixels[..., colour] += 60
            Image.fromarray(pixels.to(torch.uint8).numpy()).save(tmp_path / "mine" / name / f"{number}.png")
    file = tmp_path / "mine.toml"
    file.write_text('[benchmark]\nid = "mine"\n[data]\nkind = "folders"\nroot = "mine"\n')
    gate_runner.run(str(file), encoder="micro-dense", output=tmp_path / "run", show=False)
    assert "; predicted: " in gate_runner.report(tmp_path / "run", pictures=1, data_root=tmp_path)
