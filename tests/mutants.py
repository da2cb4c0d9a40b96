"""Small faults in the package, one at a time, and that the tests see each.

    python -m tests.mutants                     all of them, in about half an hour
    python -m tests.mutants _newton.py lda.py   those of some files

A fault is a few characters: a sign, an axis, a mask, a divisor, a tie the other way, a status for
another. It names the tests that should not pass with it, which are those of its own module: few,
so that all faults are tried in reasonable time. A fault that survives is a test that is missing,
unless it changes nothing that anyone could see; then it is no fault and has no place here.

Faults are made in copies of the checkout. `tests/test_mutants.py` sees to it that each still is a
fault of the present source.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

THOROUGH = "--thorough"


class Fault(NamedTuple):
    """One small fault in a file of the package, and the tests that should not pass with it.

    old: what stands there, once in the file; new: what is put in its place
    tests: pytest's names of them; after THOROUGH those too that are marked so
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


class Result(NamedTuple):
    """What pytest said: whether a test failed, which, and how long that took."""

    killed: bool
    by: str
    seconds: float


def of(file: str, *faults: tuple[str, ...]) -> list[Fault]:
    """Faults of one file: `(name, old, new, *tests)`, a test being `module::test` without test_."""

    def whole(test):
        return test if test == THOROUGH else f"tests/test_{test.replace('::', '.py::test_')}"

    return [
        Fault(name, file, old, new, tuple(map(whole, tests))) for name, old, new, *tests in faults
    ]


