"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .__about__ import __version__ as __version__
from .api import Run as Run
from .api import adapt as adapt
from .api import plan as plan
from .api import run as run
from .benchmarks import BENCHMARKS as BENCHMARKS
from .benchmarks import PACKS as PACKS
from .benchmarks import Benchmark as Benchmark
from .choosing.choice import choose as choose
from .comparison import Comparison as Comparison
from .comparison import Contrast as Contrast
from .comparison import compare as compare
from .comparison.forecasting import forecast as forecast
from .comparison.power import power as power
from .exporting import export as export
from .importing import import_scores as import_scores
from .monitoring import Monitor as Monitor
from .planning import Plan as Plan
from .reports import report as report
from .runs import Result as Result
from .settings.record import Settings as Settings
