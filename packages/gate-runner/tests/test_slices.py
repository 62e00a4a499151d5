"""Slices and groups of one's own data: scored, tested, kept, reported, compared; and what is refused as a slice."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gate_runner
from gate_data.errors import DataError
from gate_data.original_files import GROUP
from gate_data.own import originals_of
from gate_runner.comparison.best import interval_among, worse_runs
from gate_runner.errors import UsageError
from gate_runner.reports import report
from gate_runner.reports.contents import gather
from gate_runner.runs.slicing import few_groups, from_rows
from gate_runner.runs.stored import read_run, read_runs
from gate_runner.settings import Settings
from gate_runner.tasks.registry import task_types

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
LAST = Settings(readout=("last",))


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


def run(file: Path, output: Path, encoder: str = "micro-dense") -> gate_runner.runs.results.Result:
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


@pytest.mark.parametrize("changed", ["more slices", "another camera", "another patient", "no groups", "EXIF"])
def test_a_result_by_other_slices_or_groups_is_not_used_again(pets: Path, changed: str) -> None:
    file = written(pets, 'columns = ["camera"]', group="patient")
    first = run(file, pets / "runs")
    assert run(file, pets / "runs") == first
    table = (pets / "pets.csv").read_text()
    if changed == "another camera":
        (pets / "pets.csv").write_text(table.replace(",night,", ",dusk,"))
    elif changed == "another patient":
        (pets / "pets.csv").write_text(table.replace(",test39,", ",test38,"))
    else:
        slices = {"more slices": 'columns = ["camera", "label"]', "EXIF": 'columns = ["camera"]\nexif = ["Model"]'}
        written(pets, slices.get(changed, 'columns = ["camera"]'), group="" if changed == "no groups" else "patient")
    with pytest.raises(UsageError, match=r"pets seed 0 by other slices, groups or names of classes"):
        run(file, pets / "runs")


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
    run(file, pets / "second", "micro-dense/random")
    comparison = gate_runner.compare(pets / "first", pets / "second", permutations=199, resamples=200)
    assert comparison.contrasts[0].test.clusters == 23
    assert [(row.by, row.slice) for row in comparison.by_slice] == [
        ("camera", name) for name in ("day", "dusk", "night")
    ]
    assert sum(row.test.samples for row in comparison.by_slice) == 90
    assert all(row.p_adjusted >= row.test.p for row in comparison.by_slice)


def test_choices_reports_and_power_draw_groups(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a choice and a report call worse is judged by whole groups, as a comparison is."""
    file = written(pets, 'columns = ["camera"]', group="patient")
    run(file, pets / "first")
    run(file, pets / "second", "micro-dense/random")
    runs = read_runs([pets / "first", pets / "second"])
    groups = from_rows(runs[0].tested(runs[0].results[0]))[GROUP]
    assert len(set(groups)) == 23
    widened = runs[0].results[0].scores[0]
    low, high = interval_among(runs[0], 1, 0.05)
    assert low == pytest.approx(widened.low, abs=0.02)
    assert high == pytest.approx(widened.high, abs=0.02)
    assert interval_among(runs[0], 5, 0.05)[0] < low
    assert gate_runner.power(pets / "first", pets / "second").benchmarks[0].clusters == 23

    def judged(*_: object, clusters: list[str] | None = None, **__: object) -> list[float]:
        assert clusters == groups
        return [1.0, 0.01]

    for module in ("comparison.best", "reports.contents"):
        monkeypatch.setattr(f"gate_runner.{module}.worse_than_another", judged)
    assert list(worse_runs(runs).values()) == [1.0, 0.01]
    (row,) = gather(runs).rows
    assert not any(cell.near_best for cell in row.cells.values())


def test_a_choice_of_grouped_images_names_the_groups(pets: Path) -> None:
    file = written(pets, 'columns = ["camera"]', group="patient")
    chosen = gate_runner.choose(str(file), ["micro-dense", "micro-dense/random"], pets / "choice", LAST)
    assert any("Tests exchange, and intervals draw, 23 whole groups." in line for line in chosen.sentences)


def _one_of_three(row: re.Match[str]) -> str:
    return f"test{int(row[2]) % 3},{row[2]}"


def test_groups_too_few_for_any_test_are_told(pets: Path) -> None:
    """Three groups have eight exchanges, of which two are always as extreme: .25 is the least p, whatever differs."""
    lines = (pets / "pets.csv").read_text()
    (pets / "pets.csv").write_text(re.sub(r"test(\d+),(\d+)$", _one_of_three, lines, flags=re.M))
    file = written(pets, 'columns = ["camera"]', group="patient")
    chosen = gate_runner.choose(str(file), ["micro-dense", "micro-dense/random"], pets / "choice", LAST)
    line = "with 3 groups no paired test can have p below 0.25: at least 6 are needed"
    assert any(line in sentence for sentence in chosen.sentences)
    run_folder = next(path.parent for path in (pets / "choice").glob("*/manifest.json"))
    assert line in read_run(run_folder).results[0].note
    assert "A slice of fewer than 5 groups has a score alone: no interval, and no test." in report(
        run_folder, pictures=0
    )
    comparison = gate_runner.compare(*(path.parent for path in (pets / "choice").glob("*/manifest.json")))
    assert comparison.contrasts[0].test.p >= 0.25
    assert not few_groups(6)
    assert few_groups(6, 0.01)[0].startswith("with 6 groups no paired test can have p below 0.03125: at least 8 are")


