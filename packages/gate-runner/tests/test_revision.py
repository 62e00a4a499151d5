"""The commit of the working folder is read as text: what a data set's folder says to Git is never obeyed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gate_runner.machine.resources import circumstances
from gate_runner.machine.revision import revision

from ._command import call_here

GIT = shutil.which("git")
needs_git = pytest.mark.skipif(GIT is None, reason="there is no git here")
AS_SOMEBODY = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *arguments: str) -> str:
    """The real program, in a folder that the test has made."""
    assert GIT is not None
    done = subprocess.run(
        [GIT, *arguments], cwd=folder, env={**os.environ, **AS_SOMEBODY}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(folder: Path) -> str:
    """A repository with one commit, which is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.txt").write_text("a")
    git(folder, "init", "-q")
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "x")
    return git(folder, "rev-parse", "HEAD")


def monitored(folder: Path, mark: Path) -> Path:
    """A ``.git`` whose configuration names a program to start at ``git status``."""
    repository(folder)
    with (folder / ".git" / "config").open("a") as file:
        file.write(f'[core]\n\tfsmonitor = "touch {mark}; false"\n')
    return folder


def beside(folder: Path, mark: Path) -> Path:
    """The files of a bare repository lie beside the images, as a hub's data set can bring them."""
    monitored(folder, mark)
    text = (folder / ".git" / "config").read_text()
    for file in (folder / ".git").iterdir():
        file.rename(folder / file.name)
    (folder / ".git").rmdir()
    (folder / "config").write_text(f"{text}\tworktree = .\n")
    return folder


def filtered(folder: Path, mark: Path) -> Path:
    """A filter cleans each tracked file whose time has changed."""
    repository(folder)
    (folder / ".gitattributes").write_text("* filter=x\n")
    with (folder / ".git" / "config").open("a") as file:
        file.write(f'[filter "x"]\n\tclean = "touch {mark}; cat"\n')
    os.utime(folder / "a.txt", (1, 1))
    return folder


def above(folder: Path, mark: Path) -> Path:
    """The repository is that of the folder above."""
    monitored(folder, mark)
    (folder / "inside").mkdir()
    return folder / "inside"


@pytest.fixture
def witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that appears when anything starts ``git``."""
    mark, programs = tmp_path / "git-started", tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text(f'#!/bin/sh\ntouch "{mark}"\nexec "{GIT}" "$@"\n')
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return mark


@needs_git
@pytest.mark.parametrize("layout", [monitored, beside, filtered, above])
def test_no_layout_of_a_working_folder_starts_anything(
    layout: Callable[[Path, Path], Path], tmp_path: Path, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = layout(tmp_path / "data", tmp_path / "ran")
    monkeypatch.chdir(folder)
    commit = circumstances()["git"]
    assert not witness.exists()
    assert not (tmp_path / "ran").exists()
    if layout is beside:
        assert commit is None
    else:
        assert commit == git(folder, "-c", "core.fsmonitor=false", "rev-parse", "HEAD")
    git(folder, "status")  # the trap is one: Git itself falls into it
    assert (tmp_path / "ran").exists()


@needs_git
@pytest.mark.parametrize(
    "arguments",
    [
        ("adapt", "probe", ".", "--encoder", "micro-dense/random", "--output"),
        ("run", "digits", "--limit", "20", "--encoder", "micro-dense/random", "--isolate", "none", "--output"),
        ("run", "digits", "--limit", "20", "--encoder", "micro-dense/random", "--isolate", "worker", "--output"),
        ("choose", ".", "--encoders", "micro-dense,micro-dense/random", "--readout", "last", "--output"),
    ],
    ids=["adapt", "here", "worker", "choose"],
)
def test_no_command_starts_git(arguments: tuple[str, ...], tmp_path: Path, witness: Path) -> None:
    folder = monitored(tmp_path / "data", tmp_path / "ran")
    for name, colour in (("blue", (0, 0, 200)), ("red", (200, 0, 0))):
        (folder / name).mkdir()
        for number in range(12):
            picture = np.full((8, 8, 3), colour, dtype=np.uint8)
            picture[0, 0] = number
            Image.fromarray(picture).save(folder / name / f"{number}.png")
    done = call_here(*arguments, str(tmp_path / "output"), cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    assert not witness.exists()
    assert not (tmp_path / "ran").exists()


@needs_git
def test_the_commit_is_gits(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    commit = repository(folder)
    assert revision(folder) == commit

    git(folder, "pack-refs", "--all")
    assert not list((folder / ".git" / "refs" / "heads").iterdir())
    assert revision(folder) == commit

    git(folder, "worktree", "add", "-q", "-b", "next", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "-q", "--allow-empty", "-m", "y")
    assert revision(tmp_path / "tree") == git(tmp_path / "tree", "rev-parse", "HEAD") != commit

    git(folder, "checkout", "-q", "--detach", "next")
    assert revision(folder) == revision(tmp_path / "tree")


C = "c" * 40


@pytest.mark.parametrize(
    ("head", "files"),
    [
        ("ref: refs/heads/../../../outside\n", {}),
        ("ref: refs/heads/missing\n", {"packed-refs": f"{C} refs/heads/other\n"}),
        ("ref: /etc/passwd\n", {}),
        ("root:x:0:0\n", {}),
        (C + "\n" + " " * 5000, {}),
        ("ref: refs/heads/large\n", {"refs/heads/large": C + " " * 10_000}),
        ("ref: refs/heads/name\n", {"refs/heads/name": "ref: refs/heads/name\n"}),
    ],
)
def test_what_is_no_repository_has_no_commit(head: str, files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "outside").write_text(C)
    for name, text in {"HEAD": head, **files}.items():
        path = tmp_path / "data" / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert revision(tmp_path / "data") is None


@pytest.mark.parametrize("where", ["HEAD", "refs/heads/main", "refs", "packed-refs"])
def test_links_are_not_followed(where: str, tmp_path: Path) -> None:
    outside, place = tmp_path / "outside", tmp_path / "data" / ".git"
    (outside / "heads").mkdir(parents=True)
    for name in ("heads/main", "HEAD"):
        (outside / name).write_text(C)
    (outside / "packed-refs").write_text(f"{C} refs/heads/main\n")
    place.mkdir(parents=True)
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    (place / where).unlink(missing_ok=True)
    (place / where).parent.mkdir(parents=True, exist_ok=True)
    target = {"refs/heads/main": "heads/main", "refs": "."}.get(where, where)
    (place / where).symlink_to(outside / target)
    assert revision(tmp_path / "data") is None


def test_a_git_file_reaches_only_what_names_it_in_turn(tmp_path: Path) -> None:
    tree, private = tmp_path / "data", tmp_path / "users" / ".git" / "worktrees" / "tree"
    tree.mkdir()
    private.mkdir(parents=True)
    (private / "HEAD").write_text(C)
    (private / "gitdir").write_text(str(tmp_path / "elsewhere" / ".git"))
    (tree / ".git").write_text(f"gitdir: {private}\n")
    assert revision(tree) is None
    (private / "gitdir").write_text(str(tree / ".git"))
    assert revision(tree) == C


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert revision(tmp_path) is None
