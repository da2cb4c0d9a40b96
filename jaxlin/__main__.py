"""The command line: fit every classifier of the package to a table, and say how each did.

`python -m jaxlin [data.csv]` cross-validates on the file, or on the embedded breast cancer data,
and prints accuracy with standard error, log loss, fit time and status. What it did to the data it
says; what it cannot use it answers with one line on stderr and exit code 2.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jaxlin._files._numerals import MARKS
from jaxlin._files._sheet import BadInput, Options

INTERRUPTED = 130
LOG_SECONDS = 5  # between lines of progress where stderr is no terminal


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
      argv: the arguments, those of the process by default.

    Returns:
      The exit code: 0, 2 for input that cannot be used, 130 when interrupted.
    """
    try:
        _run(_parser().parse_args(argv))
    except BadInput as error:
        print(f"jaxlin: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("jaxlin: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as head, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (see --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m jaxlin",
        description="Fit every classifier of jaxlin to a table by cross-validation.",
    )
    parser.add_argument(
        "data",
        nargs="?",
        help="a delimited text file, gzip or not, with or without a header "
        "(default: the embedded breast cancer data)",
    )
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="the column to predict (default: target, class, label or y, else the last)",
    )
    parser.add_argument("--folds", type=int, default=10, help="how many (default: 10)")
    parser.add_argument(
        "--stream",
        action="store_true",
        help="for a file larger than memory, of numbers: read it in blocks into a temporary "
        "folder (TMPDIR), and fit what can be fitted block by block",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the folds (default: 0)")
    parser.add_argument("--plot", metavar="FILE.png", help="draw the accuracies")
    parser.add_argument("--json", metavar="FILE", help="write the results for machines")
    parser.add_argument(
        "--summary",
        action="store_true",
        help="print the coefficients of logistic regression without a penalty too, or of softmax "
        "regression, with their standard errors, tests and odds ratios",
    )
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="compile all anew: by default compiled programs are kept in the user's cache folder",
    )
    file = parser.add_argument_group("how the file is written, where it should not be guessed")
    file.add_argument("--separator", metavar="CHARACTER", help="or tab, or space")
    file.add_argument("--encoding", metavar="NAME", help="such as utf-8, latin-1, cp1252")
    file.add_argument(
        "--header", action=argparse.BooleanOptionalAction, help="whether a row names the columns"
    )
    file.add_argument("--decimal", choices=MARKS, metavar=".|,", help="the decimal mark")
    file.add_argument(
        "--missing",
        nargs="*",
        metavar="TOKEN",
        help="cells that stand for a missing value, besides empty ones "
        "(default: ?, NA, N/A, NaN, null, None and the like)",
    )
    file.add_argument("--drop", nargs="+", metavar="COLUMN", help="columns to leave out")
    return parser


def _run(arguments: argparse.Namespace) -> None:
    _check(arguments)
    if not arguments.no_cache:
        _keep_programs()
    if arguments.stream:
        _run_streamed(arguments)
        return
    data = _data(arguments)
    # Only now: --help, a mistyped option and an unreadable file should not wait for these.
    import jax

    from jaxlin._cli import _evaluate, _report

    if arguments.plot:
        _report.check_plot(arguments.plot)
    if isinstance(sys.stdout, io.TextIOWrapper):  # names that the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    with jax.enable_x64(True):
        weights, notes = _evaluate.folds(data, arguments.folds, arguments.seed)
        notes = [*data.notes, *notes]
        print(_report.heading(data, len(weights), notes), end="\n\n", flush=True)
        outcomes = _evaluated(data, weights)
        _show(arguments, data, outcomes, len(weights), notes)
        if arguments.summary:
            print(f"\n{_report.summary(data)}", flush=True)


def _keep_programs() -> None:
    import jax

    from jaxlin._base import _cache

    # Before, each program that is read logs a page about the machine, and little time is won.
    if jax.__version_info__ >= (0, 10):
        _cache.cache()


