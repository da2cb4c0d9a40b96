"""`estimators.Classifier`: scikit-learn's own checks, and what people do with an estimator."""

import functools
import pickle
import subprocess
import sys
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

import jaxlin
from jaxlin import (
    centroids,
    fisher,
    gaussian,
    lda,
    least_squares,
    logistic,
    losses,
    multiclass,
    naive_bayes,
    ordinal,
    perceptron,
    qda,
    resample,
    softmax,
    svm,
)
from jaxlin._base import _checks
from jaxlin.estimators import Classifier
from jaxlin.types import Status
from tests import public
from tests.public import thorough

RNG = np.random.default_rng(0)
N, D = 90, 4
X = RNG.normal(size=(N, D))
CODES = np.argmax(X[:, :3] + RNG.gumbel(size=(N, 3)), axis=1)
NAMES = np.array(["cat", "dog", "eel"])
MANY = NAMES[CODES]
TWO = NAMES[np.minimum(CODES, 1)]
WEIGHT = RNG.integers(0, 4, N).astype(float)

# --- scikit-learn's own checks ------------------------------------------------------------------

# As scikit-learn grants its own online rules.
ONLINE = {
    "check_sample_weight_equivalence_on_dense_data": "a weight scales the update",
    "check_sample_weight_equivalence_on_sparse_data": "a weight scales the update",
    "check_class_weight_classifiers": "a weight scales the update, which more passes make up for",
}
# Of 15 rows in three classes with 10 features.
FEW = {
    "check_sample_weight_equivalence_on_dense_data": "a class of fewer rows than features",
    "check_sample_weight_equivalence_on_sparse_data": "a class of fewer rows than features",
}
# The check compares the logarithm with that of a probability, which in float32 is 1.
SHORT = {"check_classifiers_train": "a logarithm has digits that float32's probability has not"}
# Of estimators with class weights and scores, as scikit-learn's of counts are not.
NEGATIVE = {
    "check_class_weight_classifiers": "numbers below 0 are no counts",
    "check_decision_proba_consistency": "numbers below 0 are no counts",
}
UNORDERED = {"check_classifiers_train": "groups of points that are in no order"}
OVERLAP = {"check_classifiers_train": "classes that overlap have no hard margin"}
CHECKED = {
    "fisher.fit": (Classifier(fisher.fit, threshold=fisher.equal_variance), FEW),
    "gaussian.fit": (Classifier(gaussian.fit), FEW),
    "gaussian.fit_tied": (Classifier(gaussian.fit_tied), FEW),
    "centroids.fit": (Classifier(centroids.fit, threshold=0.1), {}),
    "lda.fit": (Classifier(lda.fit, shrinkage=0.1), {}),
    "least_squares.fit": (Classifier(least_squares.fit, l2=0.1), {}),
    "logistic.fit": (Classifier(logistic.fit, l2=0.1), {}),
    "logistic.fit_firth": (Classifier(logistic.fit_firth), SHORT),
    "naive_bayes.fit_complement": (Classifier(naive_bayes.fit_complement), NEGATIVE),
    "naive_bayes.fit_gaussian": (Classifier(naive_bayes.fit_gaussian), {}),
    "naive_bayes.fit_multinomial": (Classifier(naive_bayes.fit_multinomial), NEGATIVE),
    "ordinal.fit": (Classifier(ordinal.fit, l2=0.1), UNORDERED),
    "perceptron.fit": (Classifier(perceptron.fit), ONLINE),
    "perceptron.fit_averaged": (Classifier(perceptron.fit_averaged), ONLINE),
    "perceptron.fit_pocket": (Classifier(perceptron.fit_pocket), ONLINE),
    "qda.fit": (Classifier(qda.fit, pooling=0.5, shrinkage=0.1), {}),
    "softmax.fit": (Classifier(softmax.fit, l2=0.1), {}),
    "svm.fit": (Classifier(svm.fit, l2=0.1), {}),
    "svm.fit_hard_margin": (Classifier(svm.fit_hard_margin), OVERLAP),
    "svm.fit_crammer_singer": (Classifier(svm.fit_crammer_singer, l2=0.1), {}),
}
# Compiling for the shapes of some fifty checks takes a minute a fit.
QUICK = {"lda.fit", "perceptron.fit"}


