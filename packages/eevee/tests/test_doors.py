"""What tables, edited files and slips of the pen may bring: said at the door, never a wrong number in silence."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eevee import (
    AverageScorer,
    EeveeError,
    ItemChoice,
    Outcomes,
    RidgeScorer,
    check,
    choose_items,
    estimate,
    load_table,
    pareto,
    predict,
    rank_models,
    read_items,
    read_outcomes,
    report,
    score,
    select,
    tiers,
)
from eevee.answers.evaluation import importance
from eevee.cli import main
from eevee.tables.reading import read_csv_text
from eevee.tables.serialization import read_result, write_text


@pytest.mark.parametrize("text", ["1_0", "٣0", "0x1p3", "1e", "--3"])
def test_what_python_reads_as_a_number_and_files_do_not_mean(text: str) -> None:
    rows = "\n".join(f"m{number},{number}.5,{number}" for number in range(6))
    with pytest.raises(EeveeError, match="expected a number"):
        read_csv_text(f"model,a,b\n{rows}\nlast,1.0,{text}\n", name="here", direction="higher")


def test_a_cell_of_many_digits_that_is_no_number_is_refused_at_once() -> None:
    """A pattern that could divide the digits in two ways took the square of their number: minutes for this cell."""
    start = time.process_time()
    with pytest.raises(EeveeError, match="expected a number"):
        read_csv_text(f"model,a\nm0,1.0\nm1,{'1' * 40_000}x\n", name="here", direction="higher")
    assert time.process_time() - start < 1


def test_a_whole_number_beyond_all_floats_is_no_level() -> None:
    with pytest.raises(EeveeError, match="not a result of `eevee items`"):
        ItemChoice.from_mapping({"result": "ItemChoice", "level": 10**400, "seed": 0, "benchmarks": {}})


def with_values(change: Any) -> Any:
    table = load_table("gate")
    return replace(table, values=change(np.array(table.values)))


def test_a_table_without_any_variation_is_refused() -> None:
    constant = with_values(lambda values: np.full_like(values, 3.0))
    for call in (lambda: score(constant, ["mini"], randoms=3), lambda: select(constant, k=2, nested=False, randoms=3)):
        with pytest.raises(EeveeError, match="no metric varies"):
            call()


def test_values_whose_squares_are_not_finite_are_refused() -> None:
    def huge(values: np.ndarray) -> np.ndarray:
        values[0, 0] = 1e300
        return values

    with pytest.raises(EeveeError, match=r"the value is 1e\+300"):
        with_values(huge)


def test_the_objective_is_taken_without_a_scorer_too() -> None:
    table = load_table("gate")
    outside = score(table, ["mini", "ucf"], objective="unselected", randoms=3)
    assert outside.objective == "unselected"
    assert outside.error != score(table, ["mini", "ucf"], randoms=3).error


def test_the_importance_of_a_single_member_is_by_the_same_measure() -> None:
    """The mean of n - 1 models misses the other by (n / (n - 1))^2 of the variance."""
    table = load_table("gate")
    n = len(table.models)
    alone = score(table, ["mini"], randoms=3).error
    assert importance(table, ["mini"])["mini"] == pytest.approx((n / (n - 1)) ** 2 - alone)


def test_no_random_subsets_at_all_are_refused() -> None:
    table = load_table("gate")
    for call in (lambda: score(table, ["mini"], randoms=0), lambda: select(table, k=2, nested=False, randoms=0)):
        with pytest.raises(EeveeError, match="randoms 0; expected at least 1"):
            call()


def test_an_outlier_far_from_zero_is_found() -> None:
    generator = np.random.default_rng(0)

    def far(values: np.ndarray) -> np.ndarray:
        values[:, 0] = 1e8 + generator.normal(size=len(values))
        values[3, 0] += 19.0
        return values

    table = with_values(far)
    assert (table.models[3], table.metric_ids[0]) in [outlier[:2] for outlier in check(table).outliers]


@pytest.fixture(scope="module")
def chosen() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    values = (generator.random((12, 60)) < generator.random((12, 1))).astype(float)
    outcomes = Outcomes("toy", tuple(f"m{i}" for i in range(12)), tuple(f"i{j}" for j in range(60)), values)
    raw: dict[str, Any] = json.loads(choose_items({"toy": outcomes}, count=6).to_json())
    return raw


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mix", 5, "mix of 'toy' is 5"), ("weights", [1.0] * 6, "weights that sum to 6"),
        ("half", -1, "half -1"), ("total", 0, "total of 'toy' is 0"),
        ("slope", [float("nan")] * 6, "not finite"), ("slope", [1.0], "slope of 'toy' has 1 numbers for 6 items"),
        ("rest", [0.5], "rest of 'toy' has 1 numbers"),
        ("method", "information", "and one of drawn, clusters, adaptive"),
        ("total", float("inf"), "total of 'toy' is inf"), ("total", 60.5, "total of 'toy' is 60.5"),
        ("items", [[]] * 6, "are no texts"), ("items", ["i1"] * 6, "comes twice"), ("slope", [1e308] * 6, "beyond 1e"),
        ("method", "adaptive", "an adaptive test needs all"),
    ],
)  # fmt: skip
def test_items_that_were_edited_are_refused_with_their_file(
    chosen: dict[str, Any], name: str, value: Any, message: str, tmp_path: Path
) -> None:
    assert ItemChoice.from_mapping(chosen).benchmarks["toy"].total == 60
    edited = {**chosen, "benchmarks": {"toy": {**chosen["benchmarks"]["toy"], name: value}}}
    with pytest.raises(EeveeError, match=rf"items\.json: .*{message}"):
        ItemChoice.from_mapping(edited, "items.json")


DEEP = "[" * 100_000


def test_json_that_is_nested_too_deeply_is_one_line(tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text(DEEP)
    for read in (lambda path: read_result(path, load_table("gate")), read_items):
        with pytest.raises(EeveeError, match=r"deep\.json: not .*nested too deeply"):
            read(deep)
    (tmp_path / "manifest.json").write_text(DEEP)
    with pytest.raises(EeveeError, match="not a whole run folder"):
        read_outcomes([tmp_path])


def test_a_pipe_is_no_result(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "result.json")
    with pytest.raises(EeveeError, match="a folder or a pipe"):
        read_result(tmp_path / "result.json", load_table("gate"))


def test_links_beside_a_result_are_not_written_through(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / f"score.json.{os.getpid()}.partial").symlink_to(mine)
    score(load_table("gate"), ["mini", "ucf"], randoms=20).to_json(tmp_path / "score.json")
    assert mine.read_text() == "mine"


def test_a_terminal_obeys_no_name_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "t.csv"
    rows = [f"m{row},{row * row % 7},{row * 3 % 5},{row}" for row in range(8)]
    table.write_text("\n".join(["model,\x1b[2Ja,b,c", *rows]) + "\n")
    for words in (["check"], ["check", "--json", "-"], ["select", "-k", "9"]):
        main([words[0], "--table", str(table), "--direction", "higher", *words[1:]])
        printed = capsys.readouterr()
        assert "\x1b" not in printed.out + printed.err, words


def command(capsys, *argv: str) -> str:
    """The one line that a command refuses with."""
    assert main(list(argv)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_outcomes_that_tell_nothing_are_refused_in_one_line(tmp_path, capsys):
    right = (np.random.default_rng(0).random((6, 50)) < 0.5).astype(float)
    cases = {
        "benchmark 'toy': 1 models; expected at least 5": right[:1],
        "benchmark 'toy': 1 items; expected at least 20": right[:, :1],
        "benchmark 'toy': all outcomes are 1; there is nothing to tell models apart": np.ones((6, 50)),
        "expected a number from 0 to 1": 7 * right,
        "expected numbers (models, items)": np.full((6, 50), "x"),
    }
    for message, values in cases.items():
        np.savez(tmp_path / "toy.npz", models=np.array(list("abcdef")[: len(values)]), toy=values)
        for argv in (["items", "--outcomes", str(tmp_path / "toy.npz")], ["rank", str(tmp_path / "toy.npz")]):
            assert message in command(capsys, *argv)


def test_items_that_all_models_solve_are_no_error_where_others_tell_them_apart():
    right = (np.random.default_rng(0).random((8, 80)) < np.linspace(0.2, 0.8, 8)[:, None]).astype(float)
    right[:, :40] = 1.0
    toy = Outcomes("toy", tuple("abcdefgh"), tuple(map(str, range(80))), right)
    chosen = choose_items({"toy": toy}, share=0.2).benchmarks["toy"]
    solved = estimate(chosen, dict.fromkeys(chosen.items, 1.0))
    assert solved.low <= solved.value <= solved.high == 1.0


def board(path: Path, models: str, tasks: str) -> str:
    generator = np.random.default_rng(len(models))
    rows = [f"{model}," + ",".join(f"{x:.3f}" for x in generator.normal(size=len(tasks))) for model in models]
    path.write_text("\n".join([f"model,{','.join(tasks)}", *rows]) + "\n")
    return str(path)


def test_two_tables_whose_models_overlap_in_part(tmp_path, capsys):
    first, second = board(tmp_path / "1.csv", "abcdef", "tuvw"), board(tmp_path / "2.csv", "defghi", "xyz")
    assert main(["rank", first, second, "--direction", "higher"]) == 0
    text = capsys.readouterr().out
    assert "1.csv, 2.csv (3 of 9 models in all of them)" in text
    assert "9 pairs share too few tasks to be compared" in text  # a, b, c with g, h, i
    other, same = board(tmp_path / "3.csv", "ghijk", "xyz"), board(tmp_path / "4.csv", "abcdef", "tz")
    assert "no model is in all of these tables" in command(capsys, "rank", first, other, "--direction", "higher")
    assert "t are in more than one; expected each in one" in command(
        capsys, "rank", first, same, "--direction", "higher"
    )


def test_a_table_of_one_model_a_board_without_a_shared_task_and_ties_everywhere(tmp_path, capsys):
    single = board(tmp_path / "one.csv", "a", "xyz")
    for argv in (["check", "--table", single], ["select", "-k", "1", "--table", single], ["rank", single]):
        assert "the table has 1 model; expected at least 5" in command(capsys, *argv, "--direction", "higher")
    rows = [f"m{row}," + ",".join("1" if column // 3 == row else "" for column in range(15)) for row in range(5)]
    (tmp_path / "apart.csv").write_text("\n".join(["model," + ",".join(f"t{i}" for i in range(15)), *rows]))
    apart = command(capsys, "rank", str(tmp_path / "apart.csv"), "--direction", "higher")
    assert "no two models share 3 tasks: there is nothing to rank them by" in apart
    (tmp_path / "ties.csv").write_text("model,a,b,c\n" + "\n".join(f"m{row},1,1,1" for row in range(6)))
    assert main(["rank", str(tmp_path / "ties.csv"), "--direction", "higher"]) == 0
    assert "0 of 15 pairs are decided" in capsys.readouterr().out
    refused = command(capsys, "select", "-k", "1", "--table", str(tmp_path / "ties.csv"), "--direction", "higher")
    assert "no metric varies; there is nothing to predict" in refused


def test_hostile_names_on_the_page_and_in_pictures(tmp_path, capsys):
    """Formulas, markup, control and direction characters of names are shown as they are, or as escapes."""
    pytest.importorskip("matplotlib")
    names = [f"m{i}$\\nocommand{{x$ \x1b]0;t\x07<img src=x>\u202e" for i in range(8)]
    ids = ["a$\\frac$", "b<script>", "c\x1b[31m", "d&amp;"]
    rows = np.random.default_rng(0).random((8, 4)).round(3)
    lines = [
        ",".join(["model", *ids]),
        *(",".join([name, *map(str, row)]) for name, row in zip(names, rows, strict=True)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    table = load_table(tmp_path / "t.csv", direction="higher")
    report(table, select(table, 2, method="greedy", nested=False, randoms=5), tmp_path / "page", largest=2)
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "<img src=x" not in page
    assert "\\u202e" in page
    for command in (["rank", str(tmp_path / "t.csv")], ["check", "--table", str(tmp_path / "t.csv")]):
        assert main([*command, "--direction", "higher"]) == 0
        page += capsys.readouterr().out
    assert not [c for c in page if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c == "\u202e"]
    (tmp_path / "l.csv").write_text('model,a,b\n"x\ny: rank 1",1,2\n' + "".join(f"m{i},{i},2\n" for i in range(5)))
    assert main(["rank", str(tmp_path / "l.csv"), "--direction", "higher"]) == 2
    assert "a quote opens in this row and holds the next" in capsys.readouterr().err


BAD = {
    "one model": ("rank one.csv", r"one\.csv: the table has 1 model; expected at least 5"),
    "nobody shares a task": ("rank alone.csv", r"no two models share 3 tasks: there is nothing to rank them by"),
    "no model in both tables": ("rank left.csv other.csv", r"no model is in all of these tables"),
    "one model's outcomes": ("items --outcomes one.npz", r"'toy': 1 models; expected at least 5"),
    "one item": ("items --outcomes item.npz", r"'toy': 1 items; expected at least 20"),
    "all solved by all": ("items --outcomes solved.npz", r"all outcomes are 1; there is nothing to tell models apart"),
    "no 0 to 1 numbers": ("items --outcomes range.npz", r"outcome 2; expected a number from 0 to 1"),
    "no numbers": ("rank text.npz", r"toy is <U1 of shape \(8, 40\); expected numbers"),
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")

    def table(name, models, ids, value):
        rows = [",".join([model, *(value(i, j) for j in range(len(ids)))]) for i, model in enumerate(models)]
        (folder / name).write_text("\n".join([",".join(["model", *ids]), *rows]) + "\n")

    def mixed(i, j):
        return str((3 * i + 5 * j) % 7)

    names = [f"m{i}" for i in range(8)]
    table("one.csv", ["m"], "abc", mixed)
    table("alone.csv", names, [f"t{j}" for j in range(24)], lambda i, j: "1" if j // 3 == i else "")
    table("left.csv", names, "abc", mixed)
    table("right.csv", [f"m{i}" for i in range(4, 12)], "def", mixed)
    table("other.csv", [f"n{i}" for i in range(8)], "def", mixed)
    table("ties.csv", names, "abc", lambda i, j: "1")
    half = (np.arange(320).reshape(8, 40) % 3 > 0).astype(float)
    outcomes = {
        "one": half[:1],
        "item": half[:, :1],
        "solved": half * 0 + 1,
        "range": half * 2,
        "text": half.astype(str),
    }
    for name, values in (
        outcomes | {"text": np.full((8, 40), "x"), "some": np.maximum(half, np.arange(40) < 10)}
    ).items():
        np.savez(folder / f"{name}.npz", models=np.array(names[: len(values)]), toy=values)
    return folder


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_one_line(case, bad, capsys, monkeypatch):
    monkeypatch.chdir(bad)
    command, message = BAD[case]
    assert main([*command.split(), *(["--direction", "higher"] if ".csv" in command else [])]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert re.search(message, printed.err)


def test_ties_parts_of_two_tables_and_items_that_all_solve_are_used(bad, capsys, monkeypatch):
    monkeypatch.chdir(bad)
    for command, words in (
        ("rank ties.csv --direction higher", "0 of 28 pairs are decided"),
        ("rank left.csv right.csv --direction higher", "4 of 12 models in all of them"),
        ("items --outcomes some.npz --share .2", "8 of 40 items"),
    ):
        assert main(command.split()) == 0
        assert words in capsys.readouterr().out


def test_a_scorer_given_as_an_object_takes_the_objective():
    gate = load_table("gate")
    options = {"method": "greedy", "nested": False, "randoms": 5}
    expected = select(gate, 4, scorer="ridge", objective="unselected", **options)
    for scorer in (RidgeScorer(), RidgeScorer(objective="unselected")):
        chosen = select(gate, 4, scorer=scorer, objective="unselected", **options)
        assert (chosen.error, chosen.objective) == (expected.error, "unselected")
    assert select(gate, 4, scorer=RidgeScorer(objective="unselected"), **options).objective == "unselected"
    assert score(gate, ["ucf"], scorer=AverageScorer(), objective="unselected", randoms=5).objective == "unselected"

    class Own:
        name, objective = "own", "all"

        def predict(self, data, candidate, inputs):
            return np.zeros_like(inputs)

        def score(self, data, candidates):
            return np.zeros((len(candidates), 2))

    with pytest.raises(EeveeError, match="objective is 'unselected', and the scorer 'own' has 'all'"):
        score(gate, ["ucf"], scorer=Own(), objective="unselected", randoms=5)


def test_an_unknown_benchmark_has_its_nearest_names():
    mieb = load_table("mieb")
    with pytest.raises(
        EeveeError, match="unknown benchmark 'resisc45'; the nearest of the table's 132: RESISC45"
    ) as caught:
        mieb.positions(["resisc45"])
    assert len(str(caught.value)) < 150
    with pytest.raises(EeveeError, match="none of the table's 132 is like it"):
        mieb.positions(["qqqqqqqq"])


def test_a_metric_without_a_direction_names_the_option(tmp_path, capsys):
    (tmp_path / "results.csv").write_text("model,a,b\n" + "".join(f"m{i},{i},{i * i}\n" for i in range(6)))
    assert main(["check", "--table", str(tmp_path / "results.csv")]) == 2
    assert "--direction higher" in capsys.readouterr().err


@pytest.mark.parametrize("pair", [("caf\u00e9", "cafe\u0301"), ("clip", "clip\u200b")])
def test_ids_that_look_the_same_are_refused(tmp_path, pair):
    rows = [f"{name},{k},{k * k}" for k, name in enumerate((*pair, "c", "d", "e"))]
    path = tmp_path / "own.csv"
    path.write_text("model,x,y\n" + "\n".join(rows), encoding="utf-8")
    with pytest.raises(EeveeError, match=r"own\.csv: models '.*' and '.*' look the same"):
        load_table(path, direction="higher")


def test_a_name_in_place_of_a_table_is_one_line() -> None:
    """It was an AttributeError from within."""
    expected = r"table is 'mieb'; expected a table: load_table\(name or file\)"
    name: Any = "mieb"
    for ask in (
        lambda: select(name, k=2),
        lambda: rank_models(name),
        lambda: predict(name, ["a"], {"m": {}}),
        lambda: pareto(name),
        lambda: tiers(name, {"small": 1.0}),
    ):
        with pytest.raises(EeveeError, match=expected):
            ask()


def test_counts_that_are_not_whole_are_refused():
    """They were TypeErrors of the libraries below."""
    table = load_table("gate")
    models, items = (tuple(f"{kind}{at}" for at in range(count)) for kind, count in (("m", 6), ("i", 30)))
    values = np.random.default_rng(0).integers(0, 2, (6, 30)).astype(float)
    outcomes = Outcomes("toy", models, items, values)
    for call, name in (
        (lambda: choose_items({"toy": outcomes}, count=20.5), "count"),
        (lambda: select(table, 2, randoms=2.5), "randoms"),
        (lambda: select(table, 2, generations=2.5), "generations"),
        (lambda: pareto(table, largest=2.5), "largest"),
        (lambda: score(table, [table.benchmarks[0].id], randoms=2.5), "randoms"),
        (lambda: rank_models(table, seed=2.5), "seed"),
    ):
        with pytest.raises(EeveeError, match=rf"{name} is 20?\.5; expected a whole number"):
            call()


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    """A file took its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write_text(pipe, "chosen")
    reader.join(10)
    assert got == ["chosen"]
    assert pipe.is_fifo()
