"""Recall of images by captions and of captions by images, nothing trained: on data of one's own, and as a variant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import gate_runner
from gate_data.own import read_benchmark
from gate_data.own.originals import originals_from
from gate_data.request import DataRequest
from gate_runner.cli import main
from gate_runner.comparison import compare
from gate_runner.errors import DataError, UsageError
from gate_runner.runs.stored import read_run
from gate_runner.tasks.zero_shot_retrieval import captions_of, median_rank, share_found
from vision_features.encoders import load_encoder

COLOURS = {"red": (220, 30, 30), "green": (20, 160, 40), "blue": (30, 60, 220), "white": (250, 250, 250)}
HEAD = '[benchmark]\nid = "own"\ntask = "zero-shot-retrieval"\n[data]\nkind = "table"\ntext = "caption"\n'


def photographs(folder: Path, captions: list[list[str]], table: str = "captions.csv") -> Path:
    """Images of noisy colours, and a table of their captions; the benchmark's file."""
    rng = np.random.default_rng(0)
    lines = []
    for number, texts in enumerate(captions):
        colour = list(COLOURS.values())[number % 4]
        pixels = np.clip(rng.normal(colour, 40, (48, 48, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        if table.endswith(".jsonl"):
            lines.append(json.dumps({"image": f"{number}.png", "caption": texts if len(texts) > 1 else texts[0]}))
        else:
            lines += [f"{number}.png,{text}" for text in texts]
    head = [] if table.endswith(".jsonl") else ["image,caption"]
    (folder / table).write_text("\n".join([*head, *lines]) + "\n")
    (folder / "benchmark.toml").write_text(f'{HEAD}table = "{table}"\n')
    return folder / "benchmark.toml"


def several(count: int) -> list[list[str]]:
    names = list(COLOURS)
    return [
        [f"a {names[image % 4]} square"]
        + [f"photo {image} of {'very ' * number}{names[image % 4]}" for number in range(image % 3)]
        for image in range(count)
    ]


def test_scores_are_those_of_a_computation_by_hand(tmp_path: Path) -> None:
    """From the encoder's own features, pair by pair; a caption of several images has all of them as right answers."""
    captions = several(24)
    path = photographs(tmp_path, captions)
    encoder = load_encoder("micro-dense", device="cpu")
    (result,) = gate_runner.run(str(path), encoder="micro-dense", output=tmp_path / "run", show=False)
    assert result.status == "ok", result.reason
    texts = list(dict.fromkeys(text for listed in captions for text in listed))
    data = originals_from(read_benchmark(path), path).load(tmp_path, DataRequest(size=encoder.image_size))
    shown = data.test.images[:]
    with torch.no_grad():
        images = torch.nn.functional.normalize(encoder.encode_image(shown).double(), dim=-1)
        words = torch.nn.functional.normalize(encoder.encode_text(texts).double(), dim=-1)
    cosine = images @ words.T
    by_image, by_text = [], []
    for image, listed in enumerate(captions):
        best = max(float(cosine[image, texts.index(text)]) for text in listed)
        by_image.append(1 + int((cosine[image] > best + 1e-9).sum()))
        for text in listed:
            column = cosine[:, texts.index(text)]
            best = max(float(column[other]) for other in range(24) if text in captions[other])
            by_text.append(1 + int((column > best + 1e-9).sum()))
    scores = {score.metric: score for score in result.scores}
    for side, ranks in (("i2t", by_image), ("t2i", by_text)):
        for k in (1, 5, 10):
            assert scores[f"{side}_r@{k}"].value == pytest.approx(np.mean([rank <= k for rank in ranks]), abs=1e-6)
        assert scores[f"{side}_median_rank"].value == np.median(ranks)
        assert scores[f"{side}_median_rank"].direction == "lower"
    assert all(score.low <= score.value <= score.high for score in result.scores)
    assert scores["i2t_r@1"].value > scores["i2t_r@1"].chance
    predicted = read_run(tmp_path / "run").predicted(result)
    assert predicted is not None
    assert data.test.texts is not None
    nearest = [data.test.texts[place] for place in predicted]
    assert nearest == [texts[row] for row in cosine.argmax(dim=1).tolist()]
    assert result.training["captions"] == sum(map(len, captions))
    assert result.training["captions_of_several"] == 4
    assert "4 captions stand with several images" in result.note
    assert "each of these images is a right answer" in result.note


def test_more_captions_of_an_image_do_not_narrow_the_interval(tmp_path: Path) -> None:
    """Intervals draw images: the same caption in three forms says little more than once."""
    widths = []
    for each in (1, 3):
        folder = tmp_path / str(each)
        folder.mkdir()
        path = photographs(folder, [[f"image {n} {'!' * k}" for k in range(each)] for n in range(24)])
        (result,) = gate_runner.run(str(path), encoder="micro-dense/random", output=folder / "run", show=False)
        score = next(score for score in result.scores if score.metric == "t2i_r@10")
        widths.append(score.high - score.low)
    assert widths[1] > 0.75 * widths[0]


def test_lists_of_captions_in_json_lines(tmp_path: Path) -> None:
    captions = several(8)
    path = photographs(tmp_path, captions, "captions.jsonl")
    data = originals_from(read_benchmark(path), path).load(tmp_path, DataRequest(size=32))
    texts, owned = captions_of(data.test)
    assert [[texts[row] for row in rows] for rows in owned] == captions
    assert (len(data.train), len(data.test)) == (0, 8)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"image": "0.png", "caption": ""}', r"line 5: field 'caption' is '', expected text"),
        ('{"image": "0.png", "caption": []}', r"line 5: field 'caption' is '\[\]', expected a caption"),
        ('{"image": "0.png", "caption": ["a", " "]}', r"line 5: field 'caption' is ' ', expected text"),
        ('{"image": "0.png", "caption": ["a", 3, null]}', "line 5: field 'caption' is missing, expected text"),
        ('{"image": "9.png", "caption": "a"}', r"1 of 5 files are not there: .*9\.png \(.*line 5\)"),
    ],
)
def test_bad_rows_are_refused_with_their_line(tmp_path: Path, row: str, message: str) -> None:
    path = photographs(tmp_path, several(4), "captions.jsonl")
    (tmp_path / "captions.jsonl").write_text((tmp_path / "captions.jsonl").read_text() + row + "\n")
    with pytest.raises(DataError, match=message):
        originals_from(read_benchmark(path), path).load(tmp_path, DataRequest(size=32))