# Their x is 0 and 1, which the checks do not give.
BINARY = {"naive_bayes.fit_bernoulli", "naive_bayes.fit_categorical"}


def test_every_fit_is_checked():
    fits = {name for name in public.FUNCTIONS if public.is_fit(name)} - {"calibration.fit_cross"}
    assert set(CHECKED) == fits - BINARY


@pytest.mark.parametrize("name", [n if n in QUICK else thorough(n) for n in CHECKED])
def test_scikit_learns_checks_pass(name):
    model, reasons = CHECKED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimator_checks.check_estimator(
            model, expected_failed_checks=reasons, on_skip=None, on_fail=None
        )
    failed = {a["check_name"]: a["exception"] for a in found if a["status"] == "failed"}
    skipped = {a["check_name"] for a in found if a["status"] == "skipped"}
    assert not failed, failed
    assert skipped <= {"check_array_api_input"}, skipped
    assert sum(a["status"] == "passed" for a in found) > 50


# --- it is the fit --------------------------------------------------------------------------------


def same(a, b, **tolerance):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), **({"rtol": 1e-12} | tolerance))


def test_two_classes():
    model = Classifier(logistic.fit, l2=0.01).fit(X, TWO, sample_weight=WEIGHT)
    y = (TWO == "dog").astype(int)
    params, info = logistic.fit(X, y, l2=0.01, sample_weight=WEIGHT)
    same(model.coef_, params.weights[None])
    same(model.intercept_, params.bias[None])
    same(model.info_.objective, info.objective)
    same(model.decision_function(X), jaxlin.scores(params, X))
    same(model.predict_proba(X), jaxlin.probabilities(params, X))
    same(model.predict_log_proba(X), jaxlin.log_probabilities(params, X))
    assert model.predict(X).tolist() == NAMES[np.asarray(jaxlin.predict(params, X))].tolist()
    assert model.score(X, TWO) == np.mean(model.predict(X) == TWO) > 0.6
    peer = LogisticRegression(C=1 / (0.01 * WEIGHT.sum()), tol=1e-10).fit(X, TWO, WEIGHT)
    same(model.coef_, peer.coef_, rtol=1e-5)
    same(model.predict_proba(X), peer.predict_proba(X), rtol=1e-4)


@pytest.mark.parametrize("fit", [softmax.fit, lda.fit, qda.fit, gaussian.fit_tied])
def test_many_classes(fit):
    model = Classifier(fit).fit(X, MANY)
    params, _ = fit(X, CODES, num_classes=3)
    same(model.predict_proba(X), jaxlin.probabilities(params, X))
    same(model.decision_function(X), jaxlin.scores(params, X))
    assert hasattr(model, "coef_") == (fit in (softmax.fit, lda.fit))
    if hasattr(model, "coef_"):
        same(model.coef_, params.weights)


def test_two_classes_of_a_fit_of_many_have_one_score():
    model = Classifier(softmax.fit, l2=0.1).fit(X, TWO)
    assert model.coef_.shape == (1, D) and model.intercept_.shape == (1,)
    same(model.decision_function(X), X @ model.coef_[0] + model.intercept_[0])
    same(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-model.decision_function(X))))
    assert ((model.decision_function(X) > 0) == (model.predict(X) == "dog")).all()


