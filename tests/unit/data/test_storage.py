"""Saved posteriors come back bit for bit, and files that are not what they should be are refused."""

import hashlib
import io
import json
import math
import os
import stat
import warnings
import zipfile
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import whichvars as wv
from support.cases import SLABS
from whichvars.data import archives, storage
from whichvars.errors import DataError
from whichvars.posterior.posterior import Models
from whichvars.problem import saving

SAMPLERS = {
    "asi": wv.ASI(chains=2),
    "parni": wv.PARNI(chains=2),
    "tempered-gibbs": wv.TemperedGibbs(),
    "hybrid": wv.Hybrid(chains=2),
    "add-delete-swap": wv.AddDeleteSwap(),
    "lamnisos": wv.Lamnisos(),
    "individual": wv.IndividualAdaptation(chains=2),
    "tempering": wv.ParallelTempering(rungs=3),
    "smc": wv.SequentialMonteCarlo(particles=100, steps=3),
}


def same(a: Any, b: Any) -> bool:
    """Whether two trees are equal to the last bit, NaN being equal to NaN, in types too."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return (
            a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        )
    if isinstance(a, pd.DataFrame):
        return a.equals(b)
    if sparse.issparse(a):
        return a.shape == b.shape and a.dtype == b.dtype and (a != b).nnz == 0
    if isinstance(a, wv.Problem):
        return same(a.__getstate__(), b.__getstate__())
    if is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    return bool(a == b)


@pytest.fixture(scope="module")
def data() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(7)
    X = pd.DataFrame(rng.normal(size=(30, 7)), columns=["a", "b", "c", "size", "Größe", "x y", "=z"])
    return X, X["a"].to_numpy() - X["c"].to_numpy() + rng.normal(size=30)


def make(data: Any, **options: Any) -> wv.Problem:
    X, y = data
    return wv.Problem(X, y, **options)


def there_and_back(posterior: wv.Posterior, tmp_path: Any) -> wv.Posterior:
    posterior.save(tmp_path / "posterior.npz")
    return wv.Posterior.load(tmp_path / "posterior.npz")


def check_answers(one: wv.Posterior, other: wv.Posterior, X: pd.DataFrame) -> None:
    assert same(one, other)
    pd.testing.assert_frame_equal(one.summary(), other.summary(), check_exact=True)
    pd.testing.assert_frame_equal(one.coefficients(), other.coefficients(), check_exact=True)
    pd.testing.assert_frame_equal(one.top_models(), other.top_models(), check_exact=True)
    for a, b in zip(
        one.predict(X, return_std=True, interval=0.9), other.predict(X, return_std=True, interval=0.9)
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_round_trips(name: str, data: Any, tmp_path: Any) -> None:
    sampler = SAMPLERS[name]
    size: dict[str, Any] = {} if name == "smc" else dict(draws=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = wv.sample(make(data), sampler, replicates=2, seed=3, progress=False, **size)
    check_answers(posterior, there_and_back(posterior, tmp_path), data[0])


@pytest.mark.parametrize("name", SLABS)
def test_every_slab_round_trips(name: str, data: Any, tmp_path: Any) -> None:
    posterior = wv.exact(make(data, slab=SLABS[name][0]))
    check_answers(posterior, there_and_back(posterior, tmp_path), data[0])


@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_every_part_of_a_problem_round_trips_and_can_be_sampled_again(
    engine: Any, data: Any, tmp_path: Any
) -> None:
    problem = make(
        data, engine=engine, always_include=["b"], groups={"both": ["a", "size"]}, weights=np.linspace(0, 2, 30),
        noise=wv.InverseGamma(2, 1), model_prior=wv.FixedInclusion(h=[0.2, 0.3, 0.4, 0.5, 0.6]), max_size=3,
    )  # fmt: skip
    posterior = wv.exact(problem)
    again = there_and_back(posterior, tmp_path)
    check_answers(posterior, again, data[0])
    options: dict[str, Any] = dict(draws=2000, replicates=2, seed=1, progress=False)
    assert same(wv.sample(problem, **options).pip, wv.sample(again.problem, **options).pip)


def test_heredity_round_trips(data: Any, tmp_path: Any) -> None:
    problem = make(data, heredity={"size": ["a", "b"], "c": ["size"]}, model_prior=wv.BetaBinomial(size=2))
    posterior = wv.exact(problem)
    again = there_and_back(posterior, tmp_path)
    check_answers(posterior, again, data[0])
    object.__setattr__(again.problem.model_prior, "parents", ((),) * 7)
    again.save(tmp_path / "other.npz")
    with pytest.raises(DataError, match="do not fit"):
        wv.Posterior.load(tmp_path / "other.npz")


def test_the_same_posterior_gives_the_same_bytes(data: Any, tmp_path: Any) -> None:
    posterior = wv.exact(make(data))
    posterior.save(tmp_path / "one.npz")
    posterior.save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_numpy_reads_it_without_pickles(data: Any, tmp_path: Any) -> None:
    wv.exact(make(data)).save(tmp_path / "one.npz")
    with np.load(tmp_path / "one.npz", allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes())
        assert all(archive[name].dtype.kind in "biuf" for name in archive.files)
    assert (header["format"], header["version"], header["kind"]) == ("whichvars", 1, "posterior")


# --- the tree


@dataclass(frozen=True)
class Leaf:
    value: Any


TREES = [
    None, True, 0, -(2**130), 0.1, math.inf, -math.inf, math.nan, "", "naïve \ud800 \0", [], (), {}, [()], [(), ()], [(1, 2), (3,)],
    [(1, 2.5), (3,)], [(True,), (False,)], [[1], (2,)], {"dict": 1, 2: None, (1, "a"): [1]}, {"array": 0}, np.float64(0.1), np.int8(3), np.bool_(True),
    np.zeros((0, 3)), np.array(2.5), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(10)[::3], np.array([np.nan, -0.0]),
    np.arange(3, dtype=">f8"), Leaf([Leaf(None)]), pd.DataFrame({"a": [1, 2], "b": [0.5, math.nan]}), pd.DataFrame(index=pd.RangeIndex(3)),
    sparse.csr_array(np.eye(3, dtype=bool)),
]  # fmt: skip


@pytest.mark.parametrize(
    "tree", TREES, ids=lambda t: repr(t)[:30].encode("ascii", "replace").decode().replace("\n", " ")
)
def test_trees_round_trip(tree: Any, tmp_path: Any) -> None:
    storage.save(tmp_path / "x", "test", tree, [Leaf])
    again = storage.load(tmp_path / "x", "test", [Leaf])
    assert same(tree, again)
    if isinstance(tree, np.ndarray):
        assert again.flags.writeable
        assert again.flags.f_contiguous or not tree.flags.f_contiguous


def test_fields_that_a_class_had_once_are_skipped(tmp_path: Any) -> None:
    """Columns were kept by rows too, so that each problem in a file had one array more."""
    data = wv.datasets.load_uscrime()
    design = wv.Problem(data.X, data.y, engine="columns").target(0).design
    had = NamedTuple("had", [*((name, Any) for name in design._fields), ("rows", Any), ("others", Any)])  # type: ignore[misc]
    known = dict(storage._by_name(saving.CLASSES))
    as_before = had(*design, np.ascontiguousarray(design.columns.T), 0)
    storage.save(tmp_path / "old", "test", as_before, {**known, "Design": had})
    with pytest.raises(DataError, match="others"):  # what was never a field is no design
        storage.load(tmp_path / "old", "test", known)
    had_rows = NamedTuple("had_rows", [*((name, Any) for name in design._fields), ("rows", Any)])  # type: ignore[misc]
    storage.save(tmp_path / "old", "test", had_rows(*as_before[:-1]), {**known, "Design": had_rows})
    assert same(storage.load(tmp_path / "old", "test", known), design)


@pytest.mark.parametrize(
    "tree", [object(), {1, 2}, Models([], *[np.zeros(0)] * 3), np.array([None]), np.array(["a"]), b"a"]
)
def test_what_is_not_named_is_not_stored(tree: Any, tmp_path: Any) -> None:
    with pytest.raises(TypeError, match="cannot store"):
        storage.save(tmp_path / "x", "test", [tree], [Leaf])
    assert os.listdir(tmp_path) == []


# --- damage


@pytest.fixture
def saved(tmp_path: Any) -> Any:
    storage.save(tmp_path / "x", "test", {"a": np.arange(5.0), "b": [1, "text"]}, [])
    return tmp_path / "x"


@pytest.mark.parametrize("quick", [False, True])
def test_every_flipped_bit_and_every_cut_is_noticed(saved: Any, quick: bool) -> None:
    tree = {"a": np.arange(5.0), "b": [1, "text"]}
    storage.write(saved, storage.prepare("test", tree, []), quick)
    assert same(storage.load(saved, "test", []), tree)
    content = saved.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        saved.write_bytes(changed)
        with pytest.raises(DataError, match=r"damaged|not a file that whichvars saved|Bad CRC-32"):
            storage.load(saved, "test", [])
    for length in range(0, len(content), 7):
        saved.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"damaged|not a file that whichvars saved"):
            storage.load(saved, "test", [])


def test_quick_files_leave_contents_to_the_archive(saved: Any) -> None:
    """Which NumPy alone reads; and only these are left to it."""
    numbers = np.arange(5.0)
    for quick in (False, True):
        storage.write(saved, storage.prepare("test", numbers, []), quick)
        np.testing.assert_array_equal(np.load(saved.open("rb"))["array0"], numbers)
        content = bytearray(saved.read_bytes())
        at = content.index(numbers.tobytes())
        content[at + 9] ^= 1
        saved.write_bytes(content)
        with pytest.raises(DataError, match="Bad CRC-32" if quick else "its checksum is wrong"):
            storage.load(saved, "test", [])


def forge(
    path: Any,
    tree: Any,
    arrays: tuple[bytes, ...] = (),
    header: dict[str, Any] | None = None,
    how: int = zipfile.ZIP_STORED,
) -> None:
    """A file with a right checksum and whatever content."""

    def npy(array: np.ndarray) -> bytes:
        stream = io.BytesIO()
        np.lib.format.write_array(stream, array)
        return stream.getvalue()

    content = {"format": "whichvars", "version": 1, "kind": "test", "content": tree} | (header or {})
    with zipfile.ZipFile(path, "w", how) as archive:
        archive.comment = b"0" * 64
        archive.writestr("header.npy", npy(np.frombuffer(json.dumps(content).encode(), np.uint8)))
        for i, array in enumerate(arrays):
            archive.writestr(f"array{i}.npy", array)
    body = path.read_bytes()[:-64]
    path.write_bytes(body + hashlib.sha256(body).hexdigest().encode())


def declared(shape: str, dtype: str = "<f8", data: bytes = b"") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def test_forgeries_are_read_where_they_are_right(tmp_path: Any) -> None:
    forge(tmp_path / "x", {"array": 0}, (declared("(2,)", data=np.array([1.0, 2.0]).tobytes()),))
    np.testing.assert_array_equal(storage.load(tmp_path / "x", "test", []), [1, 2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(tree={"array": 0}, arrays=(declared("(10**12,)".replace("10**12", "1000000000000")),)), "another size"),
        (dict(tree={"array": 0}, arrays=(declared("(-1,)"),)), "not of numbers"),
        (dict(tree={"array": 0}, arrays=(declared("(1,)", "|O", b"\0" * 8),)), "not of numbers"),
        (dict(tree={"array": 5}), "array5"),
        (dict(tree={"decode": []}), "unknown"),
        (dict(tree={"object": ["Posterior", {}]}), "does not belong"),
        (dict(tree={"object": ["Leaf", {"other": 1}]}), "unexpected keyword"),
        (dict(tree={"array": 0}, arrays=(b"\0" * 100_000,), how=zipfile.ZIP_DEFLATED), "compressed"),
        (dict(tree=1, header={"version": 2}), "upgrade"),
        (dict(tree=1, header={"kind": "checkpoint"}), "contains a checkpoint, not a test"),
        (dict(tree=1, header={"format": "other"}), "no whichvars header"),
        (dict(tree={"sparse": [{"array": 0}, {"array": 1}, {"array": 2}, [1, 2]]},
              arrays=(*tuple(declared("(1,)", "<i8", bytes([v] + [0] * 7)) for v in (1, 9)), declared("(2,)", "<i8", bytes([0] * 8 + [1] + [0] * 7)))), "cannot be read"),
    ],
)  # fmt: skip
def test_clever_files_are_refused(arguments: dict[str, Any], message: str, tmp_path: Any) -> None:
    forge(tmp_path / "x", **arguments)
    with pytest.raises(DataError, match=message):
        storage.load(tmp_path / "x", "test", [Leaf])


def test_deep_nesting_is_refused(tmp_path: Any) -> None:
    deep = json.dumps({"format": "whichvars", "version": 1, "kind": "test", "content": 0}).replace(
        "0}", "[" * 100_000 + "]" * 100_000 + "}"
    )
    with zipfile.ZipFile(tmp_path / "x", "w") as archive:
        archive.comment = b"0" * 64
        archive.writestr("header.npy", declared(f"({len(deep)},)", "|u1", deep.encode()))
    body = (tmp_path / "x").read_bytes()[:-64]
    (tmp_path / "x").write_bytes(body + hashlib.sha256(body).hexdigest().encode())
    with pytest.raises(DataError, match="cannot be read"):
        storage.load(tmp_path / "x", "test", [])


def test_a_problem_that_contradicts_itself_is_refused(data: Any, tmp_path: Any) -> None:
    problem = make(data)
    problem.offsets = problem.offsets + 1
    storage.save(tmp_path / "x", "test", problem, saving.CLASSES)
    with pytest.raises(DataError, match="do not fit"):
        storage.load(tmp_path / "x", "test", saving.CLASSES)


def test_a_text_file_is_not_a_posterior(tmp_path: Any) -> None:
    (tmp_path / "x.npz").write_text("hello")
    with pytest.raises(DataError, match=r"x\.npz is not a file that whichvars saved"):
        wv.Posterior.load(tmp_path / "x.npz")


# --- writing


def test_a_failed_write_leaves_the_old_file_and_nothing_else(saved: Any) -> None:
    before = saved.read_bytes()

    def fail() -> None:
        with archives.replacing(saved) as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_private_while_written_and_usual_afterwards(saved: Any) -> None:
    mask = os.umask(0o022)
    try:
        with archives.replacing(saved) as stream:
            (temporary,) = [f for f in saved.parent.iterdir() if f != saved]
            assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
            stream.write(b"new")
        assert stat.S_IMODE(saved.stat().st_mode) == 0o644
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(mask)
    assert saved.read_bytes() == b"new"
