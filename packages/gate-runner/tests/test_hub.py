"""``--source hub``: small copies of the hub's repositories, read through `datasets`, and what is wrong with them."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import gate_runner
from gate_data.cards import SHEETS
from gate_data.data import Data
from gate_data.hub import fetching
from gate_runner.benchmarks import BENCHMARKS, DataRequest
from gate_runner.cli import main
from gate_runner.errors import DataError
from gate_runner.reports.contents import gather
from gate_runner.reports.pictures import reload_samples
from gate_runner.runs.stored import read_runs

pytest.importorskip("datasets")

from . import _hub_folders as write


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    # datasets waits 5 s after a stream that is left early, for the end of the interpreter
    monkeypatch.setattr("datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN", 0, raising=False)
    return tmp_path / "cache"


def load(name: str, root: Path, **request: Any) -> Data:
    benchmark = BENCHMARKS[name]
    assert benchmark.choose_source("hub", root) == "hub"
    return benchmark.load("hub", DataRequest(root, **{"size": 8, **request}))


def run(command: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(command)
    return int(ended.value.code or 0)


def sizes(data: Data) -> tuple[int, int, int]:
    return len(data.train), len(data.validation), len(data.test)


LAYOUTS: dict[str, tuple[Callable[[Path], None], tuple[int, int, int]]] = {
    "cifar100": (write.cifar100, (15, 5, 3)),
    "food101": (write.food101, (8, 2, 4)),
    "happy": (write.happy, (32, 2, 6)),
    "imagenet1k": (write.imagenet1k, (53, 7, 4)),
    **{name: (layout, (36, 30, 42)) for name, layout in write.few_shot.items()},
    "cityscapes": (write.cityscapes, (11, 1, 3)),
    "coco-10k": (write.coco_10k, (11, 1, 3)),
    "coco-164k": (write.coco_164k, (11, 1, 3)),
    "flickr30k": (write.flickr30k, (6, 2, 3)),
    "nycc": (write.nycc, (8, 3, 4)),
    "winoground": (write.winoground, (0, 0, 3)),
}


def test_every_sheet_with_a_hub_is_tested() -> None:
    assert set(LAYOUTS) == {name for name, sheet in SHEETS.items() if sheet.hub is not None}
    assert all("hub" in BENCHMARKS[name].sources for name in LAYOUTS)
    assert BENCHMARKS["mini-gate"].sources["hub"] == "mini"


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_repository_is_read_and_kept(name: str, tmp_path: Path) -> None:
    layout, expected = LAYOUTS[name]
    layout(tmp_path)
    data = load(name, tmp_path)
    assert sizes(data) == expected
    assert data.test.images[0:1].shape[-2:] == (8, 8)
    hub = SHEETS[name].hub
    assert hub is not None
    assert f"from {hub.id} on the Hugging Face hub" in data.note
    assert load(name, tmp_path).digest() == data.digest()


def test_pictures_and_classes_are_those_of_the_rows(tmp_path: Path) -> None:
    write.cifar100(tmp_path)
    data = load("cifar100", tmp_path, size=32)
    assert data.test.targets.tolist() == [4, 3, 2]
    assert data.classes[3] == "name 3"
    table = write.datasets.load_dataset(str(tmp_path / "uoft-cs/cifar100"), split="test")
    for row, shown in zip(table, data.test.images[:], strict=True):
        whole = row["img"].resize((32, 32), Image.Resampling.BICUBIC, box=(1, 0, 11, 10))
        assert torch.equal(shown, torch.from_numpy(np.asarray(whole).transpose(2, 0, 1).copy()))


def test_meanings_that_differ_from_a_picture_and_its_class(tmp_path: Path) -> None:
    for layout, _ in LAYOUTS.values():
        layout(tmp_path)
    happy = load("happy", tmp_path)
    assert "species/kiler_whale" not in happy.classes
    assert happy.train.targets.shape == (32, 2)
    mini = load("mini", tmp_path)
    assert sorted(set(mini.test.targets.tolist())) == [*range(7)]
    assert "test 6" in mini.classes
    for name, values in (("cityscapes", {-100, 0, 18}), ("coco-10k", {-100, 0, 170}), ("coco-164k", {-100, 0, 170})):
        assert set(torch.as_tensor(load(name, tmp_path).test.targets[0:1]).unique().tolist()) == values
    assert "images validate, not cities" in load("cityscapes", tmp_path).note
    flickr = load("flickr30k", tmp_path)
    assert flickr.test.texts is not None
    assert flickr.test.texts[:2] == ("caption 8 0", "caption 8 1")
    contest = load("nycc", tmp_path)
    assert contest.test.targets.tolist() == [0, 1, 2, 3]
    assert contest.test.texts is not None
    assert contest.test.texts[5] == "joke 1 0"
    items = load("winoground", tmp_path)
    assert items.test.images.shape == (3, 2, 3, 8, 8)
    assert items.test.texts == ("a b", "b a", "c d", "d c", "e f", "f e")


def test_of_a_large_set_no_more_rows_than_the_limit_are_read(tmp_path: Path, cache: Path) -> None:
    write.imagenet1k(tmp_path)
    data = load("imagenet1k", tmp_path, limit=10)
    assert sizes(data) == (10, 10, 4)
    records = [json.loads(line) for line in _lists(cache)]
    assert len(records) == 10 + 10 + 4
    assert "the first rows in a drawn order" in data.note
    write.food101(tmp_path)
    assert sizes(load("food101", tmp_path, limit=3)) == (3, 2, 3)
    assert len(list(_lists(cache))) == len(records) + 10 + 4


def _lists(cache: Path) -> Iterator[str]:
    for path in cache.rglob("*.zip"):
        with zipfile.ZipFile(path) as archive:
            yield from archive.read("rows.jsonl").decode().splitlines()


def test_a_killed_reading_continues_after_the_last_whole_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    write.food101(tmp_path)
    images = load("food101", tmp_path).train.images[:]
    shutil.rmtree(cache)
    monkeypatch.setattr(fetching, "_ROWS", 4)
    _read_rows, yielded = fetching._read_rows, 0

    def dying(*args: Any) -> Iterator[Any]:
        nonlocal yielded
        for row in _read_rows(*args):
            yielded += 1
            if yielded == 7:
                raise KeyboardInterrupt
            yield row

    monkeypatch.setattr(fetching, "_read_rows", dying)
    with pytest.raises(KeyboardInterrupt):
        load("food101", tmp_path)
    assert [path.name for path in cache.rglob("*.zip")] == ["000000000-000000004.zip"]
    assert not list(cache.rglob("*.part"))
    assert torch.equal(load("food101", tmp_path).train.images[:], images)
    assert yielded == 7 + 6 + 4  # up to the kill, the six after the archive's four, and four to test
    load("food101", tmp_path)
    assert yielded == 17  # from the cache alone


WRONG: list[tuple[str, Callable[[Path], None], str]] = [
    ("cifar100",
     write.labelled("uoft-cs/cifar100", write.named(10), {"train": [0] * 9, "test": [1]}, ("img", "fine_label")),
     r"uoft-cs/cifar100: column 'fine_label' has 10 classes, expected 100"),
    ("cifar100", write.labelled("uoft-cs/cifar100", None, {"train": [0] * 9, "test": [1, 100]}, ("img", "fine_label")),
     r"uoft-cs/cifar100/test, row 2: field 'fine_label' is '100', expected a number from 0 to 99"),
    ("cifar100", write.labelled("uoft-cs/cifar100", None, {"train": [0] * 9, "test": [1]}, ("image", "label")),
     r"uoft-cs/cifar100: the split 'train' has no column 'img'; it has image, label"),
    ("cifar100", write.labelled("uoft-cs/cifar100", None, {"train": [0] * 9}, ("img", "fine_label")),
     r"uoft-cs/cifar100: the split 'test' cannot be read through datasets: .*test"),
    ("coco-164k", write.of_maps("GATE-engine/COCOStuff164K", {"train": 12, "val": 3}, "mask", 11),
     r"0\.mask has the value 11, which is no class"),
    ("vgg", write.labelled("GATE-engine/vggflowers", write.named(102),
     {"train": [*range(6)] * 6, "validation": [*range(7, 12)] * 6, "test": [*range(5, 10)] * 6}, ("image", "label")),
     r"class 'name \d' is in (train and in test|validation and in test)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "layout", "message"), WRONG)
def test_what_is_wrong_is_one_line(name: str, layout: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    layout(tmp_path)
    with pytest.raises(DataError, match=message) as caught:
        load(name, tmp_path).test.targets[0:1]
    assert "\n" not in str(caught.value)


def test_code_of_a_repository_is_never_run(tmp_path: Path) -> None:
    folder = tmp_path / "uoft-cs" / "cifar100"
    folder.mkdir(parents=True)
    touched = tmp_path / "run"
    (folder / "cifar100.py").write_text(f"open({str(touched)!r}, 'w')\n")
    with pytest.raises(DataError, match="uoft-cs/cifar100: the split 'train' cannot be read through datasets"):
        load("cifar100", tmp_path)
    assert not touched.exists()


def test_a_row_without_its_picture(tmp_path: Path) -> None:
    features = {"img": write.PICTURE, "fine_label": write.INTEGER}
    for split in ("train", "test"):
        values = {"img": [write.picture(), None], "fine_label": [1, 2]}
        write.write(tmp_path / "uoft-cs/cifar100", split, values, features)
    with pytest.raises(DataError, match=r"uoft-cs/cifar100/train, row 2: field 'img' is missing, expected an image"):
        load("cifar100", tmp_path)


def test_a_damaged_picture_is_named(tmp_path: Path) -> None:
    broken = io.BytesIO()
    write.picture().save(broken, "png")
    features = {"img": write.PICTURE, "fine_label": write.INTEGER}
    columns = {"img": [{"bytes": broken.getvalue()[:60], "path": None}] * 3, "fine_label": [0, 0, 0]}
    for split in ("train", "test"):
        write.write(tmp_path / "uoft-cs/cifar100", split, columns, features)
    with pytest.raises(DataError, match=r"\.zip: 0\.img cannot be read as an image"):
        load("cifar100", tmp_path).test.images[0:1]


def test_what_is_missing_is_said_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", "food101", "--source", "hub", "--data-root", str(tmp_path)]) == 2
    assert "hf download --repo-type dataset ethz/food101 --local-dir" in capsys.readouterr().err
    assert run(["run", "places365", "--source", "hub"]) == 2
    assert "has no source 'hub'; it has: local, micro" in capsys.readouterr().err
    with monkeypatch.context() as changed:
        real_find_spec = importlib.util.find_spec
        changed.setattr("gate_data.hub.find_spec", lambda name: None if name == "datasets" else real_find_spec(name))
        with pytest.raises(DataError, match=r"pip install 'gate-data\[hub\]'"):
            BENCHMARKS["food101"].choose_source("hub", None)


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def fail(*args: Any, **named: Any) -> None:
        raise ConnectionError("Name or service not known\nretry")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", fail)
    monkeypatch.setattr("gate_data.hub.fetching.why_silent", lambda: "")
    with pytest.raises(
        DataError, match=r"ethz/food101 cannot be read from the Hugging Face hub: Name or service"
    ) as error:
        BENCHMARKS["food101"].load("hub", DataRequest())
    assert "\n" not in str(error.value)


def test_a_run_from_the_hub_is_no_stand_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write.labelled(
        "uoft-cs/cifar100", write.named(100), {"train": [*range(5)] * 8, "test": [*range(5)] * 2}, ("img", "fine_label")
    )(tmp_path)
    command = ["run", "cifar100", "--source", "hub", "--data-root", str(tmp_path), "--isolate", "none"]
    assert run([*command, "--output", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    [result] = [json.loads(path.read_text()) for path in (tmp_path / "out" / "results").glob("*.json")]
    assert (result["name"], result["source"], result["status"]) == ("cifar100", "hub", "ok")
    write.cifar100(tmp_path)
    assert run([*command, "--output", str(tmp_path / "out")]) == 2
    assert "on other data" in capsys.readouterr().err


FETCHERS = """
import multiprocessing, os, sys, time
from pathlib import Path
import datasets  # before the processes part: an import takes seconds
from gate_data.cards import SHEETS
from gate_data.hub import fetching

