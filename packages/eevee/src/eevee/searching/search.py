"""The plain searchers: greedy, greedy + swap, random, exhaustive, and anchors by k-medoids."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, get_args

import numpy as np
from deap import base, tools

from eevee.errors import EeveeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eevee.searching.evaluation import Evaluator
    from eevee.searching.space import Candidate, Space
    from eevee.tables.standard import Standardised

Method = Literal["evolution", "greedy", "greedy-swap", "random", "exhaustive", "medoids"]
METHODS: tuple[str, ...] = get_args(Method)
KEPT = 50


def search(
    method: str, evaluate: Evaluator, space: Space, *, seed: int, generations: int = 20, limit: int = 6_000_000
) -> Found:
    """Search with the named method."""
    if method == "evolution":
        return evolve(evaluate, space, seed=seed, generations=generations)
    if method in ("greedy", "greedy-swap"):
        return greedy(evaluate, space, swap=method == "greedy-swap")
    if method == "random":
        return draw(evaluate, space, seed=seed, count=6500)
    if method == "exhaustive":
        return exhaust(evaluate, space, limit=limit)
    if method == "medoids":
        return medoids(evaluate, space)
    raise EeveeError(f"method {method!r}; expected one of {', '.join(METHODS)}")


class Judge(Protocol):
    """What greedy search asks: a number for each candidate, lower is better, and how many it was asked for."""

    asked: int
    expected: int

    def __call__(self, candidates: Sequence[Candidate]) -> list[float]:
        """The candidates' numbers."""


class _Distances:
    """Sum over all benchmarks of the distance to the nearest member: one minus the absolute correlation."""

    def __init__(self, data: Standardised) -> None:
        count = np.maximum(data.measured.T @ data.measured, 1)
        correlation = np.abs(data.values.T @ data.values / count)
        alike = np.stack([correlation[list(columns)].max(0) for columns in data.columns])
        self.distance = np.stack([1 - alike[:, list(columns)].mean(1) for columns in data.columns], axis=1)
        np.fill_diagonal(self.distance, 0.0)
        self.asked = self.expected = 0

    def __call__(self, candidates: Sequence[Candidate]) -> list[float]:
        self.asked += len(candidates)
        return [float(self.distance[list(candidate)].min(0).sum()) for candidate in candidates]


def medoids(evaluate: Evaluator, space: Space) -> Found:
    """The benchmarks nearest to all others, by greedy + swap on distances: the scorer judges the last subset alone.

    What fits no error cannot fit its noise: on tables of few models it may hold out better than a search.
    """
    start = evaluate.asked
    result = greedy(_Distances(evaluate.data), space, swap=True)
    error = evaluate([result.best])[0]
    return Found(result.best, error, ((result.best, error),), (error,), evaluate.asked - start)


def greedy(evaluate: Judge, space: Space, *, swap: bool) -> Found:
    """Add the benchmark that lowers the error most, until full; with `swap`, then exchange members while that helps.

    With a budget and no k, adding stops where nothing fits; the best feasible subset on the way is returned.
    """
    start = evaluate.asked
    evaluate.expected = 0
    met: dict[Candidate, float] = {}
    history: list[float] = []
    current: Candidate = space.include
    while space.k is None or len(current) < space.k:
        grown = space.additions(current)
        if not grown:
            break
        errors = evaluate(grown)
        error, current = min(zip(errors, grown, strict=True))
        if space.feasible(current):
            met[current] = error
        history.append(error)
    if not met:
        met[current] = evaluate([current])[0]
    current = min(met, key=lambda c: (met[c], c))
    improved = swap
    while improved:
        improved = False
        for out in current:
            if out in space.include:
                continue
            options = space.swaps(current, out)
            if not options:
                continue
            errors = evaluate(options)
            met.update(zip(options, errors, strict=True))
            error, best = min(zip(errors, options, strict=True))
            if error < met[current] - 1e-12:
                current, improved = best, True
                history.append(error)
    return _found(met, history, evaluate.asked - start, best=current)


def draw(evaluate: Evaluator, space: Space, *, seed: int, count: int) -> Found:
    """Score random feasible subsets."""
    if count < 1:
        raise EeveeError(f"count is {count}; expected at least 1")
    generator = random.Random(seed)
    start = evaluate.asked
    evaluate.expected = start + count
    candidates = [space.draw(generator) for _ in range(count)]
    errors = evaluate(candidates)
    return _found(dict(zip(candidates, errors, strict=True)), [min(errors)], evaluate.asked - start)


