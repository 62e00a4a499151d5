"""Scoring many candidates, each once, and the searchers: evolution, greedy, random, exhaustive, and k-medoids."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
from deap import base, tools

from eevee.errors import EeveeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from eevee.progress import Progress
    from eevee.scorers.scorer import Scorer
    from eevee.searching.space import Candidate, Space
    from eevee.tables.standard import Standardised

    MapFunction = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

Method = Literal["evolution", "greedy", "greedy-swap", "random", "exhaustive", "medoids"]
METHODS: tuple[str, ...] = get_args(Method)
KEPT = 50
DRAWN = 6_500
"""Subsets of a random search: as many as an evolution scores in ten generations."""
INITIAL, WINNERS, CHILDREN, PATIENCE = 1_000, 50, 10, 5
CHUNK = 500
"""Candidates that a scorer gets at a time where it does not say."""
BEST_CHUNK = 20_000
"""Candidates that one call scores where only the best are kept."""


class Evaluator:
    """Errors of candidates on one table by one scorer, each computed once."""

    def __init__(
        self,
        scorer: Scorer,
        data: Standardised,
        *,
        map_function: MapFunction = map,
        chunk: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.scorer, self.data, self.map_function, self.progress = scorer, data, map_function, progress
        self.chunk = chunk if chunk is not None else int(getattr(scorer, "batch", CHUNK))
        self.cache: dict[Candidate, tuple[float, float]] = {}
        self.asked = 0
        self.expected = 0  # how many the searcher will ask for, where it knows

    def __call__(self, candidates: Sequence[Candidate]) -> list[float]:
        """Errors of candidates, in their order."""
        self.asked += len(candidates)
        new = list(dict.fromkeys(c for c in candidates if c not in self.cache))
        chunks = [new[i : i + self.chunk] for i in range(0, len(new), self.chunk)]
        for chunk, scores in zip(chunks, self.map_function(partial(self.scorer.score, self.data), chunks), strict=True):
            pairs = [(float(error), float(stderr)) for error, stderr in scores]
            self.cache.update(zip(chunk, pairs, strict=True))
        if self.progress is not None:
            self.progress("search", self.asked, self.expected)
        return [self.cache[c][0] for c in candidates]

    def best_of(self, candidates: Sequence[Candidate], count: int) -> list[tuple[float, Candidate]]:
        """The lowest errors of many candidates, of which the others are forgotten."""
        self.asked += len(candidates)
        chunks = [candidates[i : i + BEST_CHUNK] for i in range(0, len(candidates), BEST_CHUNK)]
        best: dict[Candidate, tuple[float, float]] = {}
        for lowest in self.map_function(partial(_lowest, self.scorer, self.data, count), chunks):
            best.update(lowest)
        ranked = sorted(best, key=lambda c: (best[c], c))[:count]
        self.cache.update((c, best[c]) for c in ranked)
        if self.progress is not None:
            self.progress("search", self.asked, self.expected)
        return [(best[c][0], c) for c in ranked]

    def stderr(self, candidate: Candidate) -> float:
        """Standard error of a candidate that has been scored."""
        return self.cache[candidate][1]


def _lowest(
    scorer: Scorer, data: Standardised, count: int, candidates: Sequence[Candidate]
) -> dict[Candidate, tuple[float, float]]:
    scores = scorer.score(data, candidates)
    ranked = scores[:, 0].argsort(kind="stable")[:count].tolist()
    return {candidates[rank]: (float(scores[rank, 0]), float(scores[rank, 1])) for rank in ranked}


def search(
    method: str, evaluate: Evaluator, space: Space, *, seed: int, generations: int = 20, limit: int = 6_000_000
) -> SearchResult:
    """Search with the named method."""
    if method == "evolution":
        return evolve(evaluate, space, seed=seed, generations=generations)
    if method in ("greedy", "greedy-swap"):
        return greedy(evaluate, space, swap=method == "greedy-swap")
    if method == "random":
        return draw(evaluate, space, seed=seed)
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


def medoids(evaluate: Evaluator, space: Space) -> SearchResult:
    """The benchmarks nearest to all others, by greedy + swap on distances: the scorer judges the last subset alone.

    What fits no error cannot fit its noise: on tables of few models it may hold out better than a search.
    """
    start = evaluate.asked
    result = greedy(_Distances(evaluate.data), space, swap=True)
    error = evaluate([result.best])[0]
    return SearchResult(result.best, error, ((result.best, error),), (error,), evaluate.asked - start)


def greedy(evaluate: Judge, space: Space, *, swap: bool) -> SearchResult:
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
    return _result(met, history, evaluate.asked - start, best=current)


def draw(evaluate: Evaluator, space: Space, *, seed: int) -> SearchResult:
    """Score random feasible subsets."""
    generator = random.Random(int(seed))
    start = evaluate.asked
    evaluate.expected = start + DRAWN
    candidates = [space.draw(generator) for _ in range(DRAWN)]
    errors = evaluate(candidates)
    return _result(dict(zip(candidates, errors, strict=True)), [min(errors)], evaluate.asked - start)


def exhaust(evaluate: Evaluator, space: Space, *, limit: int = 6_000_000, step: int = 160_000) -> SearchResult:
    """Score every feasible subset, so many at a time as `step` says; an interrupted search goes on behind the last."""
    if space.upper_count() > limit:
        raise EeveeError(f"{space.upper_count()} subsets; an exhaustive search looks at no more than {limit}")
    everything, start = space.every(), evaluate.asked
    evaluate.expected = start + space.upper_count()
    best: list[tuple[float, Candidate]] = []
    while batch := list(itertools.islice(everything, step)):
        best = sorted([*best, *evaluate.best_of(batch, KEPT)])[:KEPT]
    return _result({candidate: error for error, candidate in best}, [best[0][0]], evaluate.asked - start)


def _result(
    errors: dict[Candidate, float], history: list[float], asked: int, best: Candidate | None = None
) -> SearchResult:
    ranked = sorted(errors.items(), key=lambda item: (item[1], item[0]))[:KEPT]
    top = ranked[0] if best is None else (best, errors[best])
    return SearchResult(top[0], top[1], tuple(ranked), tuple(history), asked)


class Lowest(base.Fitness):  # type: ignore[misc]  # DEAP ships no types
    """A fitness of numbers, one by itself, of which the lowest is the fittest."""

    weights: tuple[float, ...] = (-1.0,)

    def __init__(self) -> None:
        """Start without values; DEAP's own start checks the weights each time, a third of a search's time."""


class Individual(tuple):  # type: ignore[type-arg]  # DEAP needs the attribute `fitness`
    """A candidate with DEAP's fitness."""

    fitness: Lowest

    def __new__(cls, members: Sequence[int], fitness: Lowest) -> Individual:
        """A candidate that was not judged yet."""
        individual = super().__new__(cls, members)
        individual.fitness = fitness
        return individual


