"""Fits that first learn something from their training rows, for `resample`.

Each is made once for a fit, so that what is compiled for it is found again.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from jaxlin import features
from jaxlin._base import _checks, _options, _traits, _words
from jaxlin._batch import _draws
from jaxlin.types import Info

Fit = Callable[..., tuple[Any, Info]]


@functools.cache
def on_standardized(fit: Fit) -> Fit:
    """As `resample.on_standardized`."""
    _words.refuse_no_fit(fit)

    def fit_on_standardized(
        x: Any, y: Any, *, sample_weight: Any = None, feature_mask: Any = None, **options: Any
    ) -> tuple[Any, Info]:
        """A fit to standardised columns: see `resample.on_standardized`."""
        _checks.refuse_other_rows(x=x, y=y, sample_weight=sample_weight)
        x = _checks.matrix(x)
        mask = _checks.mask_of(feature_mask, x.shape[1])
        given = {"sample_weight": sample_weight, "feature_mask": mask}
        given = {name: value for name, value in given.items() if value is not None}
        seen = x if mask is None else jnp.where(mask[None, :], x, 0)
        scaler = features.standardizer(
            seen, sample_weight=sample_weight, axis_name=options.get("axis_name")
        )
        # Norms of groups of weights in other units are none that the fit knows.
        if _options.takes(fit, "l2") and options.get("groups") is None:
            penalty = _checks.real(options.pop("l2", 0.0), "l2").astype(scaler.scale.dtype)
            # Of data that are not valid the scale is NaN; the fit is to say what is wrong.
            known = jnp.all(jnp.isfinite(scaler.scale))
            scale = jnp.where(known, scaler.scale, 1)
            if options.get("l1") is not None:
                options["l1"] = _checks.real(options["l1"], "l1").astype(scale.dtype) * scale
            return fit(x, y, l2=penalty * scale**2, **given, **options)
        scaled = features.standardize(scaler, seen)
        # NaN would hide what is wrong with the data.
        scaled = jnp.where(jnp.any(jnp.isnan(scaler.scale)), seen, scaled)
        params, info = fit(scaled, y, **given, **options)
        return features.unstandardize(scaler, params), info

    _traits.declare(fit_on_standardized, **_traits.passed_on(fit))
    return _options.with_arguments_of(fit, fit_on_standardized)


@functools.cache
def on_balanced(fit: Fit) -> Fit:
    """As `resample.on_balanced`."""
    _words.refuse_no_fit(fit)

    def fit_on_balanced(
        x: Any, y: Any, *, sample_weight: Any = None, **options: Any
    ) -> tuple[Any, Info]:
        """A fit to classes of one total weight: see `resample.on_balanced`."""
        _checks.refuse_other_rows(x=x, y=y, sample_weight=sample_weight)
        x, y = _checks.matrix(x, sparse=True), _checks.array(y, "y")
        _checks.refuse_inexact(y)
        n, dtype = len(x), _checks.working_dtype(x)
        if y.shape != (n,):
            return fit(x, y, sample_weight=sample_weight, **options)  # says what is wrong
        options = _options.with_classes(fit, options, y, sample_weight)
        weight = _checks.optional(sample_weight, (n,), dtype, "sample_weight")
        weight = jnp.ones(n, dtype) if weight is None else weight
        k = _options.number_of_classes(fit, options)
        axis = _checks.axis_of(options.get("axis_name"))
        return fit(x, y, sample_weight=_draws.balanced(y, weight, k, axis), **options)

    _traits.declare(fit_on_balanced, **_traits.passed_on(fit))
    return _options.with_arguments_of(fit, fit_on_balanced)
