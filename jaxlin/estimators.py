"""Any fit as a scikit-learn estimator: for strings, data frames, pipelines and searches.

`Classifier(logistic.fit, l2=0.01)` is the fit with everything that scikit-learn expects around it:
`fit(X, y)`, `predict`, `predict_proba`, `clone`, `set_params(l2=...)`, `Pipeline`, `GridSearchCV`.
Labels may be strings, X a data frame of numbers or a scipy matrix. It works on the host, one fit at
a time: many fits at once are a `jax.vmap` of the functions themselves.

The dtype is that of X: float64 unless X is float32, also where JAX's default is float32.
It needs scikit-learn, `pip install "jaxlin[sklearn]"`, which no other module does.
Shapes: `n` examples, `d` features, `k` classes.
"""

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxlin import multiclass, resample, sparse
from jaxlin._base import _checks, _dispatch, _options, _traits
from jaxlin.types import FitError, Hyperplane, Linear, Pairwise, raise_if_failed

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.class_weight import compute_class_weight
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data
except ImportError as error:
    raise ImportError(
        'jaxlin.estimators needs scikit-learn of at least 1.6: pip install "jaxlin[sklearn]"'
    ) from error


DTYPES = [np.float64, np.float32]


def _tells_chances(model: "Classifier") -> bool:
    return _traits.of(model._fit).log_odds