@pytest.mark.parametrize("task", ["knn", "image-retrieval", "clustering"])
def test_intervals_of_few_groups_stay_in_range_and_folds_are_named_where_they_apply(pets: Path, task: str) -> None:
    lines = (pets / "pets.csv").read_text()
    (pets / "pets.csv").write_text(re.sub(r"test(\d+),(\d+)$", _one_of_three, lines, flags=re.M))
    file = written(pets, 'columns = ["camera"]', group="patient")
    file.write_text(file.read_text().replace('id = "pets"', f'id = "pets"\ntask = "{task}"'))
    result = run(file, pets / "runs")
    assert "with 3 groups no paired test can have p below 0.25" in result.note
    assert "folds" not in result.note
    (table,) = result.training["slices"]
    score = result.scores[0]
    assert max([score.high] + [row["high"] for row in table["rows"] if row["high"] is not None]) <= 1.0
    if score.metric != "ami":
        assert min([score.low] + [row["low"] for row in table["rows"] if row["low"] is not None]) >= 0.0


def test_every_metric_of_a_task_type_has_a_range() -> None:
    known = {"r2": -math.inf, "spearman": -1.0, "quadratic_kappa": -1.0, "ami": -math.inf}
    for task in task_types().values():
        for metric in (*task.own_metrics, *task.further_metrics, *task.statistics):
            least, most = task.within(metric, "higher", np.array([0.0, np.nan, 1.0]))
            assert least == known.get(metric, 1.0 if "rank" in metric else 0.0), metric
            assert most in (1.0, 2.0, math.inf), metric
    assert task_types()["image-retrieval"].within("votes", "higher", np.array([0.0, 3.0])) == (-math.inf, math.inf)


def test_shifts_of_grouped_images_draw_groups(pets: Path) -> None:
    rows = {}
    for name in ("", "patient"):
        file = written(pets, 'columns = ["camera"]', group=name)
        (result,) = gate_runner.run(
            str(file), output=pets / f"runs{name}", encoder="micro-dense", shift="grey", show=False
        )
        assert result.status == "ok", result.reason
        (rows[name],) = result.training["shifts"]
    plain, grouped = rows[""], rows["patient"]
    assert grouped["value"] == plain["value"]
    assert grouped["low"] <= plain["low"]
    assert grouped["high"] >= plain["high"]
    assert grouped["change"][0] == plain["change"][0]
    assert grouped["change"][1:] != plain["change"][1:]


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


