"""Slices and groups of one's own data: scored, tested, kept, reported, compared; and what is refused as a slice."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gate_runner
from gate_data.errors import DataError
from gate_data.own import originals_of
from gate_runner.reports import report
from gate_runner.runs.stored import read_run

TEXT = """[benchmark]
id = "pets"
[data]
kind = "table"
table = "pets.csv"
image = "file"
[splits]
column = "split"
{group}
[slices]
{slices}
"""


def written(folder: Path, slices: str, group: str = "") -> Path:
    (folder / "benchmark.toml").write_text(TEXT.format(slices=slices, group=group and f'group = "{group}"'))
    return folder / "benchmark.toml"


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Red and blue images with noise; of those that the camera "night" took, labels are a coin's."""
    rng = np.random.default_rng(0)
    lines = ["file,label,split,camera,patient,number"]
    for at in range(160):
        split = "train" if at < 60 else "validation" if at < 70 else "test"
        camera = ("day", "dusk", "night")[at % 3]
        label = int(rng.integers(2))
        pixels = rng.integers(0, 80, (24, 24, 3))
        pixels[..., 2 * (int(rng.integers(2)) if camera == "night" and split == "test" else label)] += 150
        image = Image.fromarray(pixels.astype(np.uint8))
        exif = image.getexif()
        exif[0x0110] = f"Model {camera}"
        image.save(tmp_path / f"{at}.jpg", exif=exif)
        lines.append(f"{at}.jpg,{('red', 'blue')[label]},{split},{camera},{split}{at // 4},{at}")
    (tmp_path / "pets.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(file: Path, output: Path, encoder: str = "micro-clip") -> gate_runner.runs.results.Result:
    (result,) = gate_runner.run(str(file), output=output, encoder=encoder, show=False)
    assert result.status == "ok", result.reason
    return result


def test_the_worst_slice_is_named_tested_kept_and_reported(pets: Path) -> None:
    result = run(written(pets, 'columns = ["camera"]\nexif = ["Model"]'), pets / "runs")
    by_camera, by_model = result.training["slices"]
    assert (by_camera["by"], by_camera["worst"]) == ("camera", "night")
    assert (by_model["by"], by_model["worst"]) == ("EXIF Model", "Model night")
    rows = {row["name"]: row for row in by_camera["rows"]}
    assert rows["night"]["p_adjusted"] < 0.05
    assert rows["night"]["value"] < 0.8 < rows["day"]["value"]
    assert by_camera["low"] < rows["night"]["value"]
    assert sum(row["samples"] for row in rows.values()) == 90
    listed = list(csv.DictReader(io.StringIO(report(pets / "runs", form="slices"))))
    assert [row["slice"] for row in listed if row["worst"] == "1"] == ["night", "Model night"]
    assert "The worst is night" in report(pets / "runs", pictures=0)
    stored = read_run(pets / "runs")
    assert "column_values" in stored.tested(stored.results[0])


def test_groups_widen_the_interval_and_it_is_said(pets: Path) -> None:
    plain = run(written(pets, 'columns = ["camera"]'), pets / "plain")
    grouped = run(written(pets, 'columns = ["camera"]', group="patient"), pets / "grouped")
    assert "draws 23 whole groups, not 90 samples" in grouped.note
    assert grouped.training["clusters"]["plain"] == [plain.scores[0].low, plain.scores[0].high]
    assert grouped.scores[0].low <= plain.scores[0].low
    assert grouped.scores[0].high >= plain.scores[0].high
    assert grouped.training["slices"][0]["clusters"] == 23


def test_comparisons_exchange_groups_and_look_at_slices(pets: Path) -> None:
    file = written(pets, 'columns = ["camera"]', group="patient")
    run(file, pets / "first")
    run(file, pets / "second", "micro-clip/random")
    comparison = gate_runner.compare(pets / "first", pets / "second", permutations=199, resamples=200)
    assert comparison.contrasts[0].test.clusters == 23
    assert [(row.by, row.slice) for row in comparison.by_slice] == [
        ("camera", name) for name in ("day", "dusk", "night")
    ]
    assert sum(row.test.samples for row in comparison.by_slice) == 90
    assert all(row.p_adjusted >= row.test.p for row in comparison.by_slice)


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ('columns = ["number"]', "'number' has 90 values for 90 test samples"),
        ('columns = ["kamera"]', "kamera"),
        ("folders = [0]", "level 0"),
    ],
)
def test_what_is_no_slice_is_refused_at_the_door(pets: Path, slices: str, message: str) -> None:
    file = written(pets, slices)
    with pytest.raises(DataError, match=message):
        originals_of(file).check(pets)


def test_folders_are_slices_and_levels_that_lack_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for label in ("cat", "dog"):
            (tmp_path / split / label).mkdir(parents=True)
            for at in range(4):
                Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8)).save(tmp_path / split / label / f"{at}.png")
    (tmp_path / "benchmark.toml").write_text(
        '[benchmark]\nid = "pets"\n[data]\nkind = "folders"\n[splits]\ntrain = "train"\ntest = "test"\n'
        "[slices]\nfolders = [2, 3]\n"
    )
    originals = originals_of(tmp_path / "benchmark.toml")
    assert originals.parts is not None
    (first, *_) = originals.parts(tmp_path).test
    assert first.slices == (("folder 2", "cat"), ("folder 3", "none"))
