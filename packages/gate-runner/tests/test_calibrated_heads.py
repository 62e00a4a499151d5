"""Kept heads' probabilities, sets of classes and none of these: what the card keeps and what predict does with it."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

import gate_runner
from gate_runner.cli import main
from gate_runner.errors import DataError
from gate_runner.tasks.predicted import confident
from paired_scores.metrics import evaluate
from vision_adapters.calibration import Calibration
from vision_features.heads.calibrating import FOREIGN, after_calibration, calibrated, check_record, rests_on, sets_of


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three digits with their own noise, so that heads are not sure."""
    root, (images, labels) = tmp_path_factory.mktemp("noisy"), load_digits(return_X_y=True)
    generator = np.random.default_rng(0)
    for label in (3, 8, 9):
        for number, row in enumerate(images[labels == label][:120]):
            split = "train" if number < 30 else "val" if number < 50 else "test"
            folder = root / split / f"digit {label}"
            folder.mkdir(parents=True, exist_ok=True)
            noisy = np.clip(row.reshape(8, 8) * 15 + generator.normal(0, 70, (8, 8)), 0, 255)
            Image.fromarray(noisy.astype(np.uint8)).resize((32, 32)).save(folder / f"{number}.png")
    return root


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def predicted(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[list[dict[str, str]], str]:
    """Rows of CSV that predict prints, and what it says besides."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["adapt", "predict", *map(str, words)])
    printed = capsys.readouterr()
    assert not ended.value.code, printed.err
    return list(csv.DictReader(io.StringIO(printed.out))), printed.err


METHODS: list[tuple[Any, ...]] = [
    ("zeroshot", {}, "unseen"),
    ("probe", {}, "cross-fitted"),
    ("probe", {"shots": 5, "probe": "proker"}, "cross-fitted"),
]


@pytest.mark.parametrize(("method", "options", "how"), METHODS)
def test_a_kept_head_is_calibrated_and_says_on_how_many_labels(
    method: Any, options: dict[str, Any], how: str, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = gate_runner.adapt(written, method, encoder="micro-clip", output="run", save="head", **options)
    record, card = done.results[0].training["calibration"], json.loads(Path("head/card.json").read_text())
    assert record["how"] == card["calibration"]["how"] == how
    assert len(card["calibration"]["lac"]) == 210
    files = sorted((written / "test").rglob("*.png"))
    rows, notes = predicted(capsys, "head", written / "test", "--top", 3, "--coverage", "0.9", "--known", "0.95")
    assert f"probabilities rest on {record['labels']} labels ({how})" in notes
    assert "sets of 90% coverage, from 210 test images. Of images drawn as the calibration images were" in notes
    classes = done.results[0].data["classes"]
    assert classes == 3
    names = sorted({file.parent.name for file in files})
    table = np.zeros((len(files), 3))
    for number, row in enumerate(rows):
        for place in (1, 2, 3):
            table[number, names.index(row[f"class{place}"])] = float(row[f"probability{place}"])
    true = np.array([names.index(Path(row["file"]).parent.name) for row in rows])
    error = evaluate("calibration_error", table.clip(0, 1), true, resamples=0).value
    assert error == pytest.approx(record["after"]["calibration_error"][0], abs=0.02)
    assert record["after"]["log_loss"][0] <= record["before"]["log_loss"][0] + 0.02
    inside = [Path(row["file"]).parent.name in row["set"].split("; ") for row in rows]
    assert 0.9 <= np.mean(inside) <= 0.93  # on the very images that the threshold is from
    assert np.mean([row["none_of_these"] == "false" for row in rows]) == pytest.approx(0.95, abs=0.01)


def test_the_report_draws_reliability_before_and_after(written: Path) -> None:
    for folder, options in (("kept", {"save": "head"}), ("more", {"shots": 1, "probe": "ss_text"})):
        gate_runner.adapt(written, "probe", encoder="micro-dense", output=folder, **options)
        with pytest.raises(SystemExit) as ended:
            main(["report", folder, "--output", f"{folder}.html", "--pictures", "0"])
        assert not ended.value.code
    page = Path("kept.html").read_text()
    assert "How far probabilities are right" in page
    record = json.loads(next(Path("kept/results").glob("*.json")).read_text())["training"]["calibration"]
    assert f"temperature {record['temperature']:.3g} from {record['labels']} labels (cross-fitted)" in page
    for when in ("before", "after"):
        value, low, high = record[when]["calibration_error"]
        assert f"{value:.3f} ({low:.3f}–{high:.3f})" in page
        confidence, accuracy, *_, samples = record[f"bins_{when}"][0]
        assert f"{confidence:.3f}: right {accuracy:.1%} of {int(samples)}" in page
    assert "not calibrated" in Path("more.html").read_text()  # one image per class


def test_json_has_sets_and_none_of_these(written: Path) -> None:
    gate_runner.adapt(written, "zeroshot", encoder="micro-dense", output="run", save="head")
    with pytest.raises(SystemExit):
        main(["adapt", "predict", "head", str(written / "val"), "--coverage", "1", "--output", "found.jsonl"])
    rows = [json.loads(line) for line in Path("found.jsonl").read_text().splitlines()]
    assert all(sorted(row["set"]) == ["digit 3", "digit 8", "digit 9"] for row in rows)
    assert "none_of_these" not in rows[0]
    with pytest.raises(SystemExit):
        main(["adapt", "predict", "head", str(written / "val"), "--output", "plain.jsonl"])
    assert set(json.loads(Path("plain.jsonl").read_text().splitlines()[0])) == {"file", "classes", "probabilities"}


@pytest.mark.parametrize("share", ["0", "1.5", "-1"])
def test_a_share_out_of_range_is_one_line(share: str, written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate_runner.adapt(written, "zeroshot", encoder="micro-dense", output="run", save="head")
    for option in ("--coverage", "--known"):
        with pytest.raises(SystemExit) as ended:
            main(["adapt", "predict", "head", str(written / "val"), f"{option}={share}"])
        assert ended.value.code == 2
        assert f"{option} must be above 0 and at most 1, got {float(share)}" in capsys.readouterr().err


def test_a_head_without_conformity_says_so(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = Path("few").resolve()
    for file in sorted(written.rglob("*.png")):
        if int(file.stem) % 10 == 0:
            (few / file.relative_to(written)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, few / file.relative_to(written))
    gate_runner.adapt(few, "finetune", encoder="micro-dense", output="run", save="head", recipe_fields={"steps": 2})
    _, notes = predicted(capsys, "head", written / "val")
    assert "probabilities are not calibrated: no label was left to fit a temperature on" in notes
    with pytest.raises(SystemExit) as ended:
        main(["adapt", "predict", "head", str(written / "val"), "--coverage", "0.9"])
    assert ended.value.code == 2
    assert "needs a head that kept how its test images conform" in capsys.readouterr().err


def test_a_class_that_the_head_does_not_know_is_in_no_set() -> None:
    scores = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
    record = calibrated(Calibration(1.0, 7, "unseen"), scores, torch.tensor([0, 1, -1]))
    assert record.card["lac"][2] == FOREIGN
    assert record.training["before"] == record.training["after"]
    sets = sets_of({"calibration": record.card}, 0.6, None)
    assert sets.members(scores) == [[0, 1], [1, 0], [0, 1]]  # the third smallest of three is that of the unknown class
    assert sets_of({"calibration": record.card}, 0.3, None).members(scores) == [[0], [1], []]
    assert sets.none_of_these(scores) is None


def test_a_uniform_share_goes_with_the_card_and_into_every_probability() -> None:
    fitted = Calibration(2.0, 7, "unseen", 0.1)
    scores, labels = 9 * torch.randn(40, 4, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 4
    record = calibrated(fitted, scores, labels)
    expected = fitted.probabilities(scores.double())
    assert record.card["uniform"] == record.training["uniform"] == 0.1
    assert record.card["lac"] == pytest.approx((1 - expected[torch.arange(40), labels]).tolist())
    torch.testing.assert_close(
        sets_of({"calibration": record.card}, 0.9, None).probabilities(scores.double()), expected
    )
    surest = confident(scores, {"calibration": record.training})
    np.testing.assert_allclose(surest, expected.max(1).values.numpy(), rtol=1e-5)
    assert rests_on({"calibration": record.card}).endswith("temperature 2, uniform share 0.1")
    shown = after_calibration({"calibration": record.training})
    assert "after a temperature of 2 and a uniform share of 0.1 from 7 labels" in shown
    floor = record.training["floor_after"]
    assert f"right probabilities would have {floor[0]:.3f} on as many images" in shown
    assert 0.05 < floor[0] < floor[1]
    with pytest.raises(DataError, match=r"calibration, uniform is 1\.5, expected numbers"):
        check_record("card.json", {**record.card, "uniform": 1.5})