def test_a_binary_fit_of_many_classes_is_one_against_the_rest():
    model = Classifier(logistic.fit, l2=0.01).fit(X, MANY)
    same(model.params_.weights, multiclass.one_vs_rest(logistic.fit)(X, CODES, l2=0.01)[0].weights)
    peer = OneVsRestClassifier(LogisticRegression(C=1 / (0.01 * N), tol=1e-10)).fit(X, MANY)
    same(model.predict_proba(X), peer.predict_proba(X), rtol=1e-4)
    same(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    pairs = Classifier(multiclass.one_vs_one(fisher.fit)).fit(X, MANY)
    assert pairs.coef_.shape == (3, D) and pairs.score(X, MANY) > 0.5


def test_probabilities_are_told_only_where_scores_are_log_odds():
    told = [logistic.fit, logistic.fit_firth, softmax.fit, lda.fit, qda.fit, gaussian.fit]
    told += [functools.partial(logistic.fit, l2=1.0), resample.on_standardized(softmax.fit)]
    untold = [svm.fit, perceptron.fit, fisher.fit, least_squares.fit, public.mean_difference]
    assert all(hasattr(Classifier(fit), "predict_proba") for fit in told)
    assert not any(hasattr(Classifier(fit), "predict_proba") for fit in untold)


def test_digits_are_those_of_x():
    program = (
        "import numpy as np, jax\n"
        "from jaxlin import estimators, logistic\n"
        "rng = np.random.default_rng(0)\n"
        "x, y = rng.normal(size=(50, 3)), rng.integers(0, 2, 50)\n"
        "for dtype in ('float64', 'float32', 'int32'):\n"
        "    model = estimators.Classifier(logistic.fit, l2=0.1).fit(x.astype(dtype), y)\n"
        "    print(model.coef_.dtype, model.predict_proba(x.astype(dtype)).dtype)\n"
        "print(jax.numpy.ones(1).dtype)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    double = "float64 float64"
    assert done.stdout.split("\n")[:4] == [double, "float32 float32", double, "float32"]


# --- weights --------------------------------------------------------------------------------------


def test_class_weights_are_weights():
    for given, weight in (
        ({"cat": 2.0, "dog": 0.5, "eel": 1.0}, np.array([2.0, 0.5, 1.0])[CODES] * WEIGHT),
        ("balanced", resample.balanced(CODES, sample_weight=WEIGHT)),
    ):
        model = Classifier(softmax.fit, class_weight=given, l2=0.01).fit(X, MANY, WEIGHT)
        expected = Classifier(softmax.fit, l2=0.01).fit(X, MANY, weight)
        same(model.coef_, expected.coef_)
    for words in ("balance", 3):
        with pytest.raises(ValueError, match="class_weight"):
            Classifier(softmax.fit, class_weight=words).fit(X, MANY)
    balanced = Classifier(logistic.fit, class_weight="balanced", l2=1 / N).fit(X, TWO)
    peer = LogisticRegression(class_weight="balanced", tol=1e-10).fit(X, TWO)
    same(balanced.coef_, peer.coef_, rtol=1e-5)


def test_weights_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        model = Classifier(logistic.fit, l2=0.1).set_fit_request(sample_weight=True)
        model = model.set_score_request(sample_weight=True)
        values = cross_val_score(model, X, TWO, params={"sample_weight": WEIGHT}, cv=3)
        plain = cross_val_score(model, X, TWO, cv=3)
    assert np.isfinite(values).all() and (values != plain).any()


# --- what people do with an estimator -------------------------------------------------------------


def test_a_frame_with_strings_in_a_pipeline():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = make_pipeline(StandardScaler(), Classifier(logistic.fit, l2=0.1))
    chances = cross_val_predict(model, frame, pandas.Series(TWO), cv=5, method="predict_proba")
    assert chances.shape == (N, 2)
    assert jaxlin.metrics.roc_auc(jnp.asarray(chances[:, 1]), TWO == "dog") > 0.6
    alone = Classifier(logistic.fit, l2=0.1).fit(frame, TWO)
    assert alone.feature_names_in_.tolist() == list("abcd") and alone.n_features_in_ == D
    with pytest.raises(ValueError, match="feature names"):
        alone.predict(frame[list("dcba")])
    with pytest.raises(ValueError, match="its index is not that of X"):
        alone.fit(frame, pandas.Series(TWO, index=range(1, N + 1)))
    nullable = frame.convert_dtypes()
    same(alone.fit(nullable, TWO).coef_, Classifier(logistic.fit, l2=0.1).fit(X, TWO).coef_)


def test_a_search_over_an_option_that_was_not_given():
    grid = {"classifier__l2": [1e-3, 1e-1, 10.0]}
    model = sklearn.pipeline.Pipeline(
        [("scale", StandardScaler()), ("classifier", Classifier(softmax.fit))]
    )
    search = GridSearchCV(model, grid, cv=3).fit(X, MANY)
    assert search.best_params_["classifier__l2"] in grid["classifier__l2"]
    assert search.best_estimator_["classifier"].l2 == search.best_params_["classifier__l2"]
    assert len(set(search.cv_results_["mean_test_score"])) > 1


def test_calibration_and_importances():
    model = CalibratedClassifierCV(Classifier(svm.fit, l2=0.1, loss=losses.squared_hinge), cv=3)
    assert model.fit(X, MANY).predict_proba(X).shape == (N, 3)
    found = permutation_importance(Classifier(lda.fit).fit(X, MANY), X, MANY, random_state=0)
    assert found.importances_mean[:3].min() > found.importances_mean[3]


@pytest.mark.parametrize("entries", [2**22, 0])
def test_words_in_a_pipeline(monkeypatch, entries):
    """A vectorizer's scipy matrix, which is made dense if it is small."""
    monkeypatch.setitem(_checks.DENSE_ENTRIES, True, entries)
    texts = ["good fine film", "bad dull film", "good great", "dull awful", "fine plot", "bad plot"]
    model = make_pipeline(TfidfVectorizer(), Classifier(logistic.fit, l2=0.01))
    model.fit(texts, ["yes", "no", "yes", "no", "yes", "no"])
    assert model.predict(["a good great film", "an awful dull film"]).tolist() == ["yes", "no"]
    dense = Classifier(logistic.fit, l2=0.01)
    dense.fit(model[0].transform(texts).toarray(), ["yes", "no", "yes", "no", "yes", "no"])
    np.testing.assert_allclose(model[-1].coef_, dense.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("fit", [logistic.fit, functools.partial(logistic.fit, l2=0.1), lda.fit])
def test_it_clones_and_pickles(fit):
    more = {} if fit is not lda.fit else {"shrinkage": lda.ledoit_wolf}
    model = Classifier(fit, class_weight="balanced", **more)
    assert clone(model).get_params().keys() == {"fit", "class_weight", *more}
    fitted = model.fit(X, TWO)
    again = pickle.loads(pickle.dumps(fitted))
    same(again.decision_function(X), fitted.decision_function(X), rtol=0)
    assert not hasattr(clone(fitted), "coef_")
    assert "class_weight='balanced'" in repr(fitted) and fitted._repr_html_()


def test_params():
    model = Classifier(logistic.fit, l2=0.1)
    assert model.l2 == 0.1 and model.set_params(l2=0.2, l1=0.01) is model
    assert model.get_params() == {
        "fit": logistic.fit, "class_weight": None, "l2": 0.2, "l1": 0.01
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"Invalid parameter 'C' for estimator Classifier\("):
        model.set_params(C=1.0)
    model.set_params(fit=lda.fit, shrinkage=0.5)
    assert model.get_params()["fit"] is lda.fit
    with pytest.raises(AttributeError, match="'Classifier' object has no attribute 'C'"):
        _ = model.C
    with pytest.raises(NotFittedError):
        model.predict(X)


# --- what fails says so ---------------------------------------------------------------------------


def test_a_failed_status_warns_once_with_its_words():
    apart = np.where(TWO == "dog", X[:, 0] ** 2 + 1, -1)[:, None]
    with pytest.warns(ConvergenceWarning, match="SEPARABLE: the optimum is at infinity") as told:
        model = Classifier(logistic.fit).fit(apart, TWO)
    assert len(told) == 1 and told[0].filename == __file__
    assert model.info_.status == Status.SEPARABLE and model.score(apart, TWO) == 1
    with pytest.warns(ConvergenceWarning, match="MAX_STEPS"):
        Classifier(svm.fit, l2=0.1, max_steps=1).fit(X, TWO)


def test_no_params_are_an_error():
    x = np.append(X, [[9.0] * D], axis=0)
    y = np.append(MANY, "fox")
    with pytest.raises(ValueError, match="CLASS_TOO_SMALL"):
        Classifier(qda.fit).fit(x, y)
    with pytest.raises(ValueError, match="at least two classes of weight, got one class: 'cat'"):
        Classifier(lda.fit).fit(X, MANY, sample_weight=(MANY == "cat") * 1.0)
    with pytest.raises(ValueError, match=r"^l2: 1 of 1 entries are negative"):
        Classifier(logistic.fit, l2=-1.0).fit(X, TWO)


def test_it_needs_scikit_learn_and_the_package_does_not():
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import jaxlin\n"
        "from jaxlin import *\n"
        "try:\n"
        "    jaxlin.estimators\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and "pip install" in done.stdout, done.stderr
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = jaxlin.nothing
