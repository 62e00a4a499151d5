"""``oven`` alone: without the runner, with an encoder of one's own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("torch")

from oven_retrieval.cli import main
from oven_retrieval.folder import FolderError
from oven_retrieval.workspace import open_workspace

ENCODER = """
import torch


class Colours:
    image_size = 8

    def encode_image(self, images):
        return images.float().mean((2, 3)) + 1

    def encode_text(self, texts):
        return torch.tensor([[float(name in text) + .01 for name in ("red", "green", "blue")] for text in texts])

    def fingerprint(self):
        return "colours"


def make(device="cpu"):
    return Colours()


def deaf():
    return object()
"""


def oven(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A knowledge base of three colours with vectors, and the encoder's spec."""
    module = f"colours_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{module}.py").write_text(ENCODER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    rows = [{"id": f"Q{number}", "name": f"{name} thing"} for number, name in enumerate(("red", "green", "blue"))]
    (tmp_path / "entities.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert oven("build", "entities.jsonl", "--output", "kb", "--encoder", f"{module}:make") == 0
    return tmp_path / "kb", f"{module}:make"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--encoder", "micro-clip"), "encoder 'micro-clip': expected MODULE:FUNCTION"),
        (("--recall", "2"), "recall: expected above 0 and at most 1, got 2.0"),
        (("--memory", "-1"), "memory_mb: expected above 0, got -1.0"),
        (("--template", "nmae"), "template: expected one of ['description', 'name'], got 'nmae'"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_built_or_replaced(
    built: tuple[Path, str], capsys: pytest.CaptureFixture[str], words: tuple[str, str], message: str
) -> None:
    folder, spec = built
    before = sorted(path.stat().st_mtime_ns for path in folder.rglob("*"))
    given = {"--encoder": spec, **dict([words])}
    for output in (["new"], [str(folder), "--overwrite"]):
        capsys.readouterr()
        assert oven("build", "entities.jsonl", "--output", *output, *(w for pair in given.items() for w in pair)) == 2
        assert message in capsys.readouterr().err
    assert not Path("new").exists()
    assert sorted(path.stat().st_mtime_ns for path in folder.rglob("*")) == before


def test_names_are_linked_and_pictures_are_found(
    built: tuple[Path, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    image = pytest.importorskip("PIL.Image")
    folder, spec = built
    (tmp_path / "names.txt").write_text("green thing\n")
    capsys.readouterr()
    assert oven("link", "names.txt", "--kb", str(folder), "--json") == 0
    assert json.loads(capsys.readouterr().out)["entities"][0]["id"] == "Q1"
    image.new("RGB", (40, 30), (10, 10, 250)).save(tmp_path / "sky.png")
    assert oven("search", "--kb", str(folder), "--encoder", spec, "--image", "sky.png", "-k", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["entities"][0]["id"] == "Q2"
    assert oven("search", "--kb", str(folder), "--encoder", spec, "--text", "red", "-k", "1") == 0
    assert capsys.readouterr().out.split("\t")[1] == "Q0"


def test_a_folder_that_may_only_be_read_is_searched_and_linked(
    built: tuple[Path, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Nothing is written there, not even a lock that is taken away again: that changes its folder's time."""
    (tmp_path / "names.txt").write_text("green thing\n")
    shared = tmp_path / "shared"
    shared.mkdir()
    folder = built[0].rename(shared / "kb")
    places = [shared, folder, *folder.rglob("*")]
    for path in places:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = [path.stat().st_mtime_ns for path in places]
    assert oven("link", "names.txt", "--kb", str(folder)) == 0
    assert oven("search", "--kb", str(folder), "--encoder", built[1], "--text", "red", "-k", "1") == 0
    assert oven("verify", "--kb", str(folder)) == 0
    after = [path.stat().st_mtime_ns for path in places]
    for path in places:
        path.chmod(0o755)
    assert after == before
    assert capsys.readouterr().out.endswith("whole: kb, names, vectors, index\n")


def test_each_line_of_standard_input_is_answered_before_the_next_comes(built: tuple[Path, str]) -> None:
    command = [sys.executable, "-c", "from oven_retrieval.cli import main; main()", "link", "-", "--kb", str(built[0])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for name, answer in (("green thing", "Q1"), ("blue thing", "Q2"), ("qqqq zzzz", "")):
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
            assert process.stdout.readline().split("\t")[1] == answer
        process.stdin.write("red thing")  # without an end of line
        process.stdin.close()
        assert process.stdout.read().split("\t")[1] == "Q0"
    assert process.returncode == 0


def test_without_its_extra_the_command_line_says_one_line() -> None:
    script = "import sys; sys.modules['typer'] = None; from oven_retrieval.cli import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "oven: the command line needs typer: pip install 'oven-retrieval[cli]'\n"


def test_a_folder_is_verified(built: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = built[0]
    capsys.readouterr()
    assert oven("verify", "--kb", str(folder)) == 0
    assert capsys.readouterr().out == f"{folder}: whole: kb, names, vectors, index\n"
    file = folder / "vectors" / "vectors.bin"
    file.write_bytes(b"\1" + file.read_bytes()[1:])
    assert oven("verify", "--kb", str(folder)) == 2
    assert "vectors.bin: its bytes have changed" in capsys.readouterr().err


def test_a_folder_chooses_no_code(built: tuple[Path, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder, spec = built
    (tmp_path / "more.jsonl").write_text(json.dumps({"id": "Q9", "name": "grey thing"}))
    assert oven("add", "more.jsonl", "--kb", str(folder)) == 2
    assert f"a file does not choose code; say --encoder {spec} if you trust it" in capsys.readouterr().err
    assert oven("update", "--kb", str(folder), "--encoder", spec) == 0
    assert "4 entities" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere", "expected MODULE:FUNCTION"),
        ("no_such_module:make", "No module named"),
        ("MODULE:deaf", "no encode_image"),
    ],
)
def test_what_is_no_encoder_is_one_line(
    spec: str, message: str, built: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, own = built
    named = spec.replace("MODULE", own.partition(":")[0])
    assert oven("search", "--kb", str(folder), "--encoder", named, "--text", "red", "-k", "1") == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_help_imports_neither_torch_nor_faiss() -> None:
    code = (
        "import sys\nfrom oven_retrieval.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "assert not {'torch', 'faiss'} & {*sys.modules}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_terminal_obeys_no_name_of_a_knowledge_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entities = tmp_path / "entities.jsonl"
    entities.write_text(json.dumps({"id": "Q1", "name": "duck", "description": "\x9b2J"}) + "\n")
    assert oven("build", str(entities), "--output", str(tmp_path / "kb")) == 0
    capsys.readouterr()
    name = "\x1b]0;title\x07"
    (tmp_path / "names.txt").write_text(f"duck\n{name}\n")
    for words in (("--json",), ()):
        assert oven("link", str(tmp_path / "names.txt"), "--kb", str(tmp_path / "kb"), *words) == 0
    assert oven("link", str(tmp_path / "names.txt"), "--kb", str(tmp_path / name)) == 2
    printed = capsys.readouterr()
    assert not {"\x1b", "\x9b", "\x07"} & set(printed.out + printed.err)
    assert json.loads(printed.out.splitlines()[1])["query"] == name


def test_a_list_of_names_that_is_not_there_is_named(
    built: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert oven("link", "names.csv", "--kb", str(built[0])) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "oven: names.csv: no such file; expected one name per line, or - for standard input"
    )


def test_the_mark_of_a_file_s_bytes_is_no_part_of_its_first_line():
    from oven_retrieval.commands.link import _decoded

    assert _decoded([b"\xef\xbb\xbfowl", b"wren"], "queries.txt", 0) == ["owl", "wren"]
    assert _decoded([b"\xef\xbb\xbfowl"], "queries.txt", 5) == ["\ufeffowl"]


def test_no_output_takes_the_place_of_an_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = {"data_id": "d", "image_id": "i", "question": "?", "entity_id": "0", "data_split": "val_seen"}
    files = [tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"]
    files[0].write_text(json.dumps(reference) + "\n")
    files[1].write_text(json.dumps({"data_id": "d", "pred_entity_id": "0"}) + "\n")
    before = [file.read_text() for file in files]
    (tmp_path / "kb").mkdir()
    scored = ["--entity-reference", str(files[0]), "--entity-predictions", str(files[1]), "--kb", str(tmp_path / "kb")]
    for option, arguments in (
        ("--page", ["eval", *scored, "--page", str(files[0])]),
        ("--figure", ["eval", *scored, "--figure", str(files[1])]),
        ("--output", ["annotate", str(files[0]), "--kb", "kb", "--output", str(files[0])]),
        ("--output", [*f"answer {files[0]} --kb kb --model m --images {tmp_path} --output {files[0]}".split()]),
    ):
        with pytest.raises(SystemExit):
            main(arguments)
        assert f"oven: {option} {tmp_path}" in (printed := capsys.readouterr().err), printed
        assert "is read here, as " in printed
    assert [file.read_text() for file in files] == before


def test_a_name_with_a_tab_or_a_line_break_is_one_cell_of_a_line(tmp_path, capsys):
    """It was two cells, or two lines of a table that others read."""
    rows = [{"id": "Q1", "name": "A\tB"}, {"id": "Q2", "name": "new\nline"}]
    (tmp_path / "entities.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "names.txt").write_text("a b\nnew line\n")
    assert oven("build", str(tmp_path / "entities.jsonl"), "--output", str(tmp_path / "kb")) == 0
    capsys.readouterr()
    assert oven("link", str(tmp_path / "names.txt"), "--kb", str(tmp_path / "kb")) == 0
    cells = [line.split("\t")[:3] for line in capsys.readouterr().out.splitlines()]
    assert cells == [["a b", "Q1", "A B"], ["new line", "Q2", "new line"]]


def test_a_file_without_entities_is_refused_and_a_refused_build_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was a knowledge base of 0 entities; a file that is not there left an empty folder."""
    names, kb = tmp_path / "names.txt", tmp_path / "kb"
    names.write_text("")
    assert oven("build", str(names), "--output", str(kb)) == 2
    assert "names.txt: no entity: it is empty; expected at least one" in capsys.readouterr().err
    assert not kb.exists()
    assert oven("build", str(tmp_path / "nowhere.txt"), "--output", str(kb)) == 2
    assert not kb.exists()
    names.write_text("goose\nduck\n")
    assert oven("build", str(names), "--output", str(kb)) == 0
    names.write_text("")
    assert oven("build", str(names), "--output", str(kb), "--overwrite") == 2
    capsys.readouterr()
    (tmp_path / "asked.txt").write_text("gose\nduck\n")  # what was there stays
    assert oven("link", str(tmp_path / "asked.txt"), "--kb", str(kb), "--typos") == 0
    assert capsys.readouterr().out == "gose\t0\tgoose\ttypo\t1 edit\nduck\t1\tduck\texact name\t\n"


class _Killed(BaseException):
    """Nobody catches it; what a killed process leaves is still there."""


@pytest.mark.parametrize("at", ["kb", "names", "vectors"])
def test_a_build_that_was_killed_goes_on_by_the_same_command(
    built: tuple[Path, str], at: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that the folder is there, and asked for --overwrite."""
    from oven_retrieval import encoding, workspace

    _, encoder = built
    rows = "".join(json.dumps({"id": f"Q{row}", "name": f"thing {row} red"}) + "\n" for row in range(300))
    Path("many.jsonl").write_text(rows)
    command = ["build", "many.jsonl", "--encoder", encoder, "--output"]
    assert oven(*command, "whole") == 0

    def kill(*arguments: object, **options: object) -> None:
        raise _Killed

    with monkeypatch.context() as patched:
        module, name = {
            "kb": (workspace, "build_kb_from_file"),
            "names": (workspace, "build_name_index"),
            "vectors": (encoding, "add_vectors"),
        }[at]
        patched.setattr(module, name, kill)
        with pytest.raises(_Killed):
            main([*command, "parted"])
    left = Path("parted", "unfinished.json")
    assert left.exists() == (at != "kb")  # before, nothing was made
    if left.exists():
        capsys.readouterr()
        assert oven("build", "many.jsonl", "--no-ngrams", "--encoder", encoder, "--output", "parted") == 2
        assert "parted holds an unfinished build with other ngrams: give --overwrite" in capsys.readouterr().err
        assert left.exists()
    assert oven(*command, "parted") == 0
    files = {path.relative_to("whole") for path in Path("whole").rglob("*") if path.is_file()}
    assert files
    assert files == {path.relative_to("parted") for path in Path("parted").rglob("*") if path.is_file()}
    for file in files:
        assert Path("parted", file).read_bytes() == Path("whole", file).read_bytes() or file.name == "manifest.json"
    capsys.readouterr()
    assert oven(*command, "parted") == 2  # a finished one is not replaced
    assert "exists; expected a new folder" in capsys.readouterr().err
    assert not left.exists()


def test_a_build_that_replaces_and_fails_leaves_the_old_one_and_no_note(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("goose\nduck\n")
    (tmp_path / "none.txt").write_text("")
    kb = tmp_path / "kb"
    assert oven("build", str(tmp_path / "names.txt"), "--output", str(kb)) == 0
    before = {path.name: path.read_bytes() for path in (kb / "kb").iterdir()}
    assert oven("build", str(tmp_path / "none.txt"), "--output", str(kb), "--overwrite") == 2
    assert {path.name: path.read_bytes() for path in (kb / "kb").iterdir()} == before
    assert not (kb / "unfinished.json").exists()


def test_a_damaged_index_of_names_is_said_with_its_folder(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("".join(f"w{at % 7} w{at % 11} x{at}\n" for at in range(400)))
    assert oven("build", str(names), "--output", str(tmp_path / "kb")) == 0
    damaged = rf"{re.escape(str(tmp_path / 'kb' / 'names'))}: the index of names is damaged: .*--rebuild"
    places = tmp_path / "kb" / "names" / "bm25_owner.bin"
    whole = places.read_bytes()
    places.write_bytes(np.full(len(whole) // 4, 2**30, np.int32).tobytes())
    with pytest.raises(FolderError, match=damaged):
        open_workspace(tmp_path / "kb").link(["w1 w9"])
    places.write_bytes(whole)
    starts = tmp_path / "kb" / "names" / "bm25_start.bin"
    starts.write_bytes(np.full(len(starts.read_bytes()) // 8, -1, np.int64).tobytes())
    with pytest.raises(FolderError, match=damaged):
        open_workspace(tmp_path / "kb").link(["w1 w9"])
