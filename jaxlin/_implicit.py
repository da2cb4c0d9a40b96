"""The derivative of a minimum with respect to the data: the implicit function theorem, once.

At the minimum the gradient F(point, data) is 0, so d point = -H^-1 dF, whatever steps led there.
The solver runs on stopped gradients and its answer is handed to `root`, which returns it
unchanged and attaches that derivative.
"""

from collections.abc import Callable

import jax

from jaxlin import _linalg


def root(gradient: Callable[[jax.Array], jax.Array], point: jax.Array) -> jax.Array:
    """`point (p,)`, differentiable with respect to whatever `gradient` closes over.

    Args:
      gradient: `(p,) -> (p,)`, zero at the minimum, of symmetric Jacobian.
      point: the minimum, as a solver verified it.
    """
    return jax.lax.custom_root(
        gradient,
        jax.lax.stop_gradient(point),
        lambda _, found: found,
        lambda linear, b: _linalg.solve(_linalg.factor(_symmetric(jax.jacfwd(linear)(b))), b),
    )


def _symmetric(a: jax.Array) -> jax.Array:
    return (a + a.T) / 2