def test_one_caption_for_all_and_encoders_without_texts_fail_in_words(tmp_path: Path) -> None:
    path = photographs(tmp_path, [["a dog"]] * 3)
    (result,) = gate_runner.run(str(path), encoder="micro-dense", output=tmp_path / "run", show=False)
    assert "3 images with 1 different caption; expected at least two of both" in result.reason
    photographs(tmp_path, several(4))
    eyes = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten())
    (result,) = gate_runner.run(str(path), encoder=eyes, output=tmp_path / "eyes", show=False)
    assert "no text side" in result.reason


@pytest.mark.parametrize("metric", ["i2t_r@1", "t2i_r@5", "i2t_median_rank", "t2i_median_rank"])
def test_runs_are_compared_by_any_of_the_metrics(tmp_path: Path, metric: str) -> None:
    path = photographs(tmp_path, several(24))
    path.write_text(path.read_text().replace("[data]", f'metrics = ["{metric}"]\n[data]'))
    runs = []
    for number, encoder in enumerate(("micro-dense/random", "micro-dense")):
        gate_runner.run(str(path), encoder=encoder, output=tmp_path / str(number), show=False)
        runs.append(read_run(tmp_path / str(number)))
    (row,) = compare(*runs).contrasts
    assert row.test.samples == 24
    first, second = (run.results[0].scores[0].value for run in runs)
    assert row.test.difference == pytest.approx(second - first)
    assert row.test.low <= row.test.difference <= row.test.high


def test_statistics_of_images_that_are_drawn_several_times() -> None:
    from gate_data.ragged import Ragged

    columns: dict[str, Any] = {"found": np.array([1.0, 0.0, 1.0]), "rank": np.array([1.0, 7.0, 2.0])}
    outcomes = Ragged(columns, np.array([2, 1]))
    weights = np.array([[1.0, 1.0], [0.0, 2.0], [1.0, 3.0]])
    assert share_found(outcomes, weights).tolist() == pytest.approx([2 / 3, 1, 4 / 5])
    assert median_rank(outcomes, weights).tolist() == [2, 2, 2]


def test_a_benchmark_of_captions_has_it_as_a_variant(tmp_path: Path) -> None:
    (result,) = gate_runner.run(
        "micro/flickr30k@zero-shot-retrieval", encoder="micro-dense", limit=20, output=tmp_path / "run", show=False
    )
    assert (result.status, result.task) == ("ok", "zero-shot-retrieval")
    assert result.training["images"] == 20
    with pytest.raises(UsageError, match=r"no variant 'knn'; there is .*@zero-shot-retrieval"):
        gate_runner.run("micro/flickr30k@knn", encoder="micro-dense", output=tmp_path / "bad", show=False)


def test_new_writes_it_and_run_prints_every_metric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photographs(tmp_path, several(12)).unlink()

    def command(*words: str) -> str:
        with pytest.raises(SystemExit):
            main(list(words))
        captured = capsys.readouterr()
        return captured.out + captured.err

    assert "--task zero-shot-retrieval scores an encoder as it is" in command("new", str(tmp_path), "--dry-run")
    refused = command("new", str(tmp_path), "--task", "zero-shot-retrival")
    assert "nearest: zero-shot-retrieval" in refused
    assert not (tmp_path / "benchmark.toml").exists()
    written = command("new", str(tmp_path), "--task", "zero-shot-retrieval")
    assert "test 12\n" in written
    assert "drawn from train" not in written
    shown = command("run", str(tmp_path / "benchmark.toml"), "--output", str(tmp_path / "run"), "--isolate", "none")
    for metric in ("i2t_r@1", "i2t_r@10", "t2i_r@1", "t2i_r@10", "i2t_median_rank", "t2i_median_rank"):
        assert f" {metric} " in shown
    command("report", str(tmp_path / "run"), "--output", str(tmp_path / "page.html"))
    assert "median rank" in (tmp_path / "page.html").read_text()
