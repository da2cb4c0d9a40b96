"""Params, moments and states as one file: arrays in an `.npz`, and what they are part of as JSON.

Nothing is pickled: a file can hold no code, and loading one runs none.
"""

import importlib
import json
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# The modules whose NamedTuples a file may hold.
HOLDERS = ("types", "moments", "features", "inference", "streaming")
TREE = "tree"
SCALARS = bool | int | float | str


def save(path: str | os.PathLike, tree: Any) -> None:
    """Write params, an Info, moments, a state, or a pytree of such as one `.npz`.

    A file of that name is replaced when all is written, and survives if that fails, as on a full
    disk.

    Args:
      path: of the file, used as it is.
      tree: NamedTuples of this package, dicts with string keys, lists, tuples and None, of arrays,
        PRNG keys, numbers and strings.

    Raises:
      TypeError: something else; the message says where.
      OSError: the file cannot be written.

    Example:
      >>> import os, tempfile
      >>> import jax.numpy as jnp
      >>> import jaxlin
      >>> path = os.path.join(tempfile.mkdtemp(), "plane.npz")
      >>> jaxlin.save(path, jaxlin.Hyperplane(weights=jnp.ones(2), bias=jnp.array(0.5)))
      >>> jaxlin.load(path).bias.item()
      0.5
    """
    arrays: dict[str, np.ndarray] = {}
    described = json.dumps(_described(tree, arrays, "tree"))
    target = os.path.realpath(os.fsdecode(path))
    beside = f"{target}.{os.getpid()}.part"
    try:
        with open(beside, "wb") as file:
            np.savez(file, allow_pickle=False, **{TREE: np.array(described)}, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        if os.path.exists(beside):
            os.unlink(beside)


def load(path: str | os.PathLike) -> Any:
    """What `save` wrote.

    Args:
      path: of the file.

    Returns:
      The same pytree, its arrays of the same bits: jax arrays, or numpy's where jax as it is
      configured would narrow them (64 bits without `jax_enable_x64`).

    Raises:
      ValueError: the file is none that `save` wrote, or not whole.
      OSError: it cannot be read.

    Example:
      >>> import os, tempfile
      >>> import jaxlin
      >>> path = os.path.join(tempfile.mkdtemp(), "both.npz")
      >>> jaxlin.save(path, {"folds": [1, 2], "note": "first try"})
      >>> jaxlin.load(path)
      {'folds': [1, 2], 'note': 'first try'}
    """
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return _restored(json.loads(str(arrays[TREE])), arrays)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{os.fspath(path)}: not a file that jaxlin.save wrote whole") from error


def _described(node: Any, arrays: dict[str, np.ndarray], where: str) -> Any:
    if node is None or (isinstance(node, SCALARS) and not isinstance(node, np.generic)):
        return {"value": node}
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        module = _home(type(node))
        if module is None:
            raise TypeError(f"{where}: {type(node).__qualname__} is no type of jaxlin")
        pairs = zip(node._fields, node, strict=True)
        fields = {f: _described(v, arrays, f"{where}.{f}") for f, v in pairs}
        return {"type": f"{module}.{type(node).__name__}", "fields": fields}
    if isinstance(node, list | tuple):
        kind = "tuple" if isinstance(node, tuple) else "list"
        return {kind: [_described(v, arrays, f"{where}[{i}]") for i, v in enumerate(node)]}
    if isinstance(node, dict):
        if not all(isinstance(name, str) for name in node):
            raise TypeError(f"{where}: expected string keys")
        return {"dict": {k: _described(v, arrays, f"{where}[{k!r}]") for k, v in node.items()}}
    name, extra = f"a{len(arrays)}", {}
    if isinstance(node, jax.Array) and jnp.issubdtype(node.dtype, jax.dtypes.prng_key):
        extra, node = {"key": str(jax.random.key_impl(node))}, jax.random.key_data(node)
    if not isinstance(node, jax.Array | np.ndarray | np.generic):
        raise TypeError(f"{where}: cannot save a {type(node).__name__}")
    array = np.asarray(node)
    known = array.dtype.fields is None and hasattr(jnp, array.dtype.name)
    if not known or isinstance(node, np.ma.MaskedArray) or array.dtype.name in ("object", "str"):
        raise TypeError(f"{where}: cannot save a {type(node).__name__} of dtype {array.dtype}")
    if array.dtype.kind == "V":  # a half precision that numpy has no name for
        extra, array = {"dtype": array.dtype.name}, array.view(f"u{array.dtype.itemsize}")
    array = array.astype(array.dtype.newbyteorder("="))
    arrays[name] = array
    return {"array": name, **extra}


def _restored(node: Any, arrays: dict[str, np.ndarray]) -> Any:
    if "value" in node:
        return node["value"]
    if "type" in node:
        module, name = node["type"].split(".")
        if module not in HOLDERS:
            raise ValueError(f"{module}: no module whose types are saved")
        kind = getattr(_holder(module), name)
        if not (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")):
            raise ValueError(f"{name}: no NamedTuple")
        return kind(**{f: _restored(v, arrays) for f, v in node["fields"].items()})
    if "list" in node:
        return [_restored(v, arrays) for v in node["list"]]
    if "tuple" in node:
        return tuple(_restored(v, arrays) for v in node["tuple"])
    if "dict" in node:
        return {name: _restored(v, arrays) for name, v in node["dict"].items()}
    array = arrays[node["array"]]
    if "dtype" in node:
        array = array.view(jnp.dtype(getattr(jnp, node["dtype"])))
    if "key" in node:
        return jax.random.wrap_key_data(jnp.asarray(array), impl=node["key"])
    narrowed = jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype
    return array if narrowed else jnp.asarray(array)


def _holder(module: str) -> Any:
    return importlib.import_module(f"jaxlin.{module}")


def _home(kind: type) -> str | None:
    """The module that users know a type by."""
    known = (m for m in HOLDERS if getattr(_holder(m), kind.__name__, None) is kind)
    return next(known, None)


class Kept:
    """The states of a run: that to go on from, and what is told of each that follows.

    known: whether there is anyone who wants them
    """

    def __init__(self, path: Any = None, state: Any = None, each: Any = None):
        self._path, self._each = path, each
        self.known = any(given is not None for given in (path, state, each))
        if path is not None and state is None and os.path.exists(path):
            state = load(path)
        self.state = state

    def follow(self, state: Any) -> None:
        if self._path is not None:
            save(self._path, state)
        if self._each is not None:
            self._each(state)
