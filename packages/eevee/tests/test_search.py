"""Constraints and searchers against brute force, on spaces small enough to enumerate."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest

from eevee import EeveeError, RidgeScorer, load_table, select
from eevee.reports.formatting import selection_words
from eevee.searching.search import Evaluator, exhaust, greedy, search
from eevee.searching.space import Constraints, Space
from eevee.tables.standard import standardise

from ._tables import made_up

RULES = [
    Constraints(k=3),
    Constraints(k=3, include=("b4",), exclude=("b0", "b1")),
    Constraints(k=3, one_per_family=True),
    Constraints(k=4, cover=("all",)),
    Constraints(k=3, budget=9.5),
    Constraints(budget=7.0),
    Constraints(budget=11.0, include=("b2",), one_per_family=True, cover=("t0", "t2")),
]


def brute(table, rules):
    """Every subset, tested in plain words."""
    subsets = []
    pool = table.benchmarks
    for size in range(1, len(pool) + 1):
        for chosen in itertools.combinations(range(len(pool)), size):
            members = [pool[i] for i in chosen]
            ids = {b.id for b in members}
            cover = {b.task for b in pool} if rules.cover == ("all",) else set(rules.cover)
            if rules.k is not None and size != rules.k:
                continue
            if not set(rules.include) <= ids or ids & set(rules.exclude):
                continue
            if rules.one_per_family and len({b.family for b in members}) < size:
                continue
            if not cover <= {b.task for b in members}:
                continue
            if rules.budget is not None and sum(b.cost for b in members) > rules.budget:
                continue
            subsets.append(chosen)
    return subsets


@pytest.mark.parametrize("rules", RULES)
def test_space_is_what_the_rules_say(rules):
    table = made_up(costs=True)
    space, want = Space(table, rules), brute(made_up(costs=True), rules)
    assert sorted(space.every()) == sorted(want)
    assert space.upper_count() >= len(want)
    generator = random.Random(1)
    for _ in range(100):
        candidate = space.draw(generator)
        assert candidate in want
        mutant = space.mutated(candidate, generator)
        assert mutant in want
        if rules.k is not None and len(want) > 1 and mutant != candidate:
            assert len(set(mutant) & set(candidate)) == rules.k - 1
    for partial in ((), (0,), (2, 4), (1, 3)):
        if set(space.include) <= set(partial):
            completions = any(set(partial) <= set(c) for c in want)
            excluded = any(table.benchmark_ids[i] in rules.exclude for i in partial)
            assert excluded or space.completable(partial) == completions


def test_random_subsets_are_uniform():
    space = Space(made_up(), Constraints(k=2))
    generator = random.Random(0)
    counts = Counter(space.draw(generator) for _ in range(6000))
    assert len(counts) == 15
    assert max(abs(c - 400) for c in counts.values()) < 5 * math.sqrt(400)


def test_mutation_reaches_every_neighbour():
    space = Space(made_up(), Constraints(k=2))
    generator = random.Random(0)
    reached = {space.mutated((0, 3), generator) for _ in range(400)}
    assert reached == {tuple(sorted((a, b))) for a in (0, 3) for b in (1, 2, 4, 5)}


def test_no_neighbour_gives_the_candidate_back():
    space = Space(made_up(), Constraints(k=6))
    assert space.mutated((0, 1, 2, 3, 4, 5), random.Random(0)) == (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (Constraints(k=0), "k is 0; expected 1 to 6"),
        (Constraints(k=7), "k is 7; expected 1 to 6"),
        (Constraints(k=6, exclude=("b0",)), "k is 6; expected 1 to 5"),
        (Constraints(k=1, include=("b0", "b1")), "2 benchmarks must be included, but k is 1"),
        (Constraints(k=2, include=("b0",), exclude=("b0",)), "'b0' is both included and excluded"),
        (Constraints(k=2, include=("zz",)), "unknown benchmark 'zz'"),
        (Constraints(k=2, include=("b0", "b0")), "'b0' appears twice"),
        (Constraints(k=4, one_per_family=True), "no subset satisfies k=4"),
        (Constraints(k=2, cover=("all",)), "no subset satisfies k=2"),
        (Constraints(k=2, cover=("t9",)), "unknown task 't9' to cover; the table has: t0, t1, t2"),
        (Constraints(k=3, budget=5.5), "budget is 5.5, but the cheapest feasible subset costs 6 .b0, b1, b2"),
        (Constraints(budget=0.5), "the cheapest feasible subset costs 1 .b0"),
        (Constraints(budget=5, include=("b5",)), "the cheapest feasible subset costs 6 .b5"),
        (Constraints(k=3, budget=8, one_per_family=True), "costs 9 .b0, b2, b4"),
        (Constraints(budget=float("nan")), "budget is nan"),
        (Constraints(), "neither k nor a budget"),
    ],
)
def test_infeasible(rules, message):
    with pytest.raises(EeveeError, match=message):
        Space(made_up(costs=True), rules)


def test_budget_without_costs():
    with pytest.raises(EeveeError, match="'b0' has no cost"):
        Space(made_up(), Constraints(budget=3))


def evaluator(table, **extra):
    return Evaluator(RidgeScorer(), standardise(table), **extra)


@pytest.mark.parametrize("rules", RULES)
def test_exhaustive_is_the_minimum_and_the_others_respect_the_rules(rules):
    table = made_up(costs=True)
    space, evaluate = Space(table, rules), evaluator(table)
    lowest = min(evaluate(brute(table, rules)))
    assert search("exhaustive", evaluator(table), space, seed=0).error == pytest.approx(lowest, abs=1e-12)
    for method in ("evolution", "greedy", "greedy-swap", "random"):
        hits = search(method, evaluator(table), space, seed=0)
        assert space.feasible(hits.best)
        assert hits.error >= lowest - 1e-12
        assert hits.error == pytest.approx(evaluate([hits.best])[0], abs=1e-12)
        if method in ("evolution", "random"):  # so many draws see such a small space whole
            assert hits.error == pytest.approx(lowest, abs=1e-12)


def test_greedy_by_hand():
    table = made_up(benchmarks=7)
    evaluate = evaluator(table)
    chosen: tuple[int, ...] = ()
    for _ in range(3):
        grown = [tuple(sorted((*chosen, i))) for i in range(7) if i not in chosen]
        chosen = min(grown, key=lambda c: evaluate([c])[0])
    assert greedy(evaluator(table), Space(table, Constraints(k=3)), swap=False).best == chosen


def test_swap_ends_where_no_swap_helps():
    table = load_table("gate")
    space, evaluate = Space(table, Constraints(k=5)), evaluator(table)
    plain, swapped = greedy(evaluate, space, swap=False), greedy(evaluate, space, swap=True)
    assert swapped.error <= plain.error
    for out in swapped.best:
        assert min(evaluate(space.swaps(swapped.best, out))) >= swapped.error - 1e-12
    assert swapped.winners[0] == (swapped.best, swapped.error)


def test_evolution_counts_and_settings_of_the_paper():
    """1,000 to start with; then 50 winners kept, with 10 children each."""
    table = load_table("gate")
    requests = []

    class Counting(Evaluator):
        def __call__(self, candidates):
            requests.append(len(candidates))
            return super().__call__(candidates)

    evaluate = Counting(RidgeScorer(), standardise(table))
    hits = search("evolution", evaluate, Space(table, Constraints(k=8)), seed=0, generations=3)
    assert requests == [1000, 550, 550, 550]
    assert hits.asked == 2650
    assert len(evaluate.cache) < 2650
    assert len(hits.winners) == 50
    assert list(hits.history) == sorted(hits.history, reverse=True)
    assert hits.error == hits.winners[0][1] == min(e for e, _ in evaluate.cache.values())


def test_same_seed_same_result_whatever_the_map():
    from concurrent.futures import ThreadPoolExecutor

    table = load_table("gate")
    space = Space(table, Constraints(k=6))
    with ThreadPoolExecutor(3) as pool:
        spread = search("evolution", evaluator(table, map_function=pool.map, chunk=37), space, seed=3, generations=2)
    plain = search("evolution", evaluator(table), space, seed=3, generations=2)
    assert spread.best == plain.best
    assert spread.error == pytest.approx(plain.error, abs=1e-12)


def test_too_many_to_exhaust():
    table = load_table("gate")
    with pytest.raises(EeveeError, match="5852925 subsets; an exhaustive search looks at no more than 1000"):
        exhaust(evaluator(table), Space(table, Constraints(k=8)), limit=1000)


def test_an_exhaustive_search_is_spread():
    from concurrent.futures import ThreadPoolExecutor

    table = made_up()
    space, data = Space(table, Constraints(k=3)), standardise(table)
    plain = exhaust(Evaluator(RidgeScorer(), data), space, step=4)
    assert plain.asked == 20
    with ThreadPoolExecutor(3) as pool:
        spread = exhaust(Evaluator(RidgeScorer(), data, map_function=pool.map), space, step=4)
    assert (spread.best, spread.winners) == (plain.best, plain.winners)


def test_unknown_method_and_counts():
    table = made_up()
    space = Space(table, Constraints(k=2))
    with pytest.raises(EeveeError, match="'hill'; expected one of evolution"):
        search("hill", evaluator(table), space, seed=0)
    with pytest.raises(EeveeError, match="generations is 0"):
        search("evolution", evaluator(table), space, seed=0, generations=0)


def test_what_to_measure_besides_what_is_given():
    table = made_up(benchmarks=7, models=14, costs=True)
    chosen = select(table, 2, given=["b6"], method="exhaustive", nested=False, randoms=5)
    assert len(chosen.benchmarks) == 3
    assert "b6" in chosen.benchmarks
    assert chosen.cost == sum(1.0 + int(key[1:]) for key in chosen.benchmarks if key != "b6")
    scorer, data = RidgeScorer(), standardise(table)
    pairs = [tuple(sorted((6, a, b))) for a, b in itertools.combinations(range(6), 2)]
    best = min(pairs, key=lambda pair: scorer.score(data, [pair])[0, 0])
    assert table.positions(chosen.benchmarks) == best
    assert " (given)" in selection_words(chosen)
    cheap = select(table, budget=3.0, given=["b6"], method="greedy", nested=False, randoms=5)  # b6 alone costs 7
    assert "b6" in cheap.benchmarks
    assert cheap.cost <= 3.0
    with pytest.raises(EeveeError, match="expected 1 to 6, the number of benchmarks to choose from besides the 1"):
        select(table, 7, given=["b6"])


def test_medoids_are_nearest_to_all_and_keep_the_constraints():
    """Against every subset, by distances from NumPy's correlations; and no outcome of a fit has a say."""
    table = made_up(benchmarks=8, models=30, per_benchmark=1)
    distance = 1 - np.abs(np.corrcoef(table.values.T))
    subsets = list(itertools.combinations(range(8), 3))
    sums = {subset: distance[list(subset)].min(0).sum() for subset in subsets}
    scorer = RidgeScorer()
    chosen = search("medoids", Evaluator(scorer, standardise(table)), Space(table, Constraints(k=3)), seed=0)
    assert sums[chosen.best] == pytest.approx(min(sums.values()))
    assert chosen.error == pytest.approx(scorer.score(standardise(table), [chosen.best])[0, 0])
    selection = select(table, 3, include=["b7"], exclude=["b0"], method="medoids", nested=False, randoms=5)
    assert "b7" in selection.benchmarks
    assert "b0" not in selection.benchmarks
