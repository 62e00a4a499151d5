"""Comparisons of run folders: verdicts, refusals, words, and the command."""

from __future__ import annotations

import json
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from gate_runner.cli import main
from gate_runner.comparison import compare
from gate_runner.errors import UsageError
from gate_runner.reports import report
from gate_runner.runs.stored import read_runs

from ._folders import write_run

WEAK = {"micro/cifar100": 0.4, "micro/ade20k": 0.4, "micro/acdc": 0.6, "micro/iwildcam": 0.3, "digits": 0.7}
STRONG = {"micro/cifar100": 0.9, "micro/ade20k": 0.7, "micro/acdc": 0.601, "micro/iwildcam": 1.2, "digits": 0.1}


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    return [write_run(tmp_path / "w", WEAK, encoder="weak"), write_run(tmp_path / "s", STRONG, encoder="strong")]


def test_verdicts_and_sentences(two: list[Path]) -> None:
    comparison = compare(*two, permutations=999)
    verdicts = {contrast.name: contrast.verdict for contrast in comparison.contrasts}
    assert verdicts == {
        "micro/cifar100": "better",
        "micro/ade20k": "better",
        "micro/iwildcam": "better",  # a smaller error
        "digits": "worse",
        "micro/acdc": "undecided",
    }
    assert all(contrast.p_adjusted >= contrast.test.p_permutation for contrast in comparison.contrasts)
    error = next(contrast for contrast in comparison.contrasts if contrast.name == "micro/iwildcam")
    assert error.test.difference < 0 < error.gain
    text = " ".join(comparison.sentences)
    assert text.startswith("strong is better on 3 of 5 (")
    assert "and worse on 1 of 5 (digits −0." in text
    assert "on 1 no difference holds (micro/acdc)" in text
    assert "5% over all 5 tests together (Holm)" in text
    assert "Names with micro/ are synthetic stand-ins" in text


def test_equal_runs_do_not_differ(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, WEAK, encoder=name) for name in ("a", "b")]
    comparison = compare(*runs, permutations=99)
    assert {contrast.verdict for contrast in comparison.contrasts} == {"undecided"}
    assert comparison.sentences[0] == "No difference between b and a holds on any of 5 benchmarks."


def test_more_runs_against_the_first_or_all_pairs(tmp_path: Path) -> None:
    skills = (0.3, 0.6, 0.9)
    runs = read_runs([write_run(tmp_path / f"{s}", {"digits": s}, encoder=f"e{s}") for s in skills])
    first = compare(*runs, permutations=99)
    every = compare(*runs, permutations=99, all_pairs=True)
    assert [(contrast.first, contrast.second) for contrast in first.contrasts] == [("e0.3", "e0.6"), ("e0.3", "e0.9")]
    assert [(contrast.first, contrast.second) for contrast in every.contrasts][-1] == ("e0.6", "e0.9")
    assert "all 3 tests" in every.sentences[-1]


def test_a_difference_that_every_seed_shows_is_decided(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / name, {"digits": skill}, encoder=name, seeds=(0, 1, 2), samples=400)
        for name, skill in (("a", 0.3), ("b", 0.9))
    ]
    comparison = compare(*runs, permutations=999)
    assert [contrast.verdict for contrast in comparison.contrasts] == ["better"]
    assert "and Student's test over 3 seeds and the samples, rejects" in " ".join(comparison.sentences)


