"""Keywords and attributes of the last release run for one more, and say what they are called now."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gate_data.boxes.files import read_voc
from gate_data.original_files import as_samples
from gate_data.own import guess
from gate_data.ragged import Ragged
from gate_data.readers.tables import Row


def test_former_keywords_give_the_same_with_a_warning(tmp_path):
    boxes = Ragged.of([{"label": [3, 1]}, {"label": [2]}])
    row = Row(Path("labels.csv"), 7, {"class": "cat"})
    for function, positional, former, now, value in (
        (as_samples, [{"cent": ["a.png"]}], "known", "classes", ["euro", "cent"]),
        (as_samples, [{"cent": ["a.png"]}], "order", "classes", ["euro", "cent"]),
        (row.one_of, ["class"], "known", "index_of", {"dog": 0, "cat": 1}),
        (lambda **given: boxes.joined(**given).lengths.tolist(), [], "other", "further", boxes),
    ):
        expected = function(*positional, **{now: value})
        with pytest.warns(DeprecationWarning, match=rf"{former}=\) is called {now}= now") as caught:
            assert function(*positional, **{former: value}) == expected
        assert len(caught) == 1
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{former}'"):
            function(*positional, **{former: value, now: value})
    with pytest.warns(DeprecationWarning, match="order= now"), pytest.raises(ValueError, match="holds neither"):
        read_voc(tmp_path, known=["cat"])


def test_a_guess_takes_and_gives_its_former_names(tmp_path):
    from PIL import Image

    for name in ("a", "b"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(3):
            pixels = np.full((2, 2, 3), number, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / name / f"{number}.png")
    with pytest.warns(DeprecationWarning, match=r"guess\(taken=\) is called is_known_set= now"):
        guessed = guess(tmp_path / "pets", taken=lambda identifier: False)
    with pytest.warns(DeprecationWarning, match=r"Guess\.said is called remarks now"):
        assert guessed.said == guessed.remarks