FAULTS = [
    *of(
        "_smooth/_mixed.py",
        (
            "a Hessian that float32 finds singular certifies",
            "decrement) & sound & led",
            "decrement) & led",
            "mixed::lanes_are_single_fits",
        ),
        (
            "a certificate is not asked for",
            "left = ~(separated | (certified & (point.residual <= tol)))",
            "left = ~(separated | (point.residual <= tol))",
            "mixed::lanes_are_single_fits",
        ),
        (
            "a residual above tol is enough",
            "left = ~(separated | (certified & (point.residual <= tol)))",
            "left = ~(separated | certified)",
            "mixed::what_refinement_leaves_is_left_to_float64",
        ),
        (
            "scores that are rounded away certify",
            "sound &= _rounding_of_scores(narrow, run.point.theta) <= SCORE",
            "",
            "mixed::scores_that_float32_rounds_away_certify_nothing",
        ),
        (
            "a lane that was led astray goes on from there",
            "alone, outcome, (problem, start, tol, cap, jnp.int32(0))",
            "alone, outcome, (problem, point.theta, tol, cap, jnp.int32(0))",
            "mixed::a_lane_that_is_not_led_has_the_status_of_a_single_fit",
        ),
        (
            "lanes on a mesh axis too",
            "or rows.axis.name is not None or _loops.varies(problem):",
            "or rows.axis.name is not None:",
            "mixed::lanes_that_are_dealt_over_a_mesh_axis_stay_in_float64",
        ),
        (
            "a copy of the columns for each lane",
            "shared = not (own.x or own.ok or own.feature_mask)",
            "shared = True",
            "mixed::columns_that_lanes_do_not_share_are_not_too_many",
        ),
    ),
    *of(
        "_smooth/_newton.py",
        (
            "the first step is Newton's own",
            "following = jnp.where(regular, _lengthened(",
            "following = jnp.where(False, _lengthened(",
            "logistic::the_first_step_is_about_as_long_as_to_the_optimum",
        ),
        (
            "the first step is as long as a regression's would have to be",
            "share = jnp.minimum(gain, part / 2)",
            "return step / (1 - gain)",
            "logistic::the_first_step_is_never_refused",
        ),
        (
            "J at 0 is what it is known to be, to the last digit",
            "(jnp.where(there, trial.value, point.value), point.residual)",
            "(point.value, point.residual)",
            "sampled::newtons_method_leaves_0_though_J_is_known_there_by_a_few_ulps_less",
        ),
        (
            "a start that is far is never taken",
            "poor = late | (trial.value > point.value / 2)",
            "poor = late | (trial.value < point.value)",
            "logistic::a_start_far_out_is_taken_where_it_is_good",
        ),
        (
            "everything is certified",
            "certified = is_certified(spec, problem, proof.root, proof.decrement) & proof.sound",
            "certified = proof.sound",
            "logistic::a_loose_tol_makes_no_optimum",
        ),
        (
            "a residual that passed ends it whatever the proof asks",
            "return passed & ~(outcome.certified",
            "return outcome.quasi & ~(outcome.certified",
            "logistic::a_loose_tol_makes_no_optimum",
        ),
        (
            "a factor of rounding is sound",
            "return RANK_ULPS * theta.size * float(",
            "return 0 * theta.size * float(",
            "problems::every_status_is_the_expected_one[logistic.fit-flat-float64]",
        ),
        (
            "overlap is called separable",
            "separated = point.short == 0\n",
            "separated = point.short <= 1\n",
            "logistic::random_problems_from_any_start",
        ),
        (
            "a bound of the proof is the proof",
            "return _linalg.when(~near, looked_at, near, (problem, root, decrement))",
            "return near",
            "logistic::where_a_bound_proves_nothing_the_rows_do",
        ),
        (
            "curvature that is lost is a proof",
            "quasi = _linalg.when(quasi, recedes, jnp.bool_(False), (problem, point, step, tail))",
            "quasi &= jnp.bool_(True)",
            "problems::every_status_is_the_expected_one[logistic.fit-flat-float64]",
        ),
        (
            "what nobody sees recedes",
            "return (reach > 0) & (drop >= -tail * reach)",
            "return drop >= -tail * reach",
            "logistic::where_every_weight_is_penalised_nothing_recedes",
        ),
        (
            "the opposite of what curvature is left",
            "held = _linalg.form(hess, flat) >=",
            "held = _linalg.form(hess, flat) <=",
            "logistic::every_status_eager_jitted_and_as_a_lane[QUASI_SEPARABLE]",
        ),
        (
            "the start is a step",
            "accept & (run.trials > before)",
            "accept & (run.trials >= before)",
            "logistic::a_start_does_not_change_the_answer",
            "softmax::a_warm_start_is_at_the_optimum_at_once",
        ),
        (
            "a step more than the cap",
            "run.trials <= cap + unknown",
            "run.trials <= cap + 1 + unknown",
            "logistic::no_more_steps_than_asked_for",
        ),
        (
            "away from the least norm",
            "theta=point.theta - proof.excess",
            "theta=point.theta + proof.excess",
            "logistic::collinear_columns_give_the_minimum_norm_optimum",
        ),
        (
            "a constant column is no deficiency",
            "deficient = proof.deficient | jnp.any(problem.idle)",
            "deficient = proof.deficient",
            "logistic::a_constant_column_is_a_deficiency_of_its_own",
        ),
        (
            "no step after the residual has passed",
            "enough = jnp.where(polished, passed >= 2, enough)",
            "enough = jnp.where(polished, passed >= 1, enough)",
            "logistic::nine_digits_in_float64",
            "reference::nine_digits_in_float64",
        ),
    ),
    *of(
        "_smooth/_iterate.py",
        (
            "uphill",
            "return -_linalg.solve(whole, grad), whole",
            "return _linalg.solve(whole, grad), whole",
            "solvers::the_minimum_of_a_pytree",
        ),
        (
            "damping never grows",
            "jnp.where(accept, least, 10 * least)",
            "jnp.where(accept, least, least)",
            "solvers::newton_does_not_diverge_from_far_starts",
        ),
        (
            "any finite trial is accepted",
            "decrease >= 1e-3 * predicted, fell",
            "decrease >= -jnp.inf * predicted, fell",
            "solvers::newton_does_not_diverge_from_far_starts",
        ),
        (
            "no step is the last",
            "finite & ~telling & ~fell)",
            "finite & telling & ~telling)",
            "logistic::every_status_eager_jitted_and_as_a_lane[STALLED]",
        ),
        (
            "schedules count from 0",
            "k = state.memory + 1",
            "k = state.memory",
            "solvers::gradient_descent_is_the_textbook_loop",
        ),
        (
            "the textbook's threshold without its step size",
            "jnp.linalg.norm(update) <",
            "jnp.linalg.norm(state.grad) <",
            "solvers::gradient_descent_is_the_textbook_loop",
        ),
        (
            "a point that is not finite is taken",
            "point=jnp.where(finite, trial, state.point)",
            "point=trial",
            "solvers::a_step_too_large_ends_at_the_last_finite_point",
        ),
        (
            "curvature need not be left",
            "& (after >= CURVATURE_HELD * before)",
            "& (after >= 0 * before)",
            "solvers::no_minimum_is_never_converged",
        ),
        (
            "newton stops without a proof",
            "passed &= state.proved |",
            "passed &= True |",
            "solvers::a_start_at_the_minimum_is_proved",
        ),
        (
            "the residual in other coordinates",
            "_runs(grad, self.lower), self.lower.T",
            "_runs(grad, self.lower), self.lower",
            "solvers::the_residual_is_in_the_users_coordinates",
        ),
    ),
    *of(
        "_smooth/_proof.py",
        (
            "rounding in the columns' own units",
            "return point.noise * jnp.sqrt(jnp.sum(square * size**2))",
            "return point.noise * jnp.sqrt(jnp.sum(square))",
            "sampled::rounding_hides_as_much_as_a_gradient_of_its_size",
        ),
        (
            "the bound of the leverage is of one column",
            "return contrast * jnp.sum(problem.sizes[1] * jnp.sqrt(square))",
            "return jnp.max(problem.sizes[1] * jnp.sqrt(square))",
            "softmax::no_row_has_more_leverage_than_the_bound",
        ),
        (
            "opposed directions recede",
            "return (worst <= 0) & balanced & (some > 0)",
            "return balanced & (some > 0)",
            "logistic::one_row_that_crosses_by_a_hair_is_an_optimum",
        ),
        (
            "nearly dependent columns depend",
            "jnp.where((small & (over <= 0))[None, :], null, 0)",
            "jnp.where(small[None, :], null, 0)",
            "problems::every_status_is_the_expected_one[logistic.fit-flat-float64]",
        ),
        (
            "terms of rounding have no size",
            "jnp.max(jnp.abs(step))",
            "jnp.sum(jnp.abs(step)) * 0",
            "problems::every_status_is_the_expected_one[softmax.fit-flat-float64]",
            "problems::every_status_is_the_expected_one[one_vs_rest(logistic.fit)-flat-float64]",
        ),
        (
            "the norm in the frame's units",
            "factor = _frame.unscaled(problem)",
            "factor = jnp.ones_like(_frame.unscaled(problem))",
            "logistic::collinear_columns_give_the_minimum_norm_optimum",
        ),
        (
            "leverage of rows without weight",
            "return (), jnp.max(jnp.where(block.weight > 0, square, 0))",
            "return (), jnp.max(square)",
            "softmax::no_row_has_more_leverage_than_the_bound",
        ),
        (
            "the null space moves the bias the other way",
            "last = -dot(shift, null)",
            "last = dot(shift, null)",
            "logistic::collinear_columns_in_lanes_that_share_them",
        ),
    ),
    *of(
        "_smooth/_passes.py",
        (
            "lanes of tangents alone are lanes of the data",
            "if not any(in_batched):  # only",
            "if False:  # only",
            "svm::the_hinge_has_derivatives_in_forward_mode",
        ),
        (
            "one class has an optimum under a penalty",
            "counted[0] if counted else jnp.any(problem.used).astype(theta.dtype)",
            "counted[0] if counted else jnp.ones((), theta.dtype)",
            "logistic::a_penalised_lane_of_one_class_ends_at_once",
        ),
        (
            "the whole square of the weights",
            "value=value + jnp.sum(problem.penalty[None, :] * theta**2) / 2",
            "value=value + jnp.sum(problem.penalty[None, :] * theta**2)",
            "logistic::penalty_weights_and_units_against_the_oracle",
        ),
        (
            "slopes without weight",
            "pull = block.weight[:, None] * slope\n    squares",
            "pull = slope\n    squares",
            "logistic::penalty_weights_and_units_against_the_oracle",
        ),
        (
            "a penalty without curvature",
            "jnp.where(_frame.inert(problem), 1, problem.penalty[None, :])",
            "jnp.where(_frame.inert(problem), 1, 0 * problem.penalty[None, :])",
            "derivatives::derivatives_are_differences[logistic]",
        ),
        (
            "squares for products in lanes that share x",
            "z[:, first] * z[:, second]",
            "z[:, first] * z[:, first]",
            "transforms::lanes_that_share_x_are_the_loop[logistic.fit]",
        ),
        (
            "no rounding bound",
            "noise=eps * (NOISE_ULPS * (jnp.sqrt(square)",
            "noise=0 * eps * (NOISE_ULPS * (jnp.sqrt(square)",
            "logistic::the_residual_is_no_less_than_its_rounding",
        ),
    ),
    *of(
        "_smooth/_record.py",
        (
            "the second derivative of one score is its slope",
            "return value, slope, curve[0, 0]",
            "return value, slope, slope[0]",
            "sampled::one_score_bends_as_its_hessian_says",
        ),
    ),
    *of(
        "_smooth/_light.py",
        (
            "x as it lies is near 0",
            "jnp.all(problem.rows.ok) & jnp.all(problem.sizes[0] <= PLAIN_CENTRE)",
            "jnp.all(problem.rows.ok)",
            "sampled::x_is_read_by_blocks_where_it_is_not_plain[far from 0]",
        ),
        (
            "x as it lies holds numbers",
            "jnp.all(problem.rows.ok) & jnp.all(problem.sizes[0] <= PLAIN_CENTRE)",
            "jnp.all(problem.sizes[0] <= PLAIN_CENTRE)",
            "sampled::x_is_read_by_blocks_where_it_is_not_plain[NaN in a row without weight]",
        ),
    ),
    *of(
        "_smooth/_scoring.py",
        (
            "no offset",
            "scores if block.offset is None else scores + block.offset.reshape(scores.shape)",
            "scores",
            "logistic::an_offset_that_is_a_multiple_of_a_column_shifts_its_weight",
        ),
        (
            "a soft label may be on either side",
            "inert | (~tight & (value > least))",
            "inert | (value > least)",
            "logistic::soft_labels_are_pairs_of_weighted_rows",
            "softmax::soft_labels",
        ),
        (
            "rounding counts as agreement",
            "(value > least)",
            "(value > 0)",
            "softmax::scores_of_rounding_agree_with_nothing",
        ),
        (
            "rows without weight must agree",
            "_linalg.inner((block.weight > 0).astype(u.dtype), (~clear).astype(u.dtype))",
            "jnp.sum((~clear).astype(u.dtype))",
            "problems::every_status_is_the_expected_one[logistic.fit-flat-float64]",
        ),
    ),
    *of(
        "_smooth/_frame.py",
        (
            "a column of one value in a table is one like others",
            "every & (high == -low) & bias",
            "every & False",
            "tables::a_column_of_one_value",
        ),
        (
            "no slope in a penalty of 0",
            "return with_bias(felt, 0,",
            "return with_bias(jnp.where(l2 == 0, 0, felt), 0,",
            "derivatives::the_derivative_in_a_penalty_of_0_by_hand",
        ),
        (
            "a column of roundings is a constant",
            "varies = found.largest > 0",
            "varies = found.largest > 4 * jnp.finfo(l2.dtype).eps * jnp.abs(found[0] * found[1])",
            "logistic::a_column_of_roundings_is_no_constant",
        ),
        (
            "no number, but no sum of it",
            "jnp.isfinite(mean + square) & (reach",
            "(reach",
            "logistic::sums_tell_what_is_no_number_in_a_row_without_weight",
        ),
        (
            "as large as can be",
            " & (reach <= _checks.safe_range(centre.dtype))",
            "",
            "logistic::what_is_no_number_is_seen_though_x_is_read_once_less",
        ),
        (
            "a column of one value has no derivative",
            "in_play = varies | (l2 > 0)",
            "in_play = varies",
            "derivatives::a_column_of_one_value_under_a_penalty",
        ),
        (
            "the bias moves the other way",
            "(-weights, problem.centre, last)",
            "(weights, problem.centre, last)",
            "logistic::nine_digits_in_float64",
        ),
        (
            "a start without its centre",
            "moved = init.bias + dot(init.weights, problem.centre)",
            "moved = init.bias",
            "softmax::a_warm_start_is_at_the_optimum_at_once",
            "logistic::a_start_does_not_change_the_answer",
        ),
        (
            "a column in its units, whatever its penalty",
            "jnp.where(l2 > 0, _linalg.power_of_two(most), jnp.inf)",
            "jnp.inf",
            "logistic::a_penalty_of_more_than_the_squares_range_is_felt_in_full",
            "svm::a_penalty_of_more_than_the_squares_range_is_felt_in_full",
            "svm::a_hard_margin_of_rows_far_below_1",
        ),
        (
            "a penalty in half of the units",
            "l2 * factor * factor",
            "l2 * factor",
            "logistic::penalty_weights_and_units_against_the_oracle",
        ),
        (
            "a basis that does not sum to 0",
            "rank == column, -column * size, 0",
            "rank == column, column * size, 0",
            "softmax::converged_is_the_optimum",
        ),
        (
            "an absent class has a probability",
            "jnp.where(absent, NEVER, 0)",
            "jnp.where(absent, 0.0, 0)",
            "softmax::absent_classes",
        ),
        (
            "a column of one value is no deficiency",
            "idle = ~in_play\n",
            "idle = in_play & ~in_play\n",
            "logistic::a_constant_column_is_a_deficiency_of_its_own",
        ),
        (
            "a masked column is a deficiency",
            "        idle &= rows.feature_mask\n",
            "",
            "logistic::nine_digits_in_float64",
        ),
        (
            "one penalty for all features of a wide x",
            "root = jnp.where(held, jax.lax.rsqrt(jnp.where(held, problem.penalty[:d], 1)), 0)",
            "root = jnp.where(held, 1.0, 0)",
            "svm::no_classifier_is_better_than_the_gap_says",
            "svm::the_gap_holds_in_double_precision",
        ),
        (
            "a bias is taken for what it is in the frame",
            "jnp.concatenate([own, seen[:, None]], axis=1), slack",
            "jnp.concatenate([own, of_basis(problem, theta[:, -1:])], axis=1), slack",
            "svm::the_bias_is_the_one_that_is_returned",
        ),
        (
            "a column far from 1 is not scaled",
            "_linalg.when(~jnp.all(near),",
            "_linalg.when(jnp.bool_(False),",
            "logistic::a_column_of_zeros_but_for_a_few_rows_is_solved_in_its_units",
        ),
        (
            "a mean for a median",
            "found = jnp.where(bias, middle, 0), scale",
            "found = jnp.where(bias, jnp.nan_to_num(jnp.nanmean(sample, axis=0)), 0), scale",
            "transforms::a_row_of_weight_zero_among_lanes_is_absent[logistic.fit]",
        ),
    ),
    *of(
        "_smooth/_sampled.py",
        (
            "a part as if it were all rows",
            "return problem._replace(rows=_rows.sample(problem.rows, count))",
            "return of(problem, count)",
            "sampled::a_part_of_the_rows_has_no_more_curvature",
        ),
        (
            "a chord away",
            "theta - jnp.where(short, dot(root.T, half), 0)",
            "theta + jnp.where(short, dot(root.T, half), 0)",
            "sampled::chords_lead_near_where_the_weights_are_alike_and_nowhere_else",
        ),
        (
            "a chord, however far",
            "short = jnp.sum(half**2) <= SHORT",
            "short = jnp.sum(half**2) <= jnp.inf",
            "sampled::chords_lead_near_where_the_weights_are_alike_and_nowhere_else",
        ),
        (
            "a separated sample tells",
            " & (curve >= least)",
            "",
            "sampled::a_sample_that_does_not_tell_is_left[rare]",
            "sampled::a_sample_that_does_not_tell_is_left[separated]",
        ),
        (
            "a column that the sample misses has no curvature",
            "jnp.where(square > 2 * seen, square - seen, 0)",
            "jnp.zeros_like(seen)",
            "sampled::a_column_whose_large_values_the_sample_misses_has_the_curvature_of_its_square",
        ),
        (
            "a rough Hessian without what is missed",
            "(problem.penalty + missed).astype(dtype)",
            "problem.penalty.astype(dtype)",
            "truncated::a_rough_hessian_is_about_that_of_all[True]",
        ),
        (
            "one row tells of a column",
            "(seen**2 <= SEEN_ROWS * fourth) & part",
            "(seen**2 <= fourth / 2) & part",
            "sampled::a_column_that_the_sample_misses_has_the_curvature_of_its_square",
        ),
        (
            "where a sample cannot tell offsets still do",
            "curvature(spec, without_offset(p), nothing)",
            "curvature(spec, p, nothing)",
            "sampled::a_sample_that_does_not_tell_is_left[rare]",
        ),
        (
            "a row is a pair with itself",
            "both = jnp.where(jnp.eye(len(z), dtype=bool), 0, both)",
            "both = both",
            "sampled::columns_look_independent_as_all_rows_say",
        ),
        (
            "few rows have no correlations of their own",
            "spread + d / _all(problem) <= INDEPENDENT",
            "spread <= INDEPENDENT",
            "sampled::columns_look_independent_as_all_rows_say",
        ),
        (
            "a row without weight is in pairs",
            "both = sample.weight[:, None] * sample.weight[None, :]",
            "both = jnp.ones((len(z), len(z)), z.dtype)",
            "sampled::columns_look_independent_as_all_rows_say",
        ),
        (
            "the diagonal at 0 is without the means",
            "return held**2 + problem.shift**2",
            "return held**2",
            "sampled::the_diagonal_is_the_hessians",
        ),
        (
            "the diagonal at 0 is of the offsets",
            "_light.curve_at_origin(spec, without_offset(problem))",
            "_light.curve_at_origin(spec, problem)",
            "sampled::the_diagonal_is_the_hessians",
        ),
        (
            "the penalty in the curvature of the loss",
            "hess - jnp.diag(unpenalised)",
            "hess",
            "sampled::a_curvature_counts_the_penalty_once",
        ),
        (
            "the mean of all degrees of freedom",
            "_whole(problem, sample, _passes.mean_curvature(spec, sample, theta))",
            "_whole(problem, sample, 2 * _passes.mean_curvature(spec, sample, theta))",
            "truncated::the_preconditioner_is_of_the_mean_block",
        ),
    ),
    *of(
        "_smooth/_quasi.py",
        (
            "a run that gets nowhere is not left",
            "fine &= (run.steps < patience) | (run.point.residual <= halved)",
            "fine &= run.point.residual >= 0",
            "svm::a_squared_hinge_found_without_hessians_takes_no_more_steps_than_asked_for",
        ),
        (
            "an update that does not hold what was seen",
            "stretch = (1 + jnp.sum(change * image) / along) / along",
            "stretch = jnp.sum(change * image) / along / along",
            "sampled::a_quasi_newton_update_holds_what_was_seen",
        ),
        (
            "curvature lost in one direction is lost in no other",
            "grow = jnp.where(grow > LOST, grow, 1)",
            "grow = jnp.ones_like(grow)",
            "sampled::a_quasi_newton_update_holds_what_was_seen",
        ),
        (
            "an update of anything",
            "sound = (along > LEAST_CHANGE * expected) & jnp.isfinite(along)",
            "sound = jnp.isfinite(along)",
            "sampled::a_quasi_newton_update_holds_what_was_seen",
        ),
        (
            "any step is taken",
            "jax.lax.optimization_barrier(verdict.accept)",
            "jnp.bool_(True)",
            "sampled::steps_arrive_whatever_the_curvature_is_wrong_by[0.01]",
        ),
    ),
    *of(
        "_smooth/_truncated.py",
        (
            "scores of the frame alone",
            "_scoring.spread_rows(problem, _frame.of_basis(problem, step)[None])",
            "_frame.of_basis(problem, step).T",
            "truncated::a_product_is_that_with_the_hessian[held]",
        ),
        (
            "junk in the curvature of rows without weight",
            "jnp.where(weight > 0, weight * curved, 0)",
            "weight * curved",
            "truncated::a_product_is_that_with_the_hessian[kept]",
            "truncated::a_product_is_that_with_the_hessian[made anew]",
        ),
        (
            "any curvature is sound",
            "sound = bend > least * expected",
            "sound = bend > 0",
            "truncated::directions_of_rounding_are_not_followed",
        ),
        (
            "products are no steps",
            "(steps >= cap) | (products >= allowed)",
            "steps >= cap",
            "truncated::products_are_counted",
        ),
        (
            "a poor start is kept",
            "worse = ~(point.seen.value <= _light.value_at_origin(spec, problem))",
            "worse = jnp.bool_(False)",
            "truncated::a_poor_start_is_given_up",
        ),
        (
            "a part of the rows leads for ever",
            "whole | ~gained",
            "whole",
            "truncated::a_part_that_leads_nowhere_is_left",
            "truncated::what_leaves_single_precision_is_not_led_by_it",
        ),
        (
            "rows of the last block that were in the one before have no curvature",
            "(block.weight > 0)[None, :] | (jnp.abs(scores) <= -_frame.NEVER)",
            "(block.weight > 0)[None, :]",
            "truncated::a_product_is_that_with_the_hessian[kept]",
        ),
        (
            "a part of the rows is not minimised first",
            "look(part, begin), enough",
            "look(part, begin), jnp.inf",
            "truncated::of_many_rows_products_are_of_a_part",
        ),
    ),
    *of(
        "_smooth/_plan.py",
        (
            "what has no optimum is followed for ever",
            "NEWTON_STEPS, OTHER_STEPS, DOUBTFUL_STEPS = 100, 1000, 50",
            "NEWTON_STEPS, OTHER_STEPS, DOUBTFUL_STEPS = 100, 1000, 1000",
            "sampled::without_a_penalty_separable_data_are_soon_left_to_newtons_method",
        ),
    ),
    *of(
        "_smooth/_matrix_free.py",
        (
            "what is proved by a part is far from the floor",
            "(POLISHED if further else 0.9) * tol",
            "0.9 * tol",
            "sampled::without_a_penalty_a_part_of_the_rows_is_the_proof",
        ),
        (
            "proved by a part, one optimum of many is the only one",
            "deficient = proved & jnp.any(problem.idle)",
            "deficient = jnp.bool_(False)",
            "sampled::without_a_penalty_a_part_of_the_rows_is_the_proof",
        ),
        (
            "rounding hides nothing",
            "jnp.hypot(proof.decrement, _proof.hidden(problem, point, proof.root))",
            "proof.decrement",
            "sampled::a_gradient_that_rounding_hides_proves_nothing",
        ),
        (
            "a start beyond all reason is kept",
            "jnp.where(value(start.reshape(-1), problem) <= origin, start, 0)",
            "start",
            "logistic::a_start_beyond_all_reason_is_left",
        ),
        (
            "what has not arrived by the diagonal is left",
            "jnp.where(arrived | (turn > 0), 2, 1)",
            "2",
            "sampled::a_fit_of_columns_that_look_independent",
        ),
        (
            "a penalty proves nothing",
            "found._replace(certified=found.certified | outcome.certified)",
            "found",
            "sampled::where_a_penalty_proves_an_optimum_no_step_need",
        ),
        (
            "coercive without a penalty",
            "return ~jnp.any(problem.free[: problem.centre.size]) & ~jnp.any(problem.idle)",
            "return ~jnp.any(problem.idle)",
            "problems::every_status_is_the_expected_one[logistic.fit lbfgs-flat-float64]",
        ),
    ),
    *of(
        "_smooth/_risk.py",
        (
            "a penalty of nothing is one",
            "unsettled |= ~jnp.all(l2 > 0)",
            "pass",
            "lean::what_is_not_settled_is_run_again",
        ),
        (
            "what was not looked at is sound",
            "found = theta, info, unsettled | ~problem.bounded",
            "found = theta, info, unsettled",
            "logistic::what_is_no_number_is_seen_though_x_is_read_once_less",
        ),
        (
            "a start of one lane's weights for all",
            "equal = rows._replace(weight=ok / jnp.maximum(jnp.sum(ok), 1))",
            "equal = rows._replace(weight=rows.weight[1])",
            "lanes::lanes_that_share_all_but_weights_are_single_fits",
        ),
        (
            "converged without a certificate",
            "passed = (residual <= tol) & outcome.certified & ~outcome.separated",
            "passed = (residual <= tol) & ~outcome.separated",
            "logistic::a_loose_tol_makes_no_optimum",
        ),
        (
            "penalised weights beside an infinite plane",
            "found = jnp.where(outcome.separated & ~problem.free[None, :], 0, found)",
            "pass",
            "logistic::what_separates_without_a_penalty_needs_no_other_weights",
        ),
        (
            "STALLED for MAX_STEPS",
            "jnp.where(outcome.trials < cap, Status.STALLED, Status.MAX_STEPS)",
            "jnp.where(outcome.trials < cap, Status.MAX_STEPS, Status.STALLED)",
            "logistic::every_status_eager_jitted_and_as_a_lane[STALLED]",
        ),
        (
            "a separated fit has an objective",
            "objective = jnp.where(outcome.separated, 0, point.value)",
            "objective = point.value",
            "logistic::separable_data_are_separated",
        ),
        (
            "NaN in a start",
            "valid &= jnp.all(jnp.isfinite(init.weights))",
            "valid &= True",
            "logistic::bad_values_under_jit_are_a_status",
            "logistic::bad_input_names_argument_expected_and_got",
        ),
        (
            "the limit of the other class",
            "jnp.where(one, jnp.inf, -jnp.inf)",
            "jnp.where(one, -jnp.inf, jnp.inf)",
            "logistic::the_limit_of_one_class_and_the_params_of_bad_data",
        ),
        (
            "numbers for data that are not valid",
            "jnp.where(valid, jnp.where(alone, limit, value), jnp.nan)",
            "jnp.where(alone, limit, value)",
            "logistic::the_limit_of_one_class_and_the_params_of_bad_data",
        ),
        (
            "a negative penalty is valid",
            "valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2)) & (tol >= 0)",
            "valid &= jnp.all(jnp.isfinite(l2)) & (tol >= 0)",
            "logistic::bad_values_under_jit_are_a_status",
        ),
    ),
    *of(
        "_margin/_interior.py",
        (
            "float32 leads nowhere",
            "near = (found.best.gap <= NEAR * aim)",
            "near = (found.best.gap <= 0)",
            "svm::float32_leads_a_large_fit",
        ),
        (
            "a start that leads nowhere is the end",
            "return (turn == 0) | ((turn == 1) & anew & missed)",
            "return turn == 0",
            "svm::a_start_that_leads_nowhere_is_not_the_end",
        ),
        (
            "z and xi change places at the start",
            "slack = mean + jnp.where(far > 0, large, small)",
            "slack = mean + jnp.where(far > 0, small, large)",
            "svm::the_hinge_starts_on_the_central_path",
        ),
        (
            "the penalty pulls the other way",
            "ground = -(task.penalty * theta - ",
            "ground = (task.penalty * theta - ",
            "svm::no_classifier_is_better_than_the_gap_says",
            "svm::the_gap_holds_in_double_precision",
        ),
        (
            "the worse of two pairs",
            "better = new.gap < best.gap",
            "better = new.gap > best.gap",
            "svm::the_gap_holds_in_double_precision",
        ),
        (
            "little patience far from the floor",
            "jnp.where(best.gap < jnp.sqrt(eps), PATIENCE, ABOVE)",
            "PATIENCE",
            "svm::a_gap_that_rests_for_some_steps_is_not_at_the_floor",
        ),
        (
            "hulls that do not meet touch",
            "touching = (best.low <= 0) & (apart <= task.touch)",
            "touching = best.low <= 0",
            "svm::an_early_end_proves_nothing",
        ),
        (
            "a step over the boundary",
            "reach = jnp.minimum(1, REACH * reach)\n    sound =",
            "reach = jnp.minimum(1, 2 * REACH * reach)\n    sound =",
            "svm::the_gap_holds_in_double_precision",
        ),
        (
            "steps by rows without weight",
            "jnp.where(live & (d < 0), -v",
            "jnp.where((d < 0), -v",
            "svm::the_gap_holds_in_double_precision",
            "transforms::a_row_of_weight_zero_is_absent_whatever_it_holds[svm.fit-1e+30]",
        ),
    ),
    *of(
        "_margin/_gap.py",
        (
            "a hard margin of few digits",
            "margins = 1 - short\n",
            "margins = margins + 0\n",
            "svm::a_hard_margin_is_what_the_returned_params_have",
        ),
        (
            "a hard margin is surely what it seems",
            "surest = jnp.min(jnp.where(live, margins - doubt, jnp.inf))",
            "surest = jnp.min(jnp.where(live, margins, jnp.inf))",
            "svm::a_hard_margin_is_what_the_returned_params_have",
        ),
        (
            "margins are taken to be exact",
            "doubt = slack + eps * (depth / 2 + 2) * size",
            "doubt = slack + 0 * size",
            "svm::what_rounding_hides_of_the_margins_is_in_the_gap",
        ),
        (
            "sums over columns of one shard",
            "if problem.rows.axis.name is None:  # sums",
            "if True:  # sums",
            "distributed::on_eight_devices",
        ),
        (
            "the whole square of the weights",
            "primal = primal + size / 2",
            "primal = primal + size",
            "svm::the_gap_holds_in_double_precision",
        ),
        (
            "duals that do not balance",
            "lesser / jnp.where(a > 0, a, 1) for a",
            "jnp.ones_like(a) for a",
            "svm::the_gap_holds_from_the_first_step",
        ),
        (
            "the plane moves to the wrong side",
            "(second - first) / 2",
            "(first - second) / 2",
            "svm::an_early_end_proves_nothing",
        ),
        (
            "a gap of rows that are short alone",
            "(1 - dual) * over + dual * under, over",
            "(1 - dual) * over, over",
            "svm::the_gap_holds_in_double_precision",
        ),
        (
            "nothing is left between the plane and the duals",
            "found = (missing + tail) /",
            "found = missing /",
            "svm::the_gap_holds_from_the_first_step",
        ),
        (
            "rows in two blocks count twice",
            "unseen = _mesh.where_rows(block.weight > 0, block.y)",
            "unseen = block.y",
            "svm::columns_are_held_or_made_anew",
        ),
    ),
    *of(
        "_margin/_margin.py",
        (
            "a gap that passes is all that is asked of passes without Hessians",
            "settled = (bound.gap <= tol) & (point.residual <= jnp.maximum(enough, point.noise))",
            "settled = bound.gap <= tol",
            "svm::a_squared_hinge_found_without_hessians_is_that_found_with_them",
        ),
        (
            "what a sample led to is all that is tried",
            "_linalg.when(found.unsettled, by_newton,",
            "_linalg.when(found.unsettled & False, by_newton,",
            "svm::a_squared_hinge_found_without_hessians_is_that_found_with_them",
        ),
        (
            "where float32 led astray is the end",
            "return (turn == 0) | ((turn == 1) & near & ~(plane.bound.gap <= tol))",
            "return turn == 0",
            "svm::where_float32_leads_astray_all_steps_are_made_anew",
        ),
        (
            "no derivative",
            "a + (b - jax.lax.stop_gradient(b))",
            "a",
            "derivatives::derivatives_are_differences[squared hinge]",
        ),
    ),
    *of(
        "_margin/_crammer_singer.py",
        (
            "a margin over oneself",
            "bound = _bound(task, theta, 1 - task.truth + scores, a, sums[:m])",
            "bound = _bound(task, theta, 1 + task.truth + scores, a, sums[:m])",
            "svm::no_classifier_is_better_than_the_gap_says",
        ),
        (
            "scores are taken to be exact",
            "eps * (theta.shape[1] / 2 + 3) * size",
            "0 * size",
            "svm::what_rounding_hides_of_the_scores_is_in_the_gap",
        ),
        (
            "scores of few digits",
            "asked = (1 - task.truth + apart) + lost",
            "asked = 1 - task.truth + apart",
            "svm::what_rounding_hides_of_the_scores_is_in_the_gap",
        ),
        (
            "a row's own dual is what is stored",
            "jnp.sum(others, axis=1, keepdims=True), -others",
            "1 - dual, -others",
            "svm::what_rounding_hides_of_the_duals_is_in_the_gap",
        ),
        (
            "no second look at the scores",
            "~(found.gap <= tol), exactly",
            "found.gap < 0, exactly",
            "svm::what_rounding_hides_of_the_scores_is_in_the_gap",
        ),
        (
            "the whole square of the weights",
            "primal = jnp.sum(c * cost) + jnp.sum(penalty * weights**2) / 2",
            "primal = jnp.sum(c * cost) + jnp.sum(penalty * weights**2)",
            "svm::no_classifier_is_better_than_the_gap_says",
        ),
        (
            "classes do not share a sum",
            "apart = basis[r] - basis[q]",
            "apart = basis[r] + basis[q]",
            "svm::no_classifier_is_better_than_the_gap_says",
        ),
        (
            "duals of absent classes",
            "live = (rows.weight > 0)[:, None] & present[None, :]",
            "live = (rows.weight > 0)[:, None] & (present | True)[None, :]",
            "svm::an_absent_class_of_many_is_not_felt",
        ),
    ),
    *of(
        "_smooth/_descent.py",
        (
            "a stream polishes whatever tol is given",
            "polished=tol is None,",
            "polished=True,",
            "streaming::a_stream_takes_the_steps_of_the_whole",
        ),
    ),
    *of(
        "_base/_traits.py",
        (
            "a partial of a fit offers nothing",
            "isinstance(held, functools.partial) and not held.args",
            "isinstance(held, functools.partial) and held.args",
            "streaming::a_partial_of_a_fit_is_streamed",
        ),
    ),
    *of(
        "_smooth/_dual.py",
        (
            "every point is near the optimum",
            "near |= point.residual == 0",
            "near |= point.residual >= 0",
            "wide::next_to_no_penalty_is_converged_only_where_it_is_reached[False]",
        ),
        (
            "the bias has no equation",
            "balance = jnp.sum(slope, axis=1) if spec.bias else",
            "balance = 0 * jnp.sum(slope, axis=1) if spec.bias else",
            "wide::products_alone_find_most_optima",
        ),
        (
            "twice the penalty in J",
            "jnp.sum(alpha * (u - bias[:, None])) / 2",
            "jnp.sum(alpha * (u - bias[:, None]))",
            "wide::products_alone_find_most_optima",
        ),
        (
            "the step of the bias in other units",
            "share * left_bias + more * along_bias,",
            "left_bias + more * along_bias,",
            "wide::products_alone_find_most_optima",
        ),
        (
            "the residual in other units",
            "jnp.max(unit * jnp.sqrt(problem.penalty)),",
            "jnp.max(unit * problem.penalty),",
            "wide::products_alone_find_most_optima",
        ),
    ),
    *of(
        "_smooth/_wide.py",
        (
            "every penalty is 1",
            "dot(turned, basis.half) * root[None, :]",
            "dot(turned, basis.half)",
            "wide::a_start_at_the_optimum_is_the_end",
        ),
        (
            "weights have the opposite derivative",
            "weights = -inverse[None, :] * dot(",
            "weights = inverse[None, :] * dot(",
            "--thorough",
            "wide::derivatives[False]",
        ),
        (
            "a start in other units",
            "start[:, :d] / jnp.where(root > 0, root, 1)",
            "start[:, :d] * jnp.where(root > 0, root, 1)",
            "wide::a_start_at_the_optimum_is_the_end",
        ),
        (
            "a second try by the factor of the first",
            "_of_features(half), start",
            "_of_kernel(space), start",
            "wide::columns_again_and_again_are_a_narrow_fit[float32-False]",
        ),
        (
            "a factor that rounding has left none",
            "jnp.where(sound, a, 0)",
            "a",
            "wide::columns_again_and_again_are_a_narrow_fit[float32-True]",
        ),
        (
            "next to no penalty is proved",
            "& _newton.is_certified(spec, reduced, root, _newton.decrement_of(run))",
            "",
            "wide::next_to_no_penalty_is_converged_only_where_it_is_reached[True]",
        ),
    ),
    *of(
        "_data/_fold.py",
        (
            "all targets of a stream have the labels of one",
            "return a[:, rows.target]",
            "return a[:, 0]",
            "probes::a_sweep_of_a_stream_is_that_of_the_whole",
        ),
        (
            "a part of the entries is left out",
            "for j in range(SIDES):",
            "for j in range(SIDES - 1):",
            "rows::folds_by_entries_are_direct_sums",
        ),
        (
            "a row between two blocks is lost",
            "unseen = start + jnp.arange(size) >= i * size",
            "unseen = start + jnp.arange(size) > i * size",
            "rows::every_row_is_seen_once",
        ),
        (
            "a row of the next class",
            "inside = at < ends[c]",
            "inside = at <= ends[c]",
            "closed_forms::many_row_blocks_are_one",
        ),
        (
            "maxima are not below 0",
            "-(-n // size),\n        sums,\n        _loops.filled(maxima, -jnp.inf)",
            "-(-n // size),\n        sums,\n        _loops.filled(maxima, 0)",
            "rows::every_row_is_seen_once",
        ),
        (
            "a block's sum is begun from the sum so far",
            "return jax.tree.map(jnp.atleast_1d, sums)",
            "return sums",
            "rows::many_small_terms_keep_their_digits",
        ),
    ),
    *of(
        "_data/_entries.py",
        (
            "entries count by their signs",
            "x.values**power * pull[:, None]",
            "jnp.sign(x.values) * pull[:, None]",
            "tables::logistic_is_that_of_the_dense_x",
        ),
        (
            "entries of masked columns are felt",
            "keep = keep & feature_mask[x.indices]",
            "keep = keep | feature_mask[x.indices]",
            "tables::a_masked_column_may_hold_anything",
        ),
    ),
    *of(
        "sparse.py",
        (
            "an index out of range is the first",
            "jnp.where(fine, self.values, jnp.nan)",
            "self.values",
            "tables::what_is_no_data_is_told",
        ),
        (
            "a category that is not known is the first",
            "Padded(indices, inside.astype(self.dtype), sum(self.sizes))",
            "Padded(indices, (codes > -9).astype(self.dtype), sum(self.sizes))",
            "tables::categories_and_columns",
        ),
    ),
    *of(
        "_data/_rows.py",
        (
            "shapes of another rank",
            "jax.eval_shape(lambda: f(take(0))[0])",
            "(lambda o: o.update(shape=o.shape[1:]))(jax.eval_shape(lambda: f(take(0))))",
            "distributed::on_eight_devices",
        ),
        (
            "a class too many",
            "return (y >= 0) & (y < num_classes)",
            "return (y >= 0) & (y <= num_classes)",
            "rows::invalid_data_lose_all_weight",
        ),
        (
            "a masked column is seen",
            "keep = keep & block.feature_mask[None, :]",
            "pass",
            "rows::masked_columns_are_zeros",
        ),
        (
            "NaN is usable",
            "fine = jnp.abs(block.astype(dtype)) <= safe_range(dtype)",
            "fine = ~(jnp.abs(block.astype(dtype)) > safe_range(dtype))",
            "rows::invalid_data_lose_all_weight",
        ),
    ),
    *of(
        "_data/_prepare.py",
        (
            "the sum of the weights, shrunk",
            "return rows, total * largest / SHRINK, valid",
            "return rows, total * largest, valid",
            "rows::weights_are_normalised_without_overflow",
        ),
        (
            "a negative weight is a weight",
            "jnp.where(present, ok & label_fits, True) & (given >= 0)",
            "jnp.where(present, ok & label_fits, True)",
            "rows::invalid_data_lose_all_weight",
        ),
    ),
    *of(
        "_linalg/_dense.py",
        (
            "rounding is to hold its digits",
            "return found, jnp.all(held | nothing, axis=-1)",
            "return found, jnp.all(held | (before == 0), axis=-1)",
            "statistics::digits_are_held_but_for_rounding",
        ),
        (
            "what is lost is held",
            "return found, jnp.all(held | nothing, axis=-1)",
            "return found, jnp.any(held | nothing, axis=-1)",
            "statistics::digits_are_held_but_for_rounding",
        ),
        (
            "a series that ends early",
            "terms = 16 if e.dtype",
            "terms = 12 if e.dtype",
            "losses::logistic_has_full_relative_accuracy",
        ),
        (
            "a triangle's inverse forgets a row",
            "jnp.where(jnp.arange(p) < i, lower[i], 0)",
            "jnp.where(jnp.arange(p) < i - 1, lower[i], 0)",
            "statistics::the_inverse_of_a_triangle",
        ),
        (
            "many terms as a product of two vectors",
            "if a.size < MANY_TERMS:",
            "if a.size < 1e9:",
            "sampled::sums_of_many_rows_keep_their_digits[200000]",
        ),
        (
            "a transpose is forgotten",
            "jax.scipy.linalg.solve_triangular(f.lower, half, lower=True, trans=1)",
            "jax.scipy.linalg.solve_triangular(f.lower, half, lower=True)",
            "logistic::nine_digits_in_float64",
        ),
        (
            "the largest pivot",
            "jnp.min(pivots, initial=jnp.inf) ** 2",
            "jnp.max(pivots, initial=-jnp.inf) ** 2",
            "closed_forms::a_duplicated_column_changes_nothing_but_the_status",
        ),
        (
            "no eigenvalue is small",
            "return 1 / jnp.sum((root / f.scale[None, :]) ** 2)",
            "return jnp.sum((root / f.scale[None, :]) ** 2)",
            "logistic::collinear_columns_give_the_minimum_norm_optimum",
        ),
    ),
    *of(
        "_base/_lean.py",
        (
            "what is not settled is let be",
            "if not _is_unsettled(found):",
            "if True:",
            "lean::what_is_not_settled_is_run_again",
        ),
        (
            "a penalty is taken for granted",
            "bool(np.all(given > 0))",
            "True",
            "lean::a_penalty_that_may_be_none_is_not_taken_for_one",
        ),
    ),
    *of(
        "_smooth/_axes.py",
        (
            "a residual that rises once is at the floor",
            "PATIENCE = 8",
            "PATIENCE = 1",
            "lean::lanes_of_any_penalty_are_settled_in_single_precision",
        ),
        (
            "a lane ends at its bound",
            "MARGIN = 0.25",
            "MARGIN = 1.0",
            "lean::lanes_of_any_penalty_are_settled_in_single_precision",
        ),
        (
            "a column of one value in a lane's rows is in play",
            "seen = problem.unit > 0",
            "seen = problem.spread > 0",
            "lean::columns_that_few_rows_have_hold_up_no_lane",
        ),
    ),
    *of(
        "_smooth/_together.py",
        (
            "what is left is settled",
            "return outcome._replace(unsettled=left)",
            "return outcome",
            "lean::a_bound_that_is_not_met_is_for_the_whole_program_to_judge",
        ),
    ),
    *of(
        "_smooth/_many_descents.py",
        (
            "a target of one class has an optimum",
            "problem.used & (jnp.sum(present) > 1)",
            "problem.used",
            "probes::lanes_of_a_stream_that_do_not_settle_say_what_a_fit_says",
        ),
        (
            "lanes of a stream that do not settle are left so",
            "np.flatnonzero(left)",
            "np.flatnonzero(left)[:0]",
            "probes::lanes_of_a_stream_that_do_not_settle_say_what_a_fit_says",
        ),
    ),
    *of(
        "_smooth/_streamed_probes.py",
        (
            "a fold of a stream is judged by rows that it trains on",
            "lead, held = info.status.shape, weight == 0",
            "lead, held = info.status.shape, weight != 0",
            "probes::a_choice_of_a_stream_is_that_of_the_whole",
        ),
        (
            "labels of rows of a stream without weight are dealt too",
            "absent = np.broadcast_to((weight == 0).T",
            "absent = np.broadcast_to((weight < 0).T",
            "probes::a_choice_of_a_stream_is_that_of_the_whole",
        ),
    ),
    *of(
        "_batch/_sweeps.py",
        (
            "labels of rows without weight are dealt too",
            "absent = jnp.broadcast_to(weight == 0, y.shape).astype(jnp.int32)",
            "absent = jnp.broadcast_to(weight < 0, y.shape).astype(jnp.int32)",
            "probes::shuffled_labels_are_the_same_rows_dealt_anew",
        ),
        (
            "no label is beyond the classes",
            "legal = jnp.all((y >= 0) & (y < k) | ~seen)",
            "legal = jnp.bool_(True)",
            "probes::a_label_beyond_the_classes_is_seen_by_closed_forms",
        ),
    ),
    *of(
        "_linalg/_inverse.py",
        (
            "a residual of the digits that there are",
            "upper_v = jnp.round(v / size * step) / step * size",
            "upper_v = v",
            "statistics::a_solution_is_as_good_as_its_matrix",
        ),
        (
            "pivots tell the rank",
            "near = ~(first.pivot >= max(math.sqrt(eps), RANK_ULPS * p * eps))",
            "near = ~(first.pivot >= RANK_ULPS * p * eps)",
            "closed_forms::a_combination_of_columns_is_told_in_any_units",
        ),
        (
            "the determinant in other units",
            "return dot(half.T, half), 2 * log_pivots",
            "return dot(half.T, half), -2 * log_pivots",
            "closed_forms::qda_is_scikit_learns",
        ),
        (
            "no rank is deficient",
            "deficient=jnp.any(found.null != 0)",
            "deficient=jnp.any(found.null != found.null)",
            "closed_forms::a_duplicated_column_changes_nothing_but_the_status",
        ),
        (
            "the least norm of scaled columns",
            "onto = jnp.diag(scale) - jnp.where(clear, moved, 0)",
            "onto = jnp.diag(scale)",
            "closed_forms::the_least_norm_of_least_squares",
        ),
        (
            "an inverse grows with its matrix",
            "(-dot(moved, held), jnp.trace(moved) - off)",
            "(dot(moved, held), jnp.trace(moved) - off)",
            "derivatives::derivatives_are_differences[lda]",
        ),
    ),
    *of(
        "_linalg/_exact.py",
        (
            "what a sum loses is lost",
            "return terms[0], lost[0]",
            "return terms[0], 0 * lost[0]",
            "statistics::a_long_product_that_cancels_is_rounded_once",
        ),
        (
            "a part of a long sum has lost nothing",
            "return total, one[1] + other[1] + less",
            "return total, one[1] + less",
            "statistics::a_long_product_that_cancels_is_rounded_once",
        ),
        (
            "a sum in pairs forgets those that were left over",
            "jnp.pad(a, ((0, len(a) % 2), (0, 0))).reshape",
            "a[: len(a) // 2 * 2].reshape",
            "statistics::a_sum_in_pairs_is_rounded_a_few_times",
        ),
    ),
    *of(
        "_moments/_bayes.py",
        (
            "scores keep what swamps them",
            "common = jnp.where(felt, 0, common)",
            "common = jnp.where(felt, common, common)",
            "closed_forms::success_is_right_far_from_zero",
        ),
        (
            "rounding is not felt",
            "terms * lost <= size",
            "terms * lost <= 1e9 * size",
            "closed_forms::success_is_right_far_from_zero",
        ),
        (
            "the null space is not looked at",
            "doubtful |= _linalg.when(deficient, differ",
            "doubtful |= _linalg.when(deficient & False, differ",
            "problems::every_status_is_the_expected_one[lda.fit-flat-float64]",
        ),
        (
            "a covariance of n, not n - 1",
            'degrees = s.weight - (1 if divisor == "n_k-1" else 0)',
            "degrees = s.weight",
            "closed_forms::iris_against_r",
        ),
        (
            "priors of absent classes",
            "jnp.where(s.rows > 0, given.priors, 0)",
            "given.priors",
            "closed_forms::an_absent_class_has_no_prior",
        ),
        (
            "masked columns shrink the others",
            "jnp.diagonal(covariance) / jnp.maximum(jnp.sum(there), 1).astype(dtype)",
            "jnp.diagonal(covariance) / d",
            "closed_forms::a_masked_column_does_not_shrink_the_others",
        ),
        (
            "one class is enough",
            "alone = jnp.sum(s.rows > 0) < 2",
            "alone = jnp.sum(s.rows > 0) < 1",
            "closed_forms::troubles_have_their_status_alone_and_as_a_lane[lda]",
            "closed_forms::troubles_have_their_status_alone_and_as_a_lane",
        ),
        (
            "as many rows as features are enough",
            "(s.rows.astype(s.weight.dtype) <= number_of_features(s, mask))",
            "(s.rows.astype(s.weight.dtype) < number_of_features(s, mask))",
            "closed_forms::as_many_rows_as_features_are_too_few",
        ),
        (
            "pooling away from the common covariance",
            "own + given.pooling * (common[None] - own)",
            "own + given.pooling * (own - common[None])",
            "closed_forms::a_small_class_is_mended_by_pooling_or_shrinkage",
        ),
        (
            "a fraction above 1",
            "valid &= (fraction >= 0) & (fraction <= 1)",
            "valid &= (fraction >= 0)",
            "closed_forms::numbers_outside_their_range_name_the_argument",
        ),
        (
            "no half of the form",
            "return entropy + (rank * math.log(2 * math.pi) + inverse.log_determinant + form) / 2",
            "return entropy + (rank * math.log(2 * math.pi) + inverse.log_determinant) / 2 + form",
            "closed_forms::the_generative_model_is_the_classifiers",
        ),
    ),
    *of(
        "_batch/_lanes.py",
        (
            "lanes are chunked with none of what they share",
            "filled = [next(each) if m else leaf",
            "filled = [next(each) if m else leaf * 0",
            "lanes::chunks_are_all_lanes",
        ),
        (
            "lanes that the last chunk repeats are kept twice",
            "jnp.concatenate([head, a[-1, twice:]])",
            "jnp.concatenate([head, a[-1, : size - twice]])",
            "lanes::chunks_are_all_lanes",
        ),
        (
            "all lanes of a program go at once",
            "most = _even(axis_size, room // size)",
            "most = axis_size",
            "resample::what_a_vmap_of_programs_holds_has_a_bound",
        ),
        (
            "what a closed form is not sound for stays",
            "order, count = jnp.argsort(sound, stable=True), jnp.sum(~sound)",
            "order, count = jnp.argsort(sound, stable=True), jnp.sum(~sound) * 0",
            "resample::a_lane_by_closed_form_does_not_hang_on_its_neighbours",
        ),
        (
            "a while loop is to be differentiated",
            "jax.jvp(plain or program, primals, tangents)",
            "jax.jvp(program, primals, tangents)",
            "resample::closed_forms_of_many_weights_have_derivatives_both_ways",
        ),
    ),
    *of(
        "_data/_maxima.py",
        (
            "by rows the largest of rows without weight",
            "jnp.where(held[None, :], row[:, None], 0)",
            "jnp.where(True, row[:, None], 0)",
            "lanes::the_largest_of_rows_with_weight_by_lanes",
        ),
        (
            "of the largest those of a lane's second rank",
            "sums[:, :d] >= 2.0**-rank",
            "sums[:, :d] >= 2.0 ** (1 - rank)",
            "lanes::the_largest_of_rows_with_weight_by_lanes",
        ),
        (
            "of the largest nothing where no rank is held",
            "jnp.any((sums[:, :d] == 0) & (sums[:, d:] > 0))",
            "jnp.any(sums[:, :d] < 0)",
            "lanes::the_largest_of_rows_with_weight_by_lanes",
        ),
        (
            "the largest of rows without weight",
            "jnp.max(jnp.where(held, column[None, :], 0), 1)",
            "jnp.max(jnp.where(held | True, column[None, :], 0), 1)",
            "lanes::the_largest_of_rows_with_weight_by_lanes",
        ),
    ),
    *of(
        "_moments/_statistics.py",
        (
            "products about 0 wherever the columns are",
            "jnp.all(jnp.diagonal(gram) <= NEAR * jnp.diagonal(s.scatter))",
            "jnp.all(jnp.diagonal(gram) >= 0)",
            "statistics::columns_far_from_0_keep_their_digits",
        ),
        (
            "products that lost digits tell the rank",
            "return near & (_linalg.factor(s.scatter).pivot >= math.sqrt(eps))",
            "return near",
            "statistics::dependent_columns_are_told_though_0_is_not_their_mean",
        ),
        (
            "numbers of any size are data",
            "jnp.all(level + jnp.sqrt(n * scatter) <= most)",
            "jnp.all(level >= 0)",
            "statistics::what_is_not_valid_is_seen",
        ),
        (
            "products of any size are kept",
            "& ~jnp.any(small)",
            "",
            "units::the_quick_way_is_taken_in_range_only",
        ),
        (
            "statistics that are not sound are kept",
            "_linalg.when(~sound, safe, found, (data,))",
            "_linalg.when(sound & False, safe, found, (data,))",
            "statistics::lanes_of_few_rows_are_what_they_are_alone",
        ),
        (
            "the targets' cross products twice",
            "jnp.block([[gram, cross[:, None]]",
            "jnp.block([[gram, 2 * cross[:, None]]",
            "statistics::statistics_keep_their_digits",
        ),
    ),
    *of(
        "_moments/_scatter.py",
        (
            "means of equal numbers are apart by their rounding",
            "apart - jax.lax.stop_gradient(jnp.where(near & flat, apart, 0))",
            "apart",
            "closed_forms::parts_know_a_column_of_one_value_in_each_class",
        ),
        (
            "the mean of equal numbers is rounded",
            "offset = s.offset - jax.lax.stop_gradient(rounded)",
            "offset = s.offset",
            "closed_forms::parts_know_a_column_of_one_value_in_each_class",
        ),
        (
            "what is 0 has no derivative",
            "return _without(*primals), tangents[0]",
            "return _without(*primals), _without(tangents[0], primals[1])",
            "derivatives::a_column_of_one_value_under_a_penalty",
        ),
        (
            "a part in units of its own",
            "return [rescaled(s, unit / s.unit) for s in both]",
            "return list(both)",
            "units::parts_of_one_row_are_in_one_unit",
        ),
        (
            "the other part's share of a mean",
            "share = b.weight / jnp.where(weight > 0, weight, 1)",
            "share = a.weight / jnp.where(weight > 0, weight, 1)",
            "closed_forms::any_split_in_any_order_is_the_whole",
        ),
        (
            "a part is removed as if it were added",
            "part.weight * (1 + share), apart",
            "part.weight * (1 - share), apart",
            "closed_forms::a_fold_is_left_out_by_subtraction",
        ),
        (
            "scatter about a point that is not the mean",
            "scatter=scatter - _spread(weight, moved, scatter.ndim == 3)",
            "scatter=scatter",
            "closed_forms::many_row_blocks_are_one",
        ),
        (
            "rows without weight are counted",
            "return jnp.sum(weight > 0, axis=0, dtype=jnp.int32)",
            "return jnp.sum(weight >= 0, axis=0, dtype=jnp.int32)",
            "closed_forms::troubles_have_their_status_alone_and_as_a_lane",
        ),
        (
            "a small class that the sample misses is at 0",
            "jnp.where((size > 0)[:, None], own, one)",
            "jnp.where((size > 0)[:, None], own, 0 * one)",
            "closed_forms::a_rare_class_far_from_zero_keeps_its_digits",
        ),
        (
            "unweighted scatter",
            "scatter = dot((z * rows.weight[:, None]).T, z)\n    return",
            "scatter = dot(z.T, z)\n    return",
            "closed_forms::lda_is_scikit_learns",
        ),
    ),
    *of(
        "_moments/_closed_form.py",
        (
            "labels about another mean",
            "dot(member[:-1], held.x) - share[:-1, None] * at.mean[None, :]",
            "dot(member[:-1], held.x) + share[:-1, None] * at.mean[None, :]",
            "resample::many_labellings_at_once_are_single_fits",
        ),
        (
            "the square of the mean is added",
            "scatter = square - mean[:, None] * mean[None, :]",
            "scatter = square + mean[:, None] * mean[None, :]",
            "resample::many_labellings_at_once_are_single_fits",
        ),
        (
            "lost digits are sound",
            "sound = valid & _apart(jnp.diagonal(scatter), jnp.diagonal(square))",
            "sound = valid",
            "resample::weights_on_one_row_leave_no_digits",
        ),
        (
            "rows of every class in one",
            "count = jnp.sum(member > 0, axis=0, dtype=jnp.int32)",
            "count = jnp.sum(member >= 0, axis=0, dtype=jnp.int32)",
            "resample::many_refits_at_once_are_single_fits",
        ),
        (
            "functions are left to a closed form",
            "not given <= (offer.functions if labels else set())",
            "False",
            "resample::only_what_a_closed_form_understands_is_left_to_it",
        ),
    ),
    *of(
        "_linalg/_implicit.py",
        (
            "what was found keeps no derivative",
            "jnp.issubdtype(leaf.dtype, jnp.inexact)]",
            "jnp.issubdtype(leaf.dtype, jnp.complexfloating)]",
            "statistics::derivatives_are_those_of_the_safe_way",
        ),
        (
            "the opposite derivative",
            "return found, -jax.lax.custom_linear_solve(product, moved, solve, symmetric=True)",
            "return found, jax.lax.custom_linear_solve(product, moved, solve, symmetric=True)",
            "derivatives::derivatives_are_differences[logistic]",
        ),
        (
            "numbers for the derivative of what failed",
            "felt = probe(given, proper, jax.tree.leaves(params)[0].dtype)",
            "felt = jnp.zeros((), jax.tree.leaves(params)[0].dtype)",
            "derivatives::a_failed_lane_says_so_and_harms_no_other[logistic]",
            "derivatives::a_failed_lane_says_so_and_harms_no_other[lda]",
        ),
        (
            "NaN for what was masked",
            "return jnp.where(proper | (b == 0), b, jnp.nan)",
            "return jnp.where(proper, b, jnp.nan)",
            "derivatives::a_failed_lane_says_so_and_harms_no_other[logistic]",
            "closed_forms::derivatives_of_what_failed",
        ),
        (
            "other values for failed params",
            "jax.lax.stop_gradient(jnp.where(proper, 0, other))",
            "jax.lax.stop_gradient(jnp.where(proper, 0, 0 * other))",
            "logistic::the_limit_of_one_class_and_the_params_of_bad_data",
        ),
        (
            "products without the tolerance of a root",
            "-_solved_by_products(product, moved, proper)",
            "_solved_by_products(product, moved, proper)",
            "derivatives::derivatives_without_a_jacobian",
        ),
    ),
    *of(
        "_infer/_separation.py",
        (
            "a tie of rounding is a tie",
            "needed = jnp.any(found.held) & (jnp.trace(outside) > 1 / 2)",
            "needed = jnp.any(found.held) & (jnp.trace(outside) > len(outside))",
            "inference::no_tie_is_made_by_rounding",
        ),
        (
            "what is held is not",
            "held = demands.live & ~faces.live",
            "held = demands.live & faces.live",
            "inference::known_sets",
        ),
        (
            "multipliers of demands of unit length",
            "return Verdict(faces.direction, held, multipliers / norm,",
            "return Verdict(faces.direction, held, multipliers,",
            "inference::verdicts_hold_in_rational_arithmetic",
        ),
        (
            "a span of one dimension less",
            "kept = jnp.arange(size) >= size - rank",
            "kept = jnp.arange(size) > size - rank",
            "inference::known_sets",
            "inference::verdicts_hold_in_rational_arithmetic",
        ),
        (
            "half a start does",
            "done = (jnp.min(met(start, live)) > least)",
            "done = (jnp.max(met(start, live)) > least)",
            "inference::known_sets",
            "inference::verdicts_hold_in_rational_arithmetic",
        ),
        (
            "any combination is 0",
            "zero = inside & (square <= rounding**2)",
            "zero = inside & (square <= 0.1)",
            "inference::known_sets",
            "inference::verdicts_hold_in_rational_arithmetic",
        ),
    ),
    *of(
        "_infer/_estimate.py",
        (
            "a constant column is estimated",
            "regular = valid & ~jnp.any(problem.idle)",
            "regular = valid",
            "inference::a_constant_column_is_not_estimated",
        ),
        (
            "any params will do",
            "close = decrement <= jnp.minimum(near, eps ** (1 / 3))",
            "close = decrement >= 0",
            "inference::params_near_the_optimum_are_not_the_optimum",
        ),
        (
            "a tail is an optimum",
            "return after + penalty >= _iterate.CURVATURE_HELD * (before + penalty)",
            "return after + penalty >= 0 * (before + penalty)",
            "inference::no_numbers_where_there_is_no_unique_finite_optimum",
            "inference::tails_of_another_loss_are_seen_too",
        ),
        (
            "gradients of scaled columns",
            "    z = z * e.problem.spread[None, :]\n    return (slope",
            "    return (slope",
            "inference::sandwiches_are_the_formula",
            "inference::influence_is_the_derivative_of_the_fit",
        ),
        (
            "no penalty pulls",
            "return jnp.where(_frame.inert(e.problem), 0, pull).reshape(-1)",
            "return jnp.where(_frame.inert(e.problem), 0, 0 * pull).reshape(-1)",
            "inference::influence_is_the_derivative_of_the_fit",
            "inference::leaving_out_is_near_exact_refits",
        ),
        (
            "an absent class has an infinite bias",
            "bias = jnp.where(here, bias, 0)",
            "pass",
            "inference::an_absent_class_has_no_variance",
        ),
    ),
    *of(
        "solvers.py",
        (
            "converged without a proof",
            "        (residual <= tol) & proved,\n        Status.CONVERGED,",
            "        residual <= tol,\n        Status.CONVERGED,",
            "solvers::no_minimum_is_never_converged",
        ),
        (
            "MAX_STEPS for STALLED",
            "jnp.where(steps < max_steps, Status.STALLED, Status.MAX_STEPS)",
            "jnp.where(steps <= max_steps, Status.STALLED, Status.MAX_STEPS)",
            "solvers::no_steps_and_bad_starts",
            "solvers::gradient_descent_is_the_textbook_loop",
        ),
        (
            "a trace goes on after the end",
            "jnp.where(state.stalled, old, new)",
            "jnp.where(state.stalled, new, new)",
            "solvers::a_trace_stays_where_its_run_ends",
        ),
        (
            "args are not differentiated",
            "return ravel_pytree(jax.grad(objective)(frame.unravel(at), *args))[0]",
            "return ravel_pytree(jax.grad(objective)(frame.unravel(at), *stopped))[0]",
            "solvers::the_derivative_is_with_respect_to_args",
        ),
        (
            "the last row is never picked",
            "jax.random.randint(key, (batch_size,), 0, n)",
            "jax.random.randint(key, (batch_size,), 0, n - 1)",
            "solvers::stochastic_descent_picks_every_row",
        ),
    ),
    *of(
        "_smooth/_record.py",
        (
            "the other class",
            "sign = jnp.where(y > 0, 1, -1).astype(scores.dtype)[None]\n    tight",
            "sign = jnp.where(y > 0, -1, 1).astype(scores.dtype)[None]\n    tight",
            "logistic::every_status_eager_jitted_and_as_a_lane[SEPARABLE]",
        ),
        (
            "a soft label is hard",
            "tight = ((y > 0) & (y < 1))[None]",
            "tight = ((y > 0) & (y < 0))[None]",
            "logistic::soft_labels_are_never_separated",
        ),
    ),
    *of(
        "logistic.py",
        (
            "one class will do",
            "limit, valid, zero & one, (data",
            "limit, valid, zero | one, (data",
            "logistic::the_limit_of_one_class_and_the_params_of_bad_data",
        ),
    ),
    *of(
        "softmax.py",
        (
            "an absent class is a rival",
            "inert=(classes == label) | (scores <= _frame.NEVER / 2)",
            "inert=classes == label",
            "softmax::absent_classes",
        ),
        (
            "other classes of a soft label are rivals",
            "jnp.zeros(classes.shape, bool) if hard else (y > 0) & (classes != label)",
            "jnp.zeros(classes.shape, bool)",
            "softmax::soft_labels",
        ),
        (
            "a bias of its own",
            "bias=bias - bias[reference] + lost",
            "bias=bias + lost",
            "softmax::the_reference_form_is_the_same_model",
        ),
        (
            "an absent class moves the middle",
            "share = present.astype(bias.dtype) / jnp",
            "share = jnp.ones_like(bias) / jnp",
            "softmax::the_reference_form_is_the_same_model",
        ),
        (
            "an absent class has a finite bias",
            "bias = jnp.where(present, 0, -jnp.inf).astype(l2.dtype) + params.bias",
            "bias = jnp.where(present, 0, 0).astype(l2.dtype) + params.bias",
            "softmax::absent_classes",
        ),
    ),
    *of(
        "svm.py",
        (
            "converged whatever the gap",
            "jnp.where(found.bound.gap <= tol, Status.CONVERGED, stalled)",
            "jnp.where(found.bound.gap <= 1, Status.CONVERGED, stalled)",
            "svm::every_status_alone_and_as_a_lane",
        ),
        (
            "duals without weight",
            "alphas = rows.weight * dual / jnp.max(l2)",
            "alphas = dual / jnp.max(l2)",
            "svm::duals_make_the_plane",
        ),
        (
            "the side of the class that is absent",
            "alone = jnp.where(one, 1, -1)",
            "alone = jnp.where(one, -1, 1)",
            "svm::every_status_alone_and_as_a_lane",
        ),
        (
            "a proof of no plane for any data",
            "jnp.where(found.touching & usable, weight / jnp.sum(weight), jnp.nan)",
            "jnp.where(usable, weight / jnp.sum(weight), jnp.nan)",
            "svm::a_margin_below_rounding_is_no_plane_and_none_above",
        ),
        (
            "vectors on the margin are no support",
            "return agreed <= 1 + jnp.sqrt(",
            "return agreed <= 1 - jnp.sqrt(",
            "svm::only_support_vectors_count",
        ),
    ),
    *of(
        "_batch/_visits.py",
        (
            "a row on the plane is right",
            "wrong = (sign * score <= 0)",
            "wrong = (sign * score < 0)",
            "perceptron::boolean_functions_are_the_textbook_loop",
        ),
        (
            "rows of lanes that are put last are scrambled",
            "return jnp.moveaxis(a, 0, -1)",
            "return a.reshape(*a.shape[1:], -1)",
            "perceptron::lanes_are_single_fits",
        ),
    ),
    *of(
        "perceptron.py",
        (
            "weights are ignored",
            "rate=step_size * given * sign",
            "rate=step_size * sign",
            "perceptron::a_row_of_weight_zero_is_absent",
            "perceptron::integer_data_are_the_textbook_loop",
            "perceptron::pocket_is_gallant_with_ratchet",
        ),
        (
            "a mean over rows without weight",
            "b + s / visits, state.params, drift",
            "b + s / len(task.rows.weight), state.params, drift",
            "perceptron::a_row_of_weight_zero_is_absent",
            "perceptron::averaged_is_the_mean_over_visits",
        ),
        (
            "the pocket takes what is as good",
            "longer = run > best",
            "longer = run >= best",
            "perceptron::pocket_is_gallant_with_ratchet",
        ),
        (
            "a run goes on after a mistake",
            "run = jnp.where(wrong, 0, run + weight)",
            "run = run + weight",
            "perceptron::pocket_is_gallant_with_ratchet",
        ),
        (
            "rounding converges",
            "~(agreement > slack), dtype",
            "~(agreement > 0 * slack), dtype",
            "perceptron::converged_is_exact_separation",
        ),
        (
            "infinite params are kept",
            "sound = _finite(new.params) & _finite(new.answer)",
            "sound = jnp.bool_(True)",
            "perceptron::every_status_alone_and_among_neighbours",
        ),
        (
            "a bound of half the separator's length",
            "bound = size * length / short**2",
            "bound = size * length / jnp.abs(short)",
            "perceptron::mistake_bound_of_no_separator_is_infinite",
        ),
    ),
    *of(
        "updates.py",
        (
            "a row on the plane is no mistake",
            "return (2 * y.astype(s.dtype) - 1) * s <= 0",
            "return (2 * y.astype(s.dtype) - 1) * s < 0",
            "updates::run_counts_mistakes_before_each_update",
        ),
        (
            "a bias that passive-aggressive steps forget",
            "length = dot(x, x) + (1 if bias else 0)",
            "length = dot(x, x)",
            "updates::passive_aggressive_just_reaches_the_margin",
        ),
        (
            "a rival of equal score is none",
            "jnp.max(others) >= s[true]",
            "jnp.max(others) > s[true]",
            "updates::ties_are_mistakes",
        ),
        (
            "hinge without shrinking",
            "shrink = 1 - step * _checks",
            "shrink = 1 - 0 * step * _checks",
            "updates::hinge_shrinks_all_but_the_bias",
        ),
        (
            "rows of weight 0 are felt",
            "return jnp.where(weight == 0, old, jnp.where(exact",
            "return jnp.where(weight < 0, old, jnp.where(exact",
            "updates::run_skips_rows_of_weight_zero",
        ),
        (
            "bad rows that nobody visits",
            "bad = jnp.any(bad[order] |",
            "bad = jnp.any((0 * bad[order] > 0) |",
            "updates::run_says_nan_for_bad_data",
        ),
    ),
    *of(
        "losses.py",
        (
            "a slope on the margin",
            "return jnp.where(short > 0, short, 0)",
            "return jnp.where(short >= 0, short, 0)",
            "losses::subgradients_at_ties",
        ),
        (
            "softplus overflows",
            "log1p_of_share(jnp.exp(-jnp.abs(u)))",
            "log1p_of_share(jnp.exp(jnp.abs(u)))",
            "losses::logistic_has_full_relative_accuracy",
        ),
        (
            "a curvature that cancels",
            "return small * share * share",
            "return jnp.where(u < 0, small, 1) * share * (1 - jnp.where(u < 0, small, 1) * share)",
            "losses::logistic_has_full_relative_accuracy",
        ),
        (
            "ties are class 1",
            "predicted = scores > 0 if binary",
            "predicted = scores >= 0 if binary",
            "losses::ties_of_zero_one_go_to_the_lower_class",
        ),
        (
            "the whole square of the weights",
            "jnp.sum(squares * weights**2) / 2",
            "jnp.sum(squares * weights**2)",
            "losses::objective_is_its_formula",
        ),
        (
            "NaN in a row without weight",
            "absent = (block.weight == 0) & ~(",
            "absent = (block.weight < 0) & ~(",
            "losses::a_row_without_weight_may_be_of_an_absent_class",
        ),
        (
            "softmax of the peak twice",
            "jnp.where(is_top, 0, jnp.exp(below))",
            "jnp.exp(below)",
            "losses::softmax_of_two_scores_and_one_far_below_is_logistic",
        ),
    ),
    *of(
        "least_squares.py",
        (
            "halves are rounded up",
            "jnp.ceil(linear.scores(params, x) - 0.5)",
            "jnp.floor(linear.scores(params, x) + 0.5)",
            "closed_forms::numbers_are_rounded_to_classes",
        ),
        (
            "refined without the penalty",
            "dot(pull[:, :-1] - still.weights * l2[None, :], inverse)",
            "dot(pull[:, :-1], inverse)",
            "closed_forms::ridge_of_targets_that_a_line_explains",
        ),
        (
            "a bias away from the centre",
            "intercept = level - dot(weights, centre) if bias else jnp.zeros_like(level)\n    "
            "intercept = jnp.where(present",
            "intercept = level + dot(weights, centre) if bias else jnp.zeros_like(level)\n    "
            "intercept = jnp.where(present",
            "closed_forms::ridge_is_scikit_learns",
        ),
        (
            "an absent class has a finite bias",
            "intercept = jnp.where(present, intercept, -jnp.inf)",
            "intercept = jnp.where(present, intercept, 0)",
            "closed_forms::an_absent_class_is_never_predicted",
        ),
    ),
    *of(
        "fisher.py",
        (
            "the likelier class has less room",
            "/ 2 - variance * jnp.log(size[1] / size[0]) / apart",
            "/ 2 + variance * jnp.log(size[1] / size[0]) / apart",
            "closed_forms::two_classes_have_one_direction",
        ),
        (
            "the last of equal cuts",
            "best = jnp.argmin(error)",
            "best = len(error) - 1 - jnp.argmin(error[::-1])",
            "closed_forms::no_cut_has_less_error",
        ),
        (
            "a cut at the lower row",
            "return low[best] + (high[best] - low[best]) / 2",
            "return low[best]",
            "closed_forms::no_cut_has_less_error",
        ),
        (
            "axes of the least spread",
            "values, vectors = values[::-1][:r], vectors[:, ::-1][:, :r]",
            "values, vectors = values[:r], vectors[:, :r]",
            "closed_forms::directions_whiten_the_classes",
        ),
        (
            "the largest entry is negative",
            "axes = jnp.where(top < 0, -axes, axes)",
            "axes = jnp.where(top < 0, axes, -axes)",
            "closed_forms::directions_whiten_the_classes",
        ),
        (
            "a quotient of n",
            "(jnp.sum(s.weight) - number) / (number - 1)",
            "jnp.sum(s.weight) / (number - 1)",
            "closed_forms::iris_against_r",
        ),
    ),
    *of(
        "lda.py",
        (
            "what eigenvectors lose stays lost",
            "more = jnp.where(shrinkage < 1, rough(left * part), 0)",
            "more = jnp.zeros_like(found)",
            "resample::a_closed_form_is_as_good_as_its_statistics",
        ),
        (
            "the whole form in a bias",
            "bias = jnp.log(jnp.where(priors > 0, priors, 1)) - form / 2",
            "bias = jnp.log(jnp.where(priors > 0, priors, 1)) - form",
            "resample::a_permutation_test_by_closed_form_is_the_loop",
        ),
        (
            "noise of n rows is not of one",
            "noise = (fourth - jnp.sum(scatter**2)) / jnp.where(total > 0, total, 1)",
            "noise = fourth - jnp.sum(scatter**2)",
            "closed_forms::ledoit_wolf_is_scikit_learns",
        ),
        (
            "n for n - k among many labellings",
            "factor = 1 - lost / at.total",
            "factor = 1 - 0 * lost / at.total",
            "--thorough",
            "resample::many_labellings_at_once_are_single_fits",
        ),
        (
            "a singular matrix is regular",
            "return params, entropy + objective / 2, at.sound & told & regular & valid & present",
            "return params, entropy + objective / 2, at.sound & told & valid & present",
            "resample::a_closed_form_says_where_it_would_lose_digits",
        ),
        (
            "a labelling's fourth powers about the mean of all",
            "distance = factors.square[None, :] - 2 * along + jnp.sum(offset**2, axis=1)[:, None]",
            "distance = factors.square[None, :] + 0 * along",
            "resample::many_labellings_at_once_are_single_fits[fit-options1]",
        ),
        (
            "numbers beside a status",
            "return _bayes.settled(params, info, valid & ~small, (source, given))",
            "return _bayes.settled(params, info, small | ~small, (source, given))",
            "closed_forms::params_of_data_that_are_not_valid_are_nan",
        ),
        (
            "no slope in a weight of 0",
            "(size > 0)[block.y][:, None]",
            "(block.weight > 0)[:, None]",
            "derivatives::a_weight_that_is_0_has_a_derivative",
        ),
    ),
    *of(
        "qda.py",
        (
            "the volume of a class in its favour",
            "(form + inverses.log_determinant) / 2",
            "(form - inverses.log_determinant) / 2",
            "closed_forms::qda_is_scikit_learns",
        ),
        (
            "the other sign of the quadratic part",
            "params = Quadratic(quadratic=-form / 2,",
            "params = Quadratic(quadratic=form / 2,",
            "closed_forms::qda_is_scikit_learns",
        ),
    ),
    *of(
        "gaussian.py",
        (
            "a density without its determinant",
            "(jnp.sum(dot(z, inverse) * z, axis=1) + log_determinant) / 2",
            "(jnp.sum(dot(z, inverse) * z, axis=1) + 0 * log_determinant) / 2",
            "closed_forms::the_generative_model_is_the_classifiers",
        ),
        (
            "the transpose of a root",
            "jnp.sqrt(jnp.maximum(values, 0))[:, None] * vectors.T",
            "jnp.sqrt(jnp.maximum(values, 0))[:, None] * vectors",
            "closed_forms::samples_have_the_models_moments",
        ),
        (
            "a plane without priors",
            "logs = _bayes.log_of(priors)",
            "logs = 0 * priors",
            "closed_forms::the_generative_model_is_the_classifiers",
        ),
    ),
    *of(
        "linear.py",
        (
            "ties are class 1",
            "jnp.argmax(s, -1) if _is_linear(params) else s > 0)",
            "jnp.argmax(s, -1) if _is_linear(params) else s >= 0)",
            "linear::ties_go_to_the_lower_class",
        ),
        (
            "the largest margin",
            "jnp.min(agreement))",
            "jnp.max(agreement))",
            "linear::margin",
        ),
        (
            "rows without weight have a margin",
            "jnp.where(data.sample_weight != 0, agreement, jnp.inf)",
            "agreement",
            "linear::margin",
        ),
        (
            "between, the other way round",
            "weights[j] - weights[i] + lost",
            "weights[i] - weights[j] + lost",
            "linear::between",
        ),
        (
            "a probability that underflows",
            "jnp.stack([jax.nn.log_sigmoid(-s), jax.nn.log_sigmoid(s)], axis=-1)",
            "jnp.log(jnp.stack([jax.nn.sigmoid(-s), jax.nn.sigmoid(s)], axis=-1))",
            "linear::probabilities_of_any_score",
        ),
    ),
    *of(
        "quadratic.py",
        (
            "a linear part twice",
            "(dot(rows, matrix) + weights[None, :]) * rows",
            "(dot(rows, matrix) + 2 * weights[None, :]) * rows",
            "closed_forms::quadratic_with_equal_covariances_is_linear",
        ),
    ),
    *of(
        "pairwise.py",
        (
            "a tie is a vote for the second class",
            "won = (_margins(params, x) > 0)",
            "won = (_margins(params, x) >= 0)",
            "multiclass::votes_and_ties",
        ),
        (
            "margins count for the loser",
            "total = second - first",
            "total = first - second",
            "multiclass::votes_and_ties",
        ),
    ),
    *of(
        "multiclass.py",
        (
            "an absent class is felt",
            "jnp.where(present, values, jnp.asarray(floor, values.dtype))",
            "values",
            "multiclass::absent_class_is_never_predicted_and_not_felt",
        ),
        (
            "a pair sees every row",
            "jnp.where(inside, weight, 0), key)",
            "weight, key)",
            "multiclass::is_one_binary_fit_per_pair",
        ),
        (
            "a pair has the last row more than once",
            "jnp.where(own < n, weight[at], 0)",
            "weight[at]",
            "multiclass::pairs_see_their_own_rows_alone_where_labels_are_known",
        ),
        (
            "what is given for each row is given for a pair's",
            'PER_ROW = ("offset",)',
            "PER_ROW = ()",
            "multiclass::what_is_given_for_each_row_goes_to_pairs_of_all_rows",
        ),
        (
            "one key for all classes",
            "keys = None if key is None else jax.random.split(key, k)\n",
            "keys = None if key is None else jnp.stack([key] * k)\n",
            "multiclass::key_is_split_per_class",
        ),
        (
            "an absent class wins its pairs",
            "(there.astype(dtype) - here.astype(dtype))",
            "(here.astype(dtype) - there.astype(dtype))",
            "multiclass::pairs_with_absent_classes",
        ),
        (
            "probabilities of exponentials",
            "jax.nn.softmax(jax.nn.log_sigmoid(linear.scores(params, x)), axis=-1)",
            "jax.nn.softmax(linear.scores(params, x), axis=-1)",
            "multiclass::probabilities",
        ),
    ),
    *of(
        "resample.py",
        (
            "a tie is lost to rounding",
            "TIED_ULPS = 100",
            "TIED_ULPS = 0",
            "resample::the_labels_observed_are_as_good_as_themselves",
        ),
        (
            "one bool is asked for of a tree of metrics",
            "jax.tree.broadcast(_folds.larger_is_better(metric, larger_is_better), value)",
            "jax.tree.map(lambda _: _folds.larger_is_better(metric, None), value)",
            "resample::each_metric_of_a_tree_has_its_null_and_p_value",
        ),
        (
            "a null as good does not count",
            "good = null >= (value - near)[None] if larger",
            "good = null > (value + near)[None] if larger",
            "resample::a_null_as_good_counts",
        ),
        (
            "the data themselves do not count",
            "p_value = (1 + beaten.astype(value.dtype)) / (1 + len(null))",
            "p_value = beaten.astype(value.dtype) / len(null)",
            "resample::a_permutation_test_is_the_loop",
        ),
    ),
    *of(
        "_batch/_folds.py",
        (
            "a loss is taken for a gain",
            "LOSSES = (metrics.log_loss, metrics.brier, ",
            "LOSSES = (metrics.log_loss, ",
            "resample::losses_are_known_to_be_losses",
        ),
        (
            "a class that is too small is what could not be judged",
            "known = judged | (info.status == Status.CLASS_TOO_SMALL)",
            "known = judged",
            "probes::a_target_of_one_class_leaves_its_neighbours_untouched",
        ),
        (
            "the labels that are given are not among those of the draws",
            "return jnp.where(given, y, _draws.permuted(key, y, strata, groups))",
            "return _draws.permuted(key, y, strata, groups)",
            "resample::a_permutation_test_by_closed_form_is_the_loop",
        ),
        (
            "rows without weight are judged",
            "return weight * sample_weight, judged * sample_weight",
            "return weight * sample_weight, judged",
            "resample::rows_without_weight_neither_train_nor_judge",
        ),
        (
            "a selection begins at 0",
            'given = options | penalty | ({"init": start} if warm else {})',
            "given = options | penalty",
            "resample::fits_of_a_selection_begin_where_those_of_stronger_penalties_lead",
        ),
    ),
    *of(
        "_nonsmooth/_quadratic.py",
        (
            "a leap beyond a kink",
            "length = jnp.minimum(1, jnp.min(part))",
            "length = jnp.ones_like(sign[0])",
            "sparse::the_subgradient_is_0",
        ),
        (
            "what is 0 stays so",
            "held = (u != 0) | (l1 == 0)",
            "held = l1 == 0",
            "sparse::nine_digits",
        ),
    ),
    *of(
        "_nonsmooth/_proximal.py",
        (
            "a fall that rounding hides is none",
            "accept = (fell | level) &",
            "accept = fell &",
            "sparse::a_fall_that_rounding_hides_is_one",
        ),
    ),
    *of(
        "_nonsmooth/_working.py",
        (
            "the first set for all",
            "more = (i == 0) | (more & (run.steps > 0))",
            "more = jnp.bool_(False)",
            "sparse::more_columns_than_a_set_holds",
        ),
        (
            "what a set does not hold is 0",
            "outside = _back(theta, index, whole, jnp.zeros_like(theta[:, index]))",
            "outside = jnp.zeros_like(theta)",
            "sparse::what_a_set_does_not_hold_keeps_its_part",
        ),
    ),
    *of(
        "_nonsmooth/_duality.py",
        (
            "slopes beyond their bounds",
            "share = 1 / jnp.maximum(jnp.max(beyond, initial=0), 1)",
            "share = jnp.ones_like(value)",
            "sparse::the_gap_bounds_what_is_missing",
        ),
        (
            "kinks are all told from 0",
            "jnp.abs(theta) > jnp.sqrt(2 * gap * variance)",
            "theta != 0",
            "sparse::second_derivatives_and_those_at_a_kink",
        ),
    ),
    *of(
        "_nonsmooth/_kinked.py",
        (
            "a step that leads uphill is kept",
            "jnp.where(i == 0, found.theta, found.before)",
            "found.theta",
            "sparse::a_last_step_that_leads_uphill_is_taken_back",
        ),
        (
            "no derivative of a kink's size",
            " + _kinks.slope(kinks, some)\n",
            "\n",
            "sparse::derivatives_are_differences",
        ),
        (
            "classes as they were met",
            "by = jnp.where(alone, jnp.clip(mean, low, high), mean)",
            "by = jnp.zeros_like(mean)",
            "sparse::classes_of_even_number_have_the_least_norm",
        ),
        (
            "a class at its kink for no reason",
            "theta = _apart(spec, problem, kinks, theta)\n    ground",
            "ground",
            "sparse::classes_of_even_number_have_the_least_norm",
        ),
        (
            "a system that is not symmetric",
            "some = jnp.where(moves, flat, 0)",
            "some = flat",
            "derivatives::forwards_over_backwards_is_forwards_over_forwards",
        ),
    ),
    *of(
        "_nonsmooth/_kinks.py",
        (
            "a group as wide as it comes",
            "jnp.where(alone, 1, unit / whole)",
            "jnp.ones_like(unit)",
            "sparse::a_group_of_one_is_a_weight_and_units_are_the_users",
        ),
        (
            "norms that are not curved",
            "per_size[:, None] * (jnp.diag",
            "0 * per_size[:, None] * (jnp.diag",
            "sparse::derivatives_of_groups_are_differences",
        ),
    ),
    *of(
        "_batch/_prepared.py",
        (
            "a kink in the units of x",
            '"l1").astype(scale.dtype) * scale',
            '"l1").astype(scale.dtype)',
            "sparse::standardised_inside_is_standardised_before",
        ),
        (
            "a penalty in the units of x",
            "l2=penalty * scale**2, **given",
            "l2=penalty, **given",
            "resample::a_fit_on_standardized_columns_comes_in_the_units_of_x",
        ),
        (
            "classes balanced among the rows as they are",
            "_draws.balanced(y, weight, k, axis)",
            "_draws.balanced(y, jnp.ones(n, dtype), k, axis)",
            "resample::a_fit_on_balanced_classes_balances_the_training_rows",
        ),
    ),
    *of(
        "_batch/_draws.py",
        (
            "strata are those of the drawn rows",
            "places = jnp.argsort(strata, stable=True)",
            "places = jnp.argsort(strata[order], stable=True)",
            "resample::permutations_move_labels_within_strata",
        ),
        (
            "absent classes have a part",
            "present = jnp.maximum(jnp.sum(share > 0), 1)",
            "present = jnp.maximum(jnp.sum(share >= 0), 1)",
            "resample::balanced_classes_weigh_the_same",
        ),
        (
            "the smallest group first",
            "drawn[jnp.argsort(-size[drawn], stable=True)]",
            "drawn[jnp.argsort(size[drawn], stable=True)]",
            "resample::the_largest_groups_are_dealt_first",
        ),
        (
            "the last row is never drawn",
            "drawn = jax.random.randint(key, (n,), 0, count)",
            "drawn = jax.random.randint(key, (n,), 0, count - 1)",
            "resample::bootstraps_count_rows",
        ),
        (
            "slots without a group are drawn",
            "count = n if groups is None else jnp.max(rank) + 1",
            "count = n",
            "groups::bootstraps_of_groups_draw_whole_groups",
        ),
        (
            "a group goes where the most is",
            "jnp.where(least, jnp.sum(total, axis=1), jnp.inf)",
            "jnp.where(least, -jnp.sum(total, axis=1), jnp.inf)",
            "groups::folds_of_groups_are_as_even_in_the_classes_as_scikit_learns",
        ),
        (
            "labels of a group go to groups of any size",
            "kind = ranks(kind, jnp.where(alike, 0, size))",
            "kind = ranks(kind)",
            "groups::labels_that_differ_in_a_group_move_to_groups_of_its_size",
        ),
    ),
    *of(
        "_batch/_paths.py",
        (
            "the weakest penalty within an error",
            "jnp.where(score >= score[best] - room, size, -jnp.inf)",
            "jnp.where(score >= score[best] - room, -size, -jnp.inf)",
            "resample::selection_is_by_the_mean_over_folds",
        ),
        (
            "a fold that is infinite for every penalty judges them",
            "jnp.where(told[None, :], values, jnp.nan)",
            "jnp.where(told[None, :], values, values)",
            "resample::folds_that_tell_nothing_are_left_out",
        ),
        (
            "what nothing judged is chosen",
            "return chosen, jnp.any(jnp.isfinite(score))",
            "return chosen, jnp.any(~jnp.isnan(score))",
            "resample::a_penalty_that_nothing_judged_is_none",
        ),
        (
            "a path from weak to strong",
            "order = jnp.argsort(-level",
            "order = jnp.argsort(level",
            "resample::a_path_goes_from_strong_to_weak",
        ),
        (
            "a parabola is followed however far",
            "or_else(through(*points), 10,",
            "or_else(through(*points), jnp.inf,",
            "resample::a_path_begins_where_the_steps_before_lead",
        ),
        (
            "a line is followed however far",
            "or_else(through(*points[:2]), 4,",
            "or_else(through(*points[:2]), jnp.inf,",
            "resample::a_path_begins_where_the_steps_before_lead",
        ),
        (
            "a line where a parabola leads",
            "or_else(through(*points), 10,",
            "or_else(through(*points), 0,",
            "resample::a_path_begins_where_the_steps_before_lead",
        ),
        (
            "lines through params of any kind",
            "if not isinstance(start, Hyperplane | Linear):",
            "if not isinstance(start, tuple):",
            "resample::a_path_begins_where_the_steps_before_lead",
        ),
    ),
    *of(
        "inference.py",
        (
            "one tail of two",
            "special.erfc(jnp.abs(z) / math.sqrt(2))",
            "special.erfc(jnp.abs(z) / math.sqrt(2)) / 2",
            "inference::tests_of_coefficients_are_statsmodels",
        ),
        (
            "one side of an interval",
            "special.ndtri((1 + level) / 2)",
            "special.ndtri(level)",
            "inference::tests_of_coefficients_are_statsmodels",
        ),
        (
            "an information criterion with half a penalty",
            "aic=2 * (found.degrees - found.log_likelihood)",
            "aic=found.degrees - 2 * found.log_likelihood",
            "summary::a_logistic_regression_is_statsmodels",
        ),
    ),
    *of(
        "_infer/_covariances.py",
        (
            "covariances of means",
            "return _estimate.said(dot(half.T, half) / e.total,",
            "return _estimate.said(dot(half.T, half),",
            "inference::tests_of_coefficients_are_statsmodels",
        ),
        (
            "a form is not looked at",
            "dot(half.T, half) / e.total, _estimate.proper(model, e) & e.of_form",
            "dot(half.T, half) / e.total, _estimate.proper(model, e)",
            "inference::a_form_and_its_covariance",
        ),
        (
            "HC2 is HC3",
            '(jnp.sqrt(left) if kind == "HC2" else left)',
            "left",
            "inference::sandwiches_are_statsmodels",
            "inference::sandwiches_are_the_formula",
        ),
        (
            "clusters are rows",
            'groups / (groups - 1) if kind == "HC1" else 1',
            "1",
            "inference::sandwiches_are_statsmodels",
            "inference::clusters_of_one_row_are_the_rows",
        ),
        (
            "ways that cross are counted where they meet",
            "(-1) ** (size + 1)",
            "1",
            "clusters::ways_that_cross_are_added_less_where_they_meet",
        ),
        (
            "a root that is not at its end",
            "ROOT_STEPS = 20",
            "ROOT_STEPS = 2",
            "clusters::bias_reduced_sandwiches_are_the_formula",
        ),
    ),
    *of(
        "_infer/_restrictions.py",
        (
            "half of a ratio",
            "_estimate.said(2 * e.total * gain, _estimate.proper(model, e))",
            "_estimate.said(e.total * gain, _estimate.proper(model, e))",
            "inference::tests_of_coefficients_are_statsmodels",
        ),
        (
            "signs of rows in the place of clusters",
            "each = jax.ops.segment_sum(each, clusters, num_clusters)",
            "pass",
            "clusters::scores_with_all_signs_are_what_is_drawn",
        ),
    ),
    *of(
        "_infer/_saddlepoint.py",
        (
            "one tail of two that are not alike",
            "jnp.sum(tails)",
            "2 * tails[0]",
            "diagnostics::refined_p_values_are_those_of_all_labellings",
        ),
    ),
    *of(
        "_infer/_goodness.py",
        (
            "what was fitted is not taken off",
            "left = lean - dot(",
            "left = lean - 0 * dot(",
            "summary::le_cessies_is_the_formula",
        ),
    ),
    *of(
        "_infer/_verdict.py",
        (
            "no plane is not told",
            "jnp.where(jnp.any(found.direction != 0), status, Status.NOT_SEPARABLE)",
            "jnp.where(jnp.any(found.direction != 0), status, Status.SEPARABLE)",
            "inference::known_sets",
        ),
    ),
    *of(
        "centroids.py",
        (
            "a threshold in spreads",
            "jnp.abs(far) - threshold * error",
            "jnp.abs(far) - threshold",
            "centroids::centroids_are_scikit_learns",
        ),
        (
            "half of the number of columns is not the middle",
            "ordered[count // 2]",
            "ordered[count // 3]",
            "centroids::scores_are_distances_and_priors",
        ),
        (
            "a class is as near as it is far",
            "dot(weights, centre) - form",
            "dot(weights, centre) + form",
            "centroids::scores_are_distances_and_priors",
        ),
        (
            "what varies nowhere is not told",
            "jnp.any(flat & (reach > 0))",
            "jnp.any(flat & (reach < 0))",
            "centroids::what_varies_in_no_class",
        ),
    ),
    *of(
        "_smooth/_ordered.py",
        (
            "borders beside an absent class are two",
            "last = jax.lax.cummax(jnp.where(present, index, -1))",
            "last = index",
            "ordinal::an_absent_class_takes_no_room",
        ),
        (
            "a separable optimum is not looked for",
            "open_still = usable & ended & ~passed",
            "open_still = usable & ended & passed",
            "ordinal::the_verdict_is_linear_programmings",
        ),
        (
            "thresholds have any number of digits",
            "lost = eps * jnp.max(",
            "lost = 0 * eps * jnp.max(",
            "ordinal::thresholds_that_the_dtype_does_not_hold_are_no_optimum",
        ),
        (
            "borders may begin in one place",
            "cuts = cuts - least *",
            "cuts = cuts - 0 * least *",
            "ordinal::a_class_that_is_next_to_absent",
        ),
        (
            "the gaps do not bend",
            "share * left / taken**2",
            "share * left / taken",
            "ordinal::the_covariance_is_the_inverse_of_the_curvature",
        ),
        (
            "the covariance is not of sums",
            "half = _linalg.half_solve(factor, back.T) / jnp.sqrt(jnp.where(total > 0, total, 1))",
            "half = _linalg.half_solve(factor, back.T)",
            "ordinal::the_covariance_is_the_inverse_of_the_curvature",
        ),
    ),
    *of(
        "effects.py",
        (
            "an average whose rows have errors of their own",
            "jnp.sum(dot(slope, spread / unit[:, None] / unit[None, :]) * slope, axis=1)",
            "jnp.sum(dot(slope**2, spread / unit[:, None] / unit[None, :]), axis=1)",
            "effects::average_effects_are_statsmodels",
        ),
    ),
    *of(
        "_infer/_estimate.py",
        (
            "a row of leverage 1 is left out",
            "jnp.where(left > math.sqrt(float(jnp.finfo(left.dtype).eps)), left, jnp.nan)",
            "left",
            "inference::a_row_of_leverage_one_is_not_left_out",
        ),
    ),
    *of(
        "_infer/_diagnostics.py",
        (
            "influence of the penalty once per row",
            "solved) + held[None, :]",
            "solved)",
            "inference::influence_is_the_derivative_of_the_fit",
        ),
        (
            "no row leaves with its label",
            "turned = jnp.swapaxes(left, 1, 2)",
            "turned = jnp.eye(m, dtype=z.dtype)[None] + 0 * left",
            "diagnostics::they_are_statsmodels",
        ),
        (
            "a distance is not by the number of coefficients",
            "jnp.sum(moved**2, axis=1) / number",
            "jnp.sum(moved**2, axis=1)",
            "diagnostics::they_are_statsmodels",
        ),
    ),
    *of(
        "_infer/_profiles.py",
        (
            "half of a ratio of penalised likelihoods",
            "loss = 2 * _total(data, info)",
            "loss = _total(data, info)",
            "diagnostics::the_ratio_is_that_of_brute_force",
        ),
        (
            "the quantile of one side",
            "special.ndtri((1 + still[2]) / 2)",
            "special.ndtri(still[2])",
            "diagnostics::limits_are_where_the_ratio_is_the_quantile",
        ),
    ),
    *of(
        "_smooth/_firth.py",
        (
            "the whole of Jeffreys' prior",
            "return value - log_determinant / (2 * total)",
            "return value - log_determinant / total",
            "logistic::firth_adds_half_a_row_to_every_cell_of_a_table",
        ),
        (
            "a determinant of means",
            "number * jnp.log(total) / 2\n",
            "0 * jnp.log(total) / 2\n",
            "logistic::firth_solves_the_modified_score_equations",
        ),
        (
            "what is masked is felt by pairs of rows",
            "_rows.clean(problem.rows)",
            "problem.rows",
            "diagnostics::rows_and_columns_that_are_absent_may_hold_nan",
        ),
        (
            "what is held moves the others",
            "jnp.where(held, 0, theta), ",
            "theta, ",
            "diagnostics::the_ratio_is_that_of_brute_force",
        ),
    ),
    *of(
        "_scores/_ranked.py",
        (
            "positives of equal score are above",
            "(jnp.cumsum(here) - here / 2)[at.place]",
            "jnp.cumsum(here)[at.place]",
            "metrics::the_area_is_what_it_says",
        ),
        (
            "-0 is less than 0",
            "jnp.where(scores == 0, 0, jax.lax.stop_gradient(scores))",
            "jax.lax.stop_gradient(scores)",
            "metrics::ties_go_to_the_lower_class",
        ),
        (
            "a row without weight has a score",
            "jnp.where(absent, highest, keys)",
            "keys",
            "metrics::curves_are_those_of_scikit_learn",
        ),
        (
            "odds of the others by subtraction",
            "jnp.where(scores == top, top - rest, known)",
            "known",
            "metrics::the_order_of_classes_is_no_part_of_their_odds",
        ),
    ),
    *of(
        "_scores/_bins.py",
        (
            "an edge belongs to the bin above",
            "p[:, None] > edges[None, :]",
            "p[:, None] >= edges[None, :]",
            "metrics::an_edge_belongs_to_the_bin_below_it",
        ),
        (
            "shares are compared to the last bit",
            " - ULPS * jnp.finfo(p.dtype).eps",
            "",
            "metrics::an_edge_belongs_to_the_bin_below_it",
        ),
    ),
    *of(
        "_scores/_measures.py",
        (
            "truth in the columns",
            "counts.at[rows.y, _judged.predicted(rows.scores)]",
            "counts.at[_judged.predicted(rows.scores), rows.y]",
            "metrics::multiclass_metrics_are_those_of_scikit_learn",
        ),
        (
            "precision is weighed with recall the other way",
            "square * truth + told",
            "truth + square * told",
            "metrics::more_of_two_classes_is_that_of_scikit_learn",
        ),
        (
            "what others have is 1 less the own",
            "return jnp.sum(share[None, :] * (1 - jnp.eye(len(share), dtype=share.dtype)), axis=1)",
            "return 1 - share",
            "metrics::more_of_two_classes_is_that_of_scikit_learn",
        ),
        (
            "the middle of two large scores is infinite",
            "above / 2 + below / 2",
            "(above + below) / 2",
            "metrics::thresholds_between_the_largest_scores",
        ),
        (
            "the variance is of all rows of the bin",
            "others = weight * unit - 1",
            "others = weight * unit",
            "metrics::a_row_of_weight_two_is_the_row_twice",
            "metrics::the_debiased_error_of_calibrated_scores_is_nothing_on_average",
        ),
    ),
    *of(
        "_scores/_pools.py",
        (
            "pools of one value stay apart",
            "under[1] * last[0] >= last[1] * under[0]",
            "under[1] * last[0] > last[1] * under[0]",
            "calibration::the_derivative_of_isotonic_values_in_the_weights",
            "calibration::weights_count_rows_and_a_row_of_weight_zero_is_absent",
        ),
    ),
    *of(
        "_scores/_newton.py",
        (
            "a step that leads up is taken",
            "there.objective <= before + LEVEL_ULPS * eps * jnp.abs(before)",
            "there.objective <= jnp.inf",
            "calibration::a_step_that_leads_up_is_halved",
        ),
    ),
    *of(
        "_scores/_calibrators.py",
        (
            "scores that tell less than nothing are turned round",
            "point = jnp.where(deaf, 0, state.point)",
            "point = state.point",
            "calibration::scores_that_tell_less_than_nothing_are_not_heard",
        ),
        (
            "a tie is apart",
            "endless = jnp.where(apart > 0, ",
            "endless = jnp.where(apart >= 0, ",
            "calibration::what_has_no_finite_optimum_says_so",
        ),
        (
            "steps instead of lines between knots",
            "found = values[low] + jnp.clip(part, 0, 1) * (values[high] - values[low])",
            "found = values[low]",
            "calibration::isotonic_is_scikit_learns",
        ),
    ),
    *of(
        "_scores/_conformal.py",
        (
            "sums of all probabilities do not tie",
            " - k * jnp.finfo(strange.dtype).eps",
            "",
            "conformal::p_values_by_hand",
        ),
        (
            "the new row is not one of them",
            "(above + own) / (whole[None, :] + own)",
            "above / whole[None, :]",
            "conformal::sets_are_those_of_the_quantile",
        ),
        (
            "what is not known is left out",
            "~(values <= level)",
            "values > level",
            "conformal::lanes_are_their_own",
        ),
    ),
    *of(
        "_scores/_judged.py",
        (
            "ties are class 1",
            "(scores > 0 if scores.ndim == 1",
            "(scores >= 0 if scores.ndim == 1",
            "metrics::ties_go_to_the_lower_class",
        ),
        (
            "a negative weight is a weight",
            "sound & (weight > 0) & jnp.isfinite(weight), True)",
            "sound & jnp.isfinite(weight), True)",
            "metrics::a_bad_weight_is_nan",
        ),
        (
            "a mean over all rows",
            "total = jnp.where(rows.valid, jnp.sum(weight), 1)",
            "total = jnp.where(rows.valid, len(weight), 1)",
            "metrics::a_row_of_weight_two_is_the_row_twice",
        ),
        (
            "a score of NaN is 0",
            "        sound &= ~(is_nan if scores.ndim == 1 else jnp.any(is_nan, axis=1))\n",
            "",
            "metrics::a_nan_score_is_nan",
        ),
    ),
    *of(
        "moments.py",
        (
            "moments of weights that sum to 1",
            "scatter=s.scatter * total), valid)",
            "scatter=s.scatter), valid)",
            "closed_forms::any_split_in_any_order_is_the_whole",
        ),
        (
            "numbers for data that are not valid",
            "nan = jnp.where(valid, 0, jnp.nan).astype(weight.dtype)",
            "nan = jnp.where(valid, 0, 0).astype(weight.dtype)",
            "closed_forms::moments_of_data_that_are_not_valid_are_nan",
        ),
    ),
    *of(
        "features.py",
        (
            "the center's square is added",
            "radius**2 - jnp.sum(center**2)",
            "radius**2 + jnp.sum(center**2)",
            "features::ball_hyperplane_is_the_exact_sphere",
        ),
        (
            "a constant column is divided by 0",
            "jnp.where(varies, unit * jnp.sqrt(jnp.where(varies, variance, 1)), 1)",
            "unit * jnp.sqrt(variance)",
            "features::a_constant_column_becomes_zero",
        ),
        (
            "a bias is not moved",
            "bias=params.bias - shift)",
            "bias=params.bias)",
            "features::unstandardize_gives_the_same_scores",
        ),
        (
            "products of distinct columns",
            "itertools.combinations_with_replacement(",
            "itertools.combinations(",
            "features::polynomial_is_that_of_scikit_learn",
        ),
        (
            "a kernel of half the size",
            "math.sqrt(2 / len(phases))",
            "math.sqrt(1 / len(phases))",
            "features::fourier_features_approach_the_gaussian_kernel",
        ),
    ),
    *of(
        "labels.py",
        (
            "a class too many",
            "(indices < 0) | (indices >= len(values))",
            "(indices < 0) | (indices > len(values))",
            "labels::decode_refuses_what_encode_never_gave",
        ),
        (
            "a missing label is a class",
            "value is None or value != value",
            "value is None",
            "labels::missing_labels_are_counted_and_placed",
        ),
    ),
]


