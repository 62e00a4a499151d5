"""Item tables as others publish them: every row is taken or named, and no code of a file runs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from eevee import EeveeError, choose_items, rank_outcomes, read_outcomes
from eevee.cli import main


def right(models=6, items=40, seed=0):
    generator = np.random.default_rng(seed)
    return (generator.random((models, items)) < np.linspace(0.3, 0.8, models)[:, None]).astype(float)


def test_arrays_of_joblib_with_names_next_to_them(tmp_path, caplog):
    joblib = pytest.importorskip("joblib")
    joblib.dump(np.asfortranarray(right()), tmp_path / "musr.jbl")
    joblib.dump(["lab/a", "lab/b", "lab/a", "lab/c", "lab/d", "lab/a"], tmp_path / "musr_models.jbl")
    joblib.dump(right(seed=1) > 0, tmp_path / "rte.jbl")
    joblib.dump(["x"], tmp_path / "bbh_models.jbl")
    outcomes = read_outcomes(sorted(tmp_path.glob("*.jbl")))
    assert list(outcomes) == ["musr", "rte"]
    assert outcomes["musr"].models == ("lab/a", "lab/b", "lab/a (2)", "lab/c", "lab/d", "lab/a (3)")
    np.testing.assert_array_equal(outcomes["musr"].values, right())
    np.testing.assert_array_equal(outcomes["rte"].values, right(seed=1))
    assert outcomes["rte"].models[0] == "rte model 0"
    for message in ("bbh_models.jbl: left out", "such as lab/a", "no rte_models.jbl next to it"):
        assert message in caplog.text, message
    with pytest.raises(EeveeError, match="expected the models of 'musr'"):
        rank_outcomes(outcomes)  # rows without names are nobody's in another table


def test_a_model_without_outcomes_is_left_out_by_name(tmp_path, caplog):
    joblib = pytest.importorskip("joblib")
    values = right()
    values[2], values[:, 7] = np.nan, np.nan
    joblib.dump(values, tmp_path / "toy.jbl")
    measured = read_outcomes([tmp_path / "toy.jbl"])["toy"]
    assert measured.values.shape == (5, 39)
    assert "7" not in measured.items
    assert "model 'toy model 2': left out: no outcome" in caplog.text
    assert "item '7': left out: no outcome" in caplog.text


class Evil:
    def __reduce__(self):
        return (os.system, ("touch harm",))


def test_what_is_no_table_is_one_line_and_nothing_runs(tmp_path, monkeypatch, capsys):
    joblib = pytest.importorskip("joblib")
    monkeypatch.chdir(tmp_path)
    joblib.dump([right(), Evil()], "evil.jbl")
    assert main(["items", "--outcomes", "evil.jbl"]) == 2
    message = capsys.readouterr().err
    assert "evil.jbl is no pickle of arrays: it asks for posix.system" in message
    assert "numpy.savez(FILE, models=NAMES, evil=joblib.load(...))" in message
    assert message.count("\n") == 1
    assert not Path("harm").exists()
    for name, held, expected in (
        ("flat", np.arange(3.0), r"holds float64 \(3,\); expected an array of numbers \(models, items\)"),
        ("words", ["a", "b"], "holds list; expected an array"),
        ("percent", 100 * right(), "outcome 100; expected a number from 0 to 1"),
    ):
        joblib.dump(held, f"{name}.jbl")
        with pytest.raises(EeveeError, match=rf"{name}\.jbl: .*{expected}"):
            read_outcomes([f"{name}.jbl"])
    joblib.dump(right(), "few.jbl")
    joblib.dump(["a", "b"], "few_models.jbl")
    with pytest.raises(EeveeError, match=r"few_models\.jbl: 2 names; expected 6, as few\.jbl has rows"):
        read_outcomes(["few.jbl"])
    with pytest.raises(EeveeError, match=r"few_models\.jbl: names of models alone"):
        read_outcomes(["few_models.jbl"])
    with pytest.raises(EeveeError, match=r"none\.jbl: cannot be read"):
        read_outcomes(["none.jbl"])


def write(path, **columns):
    """A feather file as pandas writes it."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path.parent.mkdir(parents=True, exist_ok=True)
    pandas.DataFrame(columns).to_feather(path)


def unibench(folder, values, names=None):
    """UniBench's files of models m0, m1, … on the benchmark `sugar`."""
    for number, row in enumerate(values):
        columns = {} if names is None else {"image_name": names}
        facts = {"model_name": f"m{number}", "benchmark_name": "sugar", "entropy": 0.5}
        write(folder / f"m{number}" / "sugar.f", correctness=row.astype(int), **columns, **facts)


def test_unibench_puts_images_together_by_name(tmp_path, caplog):
    values = right()
    names = [f"{number // 2:06}.jpg" for number in range(40)]  # two questions on every image
    unibench(tmp_path, values, names)
    write(tmp_path / "m1" / "sugar.f", correctness=values[1][:38].astype(int), image_name=names[:38])
    pairs = values[2].reshape(20, 2)[::-1].ravel()  # the images in another order, each one's questions in their own
    write(tmp_path / "m2" / "sugar.f", correctness=pairs, image_name=names[::-1])
    write(tmp_path / "m0" / "short.f", correctness=[1, 0, 1])
    write(tmp_path / "aggregate.f", model_name=["m0"], benchmark_name=["sugar"], correctness=[0.4])
    outcomes = read_outcomes([tmp_path])
    assert list(outcomes) == ["sugar"]
    sugar = outcomes["sugar"]
    assert sugar.models == tuple(f"m{number}" for number in range(6))
    assert sugar.items[:3] == ("000000.jpg", "000000.jpg (2)", "000001.jpg")
    wanted = values.copy()
    wanted[1, 38:] = np.nan
    np.testing.assert_array_equal(sugar.values, wanted)
    assert "38 of the 40 items" in caplog.text
    assert "short: left out: " in caplog.text
    assert read_outcomes([tmp_path / f"m{number}" for number in range(6)])["sugar"].items == sugar.items
    assert len(choose_items({"sugar": sugar}, count=10).benchmarks["sugar"].items) == 10
    board = rank_outcomes(outcomes)
    assert {place.model for place in board.places} == set(sugar.models)


def test_unibench_without_names_needs_as_many_rows(tmp_path, capsys):
    unibench(tmp_path, right())
    np.testing.assert_array_equal(read_outcomes([tmp_path])["sugar"].values, right())
    write(tmp_path / "m3" / "sugar.f", correctness=[1, 0, 1])
    with pytest.raises(EeveeError, match=r"sugar\.f: 3 rows without image_name; other models have 40"):
        read_outcomes([tmp_path])
    write(tmp_path / "m3" / "sugar.f", prediction=[1, 0, 1])
    with pytest.raises(EeveeError, match=r"sugar\.f: no column 'correctness'"):
        read_outcomes([tmp_path])
    (tmp_path / "m3" / "sugar.f").write_bytes(b"ARROW1 and no more")
    assert main(["rank", str(tmp_path)]) == 2
    assert "sugar.f: not a feather file" in capsys.readouterr().err
