"""What single rows are to an estimate: leverages, distances, residuals.

Shapes: `n` examples, `P` params; of a row of a block `m` scores in the basis, `p` coordinates each.
"""

import functools

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxlin import _linalg
from jaxlin._base import _checks, _mesh, _platform
from jaxlin._data import _fold
from jaxlin._infer import _estimate
from jaxlin._linalg import dot
from jaxlin._smooth import _frame

# Entries of columns that are tried at once.
COLUMN_ENTRIES = 2**19


@functools.partial(_platform.jit, static_argnums=(0, 1))
def leverage(model, check, arguments):
    e = _estimate.at(model, arguments)

    def of_block(block):
        z, _, _, curve = _estimate.whole(model, e, block)
        return jnp.trace(_pull(e, z, curve, block), axis1=1, axis2=2)

    return _estimate.said(_fold.map_rows(of_block, e.problem.rows), _estimate.proper(e, check))


@functools.partial(_platform.jit, static_argnums=(0, 1))
def cooks_distance(model, check, arguments):
    e = _estimate.at(model, arguments)
    number = jnp.sum(~_frame.inert(e.problem)).astype(e.theta.dtype)

    def of_block(block):
        half, push = _left_out(model, e, block)
        moved = jnp.sum(half * push[:, :, None], axis=1)
        return e.total * jnp.sum(moved**2, axis=1) / number

    return _estimate.said(_fold.map_rows(of_block, e.problem.rows), _estimate.proper(e, check))


@functools.partial(_platform.jit, static_argnums=(0, 1))
def dfbetas(model, check, arguments):
    e = _estimate.at(model, arguments)
    back = _estimate.half_back(e)
    # In units of powers of two no square leaves the range.
    back = back / _linalg.power_of_two(jnp.max(jnp.abs(back), axis=0))[None, :]
    errors = jnp.sqrt(jnp.sum(back**2, axis=0) / e.total)

    def of_block(block):
        half, push = _left_out(model, e, block)
        return -dot(jnp.sum(half * push[:, :, None], axis=1), back)

    flat = _fold.map_rows(of_block, e.problem.rows) / jnp.where(errors > 0, errors, 1)[None, :]
    _, unravel = ravel_pytree(arguments.params)
    return jax.vmap(unravel)(_estimate.said(flat, _estimate.proper(e, check) & e.of_form))


@functools.partial(_platform.jit, static_argnums=(0, 1, 2))
def residuals(model, kind, check, arguments):
    e = _estimate.at(model, arguments)

    def of_block(block):
        _, scores, *_ = _estimate.whole(model, e, block)
        each = jax.vmap(lambda s, y: kind(model.loss, s[0], y))(scores, block.y)
        return jnp.where(block.ok, each, jnp.nan)

    return _estimate.said(_fold.map_rows(of_block, e.problem.rows), _estimate.proper(e, check))


def _pull(e, z, curve, block):
    """`(rows, m, m)`, what a row's scores are moved by its own label: H_i C_i."""
    half = _estimate.half_images(e, z)
    weighed = block.weight[:, None, None] * curve
    return dot(dot(half, jnp.swapaxes(half, 1, 2)), weighed)


def _left_out(model, e, block):
    """L^-1 of the derivative of a row's u `(rows, m, m p)`, and the slope that leaves with it."""
    z, _, slope, curve = _estimate.whole(model, e, block)
    m = e.theta.shape[0]
    left = jnp.eye(m, dtype=z.dtype)[None] - _pull(e, z, curve, block)
    # Its eigenvalues are in (0, 1]: the least is at least the determinant.
    sound = _estimate.known(left[:, 0, 0] if m == 1 else jnp.linalg.det(left))
    # (I - C H)^-1 g, of a left that is I - H C.
    turned = jnp.swapaxes(left, 1, 2)
    pushed = slope[:, :, None]
    solved = pushed / turned if m == 1 else jnp.linalg.solve(turned, pushed)
    push = block.weight[:, None] * solved[:, :, 0]
    push = jnp.where(jnp.isnan(sound)[:, None], jnp.nan, push)
    return _estimate.half_images(e, z), _mesh.where_rows(block.ok, push)


@functools.partial(_platform.jit, static_argnums=(0, 1))
def score_test(model, check, arguments, extra):
    """Statistics `(c,)` of columns `extra (n, c)`, NaN of one that the others give.

    A row's column has the slope of the loss times its value; what the columns of x tell of it, by
    weights of the curvature, is no news. All of it are products of `extra` with a few columns.
    """
    e = _estimate.at(model, arguments)
    rows = e.problem.rows

    def of_block(block):
        z, _, slope, curve = _estimate.whole(model, e, block)
        weighed = block.weight[:, None] * curve[:, :, 0]
        slope, half = block.weight[:, None] * slope, _estimate.half_images(e, z)[:, 0]
        return jnp.concatenate([slope, weighed, half], axis=1)

    each = _fold.map_rows(of_block, rows)
    slope, weighed, half = each[:, 0], each[:, 1], each[:, 2:]
    known_of_x = jnp.concatenate([slope[:, None], weighed[:, None] * half], axis=1).T
    ahead = dot(slope, half)  # 0 at the minimum
    seen = rows.weight > 0
    first = jnp.argmax(seen)

    def of_columns(g):
        g = g.astype(each.dtype)
        # From one of its values, so that the difference below is of what varies.
        apart = g[first][None, :] if model.bias else 0
        # By what it holds: in the weight of a row of weight 0 whose square is a number there is a
        # derivative.
        fine = jnp.abs(g) <= _checks.safe_range(g.dtype)
        g = jnp.where(seen[:, None] | fine, g - apart, 0)
        product = dot(known_of_x, g)
        told = product[1:]
        push = product[0] - dot(ahead, told)
        whole = dot(weighed, g**2)
        left = whole - jnp.sum(told**2, axis=0)
        known = left > _linalg.RANK_ULPS * len(g) ** 0.5 * jnp.finfo(g.dtype).eps * whole
        return jnp.where(known, e.total * push**2 / jnp.where(known, left, 1), jnp.nan)

    found = _of_column_blocks(of_columns, extra, each.dtype)
    return _estimate.said(found, _estimate.proper(e, check))


def _of_column_blocks(f, a, dtype):
    """`f` of a few columns at once, which makes little of each; some are met twice at the end."""
    c = a.shape[1]
    size = min(c, max(1, COLUMN_ENTRIES // len(a)))
    if c == size:
        return f(a)
    starts = jnp.minimum(jnp.arange(-(-c // size), dtype=jnp.int32) * size, c - size)

    def step(found, start):
        block = jax.lax.dynamic_slice_in_dim(a, start, size, axis=1)
        return jax.lax.dynamic_update_slice_in_dim(found, f(block), start, axis=0), ()

    return jax.lax.scan(step, jnp.zeros(c, dtype), starts)[0]
