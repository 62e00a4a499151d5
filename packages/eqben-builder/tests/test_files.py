from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from eqben_builder import read_pairs, read_pictures, write_pairs
from eqben_builder.micro import KINDS, generator_at, minimal_pair, render


@pytest.fixture
def pairs():
    return [minimal_pair(generator_at(41, k), KINDS[k % 3]) for k in range(6)]


def test_pairs_come_back_as_they_were_written(pairs, tmp_path):
    rows = read_pairs(write_pairs(pairs, tmp_path / "new", size=48))
    pictures = read_pictures(rows)
    assert pictures.shape == (6, 2, 48, 48, 3)
    for pair, row, drawn in zip(pairs, rows, pictures, strict=True):
        assert (row.caption0, row.caption1) == (pair.caption0, pair.caption1)
        assert row.extra == {"kind": pair.kind, "field": pair.field, "scene0": pair.scene0, "scene1": pair.scene1}
        assert np.array_equal(drawn, render([pair.scene0, pair.scene1], 48).images)


def test_the_same_pairs_give_the_same_bytes(pairs, tmp_path):
    one, other = (write_pairs(pairs, tmp_path / name, size=48) for name in ("a", "b"))
    assert one.read_bytes() == other.read_bytes()
    for path in sorted((tmp_path / "a" / "images").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / "images" / path.name).read_bytes()


def test_a_pair_that_is_not_minimal_is_refused_before_anything_is_drawn(pairs, tmp_path):
    pairs[4] = replace(pairs[4], caption1=pairs[4].caption0)
    with pytest.raises(ValueError, match=r"pair 4: caption .* is false of its own scene"):
        write_pairs(pairs, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def broken(path, change):
    rows = json.loads(path.read_text())
    change(rows)
    path.write_text(json.dumps(rows))
    return path


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda rows: rows[2].pop("caption1"), ValueError, r"pairs.json, row 2: field 'caption1' .* None"),
        (lambda rows: rows[1].update(image0=3), ValueError, r"row 1: field 'image0' should be a text, found 3"),
        (lambda rows: rows[0].update(image1="../x.png"), ValueError, r"row 0: field 'image1' leads out"),
        (lambda rows: rows[0].update(image1="/etc/hostname"), ValueError, r"row 0: field 'image1' leads out"),
        (lambda rows: rows[5].update(image0="images/9.png"), FileNotFoundError, r"row 5: field 'image0' names no"),
        (lambda rows: rows[3]["scene1"].pop("items"), ValueError, r"row 3: field 'scene1': scene: field 'items'"),
        (lambda rows: rows[3].update(scene0=4), ValueError, r"row 3: field 'scene0'"),
        (lambda rows: rows.append("text"), ValueError, r"row 6: expected an object, found str"),
    ],
)
def test_a_broken_file_is_refused_by_row_and_field(pairs, tmp_path, change, error, message):
    path = broken(write_pairs(pairs, tmp_path, size=16), change)
    with pytest.raises(error, match=message):
        read_pairs(path)


def test_a_file_that_is_no_list_or_no_json_is_refused(tmp_path):
    path = tmp_path / "pairs.json"
    path.write_text('{"image0": 1}')
    with pytest.raises(ValueError, match="expected a list of rows, found dict"):
        read_pairs(path)
    path.write_text("[\n{\n]")
    with pytest.raises(ValueError, match=r"pairs.json, line 3"):
        read_pairs(path)


def test_pictures_of_two_sizes_are_refused(pairs, tmp_path):
    rows = read_pairs(write_pairs(pairs[:2], tmp_path / "a", size=16)) + read_pairs(
        write_pairs(pairs[:1], tmp_path / "b", size=24)
    )
    with pytest.raises(ValueError, match=r"\(24, 24, 3\), the first picture \(16, 16, 3\)"):
        read_pictures(rows)
    with pytest.raises(ValueError, match="no rows"):
        read_pictures([])
