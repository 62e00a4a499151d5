"""Compositional suites as benchmarks: run, resumed, planned, compared, reported and exported; and what is missing."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import gate_runner
from eqben_builder.suites import SUITES
from gate_data.ragged import Ragged
from gate_runner.benchmarks import BENCHMARKS, PACKS, DataRequest
from gate_runner.benchmarks.suites import TAKEN
from gate_runner.errors import DataError
from gate_runner.exporting import export
from gate_runner.runs.stored import read_run
from gate_runner.suites.questions import QuestionPictures
from gate_runner.tasks.suite import share_right
from vision_features.encoders.probe import ODD_TEXTS, TEXTS

PROBED = len(TEXTS) + len(ODD_TEXTS)
"""Texts that an encoder is known by."""

COLOURS = ("red", "green", "blue")


class Colours:
    """Knows how much of a colour an image has, and whether a caption names it; counts what it is asked."""

    image_size = 32
    spec = "colours"

    def __init__(self, noise: float = 0.0) -> None:
        self.noise, self.images, self.texts = noise, 0, 0

    def encode_image(self, images: Tensor) -> Tensor:
        self.images += len(images)
        mean = images.float().mean(dim=(2, 3))
        return mean + self.noise * torch.sin(1e3 * mean.roll(1, 1)) + 0.01

    def encode_text(self, texts: list[str]) -> Tensor:
        self.texts += len(texts)
        return torch.tensor([[1.0 + 5 * text.count(word) + 1e-3 * len(text) for word in COLOURS] for text in texts])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[gate_runner.Run]:
    folder = tmp_path_factory.mktemp("suites")
    return [
        gate_runner.run("micro/compositional", encoder=Colours(noise), name=f"colours-{noise:g}",
                        output=folder / f"{noise:g}", limit=150, show=False)
        for noise in (0.0, 200.0)
    ]  # fmt: skip


def write_colorswap(root: Path, count: int = 6) -> None:
    rows = []
    for number in range(count):
        names = [f"images/img_{number}_{side}.png" for side in (1, 2)]
        for name, colour in zip(names, ("red", "blue"), strict=True):
            path = root / "colorswap" / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (40, 30 + number), colour).save(path)
        rows.append({"id": number, "caption_1": f"red {number}", "caption_2": f"blue {number}", "image_1": names[0],
                     "image_2": names[1]})  # fmt: skip
    (root / "colorswap" / "data" / "test.json").write_text(json.dumps(rows))


def write_vsr(root: Path) -> None:
    for split in ("random", "zeroshot"):
        path = root / "vsr" / "data" / "splits" / split / "test.jsonl"
        path.parent.mkdir(parents=True)
        rows = [
            {"image": f"{k % 8}.jpg", "image_link": "x/val2017/y", "caption": f"red {k}", "label": int(k % 2 == 0),
             "relation": "on"}
            for k in range(16)
        ]  # fmt: skip
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for k, colour in enumerate(("red", "blue") * 4):
        path = root / "coco" / "val2017" / f"{k}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 30), colour).save(path)


def test_benchmarks_are_the_suites_and_no_name_means_two_things() -> None:
    ours = {
        benchmark.id: benchmark
        for benchmark in BENCHMARKS.values()
        if benchmark.task == "suite" and "local" in benchmark.sources
    }
    assert set(ours) == {TAKEN.get(name, name) for name in SUITES} == set(PACKS["compositional"])
    for name, suite in SUITES.items():
        benchmark = ours[TAKEN.get(name, name)]
        assert benchmark.title.startswith(suite.title)
        assert (benchmark.licence, benchmark.originals.expected) == (suite.licence, suite.expected)
    assert not set(PACKS) & set(ours)
    assert not {"compositional", "micro/compositional"} & set(BENCHMARKS)


def test_the_micro_suite_is_scored_with_its_whole_table(runs: list[gate_runner.Run]) -> None:
    (result,) = runs[0]
    assert (result.name, result.status, result.data["test"]) == ("micro/every-shape", "ok", 150)
    score, *averages = result.scores
    assert score.metric == "right"
    assert 0 < score.low < score.value < score.high < 1
    assert score.chance == pytest.approx((1 / 4 + 1 / 6 + 1 / 3 + 1 / 4 + 1 / 2) / 5, abs=0.02)
    assert "pairs, group" in {average.metric for average in averages}
    lines = result.training["suite"]["lines"]
    assert {line["kind"] for line in lines} == {"all", "average", "subset"}
    choice = next(line for line in lines if line["name"] == "captions/attribute" and line["measure"] == "accuracy")
    assert set(choice["blind"]) == {"shorter", "bigram"}
    assert 0 < choice["better_than_blind"]["p"] <= 1
    assert any("stands in for no published suite" in note for note in result.training["suite"]["notes"])
    outcomes = read_run(runs[0].folder).outcomes(result)
    assert isinstance(outcomes, Ragged)
    assert outcomes.columns["right"].mean() == score.value
    assert sorted(outcomes.columns["question"]) == list(range(150))


def test_a_language_model_of_ones_own_is_a_blind_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_words.py").write_text(
        "def longer():\n    return lambda texts: [float(len(text)) for text in texts]\n"
        "def broken():\n    return lambda texts: 1 / 0\n"
    )
    (result,) = gate_runner.run(
        "every-shape", limit=60, language_model="my_words:longer", output=tmp_path / "run", show=False
    )
    lines = [line for line in result.training["suite"]["lines"] if "my_words:longer" in line["blind"]]
    assert lines
    for line in lines:  # a caption cannot be shorter and longer
        assert line["blind"]["my_words:longer"]["value"] + line["blind"]["shorter"]["value"] <= 1
    (failed,) = gate_runner.run(
        "every-shape", limit=60, language_model="my_words:broken", output=tmp_path / "broken", show=False
    )
    assert failed.reason == "setting language_model: my_words:broken raised ZeroDivisionError: division by zero"


def test_shares_are_weighted_by_picture() -> None:
    rng = np.random.default_rng(0)
    lengths = np.array([3, 1, 4])
    outcomes = Ragged({"question": np.arange(8), "right": rng.integers(0, 2, 8).astype(float)}, lengths)
    weights = rng.integers(0, 3, (5, 3)).astype(float) + np.array([1.0, 0, 0])
    slow = []
    for row in weights:
        weighted = [(w, value) for w, sample in zip(row, outcomes, strict=True) for value in sample["right"]]
        slow.append(sum(w * value for w, value in weighted) / sum(w for w, _ in weighted))
    np.testing.assert_allclose(share_right(outcomes, weights), slow)


def test_runs_are_compared_by_picture(runs: list[gate_runner.Run]) -> None:
    comparison = gate_runner.compare(*runs, permutations=199, resamples=100)
    (contrast,) = comparison.contrasts
    assert contrast.test.samples == 30
    first, second = (run.results[0].scores[0].value for run in runs)
    assert first != second
    assert (contrast.test.first, contrast.test.difference) == (pytest.approx(first), pytest.approx(second - first))


def test_a_report_shows_the_table_and_the_hardest_questions(runs: list[gate_runner.Run]) -> None:
    page = gate_runner.report(*runs, pictures=2)
    assert page.count("<summary>micro/every-shape, colours-") == 2
    for text in (
        "all questions",
        "captions/relation",
        "better than blind",
        "bigram",
        "A text-only baseline never looks",
    ):
        assert text in page
    assert page.count("<img ") == 2
    assert "“" in page


def test_exports_keep_every_question(runs: list[gate_runner.Run], tmp_path: Path) -> None:
    stored = read_run(runs[0].folder)
    exported = export(stored, "every-eval-ever", tmp_path)
    assert exported.left_out == ()
    samples = [json.loads(line) for line in next(tmp_path.rglob("*_samples.jsonl")).read_text().splitlines()]
    right = [line["evaluation"]["score"] for line in samples]
    assert (len(right), np.mean(right)) == (150, stored.results[0].scores[0].value)


def test_original_files_are_scored_once_and_continued(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_colorswap(tmp_path)
    write_vsr(tmp_path)
    encoder = Colours()
    with caplog.at_level(logging.WARNING):
        done = gate_runner.run(
            "compositional", encoder=encoder, data_root=tmp_path, output=tmp_path / "run", show=False
        )
    assert {result.benchmark: result.status for result in done} == {"colorswap": "ok", "vsr": "ok"}
    assert "not in" in caplog.text
    assert "sugarcrepe" in caplog.text
    swap, vsr = done
    assert (swap.scores[0].value, vsr.scores[0].value) == (1.0, 1.0)
    assert swap.training["suite"]["lines"][0]["questions"] == 6
    assert "12.0 ViT-B-32/openai" in gate_runner.report(done, pictures=0)
    pictures, captions = encoder.images, encoder.texts
    gate_runner.run("colorswap", encoder=encoder, data_root=tmp_path, output=tmp_path / "run", show=False)
    assert (encoder.images - pictures, encoder.texts - captions) == (2, PROBED)


def test_each_picture_and_caption_is_encoded_once(tmp_path: Path) -> None:
    write_vsr(tmp_path)
    encoder = Colours()
    gate_runner.run("vsr", encoder=encoder, data_root=tmp_path, output=tmp_path / "run", show=False)
    # Eight files of two images, the probe's two, and the four single ones that say how long one takes.
    assert (encoder.images, encoder.texts) == (2 + 2 + 4, 16 + PROBED)


def test_it_is_planned(tmp_path: Path) -> None:
    write_colorswap(tmp_path)
    for name, root in (("micro/compositional", None), ("colorswap", tmp_path)):
        planned = gate_runner.plan(name, encoder=Colours(), output=tmp_path / name, isolate="none", data_root=root)
        (part,) = planned.parts
        assert part.reason == ""
        assert part.phases["encode"] > 0


def test_missing_pictures_are_counted_and_named(tmp_path: Path) -> None:
    write_vsr(tmp_path)
    (tmp_path / "coco" / "val2017" / "1.jpg").unlink()
    (run,) = gate_runner.run("vsr", encoder=Colours(), data_root=tmp_path, output=tmp_path / "run", show=False)
    assert "4 of 32 questions are left out: 1 image is missing (val2017/1.jpg)" in run.note
    for path in (tmp_path / "coco" / "val2017").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"not one image of VSR is there: 8 are missing, such as val2017/0\.jpg"):
        gate_runner.run("vsr", encoder=Colours(), data_root=tmp_path, output=tmp_path / "other", show=False)


def test_what_is_not_there_is_said_at_the_door(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no files of compositional: sugarcrepe, "):
        gate_runner.run("compositional", encoder=Colours(), data_root=tmp_path, show=False)
    with pytest.raises(DataError, match="reads original files: give --data-root"):
        gate_runner.run("compositional", encoder=Colours(), show=False)
    write_colorswap(tmp_path, 2)
    path = tmp_path / "colorswap" / "data" / "test.json"
    rows = json.loads(path.read_text())
    del rows[1]["caption_2"]
    path.write_text(json.dumps(rows))
    with pytest.raises(DataError, match="caption_2"):
        gate_runner.run("colorswap", encoder=Colours(), data_root=tmp_path, show=False)


def test_other_pictures_are_other_data(tmp_path: Path) -> None:
    write_colorswap(tmp_path)
    first = BENCHMARKS["colorswap"].load("local", DataRequest(tmp_path, size=32))
    assert isinstance(first.test.images, QuestionPictures)
    assert first.test.images.shape == (6, 2, 3, 32, 32)
    np.testing.assert_array_equal(first.test.images[1], first.test.images[1:2][0])
    digest = first.digest()
    assert digest == BENCHMARKS["colorswap"].load("local", DataRequest(tmp_path, size=32)).digest()
    assert len(first.limited(2).test.targets) == 2
    Image.new("RGB", (40, 30), "green").save(tmp_path / "colorswap" / "data" / "images" / "img_0_1.png")
    again = BENCHMARKS["colorswap"].load("local", DataRequest(tmp_path, size=32))
    assert again.digest() != digest
