"""Coming from scikit-learn: what the guide's table says of each estimator, checked against it."""

import re
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn
import sklearn.metrics as peers
import sklearn.multiclass as schemes
import sklearn.naive_bayes as sk_bayes
import sklearn.svm as machines
from sklearn import (
    covariance,
    discriminant_analysis,
    linear_model,
    model_selection,
    neighbors,
    pipeline,
    preprocessing,
)
from sklearn.utils import all_estimators
from sklearn.utils.class_weight import compute_sample_weight

import jaxlin
from jaxlin import (
    centroids,
    features,
    fisher,
    labels,
    lda,
    least_squares,
    linear,
    logistic,
    losses,
    metrics,
    multiclass,
    naive_bayes,
    perceptron,
    qda,
    resample,
    softmax,
    svm,
    updates,
)
from jaxlin.types import Hyperplane
from tests import public

GUIDE = Path(__file__).parent.parent / "notebooks" / "guide"
PAGE = (GUIDE / "scikit-learn.md").read_text(encoding="utf-8")
N, C = 60, 0.7
# By what their discriminants divide by default: before 1.9 by n less the number of classes.
BY_N = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9)
HARD = {"tol": 1e-10, "max_iter": 100_000}  # as near to the optimum as they go
ONE_PASS = {"penalty": None, "max_iter": 1, "shuffle": False, "tol": None}
HAVE_CLASSIFIERS = ("linear_model", "discriminant_analysis", "svm", "multiclass", "naive_bayes")


class Data(NamedTuple):
    """Overlapping classes of 20 rows and more each, in random order; and a separable pair."""

    x: np.ndarray
    two: np.ndarray
    three: np.ndarray
    apart: np.ndarray


def _drawn() -> Data:
    rng = np.random.default_rng(0)
    two, three = (rng.permutation(np.arange(N) % k) for k in (2, 3))
    x = rng.normal(size=(N, 4)) + np.stack([two, -three, three**2, 0 * two], axis=1)
    return Data(x, two, three, np.round(4 * x) + np.outer(2 * two - 1, [20, 0, 3, 1]))


DATA = _drawn()
L2 = losses.l2_from_C(C, N)


def _plane(theirs):
    """What a fitted binary estimator holds, as ours."""
    return Hyperplane(theirs.coef_[0], theirs.intercept_[0])


def _with_constant(x):
    """For machines that penalise the bias: it is then one more weight."""
    return np.asarray(features.bias(x))


def _a_perceptron(d):
    theirs = linear_model.Perceptron(eta0=0.5, max_iter=30, shuffle=False, tol=None)
    ours, _ = perceptron.fit(d.apart, d.two, step_size=0.5, max_epochs=30)
    return _plane(theirs.fit(d.apart, d.two)), ours


def _descent(d):
    theirs = linear_model.SGDClassifier(
        loss="log_loss", learning_rate="constant", eta0=0.1, **ONE_PASS
    )
    start = Hyperplane(jnp.zeros(4), jnp.zeros(()))
    ours, _ = updates.run(updates.logistic, start, d.x, d.two, step_size=0.1)
    return _plane(theirs.fit(d.x, d.two)), ours


def _passive_aggressive(d):
    # Theirs leaves the bias out of the length of a row.
    theirs = linear_model.SGDClassifier(
        loss="hinge", learning_rate="pa1", eta0=C, fit_intercept=False, **ONE_PASS
    )
    start = Hyperplane(jnp.zeros(4), jnp.zeros(()))
    rule = updates.passive_aggressive
    ours, _ = updates.run(rule, start, d.x, d.two, aggressiveness=C, bias=False)
    return theirs.fit(d.x, d.two).coef_[0], ours.weights


def _passive_aggressive_ii(d):
    theirs = linear_model.SGDClassifier(
        loss="hinge", learning_rate="pa2", eta0=C, fit_intercept=False, **ONE_PASS
    )
    start = Hyperplane(jnp.zeros(4), jnp.zeros(()))
    rule = updates.passive_aggressive_ii
    ours, _ = updates.run(rule, start, d.x, d.two, aggressiveness=C, bias=False)
    return theirs.fit(d.x, d.two).coef_[0], ours.weights