def listed(folder: Path, values: list[Any], *, group: bool = False) -> Path:
    """Data of JSON lines, with the values in turn as the column ``camera``, and a few groups."""
    lines = []
    for at in range(48):
        Image.new("RGB", (8, 8), (at, 0, 0)).save(folder / f"{at}.png")
        split = ("train", "validation", "test")[at // 16]
        row = {"file": f"{at}.png", "label": "ab"[at % 2], "split": split, "camera": values[at % len(values)]}
        lines.append(json.dumps({**row, "patient": row["camera"] if group else f"{split}{at // 4}"}))
    (folder / "pets.jsonl").write_text("\n".join(lines))
    path = written(folder, 'columns = ["camera"]', "patient" if group else "")
    path.write_text(path.read_text().replace("pets.csv", "pets.jsonl"))
    return path


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1, None], {"0", "1", "none"}),
        ([False, True], {"False", "True"}),
        ([0.0, 2.5, float("nan")], {"0.0", "2.5", "none"}),
        (["day", "day ", " night", ""], {"day", "night", "none"}),
    ],
)
def test_values_of_a_column_are_slices_as_they_are(values: list[Any], expected: set[str], tmp_path: Path) -> None:
    parts = originals_of(listed(tmp_path, values)).parts
    assert parts is not None
    assert {value for sample in parts(tmp_path).test for _, value in sample.slices} == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 1.0, 2], "'camera' has the values '1' and '1.0' for what looks like one slice"),
        (["none", "day", None], "'camera' has no value at .*line 3.* and 'none' at .*line 1, which is what missing"),
        (["day", "Day", "night"], "'camera' has the values 'Day' and 'day' for what looks like one"),
        (["day", "x" * 201], "field 'camera' is 'xxx.*expected a text of at most 200 characters"),
        ([[1], 2], r"field 'camera' is '\[1\]', expected a text or a number"),
        (["day", "\ud800"], "field 'camera' .*expected a text of at most"),
        (["day", "day\0"], "field 'camera' .*expected a text of at most"),
    ],
)
def test_values_that_are_no_slices_are_refused(values: list[Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        originals_of(listed(tmp_path, values)).check(tmp_path)


def test_groups_that_may_be_one_are_named(tmp_path: Path) -> None:
    path = listed(tmp_path, [1, 1.0, "3", "4", "5", "6", "7", "8"], group=True)
    path.write_text(path.read_text().replace('column = "split"\n', "").replace('columns = ["camera"]', ""))
    parts = originals_of(path).parts
    assert parts is not None
    assert (
        "groups that are one number, written in several ways, are groups of their own: '1', '1.0'"
        in parts(tmp_path).note
    )


@pytest.mark.parametrize(
    ("label", "message"), [("a\ud800", "lone surrogates"), ("a\0b", "null characters"), ("a" * 1001, "1,000")]
)
def test_labels_that_cannot_be_written_are_refused(label: str, message: str, tmp_path: Path) -> None:
    path = listed(tmp_path, ["day"])
    table = tmp_path / "pets.jsonl"
    table.write_text(table.read_text().replace('"label": "a"', f'"label": {json.dumps(label)}'))
    with pytest.raises(DataError, match=f"field 'label' is .*{message}"):
        originals_of(path).check(tmp_path)


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


@pytest.fixture
def shown_twice(tmp_path: Path) -> Path:
    """Four images of each of 24 patients, who look like themselves; their labels are a coin's."""
    rng = np.random.default_rng(0)
    lines = ["file,label,split,camera,patient,number"]
    for patient in range(24):
        look = rng.integers(40, 215, (4, 4, 3))
        for shot in range(4):
            pixels = (np.kron(look, np.ones((8, 8, 1))) + rng.normal(0, 10, (32, 32, 3))).clip(0, 255)
            name = f"{patient}-{shot}.png"
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / name)
            split = "train" if patient < 12 else "validation" if patient < 16 else "test"
            lines.append(f"{name},{('red', 'blue')[patient % 2]},{split},a,p{patient},{shot}")
    (tmp_path / "pets.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_folds_keep_groups_whole(shown_twice: Path) -> None:
    """A head that has seen a patient knows the patient's label: images apart are right, whole patients are a coin's."""
    file = written(shown_twice, 'columns = ["camera"]', "patient")
    (result,) = gate_runner.run(str(file), output=shown_twice / "runs", encoder="micro-dense", folds=4, show=False)
    assert result.status == "ok", result.reason
    assert result.scores[0].value < 0.85
    assert result.training["clusters"]["groups"] == 24
    alone = written(shown_twice, 'columns = ["camera"]')
    (apart,) = gate_runner.run(str(alone), output=shown_twice / "apart", encoder="micro-dense", folds=4, show=False)
    assert apart.scores[0].value > 0.95


def test_more_folds_than_groups_are_refused(shown_twice: Path) -> None:
    file = written(shown_twice, 'columns = ["camera"]', "patient")
    (result,) = gate_runner.run(str(file), output=shown_twice / "runs", encoder="micro-dense", folds=25, show=False)
    assert result.reason.startswith("setting folds=25: the samples are of 24 groups")


def test_slices_are_scored_under_each_shift(tmp_path: Path) -> None:
    """Images of one site differ in colour alone, those of the other in brightness: without colour, one site falls."""
    rng = np.random.default_rng(0)
    lines = ["image,label,site"]
    for at in range(80):
        pixels = rng.integers(0, 60, (32, 32, 3))
        if at % 4 < 2:
            pixels[..., 2 * (at % 2)] += 76 * (3 if at % 2 else 1)  # one luminance
        else:
            pixels += 150 * (at % 2)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(tmp_path / f"{at}.png")
        lines.append(f"{at}.png,{('a', 'b')[at % 2]},{('colour', 'light')[at % 4 // 2]}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "benchmark.toml").write_text(
        '[benchmark]\nid = "sites"\n[data]\nkind = "table"\ntable = "labels.csv"\n'
        '[splits]\ntest_share = 0.5\n[slices]\ncolumns = ["site"]\n'
    )
    file = str(tmp_path / "benchmark.toml")
    (result,) = gate_runner.run(file, encoder="micro-dense", output=tmp_path / "run", shift=["grey"], show=False)
    (row,) = result.training["shifts"]
    by_name = {part["slice"]: part for part in row["slices"]}
    assert sum(part["samples"] * part["value"] for part in row["slices"]) / 40 == pytest.approx(row["value"])
    assert by_name["colour"]["change"][0] < by_name["light"]["change"][0]
    listed = list(csv.DictReader(io.StringIO(report(tmp_path / "run", form="shifts"))))
    assert [(line["shift"], line["slice"]) for line in listed] == [("grey", ""), ("grey", "colour"), ("grey", "light")]
    assert float(listed[1]["change"]) == by_name["colour"]["change"][0]