def fetch_food101(root, barrier, place_in_line):
    opened = fetching._opened

    def slow(*args):
        stream = opened(*args)
        Path(os.environ["GATE_RUNNER_CACHE"], f"{os.getpid()}.opened").touch()
        time.sleep(0.7 * place_in_line)  # the second keeps its rows after the first has kept its own
        return stream

    fetching._opened = slow
    barrier.wait()
    fetching.fetched(SHEETS["food101"].hub, Path(root), None)

context = multiprocessing.get_context("fork")
barrier = context.Barrier(3)
fetchers = [context.Process(target=fetch_food101, args=(sys.argv[1], barrier, n)) for n in range(3)]
for fetcher in fetchers:
    fetcher.start()
for fetcher in fetchers:
    fetcher.join()
print([fetcher.exitcode for fetcher in fetchers])
"""


def test_a_report_of_a_run_from_the_hub_asks_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    sessions: list[object] = []
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "get_session", lambda: sessions.append("a session"))
    done = gate_runner.run("digits", encoder="micro-clip/random", limit=20, output=tmp_path / "run", show=False)
    contents = gather(read_runs([done.folder]))
    (row,) = contents.rows
    again, why = reload_samples(contents, replace(row, source="hub", benchmark="food101"))
    assert again is None
    assert "HF_HUB_OFFLINE is set" in why
    assert not sessions


def test_processes_that_fetch_at_once_keep_each_row_once(tmp_path: Path, cache: Path) -> None:
    write.food101(tmp_path)
    command = [sys.executable, "-c", FETCHERS, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[0, 0, 0]\n"
    assert len([*cache.glob("*.opened")]) == 1  # the others waited for the one that fetched
    assert sizes(load("food101", tmp_path)) == (8, 2, 4)


def test_a_copy_of_before_rows_were_counted_is_fetched_again(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Processes of a version before 0.2 could write one row twice."""
    write.food101(tmp_path)
    images = load("food101", tmp_path).train.images[:]
    folder = next(cache.rglob("train/about.json")).parent
    about = json.loads((folder / "about.json").read_text())
    del about["rows"]
    (folder / "about.json").write_text(json.dumps(about))
    shutil.copy(folder / "000000000-000000010.zip", folder / "000000008-000000018.zip")
    assert torch.equal(load("food101", tmp_path).train.images[:], images)
    assert "is of a version before 0.2, which could keep rows twice: it is fetched again" in caplog.text
    assert [path.name for path in folder.glob("*.zip")] == ["000000000-000000010.zip"]


def test_a_copy_with_an_archive_too_few_is_refused(tmp_path: Path, cache: Path) -> None:
    write.food101(tmp_path)
    load("food101", tmp_path)
    next(cache.rglob("train/*.zip")).unlink()
    with pytest.raises(DataError, match=r"train holds 0 rows of ethz/food101, expected 10: remove that folder"):
        load("food101", tmp_path)


def test_rows_are_counted_against_what_the_repository_says(tmp_path: Path) -> None:
    write.food101(tmp_path)
    (tmp_path / "ethz/food101/README.md").write_text(
        "---\ndataset_info:\n  features:\n  - name: image\n    dtype: image\n  - name: label\n    dtype: int64\n"
        "  splits:\n  - name: train\n    num_examples: 11\n  - name: validation\n    num_examples: 4\n"
        "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n"
        "  - split: validation\n    path: data/validation-*\n---\n"
    )
    with pytest.raises(
        DataError, match=r"10 rows of the split 'train' were read, but the repository says that it has 11"
    ):
        load("food101", tmp_path)
