"""Pickles of plain values and NumPy arrays, interpreted here: nothing that a file asks for is ever called.

Python's own unpickler is not used, not even a restricted one: the array's state would still be NumPy's to set. The
opcodes of a file are read one by one, and those that build lists, tuples, dictionaries, numbers, texts and arrays of
numbers are carried out; every other one is refused.
"""

from __future__ import annotations

import io
import math
import pickletools
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from gate_data.errors import DataError

DTYPES = frozenset(("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "b1"))
"""Kinds of numbers that arrays may hold; never objects."""
_KEYS = (str, bytes, int, float)
_ALLOWED = {
    "numpy.ndarray", "numpy.dtype", "_codecs.encode", "collections.OrderedDict",
    *(f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *(f"numpy.{core}.numeric._frombuffer" for core in ("core", "_core")),
}  # fmt: skip
_PUSHED = frozenset(
    ("INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
     "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES",
     "BINBYTES8", "BYTEARRAY8")
)  # fmt: skip
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_PASSED = frozenset(("PROTO", "FRAME"))


class _RefusedError(Exception):
    """What the file holds is not plain data."""


class _Name:
    """Something that the file names; it is only ever compared, never looked up."""

    def __init__(self, name: str) -> None:
        if name not in _ALLOWED:
            raise _RefusedError(f"it asks for {name}, which is not allowed")
        self.name = name


class _Kind:
    """A dtype in the making."""

    def __init__(self, code: Any) -> None:
        if not isinstance(code, str) or code.lstrip("<>=|") not in DTYPES:
            raise _RefusedError(f"it holds an array of {code!r}, expected numbers")
        self.code = code.lstrip("<>=|")
        self.order = code[0] if code[0] in "<>" else "<"

    def build(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
            raise _RefusedError("a dtype without its byte order")
        self.order = ">" if state[1] == ">" else "<"


class _Array:
    """An array in the making."""

    value: np.ndarray | None = None

    def build(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise _RefusedError("an array without its state")
        self.value = _array(state[4], state[2], state[1], "F" if state[3] else "C")


def load(file: BinaryIO | bytes, name: str) -> Any:
    r"""The one value of a pickle.

    Args:
        file: open for reading, or the bytes.
        name: what errors call it.

    Returns:
        Lists, tuples, dictionaries with plain keys, numbers, texts, bytes, and arrays of numbers. Texts of Python 2 are
        read as Latin-1.

    Raises:
        DataError: it is cut short, or holds or asks for anything else.

    Example:
        >>> import pickle
        >>> load(pickle.dumps({"data": np.arange(3)}), "a.pkl")["data"].tolist()
        [0, 1, 2]
        >>> load(b"cos\nsystem\n(S'echo no'\ntR.", "a.pkl")
        Traceback (most recent call last):
        gate_data.errors.DataError: a.pkl is no pickle of arrays: it asks for os.system, which is not allowed
    """
    stream = io.BytesIO(file) if isinstance(file, bytes) else file
    try:
        return _finished(_Machine().run(stream))
    except _RefusedError as error:
        raise DataError(f"{name} is no pickle of arrays: {error}") from error
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise DataError(f"{name} is no whole pickle: {error}") from error


class _Machine:
    """A pickle's stack and memory."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, stream: BinaryIO) -> Any:
        operations: Callable[[Any], Any] = pickletools.genops  # typeshed asks for its own protocol of readers
        for operation, argument, _ in operations(stream):
            name = operation.name
            if name in _PUSHED:
                self.stack.append(argument)
            elif name in _STEPS:
                _STEPS[name](self, argument)
            elif name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            elif name == "STOP":
                return self.stack.pop()
            elif name not in _PASSED:
                raise _RefusedError(f"it uses {name}, which plain data does not need")
        raise ValueError("it does not end")

    def above(self) -> list[Any]:
        """Take what lies above the last mark."""
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def take(self, count: int) -> tuple[Any, ...]:
        """Take the last values."""
        if len(self.stack) < count:
            raise IndexError("the stack is empty")
        items = tuple(self.stack[-count:])
        del self.stack[-count:]
        return items

    def name(self, name: str) -> None:
        self.stack.append(_Name(name))

    def named(self) -> None:
        module, name = self.take(2)
        self.name(f"{module}.{name}")

    def remember(self, key: int) -> None:
        self.memo[key] = self.stack[-1]

    def append(self, values: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise TypeError(f"values for a list are put into a {type(self.stack[-1]).__name__}")
        self.stack[-1].extend(values)

    def new_dict(self) -> None:
        values = self.above()
        self.stack.append({})
        self.set_items(values)

    def set_items(self, values: list[Any]) -> None:
        into = self.stack[-1]
        if not isinstance(into, dict) or len(values) % 2:
            raise TypeError(f"pairs for a dictionary are put into a {type(into).__name__}")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, _KEYS):
                raise _RefusedError(f"a key is a {type(key).__name__}, expected text or a number")
            into[key] = value

    def reduce(self) -> None:
        called, arguments = self.take(2)
        if not isinstance(called, _Name) or not isinstance(arguments, tuple):
            raise _RefusedError("it calls what is no name")
        self.stack.append(_made(called.name.rpartition(".")[2], arguments))

    def build(self) -> None:
        (state,) = self.take(1)
        if not isinstance(self.stack[-1], _Kind | _Array):
            raise _RefusedError(f"it sets the state of a {type(self.stack[-1]).__name__}")
        self.stack[-1].build(state)


_STEPS: dict[str, Callable[[_Machine, Any], object]] = {
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "EMPTY_LIST": lambda m, _: m.stack.append([]),
    "EMPTY_DICT": lambda m, _: m.stack.append({}),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()),
    "LIST": lambda m, _: m.stack.append(m.above()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.above())),
    "TUPLE1": lambda m, _: m.stack.append(m.take(1)),
    "TUPLE2": lambda m, _: m.stack.append(m.take(2)),
    "TUPLE3": lambda m, _: m.stack.append(m.take(3)),
    "DICT": lambda m, _: m.new_dict(),
    "APPEND": lambda m, _: m.append(list(m.take(1))),
    "APPENDS": lambda m, _: m.append(m.above()),
    "SETITEM": lambda m, _: m.set_items(list(m.take(2))),
    "SETITEMS": lambda m, _: m.set_items(m.above()),
    "MEMOIZE": lambda m, _: m.remember(len(m.memo)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda m, key: m.remember(key)),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda m, key: m.stack.append(m.memo[key])),
    "GLOBAL": lambda m, name: m.name(name.replace(" ", ".")),
    "STACK_GLOBAL": lambda m, _: m.named(),
    "REDUCE": lambda m, _: m.reduce(),
    "BUILD": lambda m, _: m.build(),
    "POP": lambda m, _: m.take(1),
    "POP_MARK": lambda m, _: m.above(),
}


def _made(name: str, arguments: tuple[Any, ...]) -> Any:
    """What one of the allowed names would have made."""
    match name, arguments:
        case "dtype", (code, *_):
            return _Kind(code)
        case "_reconstruct", (_Name(), *_):
            return _Array()
        case "_frombuffer", (raw, _Kind() as kind, shape, order):
            array = _Array()
            array.value = _array(raw, kind, shape, order)
            return array
        case "scalar", (_Kind() as kind, raw):
            return _array(raw, kind, (), "C").item()
        case "encode", (str(text), "latin1" | "latin-1"):
            return text.encode("latin-1")
        case "OrderedDict", ():
            return {}
    raise _RefusedError(f"it calls {name} with {len(arguments)} arguments of other kinds than NumPy writes")


def _array(raw: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
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
        raise _RefusedError(f"an array of the shape {str(shape)[:80]}")
    dtype = np.dtype(kind.order + kind.code)
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise _RefusedError(f"an array of the shape {shape} and {dtype} over {len(raw)} bytes")
    flat = np.frombuffer(raw, dtype)
    return flat.reshape(shape, order=order)


def _finished(value: Any) -> Any:
    """The value with its arrays; containers are changed in place, each once, however they refer to one another."""
    holder = [value]
    waiting: list[Any] = [holder]
    visited = {id(holder)}
    while waiting:
        container = waiting.pop()
        places = range(len(container)) if isinstance(container, list) else list(container)
        for index in places:
            plain = _plain(container[index])
            container[index] = plain
            if isinstance(plain, list | dict) and id(plain) not in visited:
                visited.add(id(plain))
                waiting.append(plain)
    return holder[0]


def _plain(value: Any) -> Any:
    if isinstance(value, _Array):
        if value.value is None:
            raise _RefusedError("an array without its values")
        return value.value
    if isinstance(value, _Name | _Kind):
        raise _RefusedError("a name or a kind of numbers where data is expected")
    if isinstance(value, tuple) and any(not isinstance(item, _KEYS) and item is not None for item in value):
        raise _RefusedError("a tuple of anything but numbers and texts")
    return value


def whole_numbers(numbers: Any, where: str) -> np.ndarray:
    """A list or an array of a pickle as one axis of whole numbers.

    Example:
        >>> whole_numbers([3, 4], "labels").tolist()
        [3, 4]
    """
    try:
        values = np.asarray(numbers if len(numbers) else np.zeros(0, np.int64))
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: {error}") from error
    if values.ndim != 1 or values.dtype.kind not in "iu":
        first = next(
            (number for number in numbers if isinstance(number, bool) or not isinstance(number, int)), numbers[0]
        )
        raise DataError(f"{where} holds {first!r:.40}, expected whole numbers of 64 bits")
    return values.astype(np.int64)
