"""``gate-runner run oven`` on files in OVEN's own form, which the test writes: what is read, scored and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("oven_retrieval")

import gate_runner
from gate_runner.benchmarks import BENCHMARKS, DataRequest
from gate_runner.errors import DataError

ENTITIES = 40
NOUNS = ("circle", "square", "triangle", "star", "heart", "cross", "ring", "diamond")


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def question(number: int, entity: int, split: str) -> dict[str, Any]:
    text = f"what {NOUNS[entity % 8]} is this?"
    return {
        "data_id": f"{split}_{number}", "image_id": f"oven_{number:08d}", "question": text, "entity_id": f"Q{entity}",
        "entity_text": f"entity {entity}", "data_split": split,
    }  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Twenty entities are trained on, the other twenty are not; every third has an image."""
    folder = tmp_path / "data" / "oven"
    (folder / "images" / "00").mkdir(parents=True)
    (folder / "wikipedia_images").mkdir()
    rng = np.random.default_rng(0)
    number = 0
    for kind in ("entity", "query"):
        rows: dict[str, list[dict[str, Any]]] = {"train": [], "val": []}
        for turn in range(3):
            for entity in range(ENTITIES):
                split = ("val_seen" if entity < 20 else "val_unseen") if turn == 2 else "train"
                if split == "train" and entity >= 20:
                    continue
                rows["val" if turn == 2 else "train"].append(question(number, entity, split))
                pixels = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / "images" / "00" / f"oven_{number:08d}.jpg")
                number += 1
        for part, listed in rows.items():
            write_lines(folder / f"oven_{kind}_{part}.jsonl", listed)
    base = [
        {
            "wikidata_id": f"Q{entity}", "wikipedia_title": f"{NOUNS[entity % 8]} {entity}", "wikipedia_summary": "a",
            "wikipedia_content": "b", "wikipedia_image_url": None if entity % 3 else f"http://host/{entity}.jpg",
        }
        for entity in range(ENTITIES + 400)
    ]  # fmt: skip
    write_lines(folder / "Wiki6M_ver_1_0.jsonl", base)
    for entity in range(0, ENTITIES, 3):
        Image.new("RGB", (10, 10), (entity, 0, 0)).save(folder / "wikipedia_images" / f"{entity}.jpg")
    return tmp_path / "data"


@pytest.mark.parametrize("name", ["oven", "oven-query"])
def test_ovens_own_files_are_run(name: str, root: Path, tmp_path: Path) -> None:
    (done,) = gate_runner.run(
        name, encoder="micro-dense/random", output=tmp_path / "run", data_root=root, show=False, device="cpu"
    )
    assert done.status == "ok", done.reason
    assert (done.name, done.source) == (name, "local")
    assert [score.metric for score in done.scores] == ["accuracy", "seen", "unseen", "harmonic"]
    assert (done.data["train"], done.data["validation"], done.data["test"], done.data["classes"]) == (40, 14, 40, 440)
    assert "440 entities" in done.note
    assert done.training["linker"] > 0


def test_questions_and_pictures_are_those_of_the_files(root: Path) -> None:
    data = BENCHMARKS["oven"].load("local", DataRequest(root, size=32))
    assert data.classes[:2] == ("circle 0", "square 1")
    assert data.test.targets.tolist() == list(range(ENTITIES))
    assert (data.test.texts or ())[9] == "what square is this?"
    assert data.validation.targets.tolist() == list(range(0, ENTITIES, 3))
    assert data.validation.images[1].float().mean(dim=(1, 2)).tolist() == pytest.approx([3, 0, 0], abs=1.5)
    file = str(data.test.images.files[3][0])
    assert Path(file).name == "oven_00000043.jpg"


def test_a_limit_keeps_seen_and_unseen_entities_and_says_that_the_base_is_cut(root: Path) -> None:
    data = BENCHMARKS["oven"].load("local", DataRequest(root, limit=8, size=32))
    trained = set(data.train.targets.tolist())
    seen = [target in trained for target in data.test.targets.tolist()]
    assert (len(data.train), sum(seen), len(seen) - sum(seen)) == (8, 4, 4)
    names = {data.classes[target] for target in data.test.targets.tolist()}
    assert names == {f"{NOUNS[entity % 8]} {entity}" for entity in (0, 1, 2, 3, 20, 21, 22, 23)}
    assert "fewer than the whole knowledge base" in data.note
    assert len(data.classes) == 12 + 80


def test_what_is_wrong_with_the_files_is_one_line(root: Path) -> None:
    folder = root / "oven"
    benchmark = BENCHMARKS["oven"]
    (folder / "images" / "00" / "oven_00000043.jpg").unlink()
    with pytest.raises(DataError, match=r"oven_entity_val.jsonl:4: image_id: .*'oven_00000043'"):
        benchmark.load("local", DataRequest(root))
    skipped = benchmark.load("local", DataRequest(root, skip_unreadable=True, size=32))
    assert (len(skipped.test), "1 question without an image" in skipped.note) == (39, True)
    lines = (folder / "Wiki6M_ver_1_0.jsonl").read_text().splitlines(keepends=True)
    (folder / "Wiki6M_ver_1_0.jsonl").write_text("".join(lines[5:]))
    with pytest.raises(DataError, match=r"5 of 40 entities that are asked for are not in it, such as Q0, Q1, Q2"):
        benchmark.load("local", DataRequest(root, skip_unreadable=True))
    (folder / "Wiki6M_ver_1_0.jsonl").write_text("".join([*lines, lines[0]]))
    with pytest.raises(DataError, match=r"jsonl:441: entity 'Q0' comes twice"):
        benchmark.load("local", DataRequest(root, skip_unreadable=True))
    (folder / "oven_entity_train.jsonl").unlink()
    with pytest.raises(DataError, match=r"oven_entity_train.jsonl, oven_entity_val.jsonl"):
        benchmark.choose_source(None, root)
