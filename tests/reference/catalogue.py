"""The reference sets: whose data, which model, what was published, and how far to trust it.

The answers to 25 digits are in `answers.json`, made by `oracle` alone. `published` is a table as it
was printed: a line a coefficient, with the name, the estimate, and the standard error if there is
one ("-" if not); lines `deviance`, `loss` (minus the log likelihood) and, between classes, `class`
may follow.

Published figures have faults. `trust` is the number of significant digits of the estimates that a
source deserves where it printed more, and `note` says why. Of any standard error four are trusted:
programs compute them at the last step but one.
"""

from tests.reference.binary import BINARY, FIRTH
from tests.reference.multiclass import MULTICLASS
from tests.reference.regression import REGRESSION

PROBLEMS = {**BINARY, **MULTICLASS, **FIRTH, **REGRESSION}
