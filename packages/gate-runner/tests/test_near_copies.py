"""Near copies from the command line: check-data --near, its page, a run's note, and runs without the copies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gate_runner
from gate_data.near import Likeness, near_copies
from gate_data.near_splits import NEAR
from gate_data.own import originals_of
from gate_data.request import DataRequest
from gate_runner.cli import main
from vision_features.encoders import load_encoder
from vision_features.near_likeness import likeness_by

from ._folders import write_run

TEXT = '[benchmark]\nid = "pets"\n[data]\nkind = "folders"\n[splits]\ntrain = "train"\ntest = "test"\n'


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Two classes in drawn blocks, of which one test image is a training image, mirrored."""
    cells = np.random.default_rng(0).integers(0, 255, (2, 2, 8, 8, 8, 3), np.uint8)
    for split, by_class in zip(("train", "test"), cells.repeat(8, 3).repeat(8, 4), strict=True):
        for label, pictures in zip(("cat", "dog"), by_class, strict=True):
            folder = tmp_path / "pets" / split / label
            folder.mkdir(parents=True)
            for number, picture in enumerate(pictures):
                Image.fromarray(picture).save(folder / f"{number}.png")
    with Image.open(tmp_path / "pets" / "train" / "dog" / "2.png") as image:
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "pets" / "test" / "dog" / "1.png")
    (tmp_path / "pets" / "benchmark.toml").write_text(TEXT)
    return tmp_path / "pets"


def test_check_data_shows_groups_as_text_page_and_json(pets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = pets.parent / "near.html"
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["check-data", str(pets), "--near", "--page", str(page)])
    shown = capsys.readouterr().out
    assert "32 images compared, 1 group of near copies, 1 of them in several splits (1 test image)" in shown
    assert "train/dog/2.png (" in shown
    assert page.read_text().count("data:image/jpeg") == 2
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["check-data", str(pets), "--near", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["near"]["test_images"] == [str(pets / "test" / "dog" / "1.png")]
    assert [len(group) for group in row["near"]["groups"]] == [2]


def test_the_score_without_copies_is_in_the_note(pets: Path) -> None:
    file = str(pets / "benchmark.toml")
    (result,) = gate_runner.run(file, encoder="micro-dense/random", output=pets / "runs", show=False)
    near = result.training["near"]
    assert (near["yes"]["samples"], near["no"]["samples"]) == (1, 15)
    hits = 16 * result.scores[0].value
    assert near["no"]["value"] * 15 + near["yes"]["value"] == pytest.approx(hits)
    assert f"is {result.scores[0].value:.3f} with the 1 near copy among test images" in result.note
    assert "slices" not in result.training


def test_features_are_compared_beside_the_hash(pets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(4)
    smooth = np.asarray(Image.fromarray(rng.integers(0, 255, (4, 4), np.uint8)).resize((64, 64)), float)
    for place in ("train/cat/8.png", "test/cat/8.png"):  # one scene, and fine detail that is noise of its own
        noisy = (smooth + rng.normal(0, 50, (64, 64))).clip(0, 255).astype(np.uint8)
        Image.fromarray(noisy).convert("RGB").save(pets / place)
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["check-data", str(pets), "--near"])
    assert "1 group of near copies" in capsys.readouterr().out
    sources = sorted(map(str, pets.rglob("*.png")))
    features = np.eye(len(sources), dtype=np.float32)
    twins = [sources.index(str(pets / place)) for place in ("train/cat/8.png", "test/cat/8.png")]
    features[twins[1]] = features[twins[0]]
    before = near_copies(sources).groups
    after = near_copies(sources, likeness=lambda shown: Likeness(features, 0.9)).groups
    assert set(after) - set(before) == {tuple(sorted(twins))}


def test_the_threshold_is_of_planted_copies(pets: Path) -> None:
    sources = sorted(map(str, pets.rglob("*.png")))
    alike = likeness_by(load_encoder("micro-dense", device="cpu"))(sources)
    assert np.linalg.norm(alike.features, axis=1) == pytest.approx(1, abs=1e-5)
    assert 0 < alike.threshold < 1


def test_encoder_without_near_is_refused(pets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["check-data", str(pets), "--encoder", "micro-dense"])
    assert "--encoder is of near copies: give --near, too" in capsys.readouterr().err


def test_copies_of_images_with_boxes_are_found_and_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for split, count in (("train", 6), ("validation", 3), ("test", 4)):
        (tmp_path / split).mkdir()
        images, boxes = [], []
        for number in range(count):
            pixels = rng.integers(0, 255, (8, 8, 3), np.uint8).repeat(8, 0).repeat(8, 1)
            if (split, number) == ("train", 2):
                copied = pixels
            if (split, number) == ("test", 1):
                pixels = copied[:, ::-1]
            Image.fromarray(pixels).save(tmp_path / split / f"{number}.png")
            images.append({"id": number, "file_name": f"{number}.png", "width": 64, "height": 64})
            boxes.append({"id": number, "image_id": number, "category_id": 1, "bbox": [8, 8, 24, 24], "iscrowd": 0})
        coco = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "thing"}]}
        (tmp_path / f"{split}.json").write_text(json.dumps(coco))
    file = tmp_path / "benchmark.toml"
    file.write_text(
        '[benchmark]\nid = "things"\ntask = "detection"\n[data]\nkind = "coco"\n'
        'roots = {train = "train", validation = "validation", test = "test"}\n'
        '[splits]\ntrain = "train.json"\nvalidation = "validation.json"\ntest = "test.json"\n'
    )
    originals = originals_of(file)
    whole = originals.load(tmp_path, DataRequest(size=64, note_near=True))
    assert "1 test image is a near copy of others" in whole.note
    assert whole.test.columns == {NEAR: ("no", "yes", "no", "no")}
    left = originals.load(tmp_path, DataRequest(size=64, drop_near=True))
    assert (len(left.train), len(left.validation), len(left.test)) == (5, 3, 4)
    assert "left out as near copies of test images: 1 of train, 0 of validation" in left.note


def test_a_page_without_near_is_refused(pets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["check-data", str(pets), "--page", "near.html"])
    assert "--page is of near copies: give --near, too" in capsys.readouterr().err


def test_a_page_over_a_file_of_a_run_is_refused(pets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(pets.parent / "runs" / "of", {"pets": 0.5})
    before = (folder / "manifest.json").read_bytes()
    with pytest.raises(SystemExit):
        main(["check-data", str(pets), "--near", "--page", str(folder / "manifest.json")])
    assert "belongs to the run" in capsys.readouterr().err
    assert (folder / "manifest.json").read_bytes() == before


def test_a_run_says_it_and_drop_near_leaves_copies_out(pets: Path) -> None:
    file = str(pets / "benchmark.toml")
    options = {"encoder": "micro-dense/random", "show": False}
    (whole,) = gate_runner.run(file, output=pets / "runs" / "all", **options)
    assert "1 test image is a near copy of others" in whole.note
    (left,) = gate_runner.run(file, output=pets / "runs" / "without", drop_near=True, **options)
    assert "left out as near copies of test images" in left.note
    counts = [result.data["train"] + result.data["validation"] for result in (whole, left)]
    assert counts == [16, 15]
    assert left.data["test"] == whole.data["test"]


def test_drop_near_of_data_that_are_no_files_is_refused(tmp_path: Path) -> None:
    (result,) = gate_runner.run(
        "digits", encoder="micro-dense/random", limit=40, drop_near=True, output=tmp_path, show=False
    )
    assert "drop_near compares image files" in result.reason
