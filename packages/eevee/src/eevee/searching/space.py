"""The subsets that may be chosen: size, budget, must-haves, exclusions, one per family, coverage of tasks."""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from eevee.errors import EeveeError

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from eevee.tables.table import ResultTable

Candidate = tuple[int, ...]
DRAWS = 200


@dataclass(frozen=True)
class Constraints:
    """What a subset must satisfy."""

    k: int | None = None  # number of benchmarks; with a budget and no k, any number that the budget pays for
    budget: float | None = None  # largest total cost, in the unit of the table's costs
    include: tuple[str, ...] = ()  # benchmark ids that every subset contains
    exclude: tuple[str, ...] = ()  # benchmark ids that none contains
    one_per_family: bool = False  # at most one benchmark of each family
    # task types of which at least one benchmark must be present; ("all",) for every task of the table
    cover: tuple[str, ...] = ()
    # ids that are measured anyhow: they tell what they tell, count neither in k nor in the cost, and the question
    # is what to measure besides
    given: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def _whole(k: Any) -> int | None:
    """A number of benchmarks, of whatever type it is."""
    if k is None:
        return None
    try:
        return operator.index(k)
    except TypeError:
        raise EeveeError(f"k is {k!r:.60}; expected a whole number of benchmarks") from None


class Space:
    """All feasible subsets of one table, as sorted tuples of benchmark positions; what cannot be met is refused."""

    def __init__(self, table: ResultTable, constraints: Constraints) -> None:
        self.constraints = constraints
        self.ids = table.benchmark_ids
        count = len(self.ids)
        measured = table.positions(constraints.given)
        self.include = tuple(sorted({*measured, *table.positions(constraints.include)}))
        excluded = table.positions(constraints.exclude)
        clash = [self.ids[i] for i in self.include if i in excluded]
        if clash:
            raise EeveeError(f"benchmark {clash[0]!r} is both included and excluded")
        self.pool = tuple(i for i in range(count) if i not in excluded)
        self.k, self.budget = _whole(constraints.k), constraints.budget
        if self.k is not None and measured:
            if not 1 <= self.k <= len(self.pool) - len(measured):
                raise EeveeError(
                    f"k is {self.k}; expected 1 to {len(self.pool) - len(measured)}, the number of benchmarks to "
                    f"choose from besides the {len(measured)} that are given"
                )
            self.k += len(measured)
        if self.k is None and self.budget is None:
            raise EeveeError("neither k nor a budget is given; expected at least one of them")
        if self.k is not None and not 1 <= self.k <= len(self.pool):
            raise EeveeError(f"k is {self.k}; expected 1 to {len(self.pool)}, the number of benchmarks to choose from")
        if self.k is not None and len(self.include) > self.k:
            raise EeveeError(f"{len(self.include)} benchmarks must be included, but k is {self.k}")
        self.costs = [0.0] * count
        if self.budget is not None:
            if math.isnan(self.budget) or self.budget <= 0:
                raise EeveeError(f"the budget is {self.budget}; expected a number > 0")
            if any(b.cost is None for i, b in enumerate(table.benchmarks) if i not in measured):
                table.costs  # noqa: B018  # raises, with the benchmark's name
            self.costs = [0.0 if i in measured else b.cost or 0.0 for i, b in enumerate(table.benchmarks)]
        self.families = [b.family if constraints.one_per_family else b.id for b in table.benchmarks]
        self.tasks = [b.task for b in table.benchmarks]
        tasks = sorted({task for task in self.tasks if task})
        self.cover = tuple(tasks) if constraints.cover == ("all",) else constraints.cover
        for task in self.cover:
            if task not in tasks:
                raise EeveeError(f"unknown task {task!r} to cover; the table has: {', '.join(tasks) or 'none'}")
        self.free = self.budget is None and not self.cover and not constraints.one_per_family
        self.swappable = tuple(i for i in self.pool if i not in self.include)
        least = self._cheapest(self.include)
        if least is None:
            raise EeveeError(f"no subset satisfies {self._words()}")
        if self.budget is not None and self._cost(least) > self.budget + 1e-9:
            names = ", ".join(self.ids[i] for i in least)
            raise EeveeError(
                f"the budget is {self.budget:g}, but the cheapest feasible subset costs {self._cost(least):g} ({names})"
            )

    def feasible(self, candidate: Sequence[int]) -> bool:
        """Whether a subset satisfies every constraint."""
        chosen = set(candidate)
        if len(chosen) != len(candidate) or not chosen or not chosen <= set(self.pool):
            return False
        if not chosen >= set(self.include) or (self.k is not None and len(chosen) != self.k):
            return False
        if len({self.families[i] for i in chosen}) < len(chosen):
            return False
        if not set(self.cover) <= {self.tasks[i] for i in chosen}:
            return False
        return self.budget is None or self._cost(candidate) <= self.budget + 1e-9

    def completable(self, partial: Sequence[int]) -> bool:
        """Whether more benchmarks can be added to a subset so that it becomes feasible."""
        if self.free:
            return self.k is None or len(partial) <= self.k
        if len({self.families[i] for i in partial}) < len(partial):
            return False
        least = self._cheapest(tuple(partial))
        return least is not None and (self.budget is None or self._cost(least) <= self.budget + 1e-9)

    def additions(self, partial: Candidate) -> list[Candidate]:
        """Every subset with one more benchmark that can still become feasible."""
        grown = [tuple(sorted((*partial, i))) for i in self.swappable if i not in partial]
        return [candidate for candidate in grown if self.completable(candidate)]

    def swaps(self, candidate: Candidate, out: int) -> list[Candidate]:
        """Every feasible subset with benchmark `out` replaced by another."""
        remaining = [i for i in candidate if i != out]
        swapped = [tuple(sorted((*remaining, i))) for i in self.swappable if i not in candidate]
        return swapped if self.free else [c for c in swapped if self.feasible(c)]

    def draw(self, generator: random.Random) -> Candidate:
        """A random feasible subset: uniform over all of them with k alone; otherwise built up at random.

        Numerics: with tight constraints, where 200 draws in a row are infeasible, a random walk of swaps from the
            cheapest
        feasible subset; its distribution is close to uniform, not exactly so.
        """
        for _ in range(DRAWS):
            if self.k is not None:
                room = self.k - len(self.include)
                candidate = tuple(sorted((*self.include, *generator.sample(self.swappable, room))))
            else:
                candidate = self._filled(self.include, generator)
            if self.free or self.feasible(candidate):
                return candidate
        candidate = self._cheapest(self.include) or ()
        for _ in range(20 * max(1, len(candidate))):
            candidate = self.mutated(candidate, generator)
        return candidate

    def mutated(self, candidate: Candidate, generator: random.Random) -> Candidate:
        """A feasible subset with one benchmark replaced at random (algorithm 2); without k also one more or one fewer.

        The candidate itself comes back where 200 draws find no feasible replacement.
        """
        members = set(candidate)
        outs = [i for i in candidate if i not in self.include] if self.include else list(candidate)
        ins = len(self.swappable) - len(outs)
        for _ in range(DRAWS):
            move = "swap" if self.k is not None else generator.choice(("swap", "grow", "shrink"))
            if (move != "grow" and not outs) or (move != "shrink" and not ins):
                continue
            mutable = list(candidate)
            if move != "grow":
                mutable.remove(generator.choice(outs))
            if move != "shrink":
                added = generator.choice(self.swappable)
                while added in members:
                    added = generator.choice(self.swappable)
                mutable.append(added)
            mutant = tuple(sorted(mutable))
            if self.free or self.feasible(mutant):
                return mutant
        return candidate

    def upper_count(self) -> int:
        """Number of subsets that an exhaustive search looks at."""
        n = len(self.swappable)
        return 2**n if self.k is None else math.comb(n, self.k - len(self.include))

    def every(self) -> Iterator[Candidate]:
        """All feasible subsets, in order."""
        n = len(self.swappable)
        sizes = range(n + 1) if self.k is None else (self.k - len(self.include),)
        for size in sizes:
            for extra in itertools.combinations(self.swappable, size):
                candidate = extra if not self.include else tuple(sorted((*self.include, *extra)))
                if self.free or self.feasible(candidate):
                    yield candidate

    def _filled(self, start: Candidate, generator: random.Random) -> Candidate:
        chosen = list(start)
        for i in generator.sample(self.swappable, len(self.swappable)):
            if self.completable((*chosen, i)):
                chosen.append(i)
        return tuple(sorted(chosen))

    def _cost(self, candidate: Sequence[int]) -> float:
        return sum(self.costs[i] for i in candidate)

    def _cheapest(self, start: Candidate) -> Candidate | None:
        """The cheapest feasible superset, budget aside; None where there is none."""
        if len({self.families[i] for i in start}) < len(start) or (self.k is not None and len(start) > self.k):
            return None
        by_cost = sorted((i for i in self.swappable if i not in start), key=lambda i: (self.costs[i], i))
        least: tuple[float, Candidate] | None = None
        open_tasks = [task for task in self.cover if task not in {self.tasks[i] for i in start}]

        def fill(chosen: list[int]) -> Candidate | None:
            want = self.k if self.k is not None else max(1, len(chosen))
            used = {self.families[i] for i in chosen}
            for i in by_cost:
                if len(chosen) >= want:
                    break
                if i not in chosen and self.families[i] not in used:
                    chosen = [*chosen, i]
                    used.add(self.families[i])
            return tuple(sorted(chosen)) if len(chosen) == want else None

        def cover(chosen: list[int], tasks: list[str]) -> None:
            nonlocal least
            tasks = [task for task in tasks if task not in {self.tasks[i] for i in chosen}]
            if least is not None and self._cost(chosen) >= least[0]:
                return
            if not tasks:
                complete = fill(chosen)
                if complete is not None and (least is None or self._cost(complete) < least[0]):
                    least = (self._cost(complete), complete)
                return
            used = {self.families[i] for i in chosen}
            options = [i for i in by_cost if self.tasks[i] == tasks[0] and self.families[i] not in used]
            for i in options:
                cover([*chosen, i], tasks[1:])
                if not self.constraints.one_per_family:
                    return  # without families the cheapest of a task is as good as any

        cover(list(start), open_tasks)
        return None if least is None else least[1]

    def _words(self) -> str:
        settings = {key: value for key, value in self.constraints.to_dict().items() if value not in (None, (), False)}
        return ", ".join(f"{key}={value}" for key, value in settings.items())