# --- the run -------------------------------------------------------------------------------------

ROOT = Path(__file__).parent.parent
# A fault that no test has seen by then has survived, though a loop may have become endless.
LIMIT = 150
# Tracing keeps one core busy; more processes than cores gain nothing.
WORKERS = 2
# Tests of one run without a fault.
AT_ONCE = 12
PASSED, FAILED = 0, 1  # pytest's own


def main(names: list[str]) -> int:
    """Try the faults of these names, or of files of these names, or all."""
    faults = [f for f in FAULTS if not names or {f.name, f.file} & set(names)]
    unknown = set(names) - {f.name for f in FAULTS} - {f.file for f in FAULTS}
    if unknown:
        raise SystemExit(f"names: expected those of faults or files, got {sorted(unknown)}")
    for fault in faults:
        changed(fault)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        places = [a_copy(Path(folder, str(i))) for i in range(WORKERS)]
        free = SimpleQueue()
        for place in places:
            free.put(place)
        if not sound(places, free, faults, pool):
            return 1
        killed = 0
        for fault, result in zip(faults, pool.map(partial(tried, free), faults), strict=True):
            killed += result.killed
            verdict = "killed by" if result.killed else "SURVIVED:"
            said = f"{fault.file}: {fault.name}: {verdict} {result.by}"
            print(f"{result.seconds:4.0f} s  {said}", flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{killed} of {len(faults)} faults killed in {minutes:.1f} minutes")
    return 0 if killed == len(faults) else 1


def a_copy(place: Path) -> Path:
    """A checkout that may be spoilt."""
    for part in ("jaxlin", "tests"):
        shutil.copytree(ROOT / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)
    return place


def sound(
    places: list[Path], free: SimpleQueue, faults: list[Fault], pool: ThreadPoolExecutor
) -> bool:
    """Whether all tests pass without a fault; what they compile is kept for later."""
    jobs: list[tuple[str, ...]] = []
    for flags in ((), (THOROUGH,)):
        chosen = [set(fault.tests) for fault in faults if (THOROUGH in fault.tests) == bool(flags)]
        tests = sorted(set().union(*chosen) - {THOROUGH})
        jobs += [(*flags, *tests[i : i + AT_ONCE]) for i in range(0, len(tests), AT_ONCE)]

    def run(job):
        place = free.get()
        try:
            return pytest_in(place, job, limit=None)
        finally:
            free.put(place)

    outcomes = list(pool.map(run, jobs))
    for code, out in outcomes:
        if code != PASSED:
            print(f"without a fault:\n{out}")
    for a, b in itertools.permutations(places, 2):
        shutil.copytree(cache_of(a), cache_of(b), dirs_exist_ok=True)
    return all(code == PASSED for code, _ in outcomes)


def tried(free: SimpleQueue, fault: Fault) -> Result:
    """The fault in a copy that nobody uses, and what its tests say."""
    place = free.get()
    path = place / "jaxlin" / fault.file
    began = time.monotonic()
    try:
        path.write_text(changed(fault))
        code, out = pytest_in(place, fault.tests, limit=LIMIT)
    finally:
        shutil.copy(ROOT / "jaxlin" / fault.file, path)
        free.put(place)
    failed = re.search(r"^FAILED tests/(\S+)", out, re.MULTILINE)
    # Any other end, as of a fault that cannot be imported, shows nothing of the tests.
    by = failed[1] if failed else f"pytest ended with {code}: {out[-300:].strip()}"
    return Result(code == FAILED and failed is not None, by, time.monotonic() - began)


def changed(fault: Fault) -> str:
    """The file with the fault."""
    text = source(fault)
    count = text.count(fault.old)
    if count != 1:
        raise ValueError(
            f"{fault.name}: expected what it replaces once in {fault.file}, got it {count} times"
        )
    return text.replace(fault.old, fault.new)


def source(fault: Fault) -> str:
    """The file without it."""
    return (ROOT / "jaxlin" / fault.file).read_text()


def pytest_in(place: Path, tests: Sequence[str], limit: float | None) -> tuple[int | str, str]:
    """Pytest's exit status, or what ended it, and its output, up to the first test that fails."""
    cache_of(place).mkdir(exist_ok=True)
    env = os.environ | {
        "PYTHONPATH": str(place),
        "PYTHONDONTWRITEBYTECODE": "1",
        # A program that a fault leaves as it was need not be compiled again.
        "JAX_COMPILATION_CACHE_DIR": str(cache_of(place)),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    arguments = ["-x", "--no-header", "-rf", "--tb=no", "-p", "no:cacheprovider", "-n", "0"]
    code = f"import jaxlin, pytest, sys; assert jaxlin.__file__.startswith({str(place)!r}); "
    code += "sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *arguments, *tests]
    try:
        run = subprocess.run(
            command, cwd=place, env=env, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return "the clock", ""
    return run.returncode, run.stdout + run.stderr


def cache_of(place: Path) -> Path:
    return place.with_name(place.name + "-programs")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
