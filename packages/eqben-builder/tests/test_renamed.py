"""Keywords of the last release run for one more, and say what they are called now."""

from __future__ import annotations

import numpy as np
import pytest

from eqben_builder.formats import Picture
from eqben_builder.suites import SUITES, Similarities, SuiteData, SuiteRow, outcomes_of, paired_difference, suite_table

ROWS = [SuiteRow(f"{k}", "swap_obj", "captions", (Picture(content=b""),), ("a", "b"), f"{k}") for k in range(8)]
SIMILAR = Similarities([np.array([[1.0], [k % 2]]) for k in range(8)], [None] * 8)
RIGHT, WRONG = np.ones(8), np.zeros(8)


@pytest.mark.parametrize(
    ("function", "positional", "former", "now"),
    [
        (outcomes_of, [ROWS], {"found": SIMILAR}, {"similar": SIMILAR}),
        (suite_table, [SuiteData(SUITES["sugarcrepe"], ROWS, {}, {}, ())], {"found": SIMILAR}, {"similar": SIMILAR}),
        (paired_difference, [], {"one": RIGHT, "other": WRONG}, {"first": RIGHT, "second": WRONG}),
    ],
)
def test_former_keywords_give_the_same_with_a_warning(function, positional, former, now):
    further = {"clusters": list("abcdefgh")} if function is paired_difference else {}
    expected = function(*positional, **now, **further)
    with pytest.warns(DeprecationWarning, match="is called") as caught:
        given = function(*positional, **former, **further)
    assert repr(given) == repr(expected)
    names = [f"{function.__name__}({old}=) is called {new}= now" for old, new in zip(former, now, strict=True)]
    assert [str(warning.message).partition(",")[0] for warning in caught] == names
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        function(*positional, **former, **now, **further)