def test_a_difference_whose_sign_depends_on_the_seed_is_undecided(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", {"digits": 0.3}, encoder="a", samples=400)
    write_run(a, {"digits": 0.7}, encoder="a", seeds=[1], samples=400)
    b = write_run(tmp_path / "b", {"digits": 0.95}, encoder="b", samples=400)
    write_run(b, {"digits": 0.5}, encoder="b", seeds=[1], samples=400)
    (contrast,) = compare(a, b).contrasts
    assert contrast.seeds == (0, 1)
    assert contrast.test.p_permutation < 0.05 < contrast.p_adjusted
    assert contrast.test.by_seed[0] > 0 > contrast.test.by_seed[1]
    assert contrast.test.low < 0 < contrast.test.high
    assert contrast.verdict == "undecided"


def test_what_only_one_run_finished_is_left_out_by_name(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", {"digits": 0.5, "micro/mini": 0.5}, encoder="a")
    b = write_run(tmp_path / "b", {"digits": 0.5}, encoder="b")
    write_run(b, {"micro/mini": 0.5}, encoder="b", status="failed", reason="no memory", scores=())
    comparison = compare(a, b, permutations=99)
    assert comparison.left_out == (("b", "micro/mini", "failed: no memory"),)
    with pytest.raises(UsageError, match=r"share no benchmark that both finished \(b micro/mini: failed: no memory\)"):
        compare(a, b, only=["mini"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {"limit": 10}}, "digits cannot be compared: limit is None in .* and 10 in"),
        ({"seeds": (0, 1)}, r"seeds is \[0\] in .* and \[0, 1\] in"),
        ({"data": {"sha256": "another-digest"}}, "data sha256 is digits-diges in .* and another-dige in"),
        ({"training": {"ways": 5, "validation": []}}, "ways is None in .* and 5 in"),
    ],
)
def test_other_conditions_are_refused_with_what_differs(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    a = write_run(tmp_path / "a", {"digits": 0.5}, encoder="a")
    b = write_run(tmp_path / "b", {"digits": 0.6}, encoder="b", **changes)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message):
        compare(a, b)


def test_labels_tell_runs_of_one_encoder_apart(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, {"digits": 0.5}, encoder="same") for name in ("one", "two")]
    assert [run.label for run in read_runs(runs)] == ["same (one)", "same (two)"]
    with pytest.raises(UsageError, match="is given twice"):
        read_runs([runs[0], runs[0]])


