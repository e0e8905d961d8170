"""Saving nested structures of numbers, arrays and a few known classes in one file, and reading them back bit for bit.

A file is an uncompressed ``.npz`` archive (``archives.py``): an entry ``header`` with the structure as JSON, and one entry
for each array that the JSON refers to. NumPy alone can read it. Nothing is pickled, so reading a file never runs code from
it.

Only classes named by the caller are written and read: dataclasses, named tuples, and classes with ``__getstate__`` and
``__setstate__``. Random generators are written as their state. Arrays that share memory are written once, and share memory
again when they are read.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from whichvars.data import archives
from whichvars.data.archives import PLAIN, Damaged
from whichvars.errors import DataError

# version of the format; increased when an older reader would misinterpret a file
VERSION = 1
# bytes of an array from which zeros at its end are left out, if `trim`
LONG = 1 << 16
BLOCK = 1 << 20
# a mapping gives other names than ``__name__``
Classes = Iterable[type] | Mapping[str, type]
_checks: dict[type, Callable[[Any], None]] = {}
_left_out: dict[type, tuple[str, ...]] = {}


def check_when_read(cls: type, check: Callable[[Any], None]) -> None:
    """Call `check` for every instance of this class that is read; it raises ``Damaged`` if something is wrong."""
    _checks[cls] = check


def leave_out_when_read(cls: type, *fields: str) -> None:
    """Skip fields that this class does not have any more. They are in files that earlier versions wrote."""
    _left_out[cls] = fields


def _by_name(classes: Classes) -> dict[str, type]:
    return dict(classes) if isinstance(classes, Mapping) else {c.__name__: c for c in classes}


def save(path: str | os.PathLike[str], kind: str, content: Any, classes: Classes, trim: bool = False) -> None:
    """Write a nested structure to a file.

    Parameters
    ----------
    path : path
        The file; an existing file is replaced.
    kind : str
        What the file contains; ``load`` must be given the same.
    content : nested structure
        Any nesting of None, booleans, numbers, text, lists, tuples, dicts, arrays of numbers, frames of numbers, sparse
        matrices (csr), random generators (PCG64DXSM) and instances of `classes`.
    classes : classes, or a mapping from names to classes
        The classes that are allowed.
    trim : bool
        Leave out the zeros at the end of long arrays; ``load`` must be told how many there may be.
    """
    write(path, prepare(kind, content, classes, trim))


class Prepared(NamedTuple):
    """A structure ready to be written."""

    header: bytes
    arrays: list[np.ndarray]


def prepare(
    kind: str, content: Any, classes: Classes, trim: bool = False, room: "Room | None" = None
) -> Prepared:
    """The first half of ``save``. With `room`, arrays are copied there, so that the originals may change before ``write``."""
    encoder = _Encoder(_by_name(classes), trim)
    tree = encoder.encode(content)
    header = json.dumps({"format": "whichvars", "version": VERSION, "kind": kind, "content": tree})
    return Prepared(header.encode(), encoder.arrays if room is None else room.copies(encoder.arrays))


class Room:
    """Memory that is reused for copies, because allocating new pages takes longer than copying."""

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)

    def copies(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Copies of the arrays in row-major order, valid until the next call."""
        starts = np.cumsum([0, *(-(-a.nbytes // 64) * 64 for a in arrays)])
        if starts[-1] > len(self.memory):
            self.memory = np.empty(2 * int(starts[-1]), np.uint8)  # unused pages take no memory
        copies = []
        for array, start in zip(arrays, starts):
            copy = self.memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            copy[...] = array
            copies.append(copy)
        return copies


class Leading(NamedTuple):
    """An array of which only the first `rows` are used; the others become zeros when it is read."""

    array: np.ndarray
    rows: int


def write(path: str | os.PathLike[str], prepared: Prepared, quick: bool = False) -> None:
    """The second half of ``save``; `quick` as in ``archives.write``."""
    header = np.frombuffer(prepared.header, np.uint8)
    arrays = {"header": header, **{f"array{i}": a for i, a in enumerate(prepared.arrays)}}
    archives.write(path, arrays, quick)


def digest_of(content: Any, classes: Classes) -> str:
    """SHA-256 of a structure: the same for structures that are equal to the last bit."""
    encoder = _Encoder(_by_name(classes), trim=False)
    digest = hashlib.sha256(json.dumps(encoder.encode(content)).encode())
    for array in encoder.arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")  # no copy
    return digest.hexdigest()


def load(path: str | os.PathLike[str], kind: str, classes: Classes, most_zeros: int = 0) -> Any:
    """Read a structure that ``save`` wrote. DataError if the file is damaged, of another kind or of a later version, or
    if more than `most_zeros` bytes of zeros were left out."""
    with archives.reading(path) as archive:
        header = json.loads(archive.array("header").tobytes())
        _check_header(header, kind, path)
        decoder = _Decoder(lambda index: archive.array(f"array{int(index)}"), _by_name(classes), most_zeros)
        return decoder.decode(header["content"])


def unpack(prepared: Prepared, kind: str, classes: Classes, most_zeros: int = 0) -> Any:
    """The structure that ``prepare`` was given, with new arrays; for structures that are sent instead of written."""
    header = json.loads(prepared.header)
    _check_header(header, kind, "the message")
    decoder = _Decoder(lambda index: prepared.arrays[index].copy(), _by_name(classes), most_zeros)
    return decoder.decode(header["content"])


def _check_header(header: Any, kind: str, path: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != "whichvars":
        raise Damaged("it has no whichvars header")
    if header["version"] > VERSION:
        raise DataError(
            f"{path} is in format {header['version']}; this version of whichvars reads up to {VERSION}: upgrade whichvars"
        )
    if header["kind"] != kind:
        raise DataError(f"{path} contains a {header['kind']}, not a {kind}")


# --- Values of JSON are written as they are. Everything else is an object with a single key, which is its type.


class _Encoder:
    """From the structure to JSON and arrays."""

    def __init__(self, known: dict[str, type], trim: bool) -> None:
        self.names = {cls: name for name, cls in known.items()}
        self.trim = trim
        self.arrays: list[np.ndarray] = []
        # for each block of memory (address, bytes): the index of its array, and the array that was encoded first
        self.places: dict[tuple[int, int], tuple[int, np.ndarray]] = {}

    def encode(self, value: Any) -> Any:
        inner = self.encode
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, Leading):
            return self._array(*value)
        if isinstance(value, np.generic):
            return {"scalar": self._keep(np.asarray(value))}
        if type(value) is list:
            if len(value) > 1 and all(type(v) is tuple for v in value):
                return _encode_ragged(value, inner)
            return [inner(v) for v in value]
        if type(value) is tuple:
            return {"tuple": [inner(v) for v in value]}
        if type(value) is dict:
            return {"dict": [[inner(k), inner(v)] for k, v in value.items()]}
        if isinstance(value, pd.DataFrame):
            return {"frame": _encode_frame(value, inner)}
        if isinstance(value, sparse.csr_array):
            parts = [inner(a) for a in (value.data, value.indices, value.indptr)]
            return {"sparse": [*parts, list(value.shape)]}
        if isinstance(value, np.random.Generator):
            return {"generator": _encode_generator(value)}
        if type(value) not in self.names:
            raise TypeError(
                f"cannot store {type(value).__name__!r}: it is not among the classes that are allowed"
            )
        return {"object": [self.names[type(value)], {k: inner(v) for k, v in _parts(value).items()}]}

    def _array(self, array: np.ndarray, rows: int | None = None) -> Any:
        if not (array.flags.c_contiguous and array.size):
            return {"array": self._keep(array)}
        memory = (array.ctypes.data, array.nbytes)
        if memory in self.places:
            return {"view": [self.places[memory][0], array.dtype.str, list(array.shape)]}
        end = array.size if rows is None else rows * (array.size // len(array))
        if self.trim and rows is None and array.nbytes >= LONG:
            end = _last_number(array)
        # keep a reference to the array: its memory could otherwise be freed and reused by another array
        self.places[memory] = (self._keep(array if end == array.size else array.reshape(-1)[:end]), array)
        index = self.places[memory][0]
        return {"array": index} if end == array.size else {"padded": [index, list(array.shape)]}

    def _keep(self, array: np.ndarray) -> int:
        if array.dtype.kind not in PLAIN:
            raise TypeError(f"cannot store an array of {array.dtype}")
        self.arrays.append(array)
        return len(self.arrays) - 1


def _last_number(array: np.ndarray) -> int:
    """The length of an array without the zeros at its end. Bytes are compared, so that −0.0 does not count as zero."""
    raw = array.reshape(-1).view(np.uint8)
    end = len(raw)
    while end > 0 and not raw[max(end - BLOCK, 0) : end].any():
        end = max(end - BLOCK, 0)
    if end:
        end -= int((raw[max(end - BLOCK, 0) : end] != 0)[::-1].argmax())
    return -(-end // array.itemsize)


def _encode_generator(rng: np.random.Generator) -> list[int]:
    state: Any = rng.bit_generator.state
    if state["bit_generator"] != "PCG64DXSM":
        raise TypeError(f"cannot store a generator of kind {state['bit_generator']}")
    return [state["state"]["state"], state["state"]["inc"], state["has_uint32"], state["uinteger"]]


def _parts(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return value._asdict()  # type: ignore[attr-defined]
    return value.__getstate__()


def _encode_ragged(rows: list[tuple[Any, ...]], inner: Callable[[Any], Any]) -> Any:
    """Encode many tuples of whole numbers (models) as two arrays, and other lists of tuples item by item."""
    if not all(type(v) is int and abs(v) < 1 << 62 for row in rows for v in row):
        return [inner(row) for row in rows]
    flat = np.array([v for row in rows for v in row], np.int64)
    return {"tuples": [inner(flat), inner(np.array([len(row) for row in rows], np.int64))]}


def _encode_frame(frame: pd.DataFrame, inner: Callable[[Any], Any]) -> Any:
    if not frame.index.equals(pd.RangeIndex(len(frame))):
        raise TypeError("cannot store a frame whose rows are not numbered 0, 1, …")
    return [len(frame), [[inner(name), inner(frame[name].to_numpy())] for name in frame.columns]]


TAGS = ("float", "array", "view", "padded", "scalar", "tuple", "tuples", "dict", "frame", "sparse", "generator", "object")  # fmt: skip


class _Decoder:
    """From JSON and arrays to the structure."""

    def __init__(self, read: Callable[[int], np.ndarray], known: dict[str, type], most_zeros: int) -> None:
        self.read, self.known, self.zeros_left = read, known, most_zeros
        self.arrays: dict[int, np.ndarray] = {}

    def decode(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self.decode(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        ((tag, content),) = tree.items()
        if tag not in TAGS:
            raise Damaged(f"it contains something unknown, {tag!r}")
        return getattr(self, f"_{tag}")(content)

    def _float(self, text: str) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[text]

    def _array(self, index: int) -> np.ndarray:
        self.arrays[index] = self.read(index)
        return self.arrays[index]

    def _view(self, parts: list[Any]) -> np.ndarray:
        """A view of the memory of an array that was read before, possibly with another dtype."""
        index, kind, shape = parts
        dtype = np.dtype(str(kind))
        if dtype.kind not in PLAIN:
            raise Damaged("an array is not of numbers")
        return self.arrays[index].reshape(-1).view(dtype).reshape(shape)

    def _padded(self, parts: list[Any]) -> np.ndarray:
        """An array whose zeros at the end were left out; these take no memory until they are used."""
        index, shape = parts
        start = self._array(index)
        self.zeros_left -= (math.prod(shape) - len(start)) * start.itemsize
        if min(shape) < 0 or self.zeros_left < 0:
            raise Damaged("an array is longer than allowed")
        whole = np.zeros(shape, start.dtype)
        whole.reshape(-1)[: len(start)] = start
        self.arrays[index] = whole
        return whole

    def _generator(self, state: list[int]) -> np.random.Generator:
        number, step, has_half, half = map(int, state)
        bits = np.random.PCG64DXSM()
        bits.state = {
            "bit_generator": "PCG64DXSM",
            "state": {"state": number, "inc": step},
            "has_uint32": has_half,
            "uinteger": half,
        }
        return np.random.Generator(bits)

    def _scalar(self, index: int) -> Any:
        return self._array(index)[()]

    def _tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(self.decode(items))

    def _tuples(self, parts: list[Any]) -> list[tuple[int, ...]]:
        flat, lengths = (part.tolist() for part in self.decode(parts))
        ends = np.cumsum([0, *lengths]).tolist()
        if min(lengths) < 0 or ends[-1] != len(flat):
            raise Damaged("lengths of lists do not add up")
        return [tuple(flat[a:b]) for a, b in itertools.pairwise(ends)]

    def _dict(self, pairs: list[Any]) -> dict[Any, Any]:
        return {self.decode(k): self.decode(v) for k, v in pairs}

    def _frame(self, parts: list[Any]) -> pd.DataFrame:
        rows, columns = parts
        named = {self.decode(k): self.decode(v) for k, v in columns}
        return pd.DataFrame(named, index=pd.RangeIndex(rows))

    def _sparse(self, parts: list[Any]) -> sparse.csr_array:
        data, indices, indptr, shape = self.decode(parts)
        matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix

    def _object(self, content: list[Any]) -> Any:
        name, parts = content
        if name not in self.known:
            raise Damaged(f"it contains a {name!r}, which does not belong there")
        cls = self.known[name]
        state = {key: self.decode(value) for key, value in parts.items()}
        for key in _left_out.get(cls, ()):
            state.pop(key, None)
        if dataclasses.is_dataclass(cls) or issubclass(cls, tuple):
            return cls(**state)
        instance: Any = object.__new__(cls)
        instance.__setstate__(state)
        if cls in _checks:
            _checks[cls](instance)
        return instance
