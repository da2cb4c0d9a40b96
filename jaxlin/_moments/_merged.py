"""Closed forms of a stream: the moments of its blocks, merged, in one pass."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxlin import moments
from jaxlin._files import _source
from jaxlin._files._source import Source


def fit(parts: tuple[Callable, Callable], source: Source, k: int | None, bar: Any, **options: Any):
    """`(params, info)` of a fit of these `_traits.Traits.moments`."""
    of, finish = parts
    if options.pop("feature_mask", None) is not None:
        raise TypeError("feature_mask: not for closed forms of a stream; leave the columns out")
    if k is None:
        k = _source.index(source, None, None, soft=False).k
    return finish(moments_of(of, source, k, bar), **options)


def moments_of(
    of: Callable, source: Source, k: int | None, bar: Any, **options: Any
) -> moments.Moments:
    classes = {} if of is moments.regression else {"num_classes": k}
    shape: Any = None

    def judged():
        nonlocal shape
        for i, block in enumerate(source.blocks()):
            _source.judge(i, *block, shape, k, options.get("feature_mask"), real=not classes)
            shape = block[0].shape[1], block[0].dtype
            yield block

    whole: Any = None
    x, *_ = next(source.blocks(), (None,))
    size = 1 if x is None else _source.rows_in_block(x.shape[-1], x.dtype.itemsize)
    for x, y, weight in Source(judged).fetch(size, 0):
        # One length, one program.
        given = np.ones(len(x)) if weight is None else weight
        if not np.any(given > 0):
            continue
        if whole is not None or len(x) == size:
            x, y, given = _source.filled_up((x, y, given), size)
        part = of(x, y, sample_weight=given, **classes, **options)
        whole = part if whole is None else moments.merge(whole, part)
        bar.moved()
    if whole is None:
        raise ValueError("source: no row has weight")
    return whole
