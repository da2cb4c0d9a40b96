"""Published answers, with their sources, and an oracle of fifty digits that reruns them.

`catalogue` says what the sets are, `answers` holds what `oracle` says of them, `fits` is what the
package says. `python -m tests.reference` prints how many digits each solver finds.
"""
