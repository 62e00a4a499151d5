"""Pickles of plain values and NumPy arrays, as CIFAR is handed out and as joblib writes them, by an allow-list.

The unpickler is Python's slow one, with the operations that plain data needs: the fast one makes room for as many
remembered values as a file claims. A name in the file leads to a maker of our own, or is refused; an array's state is
checked before NumPy, which trusts it, sees it.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any, BinaryIO, ClassVar

import numpy as np

from wary_files.errors import DataError

_DTYPES = frozenset(("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "b1"))
"""Kinds of numbers that arrays may hold; never objects."""
_KEYS = (str, bytes, int, float)
_OPERATIONS = (
    "PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "NONE", "NEWTRUE", "NEWFALSE", "INT", "LONG", "LONG1", "LONG4",
    "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "EMPTY_LIST", "LIST",
    "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_DICT", "PUT", "BINPUT",
    "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET", "GLOBAL", "STACK_GLOBAL",
)  # fmt: skip


_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x04\x22\x4d\x18", b"x\x01", b"x\x9c", b"x\xda", b"x^")
"""How gzip, bzip2, xz, LZ4 and zlib begin, which joblib takes for ``compress``; a pickle begins with none of them."""


class _RefusedError(Exception):
    """What the file holds is not plain data."""


def load(file: BinaryIO | bytes, name: str) -> Any:
    """The one value of a pickle, which errors call ``name``; texts of Python 2 are read as Latin-1.

    Arrays that ``joblib.dump`` wrote are among them; a compressed file is refused.
    """
    stream = io.BytesIO(file) if isinstance(file, bytes) else file
    try:
        stream.seek(0)
        if stream.read(5).startswith(_COMPRESSED):
            raise _RefusedError("it is compressed; joblib.dump(value, file, compress=0) writes it plainly")
        unpickler = _Unpickler(stream, encoding="latin1")
        unpickler.room = 2 * stream.seek(0, io.SEEK_END)
        stream.seek(0)
        return _plain(unpickler.load())
    except _RefusedError as error:
        raise DataError(f"{name} is no pickle of arrays: {error}") from error
    except Exception as error:  # Python's unpickler raises errors of every kind over broken files
        raise DataError(f"{name} is no whole pickle: {type(error).__name__} {error}") from error


class _Unpickler(pickle._Unpickler):
    """Carries out `_OPERATIONS`, and those below in a checked form."""

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
        self._count(self.stack[-1])

    def _count(self, made: Any) -> None:
        self.room -= made.nbytes if isinstance(made, np.ndarray) else len(made) if isinstance(made, bytes) else 0
        if self.room < 0:
            raise _RefusedError("it copies the same bytes again and again")

    def load_new(self) -> None:
        """The one kind of object that a file may ask for without a call: joblib's word on an array."""
        arguments, maker = self.stack.pop(), self.stack.pop()
        if maker is not _Wrapper or arguments != ():
            raise _RefusedError("it makes an object that is no array")
        self.stack.append(_Wrapper())

    def _inline(self, facts: dict[Any, Any]) -> np.ndarray:
        """The array whose numbers follow in the file, after as many bytes as align them; no more than there are."""
        kind, shape, order = facts.get("dtype"), facts.get("shape"), facts.get("order")
        if facts.get("subclass") != "ndarray" or not isinstance(kind, _Kind):
            raise _RefusedError("an array that is not of numbers")
        sides = _sides(shape)
        wanted = math.prod(sides) * np.dtype(kind.code).itemsize
        if wanted > self.room:
            raise _RefusedError(f"an array of the shape {sides} in a file that holds fewer numbers")
        if facts.get("numpy_array_alignment_bytes") is not None:
            self.read(self.read(1)[0])  # type: ignore[attr-defined]
        made = _array(self.read(wanted), kind, sides, order)  # type: ignore[attr-defined]
        self._count(made)
        return made

    def load_state(self) -> None:
        """The state of a kind of numbers, of which the order of bytes counts, of an array, or joblib's word on one."""
        state, built = self.stack.pop(), self.stack[-1]
        if isinstance(built, _Wrapper) and isinstance(state, dict):
            self.stack[-1] = self._inline(state)
            return
        if isinstance(built, _Kind) and isinstance(state, tuple) and len(state) > 1 and state[1] in tuple("<>|="):
            built.order = ">" if state[1] == ">" else "<"
        elif isinstance(built, np.ndarray) and isinstance(state, tuple) and len(state) == 5:
            raw = _raw(state[4])
            checked = _array(raw, state[2], state[1], "F" if state[3] else "C")
            numpy_state: Any = (1, checked.shape, checked.dtype, bool(state[3]), raw)
            self._count(checked)
            built.__setstate__(numpy_state)
        else:
            raise _RefusedError(f"it sets the state of a {type(built).__name__.strip('_').lower()}")

    dispatch: ClassVar[dict[int, Any]] = {
        getattr(pickle, code)[0]: pickle._Unpickler.dispatch[getattr(pickle, code)[0]] for code in _OPERATIONS
    }
    dispatch |= {
        pickle.BYTEARRAY8[0]: load_bytearray,
        pickle.SETITEM[0]: load_item,
        pickle.SETITEMS[0]: load_items,
        pickle.DICT[0]: load_dict,
        pickle.NEWOBJ[0]: load_new,
        pickle.REDUCE[0]: load_call,
        pickle.BUILD[0]: load_state,
    }