def test_damaged_folders_are_named(two: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere is not a folder"):
        read_runs([tmp_path / "nowhere"])
    with pytest.raises(UsageError, match="holds no manifest"):
        read_runs([tmp_path])
    samples = next((two[0] / "samples").iterdir())
    samples.write_bytes(b"PK and nothing")
    with pytest.raises(UsageError, match=f"{samples.name} does not hold per-sample outcomes"):
        compare(*two)
    np.savez(samples, outcomes=np.ones(120))
    with pytest.raises(UsageError, match=f"{samples.name} was changed after its result was written"):
        compare(*two)


def at(skills: dict[str, float], sign: str = "@") -> dict[str, float]:
    return {(f"digits{sign}readout={name}" if name != "last" else "digits"): skill for name, skill in skills.items()}


SAME = {"data": {"train": 10, "validation": 10, "test": 120, "classes": 4, "sha256": "one"}}


def test_readouts_of_one_run_are_compared_with_each_other(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", {**at({"last": 0.3, "auto": 0.9, "block:9": 0.31}), "cifar100": 0.5}, **SAME)
    comparison = compare(run, permutations=999)
    assert [(contrast.first, contrast.second, contrast.name) for contrast in comparison.contrasts] == [
        ("a at last", "a at auto", "digits"),
        ("a at last", "a at block:9", "digits"),
    ]
    assert [contrast.verdict for contrast in comparison.contrasts] == ["better", "undecided"]
    assert ("a at auto", "cifar100", "not run") in comparison.left_out
    with pytest.raises(UsageError, match="1 run given; expected at least two to compare, or one of several read-outs"):
        compare(write_run(tmp_path / "b", {"digits": 0.3}))


def test_a_probe_and_a_choice_of_one_encoder_are_compared(tmp_path: Path) -> None:
    """The choice reads out at auto and so calls its result digits@readout=auto: the runs shared no benchmark."""
    probe = write_run(tmp_path / "probe", at({"last": 0.3}), **SAME)
    choice = write_run(tmp_path / "choice", at({"auto": 0.9}), **SAME)
    (contrast,) = compare(probe, choice, permutations=999).contrasts
    assert (contrast.first, contrast.second, contrast.name, contrast.verdict) == (
        "a (probe) at last", "a (choice) at auto", "digits", "better",
    )  # fmt: skip
    last = write_run(tmp_path / "k", {"digits@knn": 0.3}, **SAME)
    auto = write_run(tmp_path / "m", {"digits@knn,readout=auto": 0.9}, **SAME)
    (knn,) = compare(last, auto, permutations=99).contrasts
    assert knn.name == "digits@knn"
    with pytest.raises(UsageError, match="share no benchmark that both finished"):
        compare(write_run(tmp_path / "c", {"cifar100": 0.3}), write_run(tmp_path / "d", at({"auto": 0.9})))


def test_runs_that_share_a_name_are_compared_at_it_alone(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, at({"last": skill, "auto": skill})) for name, skill in (("a", 0.3), ("b", 0.9))]
    assert {contrast.name for contrast in compare(*runs, permutations=99).contrasts} == {
        "digits",
        "digits@readout=auto",
    }


def test_the_command(two: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(path) for path in two]
    with pytest.raises(SystemExit) as ended:
        main(["compare", *names, "--only", "digits"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "digits" in shown
    assert "strong is worse on 1 of 1 (digits" in shown
    with pytest.raises(SystemExit):
        main(["compare", *names, "--json"])
    record = json.loads(capsys.readouterr().out)
    assert {contrast["verdict"] for contrast in record["contrasts"]} == {"better", "worse", "undecided"}
    with pytest.raises(SystemExit) as ended:
        main(["compare", names[0]])
    assert ended.value.code == 2
    assert "expected at least two" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["compare", *names, "--only", "digit"])
    assert "nearest: digits" in capsys.readouterr().err


def test_the_table_has_no_width_of_its_own(
    two: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names, values and verdicts stand whole in a line each, however narrow the terminal is."""
    comparison = compare(*two)
    monkeypatch.setenv("COLUMNS", "40")
    main_exits_well(["compare", *map(str, two)])
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[0].split()) == "benchmark metric first second difference 95 % CI p Holm verdict"
    for contrast in comparison.contrasts:
        line = next(line for line in lines if line.startswith(contrast.name + " "))
        assert f"{contrast.test.difference:+.3f}" in line
        assert line.endswith(contrast.verdict)


def main_exits_well(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


def test_a_list_in_place_of_runs_is_one_line(tmp_path: Path) -> None:
    """It ended in an AttributeError of a list."""
    with pytest.raises(UsageError, match=r"a run is given as \['a', 'b'\]; expected its folder or a Run"):
        compare(["a", "b"])  # type: ignore[arg-type]


def test_results_of_other_versions_are_told_and_others_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results are not known by the code of our own readers and tasks, and no command told."""

    def run(name: str, **versions: str) -> Path:
        data = {"test": 120, "classes": 4, "sha256": "one"}
        held = {"versions": {key.replace("_", "-"): value for key, value in versions.items()}} if versions else {}
        return write_run(tmp_path / name, {"digits": 0.6, "pets": 0.7}, encoder=name, data={**data, **held})

    old, new = run("old", gate_data="0.1.0", torch="2.4"), run("new", gate_data="0.2.0", torch="2.5")
    same, without = run("same", gate_data="0.1.0", torch="2.5"), run("without")
    assert "gate-data 0.1.0 and 0.2.0, whose code may differ" in compare(old, new, permutations=99).contrasts[0].note
    assert compare(old, same, permutations=99).contrasts[0].note == ""
    assert compare(old, without, permutations=99).contrasts[0].note == ""
    warning = "Results of several versions, whose code may differ: gate-data 0.1.0 and 0.2.0 (digits, pets)."
    for form in ("md", "html"):
        file = tmp_path / f"report.{form}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report(old, new, output=file, form=form)
            assert warning in file.read_text()
            report(old, same, without, output=file, form=form)
            assert "several versions" not in file.read_text()


def test_a_result_has_the_versions_of_what_made_it(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(
            [
                "run",
                "digits",
                "--encoder",
                "micro-dense",
                "--limit",
                "20",
                "--isolate",
                "none",
                "--output",
                str(tmp_path / "run"),
            ]
        )
    (result,) = read_runs([tmp_path / "run"])[0].results
    assert result.data["versions"]["gate-data"] == version("gate-data")
    assert {"gate-runner", "paired-scores", "torch", "numpy", "pillow"} <= set(result.data["versions"])
