"""ODinW's files: Roboflow's COCO and VOC exports as they are, their traps, published counts and scores."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gate_runner
from gate_data.boxes.files import read_coco, read_voc
from gate_data.checking import check_data
from gate_data.originals.odinw import SETS, prepared
from gate_data.tables import read_table
from gate_runner.benchmarks import PACKS, DataRequest, find_benchmark
from gate_runner.detection.shots import draw_shots
from gate_runner.detection.tables import details
from gate_runner.errors import DataError, UsageError

Content = dict[str, Any]


def content(folder: Path, names: list[str], pictures: int, seed: int, classes: list[tuple[int, str]]) -> Content:
    """A COCO file as Roboflow writes it, with its images: a superclass without objects, ids with gaps."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    for row in range(pictures):
        name = f"{names[0]}{row}_jpg.rf.{seed}{row:04x}.jpg"
        shown = rng.integers(60, 90, (30, 40, 3)).astype(np.uint8)
        left, top, wide, high = (int(v) for v in rng.integers((2, 2, 8, 8), (20, 12, 16, 16)))
        label = row % len(classes)
        shown[top : top + high, left : left + wide, label % 3] = 240
        Image.fromarray(shown).save(folder / name)
        images.append({"id": row, "file_name": name, "width": 40, "height": 30, "license": 1})
        if row % 6 != 5:
            annotations.append(
                {"id": row, "image_id": row, "category_id": classes[label][0], "bbox": [left, top, wide, high],
                 "area": wide * high, "segmentation": [], "iscrowd": 0}
            )  # fmt: skip
    categories = [{"id": 0, "name": "things", "supercategory": "none"}]
    categories += [{"id": number, "name": name, "supercategory": "things"} for number, name in classes]
    return {"info": {}, "licenses": [], "categories": categories, "images": images, "annotations": annotations}


def written(root: Path, classes: list[tuple[int, str]], counts: tuple[int, int, int] = (12, 6, 6)) -> Path:
    for seed, (split, count) in enumerate(zip(("train", "valid", "test"), counts, strict=True)):
        coco = content(root / split, [split], count, seed, classes)
        (root / split / "_annotations.coco.json").write_text(json.dumps(coco))
    return root


def changed(path: Path, change: Any) -> None:
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


THERMAL = "odinw/thermalDogsAndPeople"


def test_a_set_is_found_read_checked_and_run(tmp_path: Path) -> None:
    written(tmp_path / THERMAL, [(3, "dog"), (9, "person")])
    benchmark = find_benchmark("odinw-thermal")
    data = benchmark.load("local", DataRequest(tmp_path, size=16))
    assert data.classes == ("dog", "person")
    assert (len(data.train), len(data.validation), len(data.test)) == (12, 6, 6)
    assert data.test.images[0:2].shape == (2, 3, 16, 16)
    assert data.test.targets.sizes.tolist() == [[40, 30]] * 6
    assert data.test.targets.rows.lengths.tolist() == [1, 1, 1, 1, 1, 0]
    assert data.test.targets.rows.columns["label"].tolist() == [0, 1, 0, 1, 0]
    assert data.note == "split test; 12 training images, 142 published; 6 scored images, 20 published"
    valid = find_benchmark("odinw-thermal@valid").load("local", DataRequest(tmp_path, size=16))
    assert (len(valid.train), len(valid.validation), len(valid.test)) == (11, 1, 6)
    assert valid.note.startswith("split valid; 1 training images validate")
    assert valid.digest() != data.digest()
    (row,) = check_data({benchmark.id: benchmark.originals}, tmp_path)
    assert (row.state, row.counts) == ("incomplete", (18, 6))
    assert any("142 published" in text for text in row.problems)


def test_a_real_run_says_split_shots_and_draw(tmp_path: Path) -> None:
    pytest.importorskip("faster_coco_eval")
    from .test_detection_task import Grid

    root = written(tmp_path / THERMAL, [(1, "dog"), (2, "person")])
    names = [
        picture["file_name"]
        for picture in json.loads((root / "train" / "_annotations.coco.json").read_text())["images"]
    ]
    (root / "train" / "fewshot_train_shot1_seed3.json").write_text(
        json.dumps({"images": [{"file_name": name} for name in names[:2]]})
    )
    (root / "valid" / "fewshot_val_shot1_seed3.json").write_text(json.dumps({"images": []}))
    assert prepared(tmp_path, "thermal", "train", 1, 3) is not None
    done = gate_runner.run(
        "odinw-thermal", encoder=Grid(), data_root=tmp_path, output=tmp_path / "run", show=False, seeds=(3, 30),
        shots="1", recipe_fields={"steps": "2", "validate_every": "2", "lr": "1e-3"},
    )  # fmt: skip
    three, thirty = done.results
    assert three.status == thirty.status == "ok", (three.reason, thirty.reason)
    assert three.name == "odinw-thermal@1"
    assert three.training["draw"]["origin"].startswith("ELEVATER's fewshot_train_shot1_seed3.json")
    assert three.training["draw"]["train"] == [0, 1]
    assert thirty.training["draw"]["origin"].startswith("our draw by ELEVATER's rule, seed 30")


