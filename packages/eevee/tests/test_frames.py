"""Results as pandas frames, and errors that leave whole families out."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest

from eevee import (
    Benchmark,
    EeveeError,
    Metric,
    Outcomes,
    ResultTable,
    load_table,
    pareto,
    predict,
    rank_models,
    score,
    select,
)
from eevee.cli import main

pandas = pytest.importorskip("pandas")


def of_families(seed: int = 0) -> ResultTable:
    """Six families of four near-equal models, so that a model is told by its siblings."""
    generator = np.random.default_rng(seed)
    values = np.repeat(generator.normal(size=(6, 8)), 4, axis=0) + 0.05 * generator.normal(size=(24, 8))
    return ResultTable(
        "made up",
        tuple(f"m{number}" for number in range(24)),
        tuple(Metric(f"b{column}", f"b{column}", "higher") for column in range(8)),
        tuple(Benchmark(f"b{column}") for column in range(8)),
        values,
        families=tuple(f"f{number // 4}" for number in range(24)),
    )


def test_a_table_goes_to_pandas_and_back() -> None:
    table = load_table("gate")
    frame = table.to_frame()
    assert (frame.shape, frame.index.name) == (table.shape, "model")
    back = load_table(frame, direction="higher")
    assert (back.models, back.metric_ids) == (table.models, table.metric_ids)
    np.testing.assert_array_equal(back.values, table.values)


def test_results_are_frames_of_what_they_list() -> None:
    table = of_families()
    board, front = rank_models(table), pareto(table, largest=2, generations=1)
    assert board.to_frame()["model"].tolist() == [place.model for place in board.places]
    assert board.to_frame().loc[3, "borda"] == board.places[3].borda
    assert front.to_frame()["benchmarks"].tolist() == [",".join(point.benchmarks) for point in front.points]
    prediction = predict(table, ["b0", "b3"], {"new": {"b0": 0.5, "b3": -1.0}}, scorer="ridge")
    cells = prediction.to_frame().set_index(["model", "metric"])
    assert cells.loc[("new", "b5"), "high"] == prediction.models["new"].cells["b5"].high
    assert len(cells) == 8
    judged = score(table, ["b0"], randoms=5).to_frame()
    assert (len(judged), judged.loc[0, "scorer"]) == (1, "ridge")


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(EeveeError, match=r"pip install 'eevee-search\[pandas\]'"):
        of_families().to_frame()


def test_errors_leave_whole_families_out(capsys: pytest.CaptureFixture[str]) -> None:
    table = of_families()
    alone, together = (score(table, ["b0", "b3"], randoms=20, holdout=holdout) for holdout in ("model", "family"))
    assert together.unmeasured > 2 * alone.unmeasured  # siblings told the rest
    assert together.random_error > 2 * alone.random_error
    assert (together.holdout, together.data_hash) == ("family", table.hash)
    fronts = [pareto(table, largest=2, generations=1, holdout=holdout) for holdout in ("model", "family")]
    assert fronts[1].points[0].error > 1.5 * fronts[0].points[0].error
    assert fronts[1].data_hash == table.hash
    for call in (score, pareto):
        arguments = (table, ["b0"]) if call is score else (table,)
        with pytest.raises(EeveeError, match=r"holdout 'date'; expected model or family: `select` and `predict` take"):
            call(*arguments, holdout="date")  # type: ignore[operator]
    assert main(["score", "--table", "mieb", "--subset", "BLINKIT2IMultiChoice", "--holdout", "family"]) == 0
    assert "by leaving families out" in capsys.readouterr().out


def small(**changed: Any) -> ResultTable:
    values = np.round(np.random.default_rng(1).random((8, 4)) * 50 + 20, 2)
    given = {
        "name": "small",
        "models": tuple(f"m{number}" for number in range(8)),
        "metrics": tuple(Metric(f"{name}/acc", name, "higher") for name in "abcd"),
        "benchmarks": tuple(Benchmark(name) for name in "abcd"),
        "values": values,
    }
    return ResultTable(**{**given, **changed})


def test_masked_and_missing_values_of_any_kind_are_missing() -> None:
    """Masked cells counted with whatever lay below the mask."""
    values = np.array(small().values)
    expected = values.copy()
    expected[0, 1] = np.nan
    nullable = pandas.DataFrame(values).astype("Float64")
    nullable.iloc[0, 1] = pandas.NA
    masked = np.ma.masked_array(values, np.isnan(expected))
    masked.data[0, 1] = 99.0
    for held in (
        masked,
        nullable,
        expected.astype(object),
        [[None if np.isnan(cell) else cell for cell in row] for row in expected],
    ):
        table = small(values=held)
        np.testing.assert_array_equal(table.values, expected)
        assert table.hash == small(values=expected).hash
    for wrong in (values.astype(str), values * 1j, values.astype("datetime64[s]"), [["a"] * 4] * 8):
        with pytest.raises(EeveeError, match="values of small"):
            small(values=wrong)
    right = (np.random.default_rng(0).random((5, 30)) < 0.6).astype(float)
    held = np.ma.masked_array(right, np.arange(30) % 7 == np.arange(5)[:, None])
    outcomes = Outcomes("toy", list("abcde"), range(30), held)  # type: ignore[arg-type]
    np.testing.assert_array_equal(outcomes.values, held.filled(np.nan))


def test_models_without_a_label_are_alone_whatever_marks_it() -> None:
    """Of a column with gaps, all models without a family were one group of twins."""
    named = ["x", "x", None, None, "y", "y", None, "z"]
    alone = ("x", "x", "m2", "m3", "y", "y", "m6", "z")
    for held in (named, pandas.Series(named), pandas.Series(named, dtype="string"), [name or "" for name in named]):
        assert small(groups=held).groups == alone
        assert small().with_groups(held).groups == alone
        assert small(families=held).families == ("x", "x", "", "", "y", "y", "", "z")
    numbers = small(groups=np.arange(8) // 2)
    assert numbers.groups == tuple("00112233")
    assert numbers.hash
    with pytest.raises(EeveeError, match="groups are 'xxxxyyyy'; expected a list"):
        small(groups="xxxxyyyy")


def test_numbers_may_be_numpy_s() -> None:
    table = small().with_costs(pandas.Series([1, 2, 3, 4], index=list("abcd"), dtype=np.float32))
    assert table.costs == {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    assert table.hash
    chosen = select(table, k=np.int64(2), seed=np.int64(3), randoms=5, nested=False)
    plain = select(table, k=2, seed=3, randoms=5, nested=False)
    assert (chosen.benchmarks, chosen.error, chosen.random_error) == (plain.benchmarks, plain.error, plain.random_error)
    assert json.loads(chosen.to_json())["seed"] == 3
    with pytest.raises(EeveeError, match=r"k is 2\.5; expected a whole number"):
        select(table, k=2.5, randoms=5)  # type: ignore[arg-type]
    with pytest.raises(EeveeError, match="cost: '1'; expected a number"):
        table.with_costs({"a": "1"})  # type: ignore[dict-item]


def test_scores_of_new_models_are_numbers_given_once() -> None:
    """Of a metric by its own name and by its benchmark's, the last counted."""
    table = small()
    expected = predict(table, ["a", "b"], {"new": {"a": 30.0}}, scorer="ridge").models["new"].cells["c/acc"]
    for scores in (
        {"new": {"a": 30, "b": None}},
        {"new": {"a": 30, "b": pandas.NA}},
        pandas.DataFrame({"new": {"a": 30.0}}),
    ):
        assert predict(table, iter("ab"), scores, scorer="ridge").models["new"].cells["c/acc"] == expected  # type: ignore[arg-type]
    for wrong, message in (
        ({"new": {"a": 30, "a/acc": 40}}, "'a' and 'a/acc' are one metric"),
        ({"new": {"a": "30"}}, "'30'; expected a number"),
        ({"new": {"a": True}}, "True; expected a number"),
        ({0: {"a": 30}}, "model 0 is no text"),
    ):
        with pytest.raises(EeveeError, match=message):
            predict(table, ["a"], wrong, scorer="ridge")  # type: ignore[arg-type]


def test_frames_of_every_shape_are_read_or_refused() -> None:
    table = small()
    frame = table.to_frame()
    double = frame.set_axis(pandas.MultiIndex.from_tuples([name.split("/") for name in frame.columns]), axis=1)
    long = (
        frame.rename(columns=lambda name: name[0]).reset_index().melt("model", var_name="benchmark", value_name="score")
    )
    named = frame.reset_index().rename(columns={"model": "Model_Name"})
    for held in (double, named, long.set_index("model"), long.set_index(["model", "benchmark"])):
        read = load_table(held, direction="higher")
        assert read.models == table.models
        np.testing.assert_array_equal(read.values, table.values)
    both = frame.set_axis(pandas.MultiIndex.from_product([["vit", "rn"], range(4)]))
    assert load_table(both, direction="higher").models[:2] == ("vit 0", "vit 1")
    for wrong in (frame.iloc[:, 0], frame.to_numpy(), frame.to_dict()):
        with pytest.raises(EeveeError, match="table is"):
            load_table(wrong, direction="higher")
