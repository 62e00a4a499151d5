"""A run folder of a stranger holds links to files of the user: none is written, read or removed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gate_runner.errors import StorageError, UsageError
from gate_runner.reports import report
from gate_runner.runs.folder import RunFolder, stored_plan
from gate_runner.runs.stored import read_run
from wary_files import folders
from wary_files.folders import write, write_folder
from wary_files.locks import held

from ._command import call_here
from ._folders import write_run

RUN = ("run", "digits", "--limit", "20", "--encoder", "micro-clip/random", "--isolate", "none", "--output", "run")
HEADS = ("--setting", "save_heads=true")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    done = call_here(*RUN, *HEADS, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    return folder / "run"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


PLACES = (
    "results", "results/digits.seed0.json", "samples", "samples/digits.seed0.npz", "unfinished",
    "unfinished/digits.seed0.pt", "unfinished/digits.seed0.json", "unfinished/digits.seed0.features", "failures",
    "failures/digits.seed0.txt", "heads", "heads/digits.seed0", "locks", "locks/digits.seed0.lock", "manifest.json",
    "plan.json", ".manifest.lock",
)  # fmt: skip


@pytest.mark.parametrize("aim", ["there", "missing"])
@pytest.mark.parametrize("place", PLACES)
def test_nothing_behind_a_link_is_touched(place: str, aim: str, finished: Path, tmp_path: Path) -> None:
    mine, run = tmp_path / "mine", tmp_path / "run"
    is_folder = "." not in place or place.endswith(("features", "heads/digits.seed0"))
    shutil.copytree(finished, run)
    (run / "results" / "digits.seed0.json").unlink()  # there is something to do
    if aim == "there" and is_folder:
        shutil.copytree(run / place, mine) if (run / place).is_dir() else mine.mkdir()
        for name in ("digits.seed0.pt", "digits.seed0.json", "digits.seed0.lock", "precious.txt", "a.partial"):
            (mine / name).write_text("mine")
        (mine / "digits.seed0.features").mkdir()
        (mine / "digits.seed0.features" / "precious.txt").write_text("mine")
        (mine / "digits.seed0").mkdir(exist_ok=True)
        (mine / "digits.seed0" / "precious.txt").write_text("mine")
    elif aim == "there":
        mine.write_bytes((run / place).read_bytes() if (run / place).is_file() else b"mine")
    link = run / place
    shutil.rmtree(link) if link.is_dir() else link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(mine)
    before = mine.read_bytes() if mine.is_file() else contents(mine)
    done = call_here(*RUN, *HEADS, "--setting", "recompute=true", cwd=tmp_path)
    assert link.is_symlink()
    assert mine.exists() == (aim == "there")
    assert (mine.read_bytes() if mine.is_file() else contents(mine)) == before
    assert done.returncode in (1, 2)
    assert b"Traceback" not in done.stderr
    assert place.rpartition("/")[2].encode() in done.stderr


PROPERTIES: list[Callable[[RunFolder], object]] = [
    lambda folder: folder.result_file("digits", 0),
    lambda folder: folder.samples_file("digits", 0),
    lambda folder: folder.predictions_file("digits", 0),
    lambda folder: folder.failure_file("digits", 0),
    lambda folder: folder.encoder_folder("digits", 0),
    lambda folder: folder.head_folder("digits", 0),
    lambda folder: folder.lock_file("digits", 0),
    lambda folder: folder.unfinished_file("digits", 0),
    lambda folder: folder.sizes_file("digits", 0),
    lambda folder: folder.features_folder("digits", 0),
    lambda folder: folder.manifest_file,
    lambda folder: folder.plan_file,
]


@pytest.mark.parametrize("place", PROPERTIES)
def test_every_place_refuses_a_link(place: Callable[[RunFolder], Path], tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    path = place(folder)
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "missing")
    with pytest.raises(StorageError, match="is a link"):
        place(folder)
    path.unlink()
    if path.parent != folder.path:
        path.parent.rmdir()
        path.parent.symlink_to(tmp_path)
        with pytest.raises(StorageError, match="is a link"):
            place(folder)


@pytest.mark.parametrize("place", ["manifest.json", "results", "results/digits.seed0.json", "plan.json"])
def test_readers_open_nothing_behind_a_link(place: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"digits": 0.5})
    (run / "plan.json").write_text("{}")
    (run / place).rename(tmp_path / "mine")
    (run / place).symlink_to(tmp_path / "mine")
    with pytest.raises(StorageError, match="is a link"):
        stored_plan(run) if place == "plan.json" else read_run(run)


def test_the_users_own_link_to_a_run_folder_is_one(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"digits": 0.5})
    (tmp_path / "link").symlink_to("run")
    assert read_run(tmp_path / "link").results


def test_a_lock_that_is_another_file_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    os.link(tmp_path / "mine", tmp_path / "x.lock")
    with pytest.raises(StorageError, match="a second name of another file"), held(tmp_path / "x.lock"):
        pass
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_link_is_followed_only_where_the_user_named_it(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "link").symlink_to("mine")
    write(tmp_path / "link", b"page", follow=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "mine").read_text() == "page"
    write(tmp_path / "link", b"result")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "mine").read_text() == "page"


def test_writers_of_one_folder_leave_it_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, failures = tmp_path / "head", []

    def slowly(path: Path, content: bytes) -> None:
        write(path, content)
        time.sleep(0.02)

    def writing(letter: bytes) -> None:
        try:
            for _ in range(3):
                write_folder(folder, dict.fromkeys(("card.json", "head.safetensors", "encoder.safetensors"), letter))
        except Exception as error:  # noqa: BLE001 - the test's thread shows it
            failures.append(error)

    monkeypatch.setattr(folders, "write", slowly)
    writers = [threading.Thread(target=writing, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failures == []
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(written) == ["card.json", "encoder.safetensors", "head.safetensors"]
    assert len(set(written.values())) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["head"]


def test_a_head_that_is_kept_under_the_users_link_goes_where_it_leads(tmp_path: Path) -> None:
    write_folder(tmp_path / "real", {"card.json": b"old"})
    (tmp_path / "link").symlink_to("real")
    write_folder(tmp_path / "link", {"card.json": b"new"})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "card.json").read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_a_folder_with_signs_of_patterns_is_swept_alone(tmp_path: Path) -> None:
    (tmp_path / ".a.1.new").mkdir()
    write_folder(tmp_path / "[ab]", {"card.json": b"new"})
    assert (tmp_path / ".a.1.new").is_dir()


@pytest.mark.parametrize(
    "output",
    ["manifest.json", "results/digits.seed0.json", "results/new.json", "plan.json", "heads/x/page.html", "link"],
)
@pytest.mark.parametrize("form", ["html", "csv"])
def test_a_report_is_not_written_over_a_run(form: str, output: str, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, {"digits": 0.5}) for name in ("a", "b")]
    (tmp_path / "a" / "link").symlink_to(tmp_path / "b" / "manifest.json")
    before = contents(tmp_path)
    for run in runs:  # the run that is read, and one that is not
        for place in (tmp_path / "a" / output, tmp_path / "b" / ".." / "a" / output):
            with pytest.raises(UsageError, match="belongs to the run"):
                report(run, output=place, form=form, pictures=0, tests=False)
    assert contents(tmp_path) == before
    assert report(runs[0], output=tmp_path / "a" / f"report.{form}", form=form, pictures=0, tests=False)
    assert report(runs[0], output=tmp_path / "a" / f"report.{form}", form=form, pictures=0, tests=False)


def test_other_commands_write_over_no_run_either(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"digits": 0.5})
    for words in (
        ("trade", "a", "a", "--page", "a/manifest.json"),
        ("adapt", "embed", ".", "--output", "a/samples/digits.seed0.npz"),
        ("adapt", "predict", "head", "x.png", "--output", "a/results/x.csv"),
    ):
        done = call_here(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert b"belongs to the run" in done.stderr


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images, their benchmark's file, and a run of it."""
    folder = tmp_path_factory.mktemp("own")
    for name, colour in (("blue", (0, 0, 200)), ("red", (200, 0, 0))):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (8, 8), (colour[0], number, colour[2])).save(folder / "photos" / name / f"{number}.png")
    words = ("run", "--data", "photos", "--encoder", "micro-clip/random", "--isolate", "none", "--output", "run")
    done = call_here(*words, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    return folder


def page(folder: Path, *more: str) -> str:
    done = call_here("report", "run", "--output", "r.html", *more, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    return (folder / "r.html").read_text()


def test_a_manifest_does_not_choose_what_a_report_opens(own_run: Path, tmp_path: Path) -> None:
    text = page(own_run)
    assert "predicted: " not in text
    assert "photos/benchmark.toml is outside of run: give --data-root photos" in text
    assert "predicted: " in page(own_run, "--data-root", "photos")
    (own_run / "others").mkdir()
    for roots in (("others", "photos"), ("photos", "others")):
        assert "predicted: " in page(own_run, *(word for root in roots for word in ("--data-root", root)))

    shutil.copytree(own_run, tmp_path / "own")
    run = tmp_path / "own" / "run"
    manifest = json.loads((run / "manifest.json").read_text())
    for file in ("/etc/passwd", "../" * 20 + "etc/passwd", "link", "far.toml", "roots.toml", "knowledge.toml"):
        manifest["runs"][-1]["files"] = {"photos": file}
        (run / "manifest.json").write_text(json.dumps(manifest))
        (run / "link").unlink(missing_ok=True)
        (run / "link").symlink_to("/etc/passwd")
        head = '[benchmark]\nid = "photos"\n[data]\nkind = "folders"\n'
        (run / "far.toml").write_text(f'{head}root = "../photos"\n')
        (run / "roots.toml").write_text(f'{head}roots = {{ train = "a", test = "{tmp_path}/own/photos" }}\n')
        (run / "knowledge.toml").write_text(f'{head}[classes]\nknowledge = ["words=/etc/passwd"]\n')
        text = page(tmp_path / "own")
        assert "is outside of run: give --data-root" in text, file
        assert "is not TOML" not in text

    shutil.copytree(tmp_path / "own" / "photos", run / "photos")
    manifest["runs"][-1]["files"] = {"photos": "photos/benchmark.toml"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert "predicted: " in page(tmp_path / "own")  # all of it is the run folder's own


def test_choose_shows_the_pictures_that_it_was_given(own_run: Path) -> None:
    words = (
        "choose",
        "photos",
        "--encoders",
        "micro-dense,micro-dense/random",
        "--readout",
        "last",
        "--output",
        "chosen",
    )
    done = call_here(*words, cwd=own_run)
    assert done.returncode == 0, done.stderr.decode()
    assert "outside of" not in (own_run / "chosen" / "choice.html").read_text()


@pytest.mark.parametrize("output", [("--output", "run"), ()])
def test_data_on_a_read_only_disk_are_run(
    output: tuple[str, ...], own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The benchmark's file is then in the run folder, as that of ``adapt``."""
    shutil.copytree(own_run / "photos", tmp_path / "photos")
    (tmp_path / "photos" / "benchmark.toml").unlink()
    real = Path.open

    def closed(path: Path, mode: str = "r", *given: Any, **more: Any) -> Any:
        if "benchmark.toml" in path.name and set(mode) & set("wax"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real(path, mode, *given, **more)

    monkeypatch.setattr(Path, "open", closed)
    words = ("run", "--data", "photos", "--encoder", "micro-clip/random", "--isolate", "none", *output)
    done = call_here(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / (output[1] if output else "runs") / "photos.toml").is_file()
    assert sorted(path.name for path in (tmp_path / "photos").iterdir()) == ["blue", "red"]
    again = call_here(*words, cwd=tmp_path)
    assert again.returncode == 0
    assert b"1 already there" in again.stdout + again.stderr
    if output:
        assert "predicted: " in page(tmp_path, "--data-root", "photos")