@pytest.mark.parametrize("changing", ["shots", "a box"])
def test_a_result_by_other_shots_or_boxes_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changing: str
) -> None:
    """Its lists and boxes lie beside the images, whose names and contents stay."""
    pytest.importorskip("faster_coco_eval")
    from .test_detection_task import Grid

    monkeypatch.setattr("gate_data.remembered._SETTLING", -60.0)  # files count as old: digests are remembered
    root = written(tmp_path / THERMAL, [(1, "dog"), (2, "person")])
    file = root / "train" / "_annotations.coco.json"
    names = [picture["file_name"] for picture in json.loads(file.read_text())["images"]]
    shots = root / "train" / "fewshot_train_shot1_seed3.json"
    shots.write_text(json.dumps({"images": [{"file_name": name} for name in names[:2]]}))
    how: dict[str, Any] = {"encoder": Grid(), "data_root": tmp_path, "output": tmp_path / "run", "show": False}
    how |= {"seeds": (3,), "shots": "1", "recipe_fields": {"steps": "2", "validate_every": "2", "lr": "1e-3"}}
    first = gate_runner.run("odinw-thermal", **how)
    assert first.results[0].status == "ok", first.results[0].reason
    assert gate_runner.run("odinw-thermal", **how).results == first.results
    if changing == "shots":
        shots.write_text(json.dumps({"images": [{"file_name": name} for name in names[2:4]]}))
    else:
        changed(file, lambda content: content["annotations"][0]["bbox"].__setitem__(0, 1))
    message = "asked for otherwise" if changing == "shots" else "on other data"
    with pytest.raises(UsageError, match=rf"holds a result of odinw-thermal@1 seed 3.* {message}"):
        gate_runner.run("odinw-thermal", **how)


def test_shots_are_drawn_from_the_pictures_by_their_ids(tmp_path: Path) -> None:
    """GLIP sorts the ids before it shuffles them, so that a file in another order gives the same draw."""
    root = written(tmp_path / THERMAL, [(1, "dog"), (2, "person")], (30, 6, 6))
    path = root / "train" / "_annotations.coco.json"
    changed(path, lambda record: random.Random(5).shuffle(record["images"]))
    record = json.loads(path.read_text())
    names = {picture["id"]: picture["file_name"] for picture in record["images"]}
    labels: dict[int, set[int]] = {number: set() for number in sorted(names)}
    for annotation in record["annotations"]:
        labels[annotation["image_id"]].add(annotation["category_id"])
    ids, left, expected = [number for number, own in labels.items() if own], {1: 3, 2: 3}, set()
    random.Random(30).shuffle(ids)
    for number in ids:
        if any(left[label] > 0 for label in labels[number]):
            expected.add(names[number])
            left = {label: count - (label in labels[number]) for label, count in left.items()}
    data = find_benchmark("odinw-thermal").load("local", DataRequest(tmp_path, size=8))
    files = [Path(str(frames[0])).name for frames in data.train.images.files]  # type: ignore[union-attr]
    assert {files[row] for row in draw_shots(data.train.targets, 3, 30, data.classes)} == expected


