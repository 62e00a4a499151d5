"""Reading a data set's own pickle files without running what they say."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

_NUMPY = {
    ("multiarray", "_reconstruct"),
    ("multiarray", "scalar"),
    ("numeric", "_frombuffer"),
}
_PLAIN = {("numpy", "ndarray"), ("numpy", "dtype"), ("collections", "OrderedDict")}


def load_plain_pickle(path: Path) -> Any:
    """Read a pickle of dictionaries, lists, numbers, texts and NumPy arrays, and nothing else.

    Args:
        path: The file.

    Returns:
        What it holds.

    Raises:
        ValueError: The file, and the name in it that is not allowed, or where it breaks off.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.pkl"
        ...     _ = path.write_bytes(pickle.dumps({"frame": [1.5, None]}))
        ...     load_plain_pickle(path)
        {'frame': [1.5, None]}
    """
    try:
        return _Plain(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise ValueError(f"{path}: {error}") from error
    except (EOFError, IndexError, KeyError, AttributeError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is no whole pickle file: {error}") from error


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        place = module.removeprefix("numpy._core.").removeprefix("numpy.core.")
        if (module, name) in _PLAIN or (place != module and (place, name) in _NUMPY):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"the file asks for {module}.{name}, which data has no need of")


def _latin1(text: str, encoding: str) -> bytes:
    """What arrays pickled by the second protocol need of `_codecs.encode`."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"the file asks for the encoding {encoding!r}")
    return text.encode("latin1")
