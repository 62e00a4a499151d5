"""A data set's own pickles of plain values and NumPy arrays: an allow-list, whose names stand for makers of our own.

The unpickler is Python's slow one: the fast one makes room for as many remembered values as a file claims. NumPy's own
`ndarray.__setstate__` is not among the makers, for what a file gives it is NumPy's to trust.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

DTYPES = frozenset(kind for letter, sizes in (("u", "1248"), ("i", "1248"), ("f", "248"), ("b", "1")) for kind in
                   (f"{letter}{size}" for size in sizes))  # fmt: skip
"""Kinds of numbers that arrays may hold; never objects."""
_KEYS = (str, bytes, int, float)


class _RefusedError(Exception):
    """What the file holds is not plain data."""


def load(content: bytes, name: str) -> Any:
    r"""The one value of a pickle."""
    try:
        unpickler = _Unpickler(io.BytesIO(content), encoding="latin1")
        unpickler.room = 2 * len(content)
        return _with_arrays(unpickler.load())
    except _RefusedError as error:
        raise ValueError(f"{name} is no pickle of arrays: {error}") from error
    except Exception as error:  # a broken file makes Python's unpickler raise errors of every kind
        raise ValueError(f"{name} is no whole pickle: {error}") from error


class _Unpickler(pickle._Unpickler):
    """Names lead to the makers below, and nowhere else; what takes values by their hash is checked, or gone."""

    stack: list[Any]
    room: int
    """For bytes that are copied: a file holds them as text and as an array, yet could ask for the same for ever."""

    def find_class(self, module: str, name: str) -> Any:
        maker = _MAKERS.get(f"{module}.{name}")
        if maker is None:
            raise _RefusedError(f"it asks for {module}.{name}, which is not allowed")
        return maker

    def load_bytearray(self) -> None:
        """As many bytes as there are: Python's own way first makes room for as many as the file claims."""
        self.stack.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))  # type: ignore[attr-defined]

    def load_items(self) -> None:
        self._set(self.pop_mark())  # type: ignore[attr-defined]

    def load_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def load_dict(self) -> None:
        items = self.pop_mark()  # type: ignore[attr-defined]
        self.stack.append({})
        self._set(items)

    def _set(self, items: list[Any]) -> None:
        """Pairs for the dictionary on the stack; a tuple in a tuple in … as a key would end the process."""
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, _KEYS) or not isinstance(self.stack[-1], dict):
                raise _RefusedError(f"a key is a {type(key).__name__}, expected text or a number of a dictionary")
            self.stack[-1][key] = value

    def load_call(self) -> None:
        pickle._Unpickler.load_reduce(self)  # type: ignore[attr-defined]
        self._count()

    def load_state(self) -> None:
        pickle._Unpickler.load_build(self)  # type: ignore[attr-defined]
        self._count()

    def _count(self) -> None:
        made = self.stack[-1].values if isinstance(self.stack[-1], _Array) else self.stack[-1]
        self.room -= made.nbytes if isinstance(made, np.ndarray) else len(made) if isinstance(made, bytes) else 0
        if self.room < 0:
            raise _RefusedError("it copies the same bytes again and again")

    dispatch: ClassVar[dict[int, Any]] = pickle._Unpickler.dispatch | {
        pickle.BYTEARRAY8[0]: load_bytearray,
        pickle.SETITEM[0]: load_item,
        pickle.SETITEMS[0]: load_items,
        pickle.DICT[0]: load_dict,
        pickle.REDUCE[0]: load_call,
        pickle.BUILD[0]: load_state,
    }
    for _set_of_values in (pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET):
        del dispatch[_set_of_values[0]]


class _Maker:
    """What a name stands for: it can be called, and its state cannot be set, which a function's could."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make

    def __call__(self, *arguments: Any) -> Any:
        return self.make(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise _RefusedError("it sets the state of what it names")


class _Kind:
    """A dtype in the making."""

    __slots__ = ("code", "order")

    def __init__(self, code: Any, *_: Any) -> None:
        if not isinstance(code, str) or code.lstrip("<>=|") not in DTYPES:
            what = f"{code!r:.80}" if isinstance(code, _KEYS) else f"a {type(code).__name__}"
            raise _RefusedError(f"it holds an array of {what}, expected numbers")
        self.code = code.lstrip("<>=|")
        self.order = code[0] if code[0] in "<>" else "<"

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
            raise _RefusedError("a dtype without its byte order")
        self.order = ">" if state[1] == ">" else "<"


class _Array:
    """An array in the making."""

    __slots__ = ("values",)

    def __init__(self, values: np.ndarray | None = None) -> None:
        self.values = values

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise _RefusedError("an array without its state")
        self.values = _values(state[4], state[2], state[1], "F" if state[3] else "C")


def _values(raw: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
    """An array over the file's own bytes, after its size was checked."""
    if isinstance(raw, str):
        raw = raw.encode("latin-1")
    if not isinstance(raw, bytes | bytearray) or not isinstance(kind, _Kind) or order not in ("C", "F"):
        raise _RefusedError("an array whose values are not bytes of numbers")
    if (
        not isinstance(shape, tuple)
        or len(shape) > 8
        or not all(type(side) is int and 0 <= side < 2**40 for side in shape)
    ):
        raise _RefusedError("an array of a shape that is none")
    dtype = np.dtype(kind.order + kind.code)
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise _RefusedError(f"an array of the shape {shape} and {dtype} over {len(raw)} bytes")
    return np.frombuffer(raw, dtype).reshape(shape, order=order)


def _encoded(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _RefusedError("bytes that are not written as Latin-1")
    return text.encode("latin-1")


def _empty() -> dict[str, Any]:
    """A dictionary without items; `dict` itself would take any, with keys of any depth."""
    return {}


_MAKERS = {
    "numpy.ndarray": _Maker(lambda *_: _Array()),
    "numpy.dtype": _Maker(_Kind),
    "_codecs.encode": _Maker(_encoded),
    "collections.OrderedDict": _Maker(_empty),
}
for _core in ("core", "_core"):
    _MAKERS[f"numpy.{_core}.multiarray._reconstruct"] = _Maker(lambda *_: _Array())
    _MAKERS[f"numpy.{_core}.multiarray.scalar"] = _Maker(lambda kind, raw: _values(raw, kind, (), "C").item())
    _MAKERS[f"numpy.{_core}.numeric._frombuffer"] = _Maker(lambda *state: _Array(_values(*state)))


def _with_arrays(value: Any) -> Any:
    """The value with its arrays; containers are changed in place, each once, however they refer to one another."""
    holder = [value]
    waiting: list[Any] = [holder]
    visited = {id(holder)}
    while waiting:
        container = waiting.pop()
        for index in range(len(container)) if isinstance(container, list) else list(container):
            if not isinstance(index, _KEYS):
                raise _RefusedError(f"a key is a {type(index).__name__}, expected text or a number")
            member = _plain(container[index])
            container[index] = member
            if isinstance(member, list | dict) and id(member) not in visited:
                visited.add(id(member))
                waiting.append(member)
    return holder[0]


def _plain(value: Any) -> Any:
    if isinstance(value, _Array) and value.values is not None:
        return value.values
    if isinstance(value, tuple) and any(not isinstance(member, _KEYS) and member is not None for member in value):
        raise _RefusedError("a tuple of anything but numbers and texts")
    if value is not None and not isinstance(value, (*_KEYS, tuple, list, dict)):
        raise _RefusedError(f"a {type(value).__name__.strip('_').lower()} where data is expected")
    return value
