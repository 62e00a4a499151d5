"""From a suite's original files, or from the micro world, to a benchmark's data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eqben_builder.stand_ins.drawing import split_seed
from eqben_builder.suites import SUITES, Suite, SuiteData, micro_suite, read_suite
from eqben_builder.suites.files import Files
from gate_data.data import Data, Split
from gate_data.original_files import Originals
from gate_data.request import DataRequest, Size
from gate_runner.errors import DataError
from gate_runner.stand_ins import NOTE
from gate_runner.suites.questions import QuestionPictures, Questions

_MICRO_PAIRS = 60
_PER_PAIR = 15
"""Questions of a micro pair of each kind: five shapes, three kinds."""


def originals_of(suite: Suite) -> Originals[Path]:
    """How a suite's files are found and read."""

    def find(root: Path) -> Path:
        # The first row is read and no more. In a folder of the suite's name a wrong row is said when all are read; in
        # the root itself, where other things may lie, it is no sign of the suite.
        try:
            next(iter(suite.read(Files(root, suite.id))), None)
        except FileNotFoundError as error:
            raise DataError(str(error)) from error
        except (ValueError, OSError, ImportError) as error:
            if not (root / suite.id).is_dir():
                raise DataError(str(error)) from error
        return root

    def read(root: Path, limit: int | None) -> SuiteData:
        try:
            return read_suite(suite, root, limit=limit)
        except (ValueError, OSError, ImportError) as error:
            raise DataError(str(error)) from error

    def check(root: Path) -> None:
        read(root, None)

    def load(root: Path, request: DataRequest) -> Data[Any]:
        data = read(root, request.limit)
        return as_data(data, request.size, "; ".join(data.notes))

    return Originals(suite.expected, find, check, load)


def as_data(data: SuiteData, size: Size, note: str) -> Data[Questions]:
    """Questions as the test split of a benchmark; nothing is learnt from them."""
    pictures = QuestionPictures(tuple(row.images for row in data.rows), size)
    test = Split(pictures, Questions(data))
    nothing = Split(pictures.take([]), Questions(data._replace(rows=[])))
    return Data(nothing, nothing, test, tuple(dict.fromkeys(row.subset for row in data.rows)), note)


def every_shape(request: DataRequest) -> Data[Questions]:
    """The micro world's suite, with questions of every shape."""
    count = request.cap(_MICRO_PAIRS * _PER_PAIR)
    suite = micro_suite(pairs=-(-count // _PER_PAIR), seed=split_seed("compositional", "test"))
    return as_data(suite._replace(rows=suite.rows[:count]), request.size, NOTE)


_ORIGINALS = {name.replace("-", "_"): originals_of(suite) for name, suite in SUITES.items()}


def __getattr__(name: str) -> Any:
    """``gate_runner.suites.loading:sugarcrepe`` and the like, which benchmarks name: a suite's `Originals`."""
    if name not in _ORIGINALS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _ORIGINALS[name]