def _logistic(d):
    theirs = linear_model.LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12)
    return _plane(theirs.fit(d.x, d.two)), logistic.fit(d.x, d.two, l2=L2)[0]


def _elastic_net(d):
    theirs = linear_model.LogisticRegression(C=C, l1_ratio=0.7, solver="saga", **HARD)
    ours, _ = logistic.fit(d.x, d.two, l1=0.7 * L2, l2=0.3 * L2)
    return _plane(theirs.fit(d.x, d.two)), ours


def _elastic_net_of_classes(d):
    theirs = linear_model.LogisticRegression(C=C, l1_ratio=0.7, solver="saga", **HARD)
    ours, _ = softmax.fit(d.x, d.three, l1=0.7 * L2, l2=0.3 * L2)
    return theirs.fit(d.x, d.three).coef_, ours.weights


def _lasso(d):
    theirs = linear_model.ElasticNet(alpha=0.1, l1_ratio=0.5, **HARD).fit(d.x, d.three)
    ours, _ = least_squares.regress(d.x, d.three, l1=0.05, l2=0.05)
    return Hyperplane(theirs.coef_, theirs.intercept_), ours


def _softmax(d):
    theirs = linear_model.LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12)
    theirs.fit(d.x, d.three)
    ours, _ = softmax.fit(d.x, d.three, l2=L2)
    return theirs.predict_proba(d.x), jaxlin.probabilities(ours, d.x)


def _chosen_penalty(d):
    folds = resample.kfold(jax.random.key(0), N, folds=3)
    held_out = np.asarray(jnp.argmin(folds, axis=0))
    grid = np.array([0.001, 0.01, 0.1, 1.0, 10.0])
    theirs = linear_model.LogisticRegressionCV(
        Cs=1 / (grid * N * 2 / 3),  # two thirds of the rows are fitted
        cv=model_selection.PredefinedSplit(held_out),
        scoring="neg_log_loss",
        solver="newton-cholesky",
        use_legacy_attributes=False,
        l1_ratios=(0,),
    ).fit(d.x, d.two)
    *_, ours = resample.select(logistic.fit, metrics.log_loss, d.x, d.two, folds, l2=grid)
    return 1 / (theirs.C_ * N * 2 / 3), ours


def _ridge(d):
    theirs = linear_model.RidgeClassifier(alpha=0.3).fit(d.x, d.three)
    ours, _ = least_squares.fit(d.x, d.three, l2=0.3 / N)
    return theirs.decision_function(d.x), 2 * jaxlin.scores(ours, d.x) - 1


def _chosen_ridge(d):
    grid = np.array([0.01, 1.0, 100.0, 10_000.0])
    theirs = linear_model.RidgeClassifierCV(alphas=grid, scoring="accuracy").fit(d.x, d.three)
    folds = resample.leave_one_out(N)
    *_, ours = resample.select(
        least_squares.fit, metrics.accuracy, d.x, d.three, folds, l2=grid / (N - 1)
    )
    means = [
        np.mean(
            resample.cross_validate(
                least_squares.fit, metrics.accuracy, d.x, d.three, folds, l2=alpha / (N - 1)
            )[0]
        )
        for alpha in (theirs.alpha_, float(ours) * (N - 1))
    ]
    return means[0], means[1]  # of equals they take another one


def _linear_svc(d):
    theirs = machines.LinearSVC(C=C, **HARD).fit(d.x, d.two)
    loss = losses.squared_hinge
    ours, _ = svm.fit(_with_constant(d.x), d.two, l2=L2, loss=loss, bias=False)
    return np.append(theirs.coef_[0], theirs.intercept_), ours.weights


