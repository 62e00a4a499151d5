"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .__about__ import __version__ as __version__
from .cards import ICINW as ICINW
from .cards import SHEETS as SHEETS
from .cards import Hub as Hub
from .cards import IcinwSheet as IcinwSheet
from .cards import Sheet as Sheet
from .checking import Found as Found
from .checking import check as check
from .checking import check_data as check_data
from .data import Data as Data
from .data import Split as Split
from .loading import SplitDataset as SplitDataset
from .loading import Splits as Splits
from .loading import load as load
from .naming import data_sets as data_sets
from .own import OwnBenchmark as OwnBenchmark
from .own import guess as guess
from .own import read_benchmark as read_benchmark
from .set_statistics import statistics as statistics
from .shards import write_webdataset as write_webdataset