def test_bad_input_is_cut_left_out_or_refused(tmp_path: Path) -> None:
    root = written(tmp_path / "set", [(2, "  "), (5, "king")])
    path = root / "train" / "_annotations.coco.json"
    plain = read_coco(path)
    assert plain.classes == ("(unlabelled)", "king")
    assert (plain.clipped, plain.dropped) == (0, 0)

    def outside(content: Content) -> None:
        content["annotations"][0]["bbox"] = [30, 20, 40, 40]
        content["annotations"][1]["bbox"] = [5, 5, 0, 9]
        content["annotations"][2]["bbox"] = [50, 5, 9, 9]

    changed(path, outside)
    read = read_coco(path)
    assert (read.clipped, read.dropped) == (1, 2)
    assert read.objects.rows[0]["box"].tolist() == [[30.0, 20.0, 10.0, 10.0]]
    assert read.objects.rows[0]["area"].tolist() == [100.0]
    assert read.note == "1 box cut at the edge of an image, 2 boxes without an area left out"

    def nothing(content: Content) -> None:
        content["annotations"] = []

    changed(path, nothing)
    assert read_coco(path).objects.rows.lengths.sum() == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda coco: coco["annotations"][3].update(category_id=77),
            r"annotations, entry 3: field 'category_id' is '77'",
        ),
        (lambda coco: coco["annotations"][3].update(image_id=-1), r"annotations, entry 3: field 'image_id' is '-1'"),
        (lambda coco: coco["annotations"][0].update(bbox=[1, 2]), r"annotations, entry 0: field 'bbox' is"),
        (
            lambda coco: coco["images"][1].update(file_name="gone.jpg"),
            r"1 of 12 images are not in .* such as 'gone.jpg'",
        ),
        (lambda coco: coco["images"][1].update(file_name="../x.jpg"), r"entry 1: field 'file_name' is '../x.jpg'"),
        (lambda coco: coco.update(images=[]), r"'images' is no list of at least one objects"),
        (lambda coco: coco["categories"][1].update(name=None), r"categories, entry 1: field 'name' is missing"),
    ],
)
def test_what_cannot_be_read_names_its_entry(tmp_path: Path, change: Any, message: str) -> None:
    root = written(tmp_path / "set", [(1, "a"), (2, "b")])
    path = root / "train" / "_annotations.coco.json"
    changed(path, change)
    with pytest.raises(DataError, match=message):
        read_coco(path)


def test_pascal_voc_beside_each_picture(tmp_path: Path) -> None:
    folder = tmp_path / "odinw" / "Raccoon" / "Raccoon.v2-raw.coco"
    for split in ("train", "valid", "test"):
        (folder / split).mkdir(parents=True)
        for row in range(4):
            Image.new("RGB", (20, 10)).save(folder / split / f"{split}{row}.jpg")
            box = "<bndbox><xmin>3</xmin><ymin>2</ymin><xmax>12</xmax><ymax>30</ymax></bndbox>"
            text = f"<object><name>raccoon</name>{box}</object>" if row else ""
            (folder / split / f"{split}{row}.xml").write_text(
                f"<annotation><filename>{split}{row}.jpg</filename><size><width>20</width><height>10</height></size>{text}"
                "</annotation>"
            )
    data = find_benchmark("odinw-raccoon").load("local", DataRequest(tmp_path, size=8))
    assert data.classes == ("raccoon",)
    assert data.test.targets.rows.lengths.tolist() == [0, 1, 1, 1]
    assert data.test.targets.rows[1]["box"].tolist() == [[2.0, 1.0, 10.0, 9.0]]
    assert "test: 3 boxes cut at the edge" in data.note
    (folder / "test" / "test1.jpg").unlink()
    with pytest.raises(DataError, match=r"1 image of an .xml file is not there, such as that of test1.xml"):
        read_voc(folder / "test")


def test_a_flat_set_has_all_its_files_in_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "pistols" / "export"
    for seed, split in enumerate(("train", "val", "test")):
        coco = content(folder, [split], 8, seed, [(1, "pistol")])
        (folder / f"{split}_annotations_without_background.json").write_text(json.dumps(coco))
    data = find_benchmark("odinw-pistols").load("local", DataRequest(tmp_path, size=8))
    assert (len(data.train), len(data.validation), len(data.test)) == (8, 8, 8)
    (folder / "test_annotations_without_background.json").unlink()
    with pytest.raises(DataError, match="has no test split"):
        find_benchmark("odinw-pistols").load("local", DataRequest(tmp_path, size=8))
    with pytest.raises(DataError, match="odinw/dice/mediumColor/export/"):
        find_benchmark("odinw-dice").check_files(tmp_path)


def test_the_sheets_add_up_to_the_papers_totals() -> None:
    assert (len(PACKS["odinw"]), len(PACKS["odinw13"])) == (35, 13)
    assert PACKS["odinw13"][0] == "odinw-pascal-voc"
    totals = [sum(sheet[name] for sheet in SETS.values()) for name in ("train", "test", "train_boxes", "test_boxes")]
    assert totals == [132_314, 20_070, 937_892, 135_563]
    assert sum(len(sheet["classes"]) for sheet in SETS.values()) == 314
    for sheet in SETS.values():
        assert len(set(sheet["classes"])) == len(sheet["classes"])
        assert set(sheet.get("captions", {})) <= set(sheet["classes"])