def _crammer_singer(d):
    theirs = machines.LinearSVC(C=C, multi_class="crammer_singer", fit_intercept=False, **HARD).fit(
        d.x, d.three
    )
    ours, _ = svm.fit_crammer_singer(d.x, d.three, l2=L2, bias=False)
    return theirs.coef_, ours.weights


def _svc(d):
    theirs = machines.SVC(C=C, kernel="linear", tol=1e-9).fit(d.x, d.two)
    return _plane(theirs), svm.fit(d.x, d.two, l2=L2)[0]


def _discriminants(d):
    theirs = discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2)
    ours, _ = lda.fit(d.x, d.three, shrinkage=0.2)
    return theirs.fit(d.x, d.three).predict_proba(d.x), jaxlin.probabilities(ours, d.x)


def _default_discriminants(d):
    theirs = discriminant_analysis.LinearDiscriminantAnalysis().fit(d.x, d.three)
    ours, _ = lda.fit(d.x, d.three, divisor="n" if BY_N else "n-k")
    return theirs.predict_proba(d.x), jaxlin.probabilities(ours, d.x)


def _quadratic_discriminants(d):
    theirs = discriminant_analysis.QuadraticDiscriminantAnalysis().fit(d.x, d.three)
    ours, _ = qda.fit(d.x, d.three, divisor="n" if BY_N else "n_k-1")
    return theirs.predict_proba(d.x), jaxlin.probabilities(ours, d.x)


def _shrunk_quadratic_discriminants(d):
    theirs = discriminant_analysis.QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.2)
    ours, _ = qda.fit(d.x, d.three, shrinkage=0.2)
    return theirs.fit(d.x, d.three).predict_proba(d.x), jaxlin.probabilities(ours, d.x)


def _nearest_centroid(d):
    theirs = neighbors.NearestCentroid().fit(d.x, d.three)
    ours, _ = lda.fit(d.x, d.three, shrinkage=1.0, priors=jnp.full(3, 1 / 3))
    return theirs.predict(d.x), jaxlin.predict(ours, d.x)


def _bayes(ours, theirs, x, d):
    fitted, _ = ours(x, d.three)
    return theirs.fit(x, d.three).predict_proba(x), jaxlin.probabilities(fitted, x)


def _bayes_of_numbers(d):
    return _bayes(naive_bayes.fit_gaussian, sk_bayes.GaussianNB(), d.x, d)


def _bayes_of_counts(d):
    x = np.round(np.abs(d.x))
    return _bayes(naive_bayes.fit_multinomial, sk_bayes.MultinomialNB(), x, d)


def _bayes_of_others(d):
    x = np.round(np.abs(d.x))
    fitted, _ = naive_bayes.fit_complement(x, d.three)
    theirs = sk_bayes.ComplementNB().fit(x, d.three)
    return theirs.predict_joint_log_proba(x), jaxlin.scores(fitted, x)


def _bayes_of_bits(d):
    x = (d.x > 0).astype(float)
    return _bayes(naive_bayes.fit_bernoulli, sk_bayes.BernoulliNB(binarize=None), x, d)


def _bayes_of_categories(d):
    codes = (d.x > 0).astype(int)
    sizes = (2,) * codes.shape[1]
    x, groups = features.one_hot(codes, sizes=sizes), np.repeat(np.arange(len(sizes)), sizes)
    fitted, _ = naive_bayes.fit_categorical(x, d.three, groups=groups)
    theirs = sk_bayes.CategoricalNB().fit(codes, d.three)
    return theirs.predict_proba(codes), jaxlin.probabilities(fitted, x)


def _shrunken_centroids(d):
    theirs = neighbors.NearestCentroid(shrink_threshold=1.0).fit(d.x, d.three)
    ours, _ = centroids.fit(d.x, d.three, threshold=1.0)
    # Weights are distances from the mean of all, in squared spreads.
    spread = theirs.within_class_std_dev_
    scale = spread + np.median(spread)
    return theirs.centroids_, d.x.mean(axis=0) + np.asarray(ours.weights) * scale**2