class _Wrapper:
    """joblib's word on an array in the making: its kind, shape and order; the numbers follow in the file."""


class _Kind:
    """A dtype in the making."""

    def __init__(self, code: Any, *_: Any) -> None:
        if not isinstance(code, str) or code.lstrip("<>=|") not in _DTYPES:
            raise _RefusedError(f"it holds an array of {_shown(code)}, expected numbers")
        self.code = code.lstrip("<>=|")
        self.order = code[0] if code[0] in "<>" else "<"


def _plain(value: Any) -> Any:
    """The value, if it holds numbers, texts, arrays, lists, dictionaries and tuples alone, and no tuple in a tuple."""
    waiting, visited = [value], {id(value)}
    while waiting:
        holder = waiting.pop()
        for member in holder.values() if isinstance(holder, dict) else holder if type(holder) in (list, tuple) else ():
            if type(holder) is tuple and type(member) is tuple:
                raise _RefusedError("a tuple in a tuple")
            if id(member) not in visited and not isinstance(member, _KEYS):
                visited.add(id(member))
                waiting.append(member)
        if holder is not None and not isinstance(holder, (*_KEYS, bytearray, tuple, list, dict, np.ndarray)):
            raise _RefusedError(f"a {type(holder).__name__.strip('_').lower()} where data is expected")
    return value


def _shown(value: Any) -> str:
    """Text or a number; a list in itself, or twice in a list that is twice in a list in …, has no end."""
    return f"{value!r:.40}" if value is None or isinstance(value, _KEYS) else f"a {type(value).__name__}"


def _array(raw: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
    """An array over the file's own bytes, after its size was checked."""
    raw = _raw(raw)
    if not isinstance(kind, _Kind) or order not in ("C", "F"):
        raise _RefusedError("an array that is not of numbers")
    sides = _sides(shape)
    dtype = np.dtype(kind.order + kind.code)
    if math.prod(sides) * dtype.itemsize != len(raw):
        raise _RefusedError(f"an array of the shape {shape} and {dtype} over {len(raw)} bytes")
    return np.frombuffer(raw, dtype).reshape(sides, order=order)


def _sides(shape: Any) -> tuple[int, ...]:
    """An array's shape, of at most eight sides below 2**40."""
    sides = shape if isinstance(shape, tuple) else (-1,)
    if len(sides) > 8 or not all(type(side) is int and 0 <= side < 2**40 for side in sides):
        raise _RefusedError("an array of a shape that is none")
    return sides


def _raw(values: Any) -> bytes:
    """An array's bytes, which NumPy under Python 2 wrote as text."""
    if not isinstance(values, str | bytes | bytearray):
        raise _RefusedError("an array whose values are not bytes of numbers")
    return values.encode("latin-1") if isinstance(values, str) else bytes(values)


def _encoded(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _RefusedError("bytes that are not written as Latin-1")
    return text.encode("latin-1")


def _empty() -> dict[str, Any]:
    """A dictionary without items; `dict` itself would take any, with keys of any depth."""
    return {}


_MAKERS: dict[str, Any] = {
    "numpy.ndarray": "ndarray",  # named, and never called
    "numpy.dtype": _Kind,
    "_codecs.encode": _encoded,
    "collections.OrderedDict": _empty,
    "joblib.numpy_pickle.NumpyArrayWrapper": _Wrapper,  # made by NEWOBJ alone
}
for _core in ("core", "_core"):
    _MAKERS[f"numpy.{_core}.multiarray._reconstruct"] = lambda *_: np.empty(0)
    _MAKERS[f"numpy.{_core}.multiarray.scalar"] = lambda kind, raw: _array(raw, kind, (), "C").item()
    _MAKERS[f"numpy.{_core}.numeric._frombuffer"] = _array


def whole_numbers(numbers: Any, where: str) -> np.ndarray:
    """A list or an array of a pickle as one axis of whole numbers."""
    listed = numbers if isinstance(numbers, list) else []
    odd = [number for number in listed if type(number) is not int or not -(2**63) <= number < 2**63]
    if odd:
        raise DataError(f"{where} holds {_shown(odd[0])}, expected whole numbers of 64 bits")
    values = np.asarray(numbers) if np.size(numbers) else np.zeros(0, np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise DataError(f"{where} holds {values.dtype} {values.shape}, expected whole numbers of 64 bits")
    return values.astype(np.int64)


def texts(names: Any, where: str) -> list[str]:
    """A list of a pickle as texts."""
    if not isinstance(names, list) or not all(isinstance(name, _KEYS) for name in names):
        raise DataError(f"{where} is not a list of texts")
    return [str(name) for name in names]
