from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqben_builder.building.builder import Made
from eqben_builder.building.folder import checked_record, record_of, row_of
from eqben_builder.engines.scene import Drawn
from eqben_builder.formats import Picture

ROW = {
    "id": "kubric-000012",
    "subset": "kubric",
    "aspect": "counting",
    "image0": "images/000/000012_0.png",
    "image1": "images/000/000012_1.png",
    "caption0": "There are two cubes on the floor.",
    "caption1": "There are three cubes on the floor.",
    "source": {"seed": 3},
    "certificate": {"token_edits": []},
    "licence": "CC0-1.0",
}


def test_a_record_comes_back_as_it_was_written():
    row = row_of(checked_record(ROW), lambda name, field: Picture(Path("folder", name)))
    assert (row.image1.path, row.source) == (Path("folder", ROW["image1"]), {"seed": 3})
    assert row.captions == (ROW["caption0"], ROW["caption1"])
    assert record_of(row, ROW["image0"], ROW["image1"]) == ROW
    masked = ROW | {"certificate": {"mask": "m.png"}, "source": {"seed": 3, "fields": {"mood": 1}}}
    row = row_of(masked, lambda name, field: Picture(Path(name)))
    assert (row.mask.path, row.extra["mood"], dict(row.certificate)) == (Path("m.png"), 1, {})
    assert record_of(row, ROW["image0"], ROW["image1"], "m.png") == masked


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_two_captions_come_back_or_are_refused(first, second):
    row = ROW | {"caption0": first, "caption1": second}
    blank = not first.strip() or not second.strip()
    if blank or " ".join(first.split()).lower() == " ".join(second.split()).lower():
        with pytest.raises(ValueError, match="caption"):
            checked_record(row)
    else:
        assert checked_record(row) == row


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"caption1": "there are  TWO cubes on the floor."}, "say the same"),
        ({"caption0": " "}, "'caption0' should be a text that is not empty"),
        ({"caption0": 4}, "'caption0' should be a text that is not empty, found 4"),
        ({"subset": "clevr"}, "'subset' is 'clevr', expected one of ag, gebc"),
        ({"image0": "../a.png"}, "'image0' leads out of the folder"),
        ({"image1": "/etc/a.png"}, "'image1' leads out of the folder"),
        ({"image1": "C:/a.png"}, "'image1' leads out of the folder"),
        ({"image1": "images\\a.png"}, "'image1' leads out of the folder"),
        ({"image1": ROW["image0"]}, "are the same"),
        ({"source": []}, r"'source' should be an object, found \[\]"),
        ({"mood": 1}, "unknown field 'mood'"),
        ({"id": None}, "'id' should be a text"),
    ],
)
def test_a_wrong_field_is_named(change, message):
    with pytest.raises(ValueError, match=f"^here: .*{message}"):
        checked_record(ROW | change, "here")


def test_a_missing_field_and_a_row_that_is_no_object_are_named():
    for name in ROW:
        with pytest.raises(ValueError, match=f"line 3: field '{name}' is missing"):
            checked_record({key: value for key, value in ROW.items() if key != name}, "line 3")
    with pytest.raises(ValueError, match="expected an object, found list"):
        checked_record([1])


def test_records_of_arrays_can_be_compared_and_hashed():
    """Two with the same arrays are two: comparing arrays gives no truth value, and hashing them an error."""
    images = (np.zeros((2, 2, 3), np.uint8), np.ones((2, 2, 3), np.uint8))
    ids = np.zeros((2, 2), np.int16)
    for record in (
        lambda: Made(images, ("a", "b"), "count"),
        lambda: Drawn(images, (ids, ids)),
    ):
        first, second = record(), record()
        assert first == first
        assert first != second
        assert len({first, second}) == 2
