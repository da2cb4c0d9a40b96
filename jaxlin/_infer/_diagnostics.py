"""What single rows are to an estimate: leverages, distances, residuals.

Shapes: `n` examples, `P` params; of a row of a block `m` scores in the basis, `p` coordinates each.
"""

import functools

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxlin import _linalg
from jaxlin._base import _mesh, _platform
from jaxlin._data import _fold
from jaxlin._infer import _estimate
from jaxlin._linalg import dot
from jaxlin._smooth import _frame


@functools.partial(_platform.jit, static_argnums=0)
def leverage(model, arguments):
    e = _estimate.at(model, arguments)

    def of_block(block):
        z, _, _, curve = _estimate.whole(model, e, block)
        return jnp.trace(_pull(e, z, curve, block), axis1=1, axis2=2)

    return _estimate.said(_fold.map_rows(of_block, e.problem.rows), _estimate.proper(model, e))


@functools.partial(_platform.jit, static_argnums=0)
def cooks_distance(model, arguments):
    e = _estimate.at(model, arguments)
    number = jnp.sum(~_frame.inert(e.problem)).astype(e.theta.dtype)

    def of_block(block):
        half, push = _left_out(model, e, block)
        moved = jnp.sum(half * push[:, :, None], axis=1)
        return e.total * jnp.sum(moved**2, axis=1) / number

    return _estimate.said(_fold.map_rows(of_block, e.problem.rows), _estimate.proper(model, e))


@functools.partial(_platform.jit, static_argnums=0)
def dfbetas(model, arguments):
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
    return jax.vmap(unravel)(_estimate.said(flat, _estimate.proper(model, e) & e.of_form))


@functools.partial(_platform.jit, static_argnums=(0, 1))
def residuals(model, kind, arguments):
    e = _estimate.at(model, arguments)

    def of_block(block):
        _, scores, *_ = _estimate.whole(model, e, block)
        each = jax.vmap(lambda s, y: kind(model.loss, s[0], y))(scores, block.y)
        return jnp.where(block.ok, each, jnp.nan)

    return _estimate.said(_fold.map_rows(of_block, e.problem.rows), _estimate.proper(model, e))


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


@functools.partial(_platform.jit, static_argnums=0)
def influence(model, arguments):
    e = _estimate.at(model, arguments)
    rows = e.problem.rows
    solved = _linalg.solve(e.factor, e.back.T)
    held = dot(_estimate.pull_of_penalty(e), solved)

    def of_block(block):
        z, _, slope, _ = _estimate.whole(model, e, block)
        moved = dot(_estimate.gradients(e, z, slope), solved) + held[None, :]
        return _mesh.where_rows(block.ok, -moved / e.total)

    flat = _fold.map_rows(of_block, rows)
    _, back = ravel_pytree(arguments.params)
    return jax.vmap(back)(_estimate.said(flat, _estimate.proper(model, e) & e.of_form))


@functools.partial(_platform.jit, static_argnums=0)
def approximate_leave_one_out(model, arguments):
    e = _estimate.at(model, arguments)
    rows = e.problem.rows
    m, _ = e.theta.shape
    held = _linalg.half_solve(e.factor, _estimate.pull_of_penalty(e))

    def of_block(block):
        z, scores, slope, curve = _estimate.whole(model, e, block)
        half = _estimate.half_images(e, z)
        lever = block.weight[:, None, None] * dot(half, jnp.swapaxes(half, 1, 2))
        moved = jnp.sum(lever * slope[:, None, :], axis=2) + block.weight[:, None] * dot(half, held)
        left = jnp.eye(m, dtype=z.dtype)[None] - dot(lever, curve)
        if m == 1:
            step = moved / _estimate.known(left[:, 0])
        else:
            # Its eigenvalues are in (0, 1]: the least is at least the determinant.
            sound = _estimate.known(jnp.linalg.det(left))
            step = jnp.linalg.solve(left, moved[:, :, None])[:, :, 0]
            step = jnp.where(jnp.isnan(sound)[:, None], jnp.nan, step)
        away = step if e.problem.basis is None else dot(step, e.problem.basis.T)
        return scores + away

    left_out = _estimate.said(_fold.map_rows(of_block, rows), _estimate.proper(model, e))
    if e.problem.basis is None:
        return left_out[:, 0]
    absent = ~jnp.any(e.problem.basis != 0, axis=1)
    return jnp.where(absent[None, :], -jnp.inf, left_out)
