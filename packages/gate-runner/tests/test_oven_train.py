"""``gate-runner oven train``, ``answer`` and ``search --model`` on a small drawn world."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("oven_retrieval")
pytest.importorskip("eqben_builder")

from PIL import Image
from typer.testing import CliRunner

from eqben_builder.micro import Item, Scene, render
from gate_runner.cli import app

THINGS = [(colour, shape) for colour in ("red", "blue", "green") for shape in ("circle", "star", "ring")]


def call(*arguments):
    return CliRunner().invoke(app, ["oven", *[str(argument) for argument in arguments]])


def draw(thing, path, at=0.5):
    item = Item(shape=thing[1], colour=thing[0], size="large", material="plain", x=at, y=0.5)
    Image.fromarray(np.asarray(render([Scene((item,))]).images[0])).save(path)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    for name in ("images", "own"):
        (folder / name).mkdir()
    lines = []
    for number, thing in enumerate(THINGS):
        if number % 2:
            draw(thing, folder / "own" / f"Q{number}.png")
        for i in range(4):
            draw(thing, folder / "images" / f"i{number}_{i}.png", 0.4 + 0.05 * i)
            split = "val_unseen" if number >= 6 else "val_seen" if i == 3 else "train"
            lines.append({"data_id": f"d{number}_{i}", "image_id": f"i{number}_{i}", "question": f"a {thing[1]}",
                          "entity_id": f"Q{number}", "data_split": split})  # fmt: skip
    for name in ("train", "val"):
        chosen = [json.dumps(line) for line in lines if line["data_split"].startswith(name)]
        (folder / f"{name}.jsonl").write_text("\n".join(chosen) + "\n", encoding="utf-8")
    entities = [{"id": f"Q{i}", "name": f"a {colour} {shape}"} for i, (colour, shape) in enumerate(THINGS)]
    (folder / "kb.jsonl").write_text("\n".join(map(json.dumps, entities)) + "\n", encoding="utf-8")
    built = call("build", folder / "kb.jsonl", "--output", folder / "p")
    assert built.exit_code == 0, built.output
    return folder


def train(world, output, *more):
    return call(
        "train", world / "train.jsonl", "--kb", world / "p", "--encoder", "micro-clip", "--images", world / "images",
        "--entity-images", world / "own", "--output", output, "--steps", 2, "--validate-every", 1, *more,
    )  # fmt: skip


def test_train_answer_eval_search(world, tmp_path):
    done = train(world, tmp_path / "m", "--validation", world / "val.jsonl", "--fine-tune", "resblocks.3|proj",
                 "--batch-size", 8)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "18 questions to train on, 18 to validate, 4 entities with an image" in done.output
    assert "step 2 of 2: seen" in done.output
    answers = tmp_path / "answers.jsonl"
    done = call("answer", world / "val.jsonl", "--kb", world / "p", "--model", tmp_path / "m", "--images",
                world / "images", "--output", answers)  # fmt: skip
    assert "wrote 18 predictions" in done.output
    done = call("eval", "--entity-reference", world / "val.jsonl", "--entity-predictions", answers, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["honest"]["entity"]["questions"] == 18
    right = [json.loads(line)["pred_entity_id"][1:] == json.loads(line)["data_id"][1:].split("_")[0]
             for line in answers.read_text(encoding="utf-8").splitlines()]  # fmt: skip
    assert np.mean(right) > 0.8  # micro-clip knows this world
    done = call("search", "--kb", world / "p", "--model", tmp_path / "m", "--image", world / "images" / "i4_1.png",
                "--text", "a star", "-k", 2, "--json")  # fmt: skip
    assert json.loads(done.output)["entities"][0]["name"] == "a blue star"
    done = call("sizes", world / "val.jsonl", "--kb", world / "p", "--model", tmp_path / "m", "--images",
                world / "images", "--figure", tmp_path / "sizes.svg", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    points = json.loads(done.output.splitlines()[-1])["m"]
    assert [point["entities"] for point in points] == [9]  # every entity is asked for
    assert points[0]["value"] == pytest.approx(100 * np.mean(right), abs=6)  # vectors are stored as float16
    assert (tmp_path / "sizes.svg").read_text(encoding="utf-8").startswith("<svg")
    done = call("sizes", world / "val.jsonl", "--kb", world / "p", "--model", tmp_path / "m", "--images",
                world / "images", "--sizes", "4,x")  # fmt: skip
    assert "--sizes: expected whole numbers with commas between them, got '4,x'" in done.output + str(done.exception)
    done = call("history", tmp_path / "m", "--figure", tmp_path / "history.svg")
    assert [line.split(":")[1].split()[1] for line in done.stdout.splitlines()] == ["0", "1", "2"]
    assert (tmp_path / "history.svg").read_text(encoding="utf-8").count("<polyline") == 2
    # A fine-tuned model's encoder is another one than the project's.
    done = call("search", "--kb", world / "p", "--model", tmp_path / "m", "--text", "a star")
    assert done.exit_code != 0


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--model", "fusion", "--fine-tune", "layer77"], "no weight's name matches 'layer77'"),
        (["--optimiser", "sgd"], "optimiser: expected one of ['adamw', 'adafactor'], got 'sgd'"),
        (["--model", "blip"], "kind: expected one of ['clip2clip', 'fusion'], got 'blip'"),
        (["--fine-tune", "layer77"], "no weight's name matches 'layer77'"),
        (["--fine-tune", "["], "expected a regular expression, got '['"),
        (["--batch-size", "0"], "batch_size: expected above 0, got 0"),
    ],
)
def test_options_that_do_not_fit(world, tmp_path, more, expected):
    done = train(world, tmp_path / "m", *more)
    assert done.exit_code != 0
    assert expected in done.output + str(done.exception)
    assert not (tmp_path / "m").exists()


def test_vectors_follow_added_and_removed_entities(world, tmp_path):
    done = call("build", world / "kb.jsonl", "--output", tmp_path / "e", "--encoder", "micro-clip")
    (tmp_path / "more.jsonl").write_text('{"id": "Q77", "name": "a white heart"}\n', encoding="utf-8")
    done = call("add", tmp_path / "more.jsonl", "--kb", tmp_path / "e")
    assert done.exit_code == 0, done.output
    assert "new texts to encode with micro-clip@" in done.output
    assert call("remove", "--kb", tmp_path / "e", "Q0").exit_code == 0
    command = ("search", "--kb", tmp_path / "e", "--encoder", "micro-clip", "--json", "-k", 9, "--text")
    record = json.loads(call(*command, "a white heart").output)["entities"]
    assert record[0]["id"] == "Q77"
    assert len(record) == 9
    assert "Q0" not in {entity["id"] for entity in record}
