"""``--config``: a request as TOML, and a run folder given back."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from gate_runner.cli import main
from gate_runner.errors import DataError, EncoderError, UsageError
from gate_runner.runs.request import as_values, make_request
from gate_runner.settings import Settings
from gate_runner.settings.configuration import read_configuration

from ._folders import write_run


def run(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["run", *words])
    return ended.value.code


def results(folder: Path) -> dict[str, float]:
    records = [json.loads(path.read_text()) for path in (folder / "results").iterdir()]
    return {f"{record['name']} {record['seed']}": record["scores"][0]["value"] for record in records}


def test_a_file_holds_all_and_the_command_line_goes_before_it(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        f'names = ["digits", "faces"]\nencoder = "micro-dense/random"\noutput = "{tmp_path / "one"}"\nlimit = 40\n'
        'isolate = "none"\nseeds = [3]\n'
    )
    assert run("--config", str(path)) == 0
    assert set(results(tmp_path / "one")) == {"digits 3", "faces 3"}
    assert run("digits", "--config", str(path), "--seed", "1", "--output", str(tmp_path / "two")) == 0
    assert set(results(tmp_path / "two")) == {"digits 1"}
    identity = json.loads((tmp_path / "two" / "manifest.json").read_text())["identity"]
    assert (identity["limit"], identity["encoder"]["spec"]) == (40, "micro-dense/random")


def test_a_run_folder_is_done_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    words = ["icinw-textures", "--shots", "0,2", "--limit", "24", "--isolate", "none", "--encoder", "micro-clip/random"]
    assert run(*words, "--output", str(first)) == 0
    assert run("--config", str(first), "--output", str(second), "--isolate", "none") == 0
    assert len(results(first)) == 3
    assert results(first) == results(second)


def test_every_setting_comes_back(tmp_path: Path) -> None:
    settings = Settings(limit=7, data_root=tmp_path, tune="full", recipe_fields={"lr": "0.1"}, shots="0,5")  # type: ignore[arg-type]
    values = json.loads(json.dumps(as_values(make_request("digits", settings=settings))))
    (tmp_path / "manifest.json").write_text(json.dumps({"runs": [{"request": values}]}))
    configuration = read_configuration(tmp_path)
    assert (configuration.names, configuration.encoder) == (("digits",), "micro-clip")
    assert Settings().changed(**configuration.options) == settings


def test_a_group_is_a_table(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('names = ["digits"]\nlimit = 3\n[training]\nseeds = [1]\n[machine]\nbatch_size = 8\n')
    assert read_configuration(path).options == {"limit": 3, "seeds": [1], "batch_size": 8}


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("[training]\nlimit = 3", UsageError, r"unknown key of --config .*: \[training\] 'limit'"),
        ("limit = 3\n[data]\nlimit = 4", UsageError, r"says limit twice, in \[data\] and above it"),
        ("machine = 3", UsageError, "machine is a table of settings, not 3"),
        ("limits = 3", UsageError, "unknown key of --config .*: 'limits'; nearest: limit"),
        ("limit = [", DataError, "cannot be read"),
        ('names = "digits"', UsageError, "names must be a list"),
        ('encoder = "my_lab.models:make"', EncoderError, "a file does not choose that; say --encoder"),
        ('language_model = "evil:make"', UsageError, "names code by language_model = 'evil:make'"),
        ('executor = "evil"', UsageError, "names what starts the work by executor = 'evil': say --executor yourself"),
        ('executor = "slurm"', UsageError, "names what starts the work by executor"),
        ('executor = ["ray", "evil"]', UsageError, "names what starts the work by executor"),
        ('output = "out\\ntouch PWNED\\n#"', UsageError, "without control characters"),
        ("output = 5", UsageError, "output is 5: expected a folder's name"),
        ('output = ""', UsageError, "output is '': expected a folder's name"),
        ('output = "."', UsageError, "output is '.', which is not below"),
        ('output = "../elsewhere"', UsageError, "say --output yourself"),
        ('output = "/tmp/elsewhere"', UsageError, "say --output yourself"),
        ('output = "letters"', UsageError, "which holds something else than a run"),
        ('output = "link"', UsageError, "which is not below"),
        ('[executor_options]\nslurm_comment = """x\ntouch x"""', UsageError, "names code by executor_options"),
        ('[executor_options]\naddress = "ray://198.51.100.1"', UsageError, "names code by executor_options"),
        ('source = "hub"', UsageError, "names the network by source = 'hub': say --source yourself"),
        ('limit = "x"', UsageError, "limit is 'x': Input should be a valid integer"),
        ("limit = true", UsageError, "limit is True"),
        ("limit = inf", UsageError, "limit is inf"),
        ("seeds = 5", UsageError, "seeds is 5"),
        ('seeds = "ab"', UsageError, "seeds is 'ab'"),
        ("data_root = 5", UsageError, "data_root is 5"),
        ("wise_ft = [1]", UsageError, "wise_ft is"),
        ("device = 5", UsageError, "device is 5"),
        ("recipe = 5", UsageError, "recipe is 5"),
        ("recipe_fields = 5", UsageError, "recipe_fields is 5"),
        ('precision = "evil:make"', UsageError, "precision is 'evil:make'"),
    ],
)
def test_what_a_file_may_not_say(text: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    path = tmp_path / "configurations" / "run.toml"
    (path.parent / "letters").mkdir(parents=True)
    (path.parent / "letters" / "private.txt").write_text("x")
    (path.parent / "link").symlink_to(tmp_path)
    path.write_text(text)
    with contextlib.chdir(path.parent), pytest.raises(error, match=message):
        read_configuration(path)


@pytest.mark.parametrize("place", ["new", "empty", "run", "empty/new"])
def test_a_file_names_a_place_below_the_working_folder(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "run", {"digits": 0.5})
    (tmp_path / "run.toml").write_text(f'output = "{place}"')
    assert read_configuration(Path("run.toml")).output == Path(place)


def test_what_a_file_may_not_say_the_user_may(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('names = ["food101"]\nsource = "hub"\nexecutor = "evil"\n')
    assert read_configuration(path, overridden={"source", "executor"}).names == ("food101",)
    with pytest.raises(UsageError, match="by executor"):
        read_configuration(path, overridden={"source"})


def test_what_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_configuration(tmp_path / "run.toml")
    (tmp_path / "manifest.json").write_text('{"runs": [{"command": []}]}')
    with pytest.raises(DataError, match="holds no request"):
        read_configuration(tmp_path)