def _one_vs_rest(d):
    theirs = schemes.OneVsRestClassifier(machines.SVC(C=C, kernel="linear", tol=1e-9))
    ours, _ = multiclass.one_vs_rest(svm.fit)(d.x, d.three, l2=L2)
    return theirs.fit(d.x, d.three).decision_function(d.x), jaxlin.scores(ours, d.x)


def _one_vs_one(d):
    theirs = schemes.OneVsOneClassifier(machines.SVC(C=C, kernel="linear", tol=1e-9))
    ours, _ = multiclass.one_vs_one(svm.fit)(d.x, d.three, l2=losses.l2_from_C(C, 2 * N / 3))
    theirs.fit(d.x, d.three)
    return np.stack([e.coef_[0] for e in theirs.estimators_]), ours.weights


def _shrinkage(d):
    within = d.x - np.stack([d.x[d.three == c].mean(axis=0) for c in range(3)])[d.three]
    return covariance.LedoitWolf().fit(within).shrinkage_, lda.ledoit_wolf(d.x, d.three)


def _balanced(d):
    return compute_sample_weight("balanced", d.three % 2), resample.balanced(d.three % 2)


def _balanced_in_folds(d):
    """400 balanced accuracies: of a pipeline by their folds, and of its twin by ours."""

    def recall(scores, y, *, sample_weight):
        truth = jnp.where(y[None, :] == jnp.arange(2)[:, None], sample_weight[None, :], 0)
        right = jnp.where(((scores > 0) == (y > 0))[None, :], truth, 0)
        return jnp.mean(right.sum(axis=1) / truth.sum(axis=1))

    pipe = pipeline.make_pipeline(
        preprocessing.StandardScaler(),
        linear_model.LogisticRegression(C=C, class_weight="balanced", **HARD),
    )
    fit, theirs, ours = resample.on_standardized(resample.on_balanced(logistic.fit)), [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = (np.arange(100) < 30).astype(int)
        x = rng.normal(size=(100, 3)) * [1, 30, 0.01] + 0.5 * y[:, None]
        folds = np.asarray(resample.stratified_kfold(jax.random.key(seed), y, folds=10))
        l2 = losses.l2_from_C(C, 90)
        ours.append(resample.cross_validate(fit, recall, x, y, folds, l2=l2)[0])
        for fold in folds:
            pipe.fit(x[fold > 0], y[fold > 0])
            truth, found = y[fold == 0], pipe.predict(x[fold == 0])
            theirs.append(peers.balanced_accuracy_score(truth, found))
    return np.array(theirs), np.concatenate(ours)


def _axes(d):
    theirs = discriminant_analysis.LinearDiscriminantAnalysis(solver="eigen").fit(d.x, d.three)
    scalings = theirs.scalings_[:, :2] * np.sign(
        theirs.scalings_[np.abs(theirs.scalings_[:, :2]).argmax(axis=0), [0, 1]]
    )
    return scalings, fisher.directions(d.x, d.three)


def _standardised(d):
    ours = features.standardize(features.standardizer(d.x), d.x)
    return preprocessing.StandardScaler().fit_transform(d.x), ours


def _polynomial(d):
    theirs = preprocessing.PolynomialFeatures(2, include_bias=False)
    return theirs.fit_transform(d.x), features.polynomial(d.x, degree=2)


def _encoded(d):
    theirs = preprocessing.LabelEncoder().fit_transform(d.three * 7 - 3)
    return theirs, labels.encode(d.three * 7 - 3)[0]


def _validated(d):
    folds = resample.kfold(jax.random.key(0), N, folds=3)
    split = model_selection.PredefinedSplit(np.asarray(jnp.argmin(folds, axis=0)))
    estimator = discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr")
    theirs = model_selection.cross_val_score(estimator, d.x, d.three, cv=split)
    return theirs, resample.cross_validate(lda.fit, metrics.accuracy, d.x, d.three, folds)[0]


def _measured(d):
    plane, _ = logistic.fit(d.x, d.two, l2=L2)
    s, p = jaxlin.scores(plane, d.x), jaxlin.probabilities(plane, d.x)
    theirs = [
        peers.accuracy_score(d.two, s > 0),
        peers.log_loss(d.two, p),
        peers.roc_auc_score(d.two, s),
        *peers.confusion_matrix(d.two, s > 0).ravel(),
    ]
    ours = [metrics.accuracy(s, d.two), metrics.log_loss(s, d.two), metrics.roc_auc(s, d.two)]
    return np.array(theirs), np.array([*ours, *metrics.confusion(s, d.two).ravel()])


# What rows of the guide's table say; an estimator's variants stand beside each other.
CONVERSIONS = {
    "Perceptron": [_a_perceptron],
    "SGDClassifier": [_descent],
    "PassiveAggressiveClassifier": [_passive_aggressive, _passive_aggressive_ii],
    "LogisticRegression": [_logistic, _softmax, _elastic_net, _elastic_net_of_classes],
    "ElasticNet": [_lasso],
    "LogisticRegressionCV": [_chosen_penalty],
    "RidgeClassifier": [_ridge],
    "RidgeClassifierCV": [_chosen_ridge],
    "LinearSVC": [_linear_svc, _crammer_singer],
    "SVC": [_svc],
    "LinearDiscriminantAnalysis": [_discriminants, _default_discriminants],
    "QuadraticDiscriminantAnalysis": [
        _quadratic_discriminants,
        _shrunk_quadratic_discriminants,
    ],
    "NearestCentroid": [_nearest_centroid, _shrunken_centroids],
    "GaussianNB": [_bayes_of_numbers],
    "MultinomialNB": [_bayes_of_counts],
    "ComplementNB": [_bayes_of_others],
    "BernoulliNB": [_bayes_of_bits],
    "CategoricalNB": [_bayes_of_categories],
    "OneVsRestClassifier": [_one_vs_rest],
    "OneVsOneClassifier": [_one_vs_one],
    "LedoitWolf": [_shrinkage],
    "class_weight": [_balanced, _balanced_in_folds],
    "transform": [_axes],
    "StandardScaler": [_standardised],
    "PolynomialFeatures": [_polynomial],
    "LabelEncoder": [_encoded],
    "cross_val_score": [_validated],
    "accuracy_score": [_measured],
}
CHECKS = [check for checks in CONVERSIONS.values() for check in checks]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # theirs, of their own next versions
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.strip("_"))
def test_the_conversion_gives_the_same(check):
    theirs, ours = check(DATA)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-5), theirs, ours)