@dataclass(frozen=True)
class SearchResult:
    """What a searcher ends with."""

    best: Candidate
    error: float
    winners: tuple[tuple[Candidate, float], ...]
    history: tuple[float, ...]
    asked: int
    first: tuple[tuple[Candidate, float], ...] = ()


def evolve(evaluate: Evaluator, space: Space, *, seed: int, generations: int = 20) -> SearchResult:
    """Evolve subsets: random start, the best kept, each with its mutants, over and over.

    Source: algorithms 2 and 3 and section 3 of the EEVEE paper (1,000, 50, 10, so 550 candidates a generation). A
    candidate that comes back is not scored again; the paper does not say whether it scores them again.
    """
    if generations < 1:
        raise EeveeError(f"generations is {generations}; expected at least 1")
    generator = random.Random(int(seed))
    box = base.Toolbox()
    box.register("individual", lambda: Individual(space.draw(generator), Lowest()))
    box.register("mutate", lambda parent: Individual(space.mutated(tuple(parent), generator), Lowest()))
    box.register("map", evaluate.map_function)
    box.register("evaluate", evaluate)
    box.register("select", tools.selBest)
    start = evaluate.asked
    evaluate.expected = start + INITIAL + generations * WINNERS * (CHILDREN + 1)

    def judged(population: list[Individual]) -> list[Individual]:
        plain = [tuple(individual) for individual in population]
        for individual, error in zip(population, box.evaluate(plain), strict=True):
            individual.fitness.values = (error,)
        return list({tuple(individual): individual for individual in population}.values())

    population = judged([box.individual() for _ in range(INITIAL)])
    first = tuple((tuple(i), i.fitness.values[0]) for i in population)
    best = box.select(population, WINNERS)
    history = [best[0].fitness.values[0]]
    waited = 0
    for _ in range(generations):
        population = judged([*best, *(box.mutate(parent) for parent in best for _ in range(CHILDREN))])
        best = box.select(population, WINNERS)
        history.append(best[0].fitness.values[0])
        waited = 0 if history[-1] < history[-2] else waited + 1
        if waited >= PATIENCE:
            break
    ranked = tuple((tuple(i), i.fitness.values[0]) for i in best)
    return SearchResult(ranked[0][0], ranked[0][1], ranked, tuple(history), evaluate.asked - start, first)
