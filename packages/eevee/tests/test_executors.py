"""The same result from this process and from several."""

from __future__ import annotations

import pytest

from eevee import Constraints, EeveeError, MlpScorer, RidgeScorer, Space, open_map
from eevee.searching.evaluation import Evaluator
from eevee.searching.search import search
from eevee.tables.standard import standardise

from ._tables import made_up

TABLE = made_up(models=12, benchmarks=10, per_benchmark=3)
SCORER = MlpScorer(epochs=5, hidden=16, splits=2, held_out=0.2)


def found(spec, scorer=SCORER):
    with open_map(spec) as spread:
        evaluate = Evaluator(scorer, standardise(TABLE), map_function=spread, chunk=5)
        return search("greedy-swap", evaluate, Space(TABLE, Constraints(k=2)), seed=0)


@pytest.mark.long
def test_processes():
    assert found("processes:2", RidgeScorer()).best == found("serial", RidgeScorer()).best


def test_an_executor_that_there_is_none_of():
    for spec in ("ray", "processes:0", "serial:2"):
        with pytest.raises(EeveeError, match=f"executor '{spec}'; expected"), open_map(spec):
            pass