def test_published_means_are_computed_again() -> None:
    tables = read_table("odinw_published")
    means = {table["id"]: np.mean(list(table["map"].values())) for table in tables["models"]}
    printed = {table["id"]: table["printed_mean"] for table in tables["models"]}
    wrong = {name for name in means if abs(means[name] - printed[name]) > 0.11}
    assert wrong == {"glip-t-a", "glip-t-b", "glip-t-c", "mm-gdino-t", "gdino-l-13"}
    assert means["mm-gdino-t"] == pytest.approx(23.2, abs=0.05)
    assert {len(table["map"]) for table in tables["models"]} == {35, 13}


def test_published_scores_stand_beside_a_run_marked_where_they_differ() -> None:
    training = {
        "odinw": "raccoon", "split": "valid", "shots": "0", "coco": {"map": 0.512},
        "classes": {"raccoon": 0.512, "x": None},
        "without_truth": ["x"], "prompts": {"kind": "names", "read": ["raccoon"]},
    }  # fmt: skip
    table = details(training, "hf-detector:x")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["this run"] == ["51.2", "valid", "zero-shot", "names"]
    assert rows["Grounding DINO-T"][:2] == ["54.9", "valid"]
    assert rows["Grounding DINO-L"][:2] == ["65.8", "test (other)"]
    assert rows["class x"][0] == "no object"
    assert any("counted nowhere: x" in note for note in table.notes)
    own = details({"head": "dense", "shots": "full", "classes": {"a": 0.1}, "coco": {"map": 0.1}}, "micro-clip")
    assert [row[0] for row in own.rows] == ["this run", "class a"]
    assert own.rows[0][3] == "dense head, all images"


def test_a_submission_holds_coco_results_by_the_files_own_ids_and_scores_as_the_run(tmp_path: Path) -> None:
    """pycocotools reads annotation file and submission, and finds the run's own mean average precision."""
    pytest.importorskip("faster_coco_eval")
    pycoco, evaluation = pytest.importorskip("pycocotools.coco"), pytest.importorskip("pycocotools.cocoeval")
    from .test_detection_task import Grid

    root = written(tmp_path / THERMAL, [(3, "dog"), (9, "person")])
    file = root / "test" / "_annotations.coco.json"

    def renumbered(record: Any) -> None:  # ids as files have them: neither from 0 nor in order
        number = {row["id"]: 101 - 7 * row["id"] for row in record["images"]}
        for row in record["images"]:
            row["id"] = number[row["id"]]
        for row in record["annotations"]:
            row["image_id"], row["id"] = number[row["image_id"]], row["id"] + 1

    changed(file, renumbered)
    fields = {"lr": "1e-3", "steps": "12", "validate_every": "6", "batch_size": "4"}
    done = gate_runner.run(
        "odinw-thermal", encoder=Grid(), data_root=tmp_path, output=tmp_path / "run", show=False, device="cpu",
        recipe_fields=fields, shots=("full", "3"), seeds=(3, 30), keep_predictions=True,
    )  # fmt: skip
    assert [result.status for result in done] == ["ok"] * 4, [result.reason for result in done]
    exported = gate_runner.export(done.folder, "elevater")
    assert [path.name for path in exported.files] == ["odinw-full-dense.json", "odinw-3-shot-dense.json"]
    full, few = (json.loads(path.read_text()) for path in exported.files)
    assert list(full) == list(few) == ["thermalDogsAndPeople"]
    assert list(few["thermalDogsAndPeople"]) == ["3", "30"]
    by_unit = {("full", 3): full["thermalDogsAndPeople"]}
    by_unit |= {("3", int(seed)): rows for seed, rows in few["thermalDogsAndPeople"].items()}
    truth = pycoco.COCO(str(file))
    for (shots, seed), rows in by_unit.items():
        assert set(rows[0]) == {"image_id", "category_id", "bbox", "score"}
        scored = evaluation.COCOeval(truth, truth.loadRes(rows), "bbox")
        scored.evaluate()
        scored.accumulate()
        scored.summarize()
        (result,) = [unit for unit in done if (unit.training["shots"], unit.seed) == (shots, seed)]
        assert scored.stats[0] == pytest.approx(result.scores[0].value, abs=1e-9)
        assert scored.stats[0] > 0
    left_out = "\n".join(exported.left_out)
    assert "3-shot-dense: thermalDogsAndPeople lacks seed 300 of 3, 30, 300" in left_out
    assert "full-dense: thermalDogsAndPeople has room for one seed; it holds 3 of 2" in left_out
    assert "full-dense lacks 34 of 35 data sets: AerialMaritimeDrone_large" in left_out
    next((done.folder / "predictions").iterdir()).unlink()
    with pytest.raises(DataError, match="holds no detections: run with --setting keep_predictions=true"):
        gate_runner.export(done.folder, "elevater")