def _run_streamed(arguments: argparse.Namespace) -> None:
    import jax

    from jaxlin._cli import _large, _report

    if arguments.plot:
        _report.check_plot(arguments.plot)
    progress = _Progress()
    with tempfile.TemporaryDirectory(prefix="jaxlin-") as folder, jax.enable_x64(True):
        try:
            with _named(arguments.data):
                data = _large.read(
                    arguments.data, arguments.target, _options(arguments), folder, progress
                )
            progress.clear()
            folds = arguments.folds
            print(_report.heading(data, folds, data.notes, _report.BY_ROWS), end="\n\n", flush=True)
            outcomes = _large.evaluate(data, folds, arguments.seed, progress)
        finally:
            progress.clear()
        _show(arguments, data, outcomes, folds, data.notes)


def _show(
    arguments: argparse.Namespace, data: Any, outcomes: list, folds: int, notes: list
) -> None:
    from jaxlin._cli import _report

    print(_report.table(outcomes), flush=True)
    if arguments.json:
        about = {"folds": folds, "seed": arguments.seed, "notes": notes}
        _report.write_json(arguments.json, data, outcomes, **about)
    if arguments.plot:
        _report.plot(arguments.plot, data, outcomes)


def _evaluated(data: Any, weights: Any) -> list:
    from jaxlin._cli import _evaluate

    progress = _Progress()
    try:
        methods = _evaluate.methods(len(data.classes))
        programs = _evaluate.compile_all(methods, data, weights, progress)
        return [_evaluate.evaluate(program, data, weights, progress) for program in programs]
    finally:
        progress.clear()


def _check(arguments: argparse.Namespace) -> None:
    if arguments.folds < 2:
        raise BadInput(f"--folds: expected at least 2, got {arguments.folds}")
    if not 0 <= arguments.seed < 2**32:
        raise BadInput(f"--seed: expected from 0 to 2^32 - 1, got {arguments.seed}")
    if arguments.stream and arguments.data is None:
        raise BadInput("--stream: reads a file, but no file was given")
    if arguments.stream and arguments.summary:
        raise BadInput("--summary: looks at all rows at once, and --stream reads them in blocks")
    for option in ("target", *Options._fields):
        if getattr(arguments, option) is not None and arguments.data is None:
            raise BadInput(f"--{option}: says something of a file, but no file was given")
    for option in ("json", "plot"):
        path = getattr(arguments, option)
        if path is None:
            continue
        if Path(path).is_dir() or not path:
            raise BadInput(f"--{option} {path}: expected the name of a file")
        if not Path(path).parent.is_dir():
            raise BadInput(f"--{option} {path}: no such folder")


def _options(arguments: argparse.Namespace) -> Options:
    given = {name: getattr(arguments, name) for name in Options._fields}
    return Options(**{name: value for name, value in given.items() if value is not None})


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """What the system says of a file, in one line."""
    try:
        yield
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None


def _data(arguments: argparse.Namespace) -> Any:
    from jaxlin._cli import _table

    if arguments.data is not None:
        with _named(arguments.data):
            return _table.read(arguments.data, arguments.target, _options(arguments))
    import numpy as np

    from jaxlin import datasets

    x, y, features, classes = datasets.breast_cancer()
    return _table.Data(
        source="breast cancer (embedded)",
        x=np.asarray(x, float),
        y=np.asarray(y, np.int32),
        features=list(features),
        classes=list(classes),
        target="diagnosis",
        notes=[],
    )


class _Progress:
    """Where the work stands, on stderr: a line that rewrites itself, or now and then a new one."""

    def __init__(self) -> None:
        self.tty = sys.stderr.isatty()
        self.last = time.monotonic()

    def __call__(self, message: str) -> None:
        if self.tty:
            print(f"\r\033[K{message}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.last > LOG_SECONDS:
            print(message, file=sys.stderr, flush=True)
            self.last = time.monotonic()

    def clear(self) -> None:
        """Leave the terminal's line empty for what follows."""
        if self.tty:
            self("")


if __name__ == "__main__":
    code = main()
    if code == INTERRUPTED:
        os._exit(code)  # without waiting for what is still compiling
    sys.exit(code)