class Classifier(ClassifierMixin, BaseEstimator):
    """A fit of this package, or one like them, as a scikit-learn classifier.

    Args:
      fit: `fit(x, y, *, sample_weight, ...) -> (params, Info)`. Of more than two classes one that
        takes no `num_classes` is made `multiclass.one_vs_rest(fit)`.
      class_weight: None, "balanced", or a weight for each label, as scikit-learn has them;
        "balanced" gives every class the same total of `sample_weight`.
      **options: of the fit. `set_params` and searches may name any that the fit takes.

    Attributes:
      classes_: `(k,)`, the labels, sorted.
      params_: as the fit returned them, of numpy arrays; what `jaxlin.predict` takes.
      info_: the Info of the fit.
      coef_, intercept_: of planes, `(1, d)` and `(1,)` for two classes, else `(k, d)` and `(k,)`;
        of one-vs-one those of each pair.
      n_features_in_, feature_names_in_: d, and the names of a frame's columns.

    Example:
      >>> from jaxlin import estimators, logistic
      >>> model = estimators.Classifier(logistic.fit, l2=0.1)
      >>> model = model.fit([[0.0], [1.0], [2.0], [3.0]], ["cat", "cat", "dog", "dog"])
      >>> model.predict([[-1.0], [4.0]]).tolist(), model.classes_.tolist()
      (['cat', 'dog'], ['cat', 'dog'])
    """

    def __init__(self, fit: Callable, *, class_weight: Any = None, **options: Any) -> None:
        self._fit = fit  # `self.fit` is the method
        self.class_weight = class_weight
        self._options = options

    def __getattr__(self, name: str) -> Any:
        options = self.__dict__.get("_options", {})
        if name in options:
            return options[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        counts = _traits.of(self._fit).counts
        tags.input_tags.positive_only = tags.classifier_tags.poor_score = counts
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments that it was made of."""
        return {"fit": self._fit, "class_weight": self.class_weight, **self._options}

    def set_params(self, **params: Any) -> "Classifier":
        """Set `fit`, `class_weight`, or any option that the fit takes.

        Raises:
          ValueError: the fit has no such option.
        """
        self._fit = params.pop("fit", self._fit)
        self.class_weight = params.pop("class_weight", self.class_weight)
        for name, value in params.items():
            if name not in self._options and not _options.takes(self._fit, name, among_others=True):
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}: its fit has no such option"
                )
            self._options = {**self._options, name: value}
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Classifier":
        """Fit it to examples `X (n, d)` and their labels `y (n,)`, of weights `(n,)`.

        Raises:
          ValueError: X or y cannot be used, fewer than two classes have weight, or the fit has no
            params for these data.

        Warns:
          ConvergenceWarning: the status is none of a success; the words say which.
        """
        _checks.refuse_other_rows(X=X, y=y, sample_weight=sample_weight)
        x, y = validate_data(self, X, y, dtype=DTYPES, accept_sparse="csr")
        if _traits.of(self._fit).counts:
            check_non_negative(x, type(self).__name__)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        k, fit = len(self.classes_), self._fit
        weight = None if sample_weight is None else np.asarray(sample_weight, x.dtype)
        if weight is not None and weight.shape != codes.shape:
            raise ValueError(f"sample_weight: expected shape ({len(y)},), got {weight.shape}")
        present = np.unique(codes if weight is None else codes[weight != 0])
        if len(present) < 2:
            got = [f"one class: {label!r}" for label in self.classes_[present].tolist()]
            got = got or ["zero weights only"]
            raise ValueError(f"y: expected at least two classes of weight, got {got[0]}")
        options = dict(self._options)
        if k > 2 and not _options.takes(fit, "num_classes"):
            fit = multiclass.one_vs_rest(fit)
        if _options.takes(fit, "num_classes"):
            options["num_classes"] = k
        with _digits_of(x):
            weighed = self._weighed(codes, weight)
            given = {} if weighed is None else {"sample_weight": weighed}
            params, info = fit(_table_of(x), codes, **given, **options)
            self.params_, self.info_ = jax.tree.map(np.asarray, (params, info))
        self._say_if_failed()
        self._set_coefficients()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The label `(n,)` of each example."""
        found = self._of_params(_dispatch.predict, X)
        return self.classes_[found]

    def decision_function(self, X: Any) -> np.ndarray:
        """The scores `(n, k)`, or `(n,)` for two classes: those of the second."""
        scores = self._of_params(_dispatch.scores, X)
        return scores[:, 1] - scores[:, 0] if scores.ndim == 2 == scores.shape[1] else scores

    @available_if(_tells_chances)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities `(n, k)`, of fits whose scores are log-odds.

        Of one plane for each class against all others they are divided by their sum.
        """
        return self._of_params(self._chances, X)

    @available_if(_tells_chances)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of `predict_proba`."""
        return self._of_params(self._log_chances, X)

    def _weighed(self, codes: np.ndarray, weight: np.ndarray | None) -> Any:
        if self.class_weight is None:
            return weight
        k = len(self.classes_)
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            return resample.balanced(codes, num_classes=k, sample_weight=weight)
        labels = self.classes_[codes]
        factors = compute_class_weight(self.class_weight, classes=self.classes_, y=labels)
        return factors[codes] if weight is None else factors[codes] * weight

    def _say_if_failed(self) -> None:
        try:
            raise_if_failed(self.info_)
        except FitError as error:
            if any(np.isnan(a).any() for a in jax.tree.leaves(self.params_)):
                raise ValueError(str(error)) from None
            warnings.warn(str(error), ConvergenceWarning, stacklevel=3)

    def _set_coefficients(self) -> None:
        plane: Any = None
        if isinstance(self.params_, Hyperplane):
            plane = (a[None] for a in self.params_)
        elif isinstance(self.params_, Linear) and len(self.classes_) == 2:
            plane = (np.diff(a, axis=0) for a in self.params_)
        elif isinstance(self.params_, Linear | Pairwise):
            plane = self.params_
        if plane is not None:
            self.coef_, self.intercept_ = plane

    def _of_params(self, f: Callable, X: Any) -> np.ndarray:
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=DTYPES, accept_sparse="csr")
        with _digits_of(x):
            return np.asarray(f(self.params_, _table_of(x)))

    def _is_one_vs_rest(self) -> bool:
        return len(self.classes_) > 2 and not _options.takes(self._fit, "num_classes")

    def _chances(self, params: Any, x: np.ndarray) -> jax.Array:
        if self._is_one_vs_rest():
            return multiclass.probabilities(params, x)
        return _dispatch.probabilities(params, x)

    def _log_chances(self, params: Any, x: np.ndarray) -> jax.Array:
        if self._is_one_vs_rest():
            return jax.nn.log_softmax(jax.nn.log_sigmoid(_dispatch.scores(params, x)), axis=1)
        return _dispatch.log_probabilities(params, x)


def _table_of(x: Any) -> Any:
    """x, dense if it is small, and else what stands for a scipy matrix."""
    if not hasattr(x, "tocsr"):
        return x
    small = x.shape[0] * x.shape[1] <= _checks.DENSE_ENTRIES[True]
    return x.toarray() if small else sparse.from_scipy(x)


def _digits_of(x: Any) -> Any:
    """Where JAX computes in the dtype of x."""
    return jax.enable_x64(True) if x.dtype == np.float64 else contextlib.nullcontext()
