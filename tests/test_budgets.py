"""Programs stay as small as they are: a change that needs more says why, beside the new number."""

import json

import pytest

from tests import budgets
from tests.public import FUNCTIONS

HELD = json.loads(budgets.FILE.read_text())
# Fits of statistics, of streams, and of fits, whose programs are parts of others'.
PARTS = ("from_moments", "streaming", "fit_cross")


def test_every_fit_has_a_budget():
    fits = [n for n in FUNCTIONS if n.split(".")[1].startswith("fit")]
    lacking = [n for n in fits if n not in HELD and not any(part in n for part in PARTS)]
    assert not lacking, lacking


@pytest.mark.cpu
@pytest.mark.parametrize(
    "name, way",
    [
        pytest.param(*p, marks=[] if p[1] == "alone" and "," not in p[0] else pytest.mark.thorough)
        for p in budgets.PROGRAMS
    ],
)
def test_a_program_keeps_its_budget(name, way):
    most = HELD[name][way][budgets.newest()]
    found = budgets.fusions(name, way)
    assert found <= most, f"{found} fusions where {most} were: a smaller program, or a reason"
    assert found > 0.8 * most, (
        f"{found} fusions where {most} were: tests/budgets.json can come down"
    )