def test_ridge_of_two_classes_is_one_plane():
    theirs = linear_model.RidgeClassifier(alpha=0.3).fit(DATA.x, DATA.two)
    ours, _ = least_squares.fit(DATA.x, DATA.two, l2=0.3 / N)
    plane = linear.between(ours, 0, 1)
    np.testing.assert_allclose(plane.weights, np.ravel(theirs.coef_), rtol=1e-9)


def table():
    return re.findall(r"^\| (.*?) \|", PAGE, re.MULTILINE), PAGE


def test_what_is_checked_is_in_the_table():
    rows, _ = table()
    named = {name for row in rows for name in CONVERSIONS if re.search(rf"[`.]{name}\b", row)}
    assert named == set(CONVERSIONS)


def test_every_linear_classifier_of_scikit_learn_is_in_the_table():
    _, section = table()
    for name, estimator in all_estimators("classifier"):
        if estimator.__module__.split(".")[1] in HAVE_CLASSIFIERS:
            assert f"`{name}" in section, name


def test_the_functions_that_the_table_names_exist():
    rows = re.findall(r"^\|.*?\|(.*)\|$", table()[1], re.MULTILINE)
    for module, name in re.findall(r"`(\w+)\.(\w+)", " ".join(rows)):
        if module in public.MODULES or module == "jaxlin":
            is_class = isinstance(getattr(public.MODULES.get(module), name, None), type)
            assert is_class or f"{module}.{name}" in public.FUNCTIONS
