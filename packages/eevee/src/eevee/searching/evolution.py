"""The paper's evolution of subsets (algorithms 2 and 3), on DEAP's toolbox."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deap import base, tools

from eevee.errors import EeveeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eevee.searching.evaluation import Evaluator
    from eevee.searching.space import Candidate, Space


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
    """What a searcher ends with.

    Args:
        best: the candidate with the lowest error.
        error: its error.
        winners: the best candidates found and their errors, best first.
        history: lowest error after each generation or round.
        asked: candidates whose error was asked for; with the cache fewer are computed.
        first: candidates of the random start and their errors, where there is one.
    """

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

    Args:
        evaluate: the cached scorer; its `map_function` becomes the toolbox's `map`.
        space: the feasible subsets.
        seed: of the random start and the mutations.
        initial: random candidates to start from (I of algorithm 3).
        winners: candidates kept at each generation (W); parents compete with their children.
        children: mutants of each winner (C).
        generations: at most so many (G; the paper names no number).
        patience: stop after so many generations without a lower error.

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