def exhaust(evaluate: Evaluator, space: Space, *, limit: int = 6_000_000, step: int = 160_000) -> Found:
    """Score every feasible subset, so many at a time as `step` says; an interrupted search goes on behind the last."""
    if space.upper_count() > limit:
        raise EeveeError(f"{space.upper_count()} subsets; an exhaustive search looks at no more than {limit}")
    everything, start = space.every(), evaluate.asked
    evaluate.expected = start + space.upper_count()
    best: list[tuple[float, Candidate]] = []
    while batch := list(itertools.islice(everything, step)):
        best = sorted([*best, *evaluate.best_of(batch, KEPT)])[:KEPT]
    return _found({candidate: error for error, candidate in best}, [best[0][0]], evaluate.asked - start)


def _found(errors: dict[Candidate, float], history: list[float], asked: int, best: Candidate | None = None) -> Found:
    ranked = sorted(errors.items(), key=lambda item: (item[1], item[0]))[:KEPT]
    top = ranked[0] if best is None else (best, errors[best])
    return Found(top[0], top[1], tuple(ranked), tuple(history), asked)


class LowestError(base.Fitness):  # type: ignore[misc]  # DEAP ships no types
    """A fitness of one number, of which the lowest is the fittest."""

    weights = (-1.0,)

    def __init__(self) -> None:
        """Start without values; DEAP's own start checks the weights each time, a third of a search's time."""


class Individual(tuple):  # type: ignore[type-arg]  # DEAP needs the attribute `fitness`
    """A candidate with DEAP's fitness."""

    fitness: LowestError

    def __init__(self, _: Sequence[int]) -> None:
        self.fitness = LowestError()


@dataclass(frozen=True)
class Found:
    """What a searcher ends with."""

    best: Candidate
    error: float
    winners: tuple[tuple[Candidate, float], ...]
    history: tuple[float, ...]
    asked: int
    first: tuple[tuple[Candidate, float], ...] = ()


def evolve(
    evaluate: Evaluator,
    space: Space,
    *,
    seed: int,
    initial: int = 1000,
    winners: int = 50,
    children: int = 10,
    generations: int = 20,
    patience: int = 5,
) -> Found:
    """Evolve subsets: random start, the best `winners` kept, each with `children` mutants, over and over.

    Source: algorithms 2 and 3 and section 3 of the EEVEE paper (1,000, 50, 10, so 550 candidates a generation). A
    candidate that comes back is not scored again; the paper does not say whether it scores them again.
    """
    for name, value in (
        ("initial", initial),
        ("winners", winners),
        ("children", children),
        ("generations", generations),
    ):
        if value < 1:
            raise EeveeError(f"{name} is {value}; expected at least 1")
    generator = random.Random(seed)
    box = base.Toolbox()
    box.register("individual", lambda: Individual(space.draw(generator)))
    box.register("mutate", lambda parent: Individual(space.mutated(tuple(parent), generator)))
    box.register("map", evaluate.map_function)
    box.register("evaluate", evaluate)
    box.register("select", tools.selBest)
    start = evaluate.asked
    evaluate.expected = start + initial + generations * winners * (children + 1)

    def judged(population: list[Individual]) -> list[Individual]:
        plain = [tuple(individual) for individual in population]
        for individual, error in zip(population, box.evaluate(plain), strict=True):
            individual.fitness.values = (error,)
        return list({tuple(individual): individual for individual in population}.values())

    population = judged([box.individual() for _ in range(initial)])
    first = tuple((tuple(i), i.fitness.values[0]) for i in population)
    best = box.select(population, winners)
    history = [best[0].fitness.values[0]]
    waited = 0
    for _ in range(generations):
        population = judged([*best, *(box.mutate(parent) for parent in best for _ in range(children))])
        best = box.select(population, winners)
        history.append(best[0].fitness.values[0])
        waited = 0 if history[-1] < history[-2] else waited + 1
        if waited >= patience:
            break
    ranked = tuple((tuple(i), i.fitness.values[0]) for i in best)
    return Found(ranked[0][0], ranked[0][1], ranked, tuple(history), evaluate.asked - start, first)
