from __future__ import annotations

import csv
import os

import numpy as np
import pytest

from eqben_builder.scoring import read_scores

NAMES = ("c0_i0", "c0_i1", "c1_i0", "c1_i1")


@pytest.fixture
def scores():
    return np.random.default_rng(0).standard_normal((7, 2, 2))


IDS = [f"p{k}" for k in range(7)]


def write(path, scores, ids=None):
    flat = np.asarray(scores).reshape(len(scores), -1)
    if path.suffix == ".npz":
        np.savez(path, scores=scores, **({"ids": np.array(ids)} if ids else {}))
    else:
        head = [*(["id"] if ids else []), *NAMES]
        rows = [[*([ids[k]] if ids else []), *map(repr, map(float, row))] for k, row in enumerate(flat)]
        path.write_text("\n".join(",".join(row) for row in [head, *rows]) + "\n")
    return path


@pytest.mark.parametrize("ending", ["npz", "csv"])
def test_scores_come_back_in_the_order_of_the_pairs(tmp_path, scores, ending):
    assert np.array_equal(read_scores(write(tmp_path / f"a.{ending}", scores), IDS), scores)
    shuffled = [3, 1, 0, 6, 5, 2, 4]
    path = write(tmp_path / f"b.{ending}", scores[shuffled], [IDS[k] for k in shuffled])
    assert np.array_equal(read_scores(path, IDS), scores)
    assert np.array_equal(read_scores(path), scores[shuffled])


@pytest.mark.parametrize("ending", ["npz", "csv"])
def test_what_is_missing_doubled_or_no_number_is_refused_with_its_row(tmp_path, scores, ending):
    path = tmp_path / f"s.{ending}"
    broken = scores.copy()
    broken[2, 0, 1] = broken[5, 1, 1] = np.nan
    with pytest.raises(ValueError, match=r"2 rows hold a score that is no finite number: rows 2, 5"):
        read_scores(write(path, broken, IDS), IDS)
    with pytest.raises(ValueError, match=r"6 rows of scores for 7 pairs"):
        read_scores(write(path, scores[:6]), IDS)
    with pytest.raises(ValueError, match=r"no scores for 2 pairs, such as 'p5' \(pairs 5, 6\)"):
        read_scores(write(path, scores[:5], IDS[:5]), IDS)
    with pytest.raises(ValueError, match=r"rows 6 name no pair of the source, such as 'p6'"):
        read_scores(write(path, scores, IDS), IDS[:6])
    with pytest.raises(ValueError, match=r"rows 3 repeat an id \('p0' in row 3\)"):
        read_scores(write(path, scores, [*IDS[:3], "p0", *IDS[4:]]), IDS)


def test_scores_of_foils_have_half_the_columns(tmp_path, scores):
    foils = read_scores(write(tmp_path / "all.csv", scores, IDS), IDS, foils=True)
    assert np.array_equal(foils, scores[:, :, 0])
    np.savez(tmp_path / "foils.npz", scores=scores[:, :, 0])
    assert np.array_equal(read_scores(tmp_path / "foils.npz", foils=True), scores[:, :, 0])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.csv", "c0_i0,c0_i1,c1_i0\n1,2,3\n", r"line 1: no column c1_i1; there are c0_i0"),
        ("s.csv", "c0_i0,c0_i1,c1_i0,c1_i1\n1,2,3,4\n1,2,x,4\n", r"line 3: field 'c1_i0' .* found 'x'"),
        ("s.csv", "c0_i0,c0_i1,c1_i0,c1_i1\n1,2,3\n", r"line 2: field 'c1_i1' .* found None"),
        ("s.csv", "c0_i0,c0_i1,c1_i0,c1_i1\n", r"holds no scores"),
        ("s.txt", "1", r"from \.npz, \.csv, not from '\.txt'"),
        ("s.npz", "no zip", r"is no npz file"),
    ],
)
def test_a_broken_file_is_refused_by_line_and_field(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_scores(tmp_path / name)


def test_a_broken_npz_is_refused(tmp_path, scores):
    path = tmp_path / "s.npz"
    for arrays, message in (
        ({"scores": scores[:, 0]}, r"shape \(7, 2\), expected \(n, 2, 2\)"),
        ({"c0_i0": scores[:, 0, 0]}, r"no array 'scores'; it holds \['c0_i0'\]"),
        ({"scores": scores, "ids": np.array(IDS[:3])}, r"3 ids for 7 rows"),
        ({"scores": np.array([object()])}, r"no npz file of plain arrays"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=message):
            read_scores(path)
    with pytest.raises(FileNotFoundError):
        read_scores(tmp_path / "absent.npz")


HEADER = ",".join(("id", *NAMES))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEADER}\na,1_0,1,2,3\n", "'c0_i0' should be a number, found '1_0'"),
        (f"{HEADER}\na,\u0663,1,2,3\n", "'c0_i0' should be a number"),
        (f'{HEADER}\na,"0,5",1,2,3\n', "found '0,5'; write a decimal comma as a point"),
        (f"{HEADER}\na,1.2.3,1,2,3\n", "'c0_i0' should be a number, found '1.2.3'"),
        (f"{HEADER},c0_i0\na,1,1,2,3,9\n", "column 'c0_i0' comes twice"),
        (f"{HEADER}\na,1,1,2,3,4\n", "line 2: 1 fields more than columns"),
    ],
)
def test_what_python_reads_as_a_number_and_files_do_not_mean(tmp_path, text, message):
    path = tmp_path / "s.csv"
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_scores(path)


@pytest.mark.parametrize("kind", ["<U1", "complex64", "bool"])
def test_arrays_that_are_no_scores_are_refused(tmp_path, kind):
    np.savez(tmp_path / "s.npz", scores=np.ones((2, 2, 2)).astype(kind))
    with pytest.raises(ValueError, match=r"array .scores. holds .*, expected numbers"):
        read_scores(tmp_path / "s.npz")


def test_a_pipe_is_no_archive(tmp_path):
    os.mkfifo(tmp_path / "s.npz")
    with pytest.raises(ValueError, match="a folder or a pipe"):
        read_scores(tmp_path / "s.npz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id,c0_i0,c0_i1,c1_i0,c1_i1\n\xe9,1,2,3,4\n", r"s\.csv is no UTF-8 text"),
        (b"id,c0_i0,c0_i1,c1_i0,c1_i1\n" + b"a" * 200_000 + b",1,2,3,4\n", r"s\.csv is no table: field larger"),
    ],
)
def test_tables_that_cannot_be_read_are_named(tmp_path, content, message):
    (tmp_path / "s.csv").write_bytes(content)
    before = csv.field_size_limit(131_072)  # other readers in one process have raised it
    try:
        with pytest.raises(ValueError, match=message):
            read_scores(tmp_path / "s.csv")
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_an_id_that_comes_twice_is_refused_without_a_list_of_ids_too(tmp_path, scores, kind):
    path = write(tmp_path / f"s.{kind}", scores, [*IDS[:6], "p0"])
    with pytest.raises(ValueError, match=r"rows 6 repeat an id \('p0' in row 6\)"):
        read_scores(path)
    assert np.array_equal(read_scores(write(tmp_path / f"t.{kind}", scores, IDS)), scores)
