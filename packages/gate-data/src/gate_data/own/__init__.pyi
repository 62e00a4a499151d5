"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .columns import Guess as Guess
from .guessing import benchmark_text as benchmark_text
from .guessing import guess as guess
from .guessing import values_at as values_at
from .guessing import write_benchmark as write_benchmark
from .originals import originals_from as originals_from
from .originals import originals_of as originals_of
from .reading import read_benchmark as read_benchmark
from .spec import OwnBenchmark as OwnBenchmark
from .summarising import summary as summary
