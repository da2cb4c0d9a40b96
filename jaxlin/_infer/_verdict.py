"""Whether an estimate is finite, as params say it, and which columns give others."""

import functools

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxlin import _linalg
from jaxlin._base import _mesh, _platform
from jaxlin._data import _prepare, _rows
from jaxlin._infer import _estimate, _separation
from jaxlin._linalg import _implicit, dot
from jaxlin._smooth import _frame
from jaxlin.types import Hyperplane, Linear, Status


@functools.partial(_platform.jit, static_argnums=0)
def aliased(bias, data):
    data = jax.lax.stop_gradient(data)
    rows, _, valid = _prepare.prepare(data, num_classes=2)
    _, d = data.x.shape
    problem = _frame.make(rows, jnp.zeros(d, rows.weight.dtype), bias)
    z = _frame.standard(problem, _rows.clean(rows))
    z = _mesh.where_rows(rows.weight > 0, jnp.sqrt(rows.weight)[:, None] * z)
    asked = jnp.ones(d, bool) if rows.feature_mask is None else rows.feature_mask
    return valid & asked & _linalg.given_by_those_before(z), valid


@functools.partial(_platform.jit, static_argnums=0)
def separation(bias, params, data, reference):
    # A verdict has no derivative.
    params, data = jax.lax.stop_gradient((params, data))
    k = len(params.bias) if isinstance(params, Linear) else None
    (_, d), dtype = data.x.shape, params.weights.dtype
    rows, _, valid = _prepare.prepare(data, num_classes=k or 2)
    classes = jnp.arange(k or 2, dtype=rows.y.dtype)
    here = rows.weight > 0
    present = jnp.any(here[:, None] & (rows.y[:, None] == classes[None, :]), axis=0)
    basis = None if k is None else _frame.class_basis(present, dtype)
    problem = _frame.make(rows, jnp.zeros(d, dtype), bias, basis)
    z = _frame.standard(problem, _rows.clean(rows))
    z = jnp.concatenate([z, jnp.ones((len(z), int(bias)), dtype)], axis=1)
    if basis is None:
        contrasts, live = (2 * rows.y - 1).astype(dtype)[:, None, None], here[:, None]
        wanted = contrasts
    else:
        eye = jnp.eye(k, dtype=dtype)
        wanted = eye[rows.y][:, None, :] - eye[None]
        contrasts = basis[rows.y][:, None, :] - basis[None, :, :]
        live = here[:, None] & present[None, :] & (rows.y[:, None] != classes[None, :])
    start = _estimate.enter(problem, params)
    if bias:
        start = start.at[:, d].add(dot(start[:, :d], problem.shift[:d]))
    unit = problem.unit[None, :]
    start = jnp.where(unit > 0, start / jnp.where(unit > 0, unit, 1), 0)
    start = jnp.where(jnp.all(jnp.isfinite(start)), start, 0)
    demands = _separation.Demands(_mesh.where_rows(here, z), contrasts, live)
    found = _separation.decide(demands, start.reshape(-1))
    flat, back = _to_user_units(problem, z, bias)
    used = jnp.repeat(problem.used, z.shape[1])
    seen = _separation.Seen(_rows.clean(rows).x, flat, wanted, used)
    proved = found.proved & _separation.is_exact(seen, demands, found)
    of_form = jnp.bool_(True)
    if reference is not None:

        def moved(column):
            return ravel_pytree(_estimate.in_form(back(column), present, reference))[0]

        flat = jax.vmap(moved, in_axes=1, out_axes=1)(flat)
    elif k is not None:
        of_form = _estimate.is_symmetric(problem, params, present)
    direction, growing = _in_user_units(problem, z, found, flat, back)
    growing = jax.tree.map(lambda a: jnp.where(of_form, a, jnp.nan), growing)
    held, multipliers = found.held, found.multipliers
    if k is None:
        direction, growing = (
            Hyperplane(weights=a.weights[0], bias=a.bias[0]) for a in (direction, growing)
        )
        held, multipliers = held[:, 0], multipliers[:, 0]
    status = jnp.where(jnp.any(held), Status.QUASI_SEPARABLE, Status.SEPARABLE)
    status = jnp.where(jnp.any(found.direction != 0), status, Status.NOT_SEPARABLE)
    status = jnp.where(proved, status, Status.STALLED)
    status = jnp.where(jnp.sum(present) > 1, status, Status.CLASS_TOO_SMALL)
    status = jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32)
    # What is 0 reads as finite: of no verdict nothing is told.
    told = proved & valid & (jnp.sum(present) > 1)
    direction, growing = _implicit.where(told, (direction, growing))
    return status, direction, growing, held, multipliers


def _to_user_units(problem, z, bias):
    """From directions, for standard columns, to params: a matrix `(., P)`, and back to a tree."""
    d, (m, p) = problem.centre.size, (problem.used.size, z.shape[1])

    def leave(theta):
        theta = theta.reshape(m, p) * problem.unit[None, :]
        if bias:
            theta = theta.at[:, d].add(-dot(theta[:, :d], problem.shift[:d]))
        return _frame.leave(problem, theta, bias)

    each = jnp.eye(m * p, dtype=z.dtype)
    flat = jax.vmap(lambda theta: ravel_pytree(leave(theta))[0])(each).T
    return flat, ravel_pytree(leave(each[0]))[1]


def _in_user_units(problem, z, found, flat, back):
    """Of the direction, for standard columns: `(direction, coefficients)` as params."""
    m, p = problem.used.size, z.shape[1]
    # The directions that some row sees, less those that rows hold.
    values, vectors = _linalg.eigh(dot(z.T, z))
    eps = float(jnp.finfo(z.dtype).eps)
    seen = values > _linalg.RANK_ULPS * p * eps * jnp.max(values)
    vectors = jnp.where(seen[None, :], vectors, 0)
    open_to = jnp.kron(jnp.diag(problem.used.astype(z.dtype)), dot(vectors, vectors.T))
    reach = jnp.linalg.norm(dot(flat, open_to - found.span), axis=1)
    tiny = _separation.ZERO_ULPS * m * p * eps
    fixed = (reach <= tiny * jnp.linalg.norm(flat, axis=1)) | ~jnp.any(found.direction != 0)
    direction = dot(flat, found.direction)
    size = dot(jnp.abs(flat), jnp.abs(found.direction))
    direction = jnp.where(fixed | (jnp.abs(direction) <= tiny * size), 0, direction)
    growing = jnp.where(direction == 0, jnp.nan, jnp.copysign(jnp.inf, direction))
    direction = direction / jnp.maximum(jnp.max(jnp.abs(direction)), jnp.finfo(z.dtype).tiny)
    return back(direction), back(jnp.where(fixed, 0, growing))
