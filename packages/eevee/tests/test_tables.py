"""Tables: the shapes of files, what is refused and in which words, and the shipped figures."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eevee import (
    EeveeError,
    ResultTable,
    check,
    group_twins,
    load_table,
    published,
    read_scores,
)
from eevee.answers.leaderboard import rank_models
from eevee.answers.predicting import predict
from eevee.answers.selecting import selection_warnings
from eevee.reports.formatting import board_words, check_words
from eevee.tables.holdout import near_pairs
from eevee.tables.loading import join_tables
from eevee.tables.reading import Layout, number, read_csv_text

from ._tables import made_up

WIDE = "model,x,y/loss\n" + "".join(f"m{i},{i * i},{-i}\n" for i in range(5))
LONG = "model,benchmark,metric,value,direction,cost,task,family,group\n" + "".join(
    f"m{i},x,x,{i * i},higher,2.5,seg,fx,g{i // 2}\nm{i},y,y/loss,{-i},lower,,,,\n" for i in range(5)
)
ROWS = """metric,benchmark,direction,cost,task,family,m0,m1,m2,m3,m4
x,x,higher,2.5,seg,fx,0,1,4,9,16
y/loss,y,lower,,,,0,-1,-2,-3,-4
"""


def test_three_shapes_say_the_same():
    long, rows = read_csv_text(LONG, name="t"), read_csv_text(ROWS, name="t")
    about = "benchmark,direction,cost,task,family\nx,higher,2.5,seg,fx\ny,lower,,,\nunused,lower,1,,\n"
    wide = read_csv_text(WIDE, name="t", about=about)
    for table in (long, rows, wide):
        assert table.metric_ids == ("x", "y/loss")
        assert [m.direction for m in table.metrics] == ["higher", "lower"]
        assert table.benchmarks[0] == rows.benchmarks[0]
        assert table.benchmarks[0].cost == 2.5
        assert table.benchmarks[1].family == "y"
        np.testing.assert_array_equal(table.values, rows.values)
    assert wide.hash == rows.hash != long.hash  # the long one has groups
    assert long.groups == ("g0", "g0", "g1", "g1", "g2")


def test_joined_tables_keep_groups_families_and_dates():
    """Twins counted as models of their own."""
    first = replace(made_up(6), name="one", groups=("t", "t", "m2", "m3", "m4", "m5"), dates=("2020", *[""] * 5))
    last = replace(
        made_up(6, seed=1), name="two", families=("m0", "m0", "b", "b", "c", "c")
    )  # one is called like its first
    last = replace(
        last,
        benchmarks=tuple(replace(b, id=f"x{b.id}") for b in last.benchmarks),
        metrics=tuple(replace(m, id=f"x{m.id}", benchmark=f"x{m.benchmark}") for m in last.metrics),
    )
    joined = join_tables([first, last])
    assert joined.groups == first.groups
    assert joined.families == last.families
    assert joined.dates == first.dates
    with pytest.raises(EeveeError, match=r"model 'm0' has the group 't' in one table and 'u' in another"):
        join_tables([first, replace(last, groups=("u", "u", "m2", "m3", "m4", "m5"))])
    with pytest.raises(EeveeError, match="scaled in ways plain, rank"):
        join_tables([first, replace(last, scaling="rank")])


def test_missing_cells_and_group_column():
    table = read_csv_text("model,group,x,y\na,g,1,NA\nb,g,,2\nc,,3,n/a\nd,,4,5\ne,,6,7\n", name="t", direction="higher")
    assert table.groups == ("g", "g", "c", "d", "e")
    assert np.isnan(table.values).sum() == 3


def test_data_frame(tmp_path):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "wide.csv"
    path.write_text(WIDE)
    frame = pandas.read_csv(path)
    a = load_table(frame, direction="higher")
    b = load_table(frame.set_index("model"), direction="higher")
    assert a.hash == b.hash == load_table(path, direction="higher").hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WIDE, "metric 'x' has no direction"),
        ("model,x\n", "1 lines; expected a header and rows"),
        ("a,b\n1,2\n", "expected a column 'model' or 'benchmark'"),
        ("model,x,x\nm,1,2\n", "column 'x' is empty or appears twice"),
        (WIDE.replace("m3,9", "m3,good"), "line 5, model 'm3', metric 'x': 'good'; expected a number"),
        (WIDE.replace("m3,9", 'm3,"0,9"'), "'0,9'; expected a number; write a decimal comma as a point"),
        (WIDE.replace("m3,9", "m3,inf"), "line 5, model 'm3', metric 'x': 'inf'; expected a finite"),
        (WIDE.replace("m3", "m1"), "line 5: model 'm1' appears twice"),
        (WIDE.replace("m3,9,-3", "m3,9"), "line 5: 2 cells; expected 3"),
        (WIDE.replace("m3,9,-3", "m3,,"), "model 'm3' has no value at all"),
        (WIDE.replace("m4,16,-4\n", ""), "4 models; expected at least 5"),
        (ROWS.replace("lower", "down"), "metric 'y/loss': direction 'down'; expected 'higher' or 'lower'"),
        (ROWS.replace("2.5", "-2"), "benchmark 'x': cost -2.0; expected a finite number >= 0"),
        (ROWS.replace("2.5", "cheap"), "cost of benchmark 'x': 'cheap'; expected a number"),
        (ROWS + "x,x,higher,,,,1,2,3,4,5\n", "line 4: metric 'x' appears twice"),
        (LONG + "m0,x,x,1,higher,,,,\n", "line 12: model 'm0', metric 'x' appears twice"),
        (LONG + "m5,x,x,1,lower,,,,\n", "line 12: metric 'x' has the direction 'lower', and 'higher' before"),
        (LONG + "m5,z,x,1,higher,,,,\n", "line 12: metric 'x' belongs to 'z', and to 'x' before"),
        (LONG + "m1,y,y/loss2,1,lower,,,,g9\n", "line 12: model 'm1' is in group 'g9', and 'g0' before"),
    ],
)
def test_refused(text, message):
    direction = None if "no direction" in message else "higher"
    if text.startswith(("metric", "model,benchmark")):
        direction = None
    with pytest.raises(EeveeError, match=message.replace("(", r"\(")) as caught:
        read_csv_text(text, name="t", where="file.csv", direction=direction)
    assert "file.csv" in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(EeveeError, match="cannot be read"):
        load_table(tmp_path / "absent.csv")
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b"model,x\n\xff\xfe,1\n")
    with pytest.raises(EeveeError, match="byte 8 is not UTF-8"):
        load_table(bad)


def test_scores_file(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("model,x,y\nmine,1.5,\n")
    assert read_scores(path) == {"mine": {"x": 1.5}}
    path.write_text("model,x\nmine,1\nmine,2\n")
    with pytest.raises(EeveeError, match="line 3: model 'mine'"):
        read_scores(path)
    path.write_text("name,x\nmine,1\n")
    with pytest.raises(EeveeError, match="expected a column 'model'"):
        read_scores(path)


@given(st.text(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(EeveeError):  # anything else would be a failure
        assert read_csv_text(text, name="t", direction="higher").shape[0] >= 5


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=8)
CELLS = st.one_of(st.none(), st.floats(-1e6, 1e6))


@given(st.lists(NAMES, min_size=5, max_size=8, unique=True), st.data())
@settings(max_examples=40, deadline=None)
def test_what_is_written_is_read(models, data):
    """Round trip through the long shape, with names that hold commas, quotes and anything else."""
    lines = [["model", "benchmark", "metric", "value", "direction"]]
    want = np.full((len(models), 2), np.nan)
    for i, model in enumerate(models):
        for j in range(2):
            cell = data.draw(CELLS) if (i + j) % 3 else 1.0
            want[i, j] = np.nan if cell is None else cell
            lines.append([model, f"b{j}", f"b{j}/m", "" if cell is None else repr(cell), "higher"])
    out = io.StringIO()
    csv.writer(out).writerows(lines)
    if np.isnan(want).all(axis=1).any():
        with pytest.raises(EeveeError, match="no value at all"):
            read_csv_text(out.getvalue(), name="t")
        return
    table = read_csv_text(out.getvalue(), name="t")
    assert table.models == tuple(models)
    np.testing.assert_array_equal(table.values, want)


@pytest.mark.parametrize("text", ["1e3", " 7 ", "-0.5", "NaN", ""])
def test_number(text):
    value = number(text, "here")
    assert np.isnan(value) if text in ("NaN", "") else value == float(text)


def test_hash_sees_every_change():
    table = made_up(costs=True)
    moved = table.values.copy()
    moved[0, 0] += 1e-12
    others = [
        replace(table, values=moved),
        replace(table, models=("other", *table.models[1:])),
        table.with_costs({"b0": 9.0}),
        table.with_groups(["g"] * 2 + list(table.models[2:])),
        replace(table, metrics=(replace(table.metrics[0], direction="lower"), *table.metrics[1:])),
    ]
    assert len({table.hash, *(t.hash for t in others)}) == 6
    assert replace(table, name="renamed").hash == table.hash


def test_table_refuses_bad_parts():
    table = made_up()
    with pytest.raises(EeveeError, match="shape"):
        replace(table, values=table.values[:, 1:])
    with pytest.raises(EeveeError, match="2 group labels for 9 models"):
        replace(table, groups=("a", "b"))
    with pytest.raises(EeveeError, match="do not match"):
        replace(table, benchmarks=table.benchmarks[1:])
    with pytest.raises(EeveeError, match="metric 'b0/m0' appears twice"):
        replace(table, metrics=(table.metrics[0], table.metrics[0], *table.metrics[2:]))
    with pytest.raises(EeveeError, match="unknown benchmark 'nope'"):
        table.positions(["nope"])
    with pytest.raises(EeveeError, match="has no cost"):
        _ = table.costs
    with pytest.raises(ValueError, match="read-only"):
        table.values[0, 0] = 1


def test_shipped_tables():
    main, full = load_table("gate"), load_table("gate-full")
    assert main.shape == (21, 30)
    assert full.shape == (21, 175)
    assert sum(m.direction == "lower" and "loss" in m.id for m in full.metrics) == 48
    assert main.models == full.models
    assert set(full.benchmark_ids) - set(main.benchmark_ids) == {"cityscapes"}
    for metric in main.metrics:  # the two tables agree wherever they name the same metric in the same scale
        if metric.id in full.metric_ids and metric.benchmark not in ("acdc", "iwildcam"):
            j, k = main.metric_ids.index(metric.id), full.metric_ids.index(metric.id)
            np.testing.assert_array_equal(main.values[:, j], full.values[:, k])


def test_published_combinations():
    paper = published()
    ids = set(load_table("gate").benchmark_ids)
    assert {len(b) for b in paper.combinations.values()} == set(paper.combinations) == set(range(2, 23))
    assert [len(paper.tiers[t]) for t in ("small", "base", "big")] == [8, 15, 21]
    assert set(paper.tiers["small"]) == set(paper.combinations[8])
    assert set(paper.single_order) == ids
    assert all(set(b) <= ids for b in paper.combinations.values())


def shared_data() -> Path | None:
    configured = [Path(value)] if (value := os.environ.get("VLB_SHARED_DATA")) else []
    beside = [parent / "shared" / "data" for parent in Path(__file__).resolve().parents]
    return next((folder for folder in (*configured, *beside) if (folder / "gate").is_dir()), None)


@pytest.mark.skipif(shared_data() is None, reason="the shared data folder is not there")
def test_shipped_tables_equal_the_transcription():
    folder = shared_data() / "gate"
    with (folder / "gate_table3.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] in ("metric", "loss")]
    full, main = load_table("gate-full"), load_table("gate")
    np.testing.assert_array_equal(full.values.T, [[float(row[m]) for m in full.models] for row in rows])
    assert [m.direction for m in full.metrics] == [row["direction"] for row in rows]
    assert [m.benchmark for m in full.metrics] == [row["benchmark"] for row in rows]
    with (folder / "gate_main.csv").open() as file:
        rows = list(csv.DictReader(file))
    np.testing.assert_array_equal(main.values.T, [[float(row[m]) for m in main.models] for row in rows])
    discovered = json.loads((folder / "discovered.json").read_text())
    for k, names in published().combinations.items():
        assert list(names) == discovered["combinations"][str(k)]["benchmarks"]


def test_check_finds_what_was_planted():
    table = made_up(models=12, benchmarks=5)
    values = table.values.copy()
    values[3] = values[7]
    values[5] = values[8] + 0.001
    values[:, 1] = 3.0
    values[:, 2] = 0.0
    values[9, 4] = 1e5
    values[4:, 3] = np.nan
    checked = check(replace(table, values=values))
    assert checked.constant == ("b1/m0", "b2/m0")
    assert checked.all_zero == ("b2/m0",)
    assert checked.unmeasured == ("b3/m0",)
    assert checked.duplicates == (("m3", "m7"),)
    assert ("m5", "m8") in [pair[:2] for pair in checked.near_duplicates]
    assert [o[:2] for o in checked.outliers] == [("m9", "b4/m0")]
    assert checked.missing == pytest.approx(8 / 60)
    assert json.loads(checked.to_json())["models"] == 12


def test_check_of_a_clean_table_is_quiet():
    checked = check(made_up(models=12))
    assert (checked.constant, checked.all_zero, checked.duplicates, checked.near_duplicates, checked.outliers) == (
        (),
    ) * 5


def test_twins_are_grouped_transitively():
    table = made_up(models=8)
    values = table.values.copy()
    step = 0.08 * values.std(axis=0)
    values[1], values[2] = values[0] + step, values[0] + 2 * step
    grouped = group_twins(replace(table, values=values), near=0.1)
    assert len({grouped.groups[i] for i in (0, 1, 2)}) == 1
    assert len(set(grouped.groups)) == 6
    assert [tuple(pair) for pair in near_pairs(replace(table, values=values), 0.1)[0].tolist()] == [(1, 0), (2, 1)]


def test_load_returns_a_table_as_it_is():
    table = made_up()
    assert load_table(table) is table
    assert isinstance(load_table("gate"), ResultTable)


OPEN_CLIP = """name,pretrained,params,imagenet1k,cars
ViT-B-32,openai,151,63.3%,59.6%
ViT-B-32,laion,151,66.6%,86.0%
ViT-L-14,openai,428,75.5%,77.9%
ViT-L-14,laion,428,75.3%,92.6%
RN50,openai,102,59.8%,54.4%
"""


def test_models_named_by_two_columns_and_percent_signs():
    layout = Layout(model=("name", "pretrained"), drop=("params",))
    table = read_csv_text(OPEN_CLIP, name="t", direction="higher", layout=layout)
    assert table.models[1] == "ViT-B-32 laion"
    assert table.metric_ids == ("imagenet1k", "cars")
    assert table.values[0].tolist() == [63.3, 59.6]
    with pytest.raises(
        EeveeError, match=r"column 'pretrained' was taken for a metric.*params \(numbers, such as '151'\)"
    ):
        read_csv_text(OPEN_CLIP, name="t", direction="higher")
    with pytest.raises(EeveeError, match="with a percent sign and values without"):
        read_csv_text(OPEN_CLIP.replace("66.6%", ".666"), name="t", direction="higher", layout=layout)
    with pytest.raises(EeveeError, match="no column 'arch'; the file has: name, pretrained"):
        read_csv_text(OPEN_CLIP, name="t", layout=Layout(model=("arch",)))


def test_two_header_rows():
    rows = "".join(f"m{i},{i},{2 * i},{-i}\n" for i in range(5))
    table = read_csv_text("model,x,,y\n,acc1,acc5,loss\n" + rows, name="t", direction="higher")
    assert table.metric_ids == ("x/acc1", "x/acc5", "y/loss")
    assert table.benchmark_ids == ("x", "y")


def test_long_with_other_names_and_metrics_that_benchmarks_share():
    rows = "".join(f"m{i},{d},acc,{i + j}\n" for i in range(5) for j, d in enumerate("xy"))
    table = read_csv_text(
        "model_name,dataset,metric,acc1\n" + rows, name="t", direction="higher", layout=Layout(value="acc1")
    )
    assert table.metric_ids == ("x/acc", "y/acc")
    assert table.values[:, 1].tolist() == [1, 2, 3, 4, 5]
    csv_text = read_csv_text("Model,dataset,metric,score\n" + rows, name="t", direction="higher")
    assert csv_text.hash == table.hash
    with pytest.raises(EeveeError, match="no column names the benchmark"):
        read_csv_text("model,a,acc1\nm0,u,1\nm1,v,2\n", name="t", layout=Layout(value="acc1"))


def test_model_column_told_by_content():
    text = "Method,x,y\n" + "".join(f"net {i},{i},{i * i}\n" for i in range(5))
    assert read_csv_text(text, name="t", direction="higher").models[0] == "net 0"


def test_facts_of_models_and_bounds():
    about = "benchmark,direction,low,high\nx,higher,0,100\ny,lower,,\n"
    models = "model,family,date\n" + "".join(f"m{i},f{i % 2},202{i}-01\n" for i in range(5))
    table = read_csv_text(WIDE, name="t", about=about, models=models)
    assert table.families == ("f0", "f1", "f0", "f1", "f0")
    assert table.dates[4] == "2024-01"
    assert [metric.bounds for metric in table.metrics] == [(0.0, 100.0), None]
    with pytest.raises(EeveeError, match="model 'zz' is not in the table"):
        read_csv_text(WIDE, name="t", direction="higher", models="model,family\nzz,f\n")
    with pytest.raises(EeveeError, match="has one bound"):
        read_csv_text(WIDE, name="t", about="benchmark,direction,low\nx,higher,0\ny,lower,\n")


@pytest.mark.skipif(shared_data() is None, reason="the shared data folder is not there")
def test_mieb_is_the_shared_file():
    table = load_table("mieb")
    assert table.shape == (42, 132)
    assert int(np.isnan(table.values).sum()) == 15
    assert sum(table.costs.values()) / 3600 == pytest.approx(30.18, abs=0.01)
    other = load_table(shared_data() / "mieb" / "mieb.csv")
    order = [other.metric_ids.index(key) for key in table.metric_ids]
    rows = [other.models.index(key) for key in table.models]
    np.testing.assert_array_equal(other.values[np.ix_(rows, order)], table.values)


def test_near_pairs_are_those_of_the_matrix():
    for missing in (0.0, 0.2):
        table = made_up(models=700, benchmarks=4, missing=missing)
        pairs, distances = near_pairs(table, 0.3)
        scale = np.nanstd(table.values, axis=0)
        off = ((table.values[:, None] - table.values) / scale) ** 2
        with np.errstate(invalid="ignore"):
            matrix = np.sqrt(np.nansum(off, axis=2) / (~np.isnan(off)).sum(axis=2))
        want = [(i, j) for i in range(700) for j in range(i) if matrix[i, j] < 0.3]
        assert [tuple(pair) for pair in pairs.tolist()] == want
        squares = [matrix[i, j] ** 2 for i, j in want]
        np.testing.assert_allclose(distances**2, squares, atol=1e-13)  # differences of squares of about ten
        assert len(want) > 10


@pytest.mark.parametrize(("models", "shares"), [(8, 1), (8, 2), (20, 1), (20, 3), (40, 4), (8, 4)])
def test_rows_in_shares_beside_per_cent_are_named(models, shares):
    values = np.random.default_rng(models + shares).uniform(40, 90, (models, 5)).round(1)
    values[models - shares :] /= 100
    rows = "".join(f"m{i},{','.join(map(str, row))}\n" for i, row in enumerate(values.tolist()))
    checked = check(read_csv_text("model,a,b,c,d,e\n" + rows, name="t", direction="higher"))
    named = {f"m{models - shares + i}": tuple("abcde") for i in range(shares)}
    assert dict(checked.shares) == named
    assert "in 0 to 1 where the others are in per cent (shares? then times 100): m" in check_words(checked)


@pytest.mark.parametrize("percents", [1, 3])
def test_rows_in_per_cent_beside_more_shares_are_named(percents):
    values = np.random.default_rng(percents).uniform(0.4, 0.9, (8, 5)).round(3)
    values[:percents] *= 100
    rows = "".join(f"m{i},{','.join(map(str, row))}\n" for i, row in enumerate(values.tolist()))
    table = read_csv_text("model,a,b,c,d,e\n" + rows, name="t", direction="higher")
    checked = check(table)
    assert dict(checked.percents) == {f"m{i}": tuple("abcde") for i in range(percents)}
    assert not checked.shares
    assert "in per cent where the others are in 0 to 1 (shares? then divided by 100): m0 on a" in check_words(checked)
    (note,) = rank_models(table).notes
    assert note.startswith("in per cent where the other models are in 0 to 1 (shares?): m0")
    assert f"warning: {note}" in board_words(rank_models(table))


def test_new_scores_in_another_unit_than_the_table_are_named():
    values = np.random.default_rng(0).uniform(40, 90, (8, 3)).round(1)
    rows = "".join(f"m{i},{','.join(map(str, row))}\n" for i, row in enumerate(values.tolist()))
    table = read_csv_text("model,a,b,c\n" + rows, name="t", direction="higher")
    predicted = predict(table, ["a", "b"], {"new": {"a": 0.6, "b": 0.7}}, scorer="ridge")
    assert any("in 0 to 1 where the other models are in per cent (shares?): new;" in note for note in predicted.notes)
    predicted = predict(table, ["a", "b"], {"new": {"a": 60.0, "b": 70.0}}, scorer="ridge")
    assert not any("shares" in note for note in predicted.notes)


def test_one_cell_in_shares_is_named_and_small_values_are_not():
    values = np.random.default_rng(0).uniform(40, 90, (20, 3)).round(1)
    values[7, 1] /= 100
    values[:, 2] = np.linspace(0.2, 3.0, 20)  # a loss
    rows = "".join(f"m{i},{','.join(map(str, row))}\n" for i, row in enumerate(values.tolist()))
    table = read_csv_text("model,a,b,c\n" + rows, name="t", direction="higher")
    assert check(table).shares == (("m7", ("b",)),)
    assert not any("in 0 to 1" in line for line in selection_warnings(table, 0.1, 0.2, None, []))
    values[7, 0] /= 100
    rows = "".join(f"m{i},{','.join(map(str, row))}\n" for i, row in enumerate(values.tolist()))
    table = read_csv_text("model,a,b,c\n" + rows, name="t", direction="higher")
    assert any("per cent (shares?): m7;" in line for line in selection_warnings(table, 0.1, 0.2, None, []))
    predicted = predict(table, ["a"], {"new": {"a": 60.0}}, scorer="ridge")
    assert any("per cent (shares?): m7;" in note for note in predicted.notes)


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (lambda values: np.arange(len(values)), "numbers of the rows"),
        (lambda values: 1 + np.arange(len(values)), "numbers of the rows"),
        (lambda values: 1 + np.argsort(np.argsort(-values.mean(axis=1))), "ranks"),
        (lambda values: values.mean(axis=1).round(2), "means of the others"),
        (lambda values: values.mean(axis=1) + np.random.default_rng(1).normal(0, 2, len(values)), None),
        (lambda values: values[:, 0] * 2, None),
    ],
)
def test_columns_that_hold_no_results_are_named(column, what):
    values = np.random.default_rng(0).uniform(40, 90, (9, 4)).round(1)
    values = np.column_stack([values, column(values)])
    rows = "".join(f"m{i},{','.join(map(str, row))}\n" for i, row in enumerate(values.tolist()))
    table = read_csv_text("model,a,b,c,d,e\n" + rows, name="t", direction="higher")
    assert check(table).derived == ((("e", what),) if what else ())
    warnings = " ".join(selection_warnings(table, 0.1, 0.2, None, []))
    assert ("--drop e leaves them out" in warnings) == bool(what)
    assert (f"e ({what})" in check_words(check(table))) == bool(what)


@pytest.mark.parametrize("fact", ["cost", "task", "family", "low", "high"])
def test_a_benchmark_with_two_costs_is_refused(fact):
    """Of a long table, the last row's cost, task, family or bound counted, whatever the others said."""
    bounds = {"low": "high", "high": "low"}

    def text(other):
        head = f"model,benchmark,value,{fact}" + (f",{bounds[fact]}" if fact in bounds else "")
        end = {"low": ",9", "high": ",-9"}.get(fact, "")
        rows = [f"m{i},toy,{i / 10},{other if i == 3 else {'low': -1, 'high': 1}.get(fact, 1)}{end}" for i in range(6)]
        return "\n".join([head, *rows])

    same = {"low": "-1.0", "high": "1.0", "cost": "1.0"}.get(fact, "1")
    assert read_csv_text(text(same), name="t", direction="higher").shape == (6, 1)
    with pytest.raises(EeveeError, match=f"line 5: .* has the (bound )?{fact} '?2'?, and .* before"):
        read_csv_text(text("2"), name="t", direction="higher")
