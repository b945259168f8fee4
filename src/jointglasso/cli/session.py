"""Shared behaviour of all commands: --json, --debug, exit codes, and errors in one sentence."""

from __future__ import annotations

import errno
import json
import math
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any

import click

from jointglasso._wording import aligned
from jointglasso.errors import argument_names_as

OK, NOT_CONVERGED, BAD_INPUT, INTERRUPTED, DEFECT = range(5)

EXIT_CODES = (
    "Exit codes: 0 success; 1 not converged, the result is still written, with its duality gap; "
    "2 bad input or usage; 3 interrupted; 4 a defect of the program."
)

#: Headings of the help, and the parameters below each in order; all others are listed last.
GROUPS = {
    "Classes and variables": (
        "label", "labels", "time", "windows", "width", "overlap", "classes", "rename", "subset", "variables", "drop",
        "top_variance", "covariates", "groups",
    ),
    "From values to covariances": ("scale", "association", "log", "missing", "constant", "weights"),
    "Penalties": (
        "lambda1", "lambda2", "criterion", "n_lambdas", "ratios", "ratio", "min_ratio", "gamma", "penalized_scores",
        "folds", "subsamples", "beta", "seed", "pair_weights", "penalize_diagonal", "penalty",
        "fuse_diagonal", "order", "class_graph", "latent", "points",
    ),
    "Result": (
        "out", "overwrite", "title", "stability", "differences", "prove", "fdr", "n_resamples", "figures",
        "figure_format", "exports", "parquet", "keep_partial", "checkpoint",
    ),
    "Solving": ("tol", "max_iter", "n_jobs", "max_memory"),
    "Reading the file": (
        "samples_in", "names", "no_names", "header", "sheet", "layer", "delimiter", "decimal", "thousands", "comment",
        "no_comment", "encoding", "format", "missing_marker", "unmatched",
    ),
}  # fmt: skip
OTHERS = "Options"

#: Keyword arguments of the library whose option has another name.
_NAMES = {"missing_markers": "missing_marker", "cv": "folds", "subset": "classes", "warm_start": "checkpoint"}

#: Options for boolean values of keyword arguments.
_SWITCHES = {
    ("header", True): "--header",
    ("header", False): "--no-header",
    ("names", False): "--no-names",
    ("comment", False): "--no-comment",
    ("relaxed", False): "--penalized-scores",
    ("complementary_pairs", False): "no --stability",
}

#: Errors caused by the input; their messages name the remedy.
INPUT_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)


class Session:
    """Output of one run of a command.

    Text goes to the standard output. With ``as_json`` the standard output holds exactly one JSON object. Notes,
    warnings and progress always go to the standard error.
    """

    def __init__(self, *, as_json: bool, command_line: str, arguments: Mapping[str, Any], quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.command_line = command_line
        self.arguments = dict(arguments)
        self._answer: dict[str, Any] = {}

    def say(self, text: str = "") -> None:
        """Print text; silent with --json and --quiet."""
        if not self.as_json and not self.quiet:
            click.echo(text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], left_aligned: Sequence[int] = (0,)) -> None:
        """Print a table; the columns `left_aligned` are aligned left, all others right."""
        for line in aligned(header, rows, left_aligned):
            self.say(f"  {line}")

    def note(self, text: str) -> None:
        """Print a note on the standard error."""
        click.echo(text, err=True)

    @property
    def shows_progress(self) -> bool:
        """Whether progress is shown: the standard error is a terminal, and --quiet is not set."""
        return sys.stderr.isatty() and not self.quiet

    def answer(self, **fields: Any) -> None:
        """Add fields to the JSON object."""
        self._answer |= fields

    def close(self, code: int) -> None:
        """Print the JSON object, with --json."""
        if self.as_json:
            click.echo(json.dumps(plain({**self._answer, "exit_code": code}), ensure_ascii=False, allow_nan=False))


class Command(click.Command):
    """A command with --json and --debug, whose callback gets a `Session` and returns an exit code."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("epilog", EXIT_CODES)
        super().__init__(*args, **options)
        self.params += [
            click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object instead of text."),
            click.Option(["--quiet"], is_flag=True, help="Print warnings and errors only."),
            click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
        ]

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Record the command line; with --json, report usage errors as JSON, too."""
        typed = list(args)
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if "--json" in typed:
                _answer_error(error.format_message(), BAD_INPUT)
            raise
        context.meta["jointglasso.typed"] = shlex.join(["jointglasso", info_name or "", *typed])
        return context

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options under headings, the most used first."""
        listed: dict[str, list[tuple[str, str]]] = {title: [] for title in (*GROUPS, OTHERS)}
        rank = {name: number for number, name in enumerate(chain.from_iterable(GROUPS.values()))}
        for param in sorted(self.get_params(ctx), key=lambda param: rank.get(param.name or "", len(rank))):
            if (record := param.get_help_record(ctx)) is not None:
                title = next((title for title, names in GROUPS.items() if param.name in names), OTHERS)
                listed[title].append(record)
        for title, records in listed.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the callback; turn exceptions into a message and an exit code."""
        as_json, quiet, debug = (ctx.params.pop(name) for name in ("as_json", "quiet", "debug"))
        typed = ctx.meta["jointglasso.typed"]
        ctx.obj = Session(as_json=as_json, quiet=quiet, command_line=typed, arguments=ctx.params)
        try:
            with argument_names_as(options_of(self)), _warnings_as_notes(), _asked_to_end_like_interrupted():
                code = super().invoke(ctx) or OK
        except click.UsageError as error:
            if as_json:
                _answer_error(error.format_message(), BAD_INPUT)
            raise
        except click.exceptions.Exit:
            raise
        except (Exception, KeyboardInterrupt) as error:
            if debug or getattr(error, "errno", None) == errno.EPIPE:
                raise
            code = _failed(error, as_json, ctx.params.get("checkpoint"))
        else:
            ctx.obj.close(code)
        ctx.exit(code)


def _failed(error: BaseException, as_json: bool, checkpoint: Path | None) -> int:
    """Print the error message and return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        resume = "" if checkpoint is None else f" The same command resumes from the checkpoint in {checkpoint}."
        code, text = INTERRUPTED, f"Interrupted: no result was written.{resume}"
    elif isinstance(error, INPUT_ERRORS):
        code, text = BAD_INPUT, _sentence(error)
    else:
        code = DEFECT
        text = f"Unexpected {type(error).__name__}: {error}. Run again with --debug and report what it shows, please."
    click.echo(f"Error: {text}" if code != INTERRUPTED else text, err=True)
    if as_json:
        _answer_error(text, code, error)
    return code


def _sentence(error: BaseException) -> str:
    """Message of an error, without the errno of an OSError."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}."
    return str(error) or type(error).__name__


def _answer_error(text: str, code: int, error: BaseException | None = None) -> None:
    """Print the error as JSON, with the class, variable and parameter it concerns where known."""
    named = {"class": "class_name", "variable": "variable", "parameter": "parameter"}
    attributes = {key: getattr(error, name, None) for key, name in named.items()}
    fields = {key: value for key, value in attributes.items() if value is not None}
    click.echo(json.dumps({"error": text, **fields, "exit_code": code}, ensure_ascii=False))


@contextmanager
def _asked_to_end_like_interrupted() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like SIGINT (Ctrl-C), so that checkpoints and partial results are written.

    Ignored signals stay ignored, as after nohup. Where SIGINT is ignored, as in a background job of a script, SIGTERM
    still raises KeyboardInterrupt. Only the main thread receives signals.
    """

    def end(number: int, frame: FrameType | None) -> None:
        interrupted = signal.getsignal(signal.SIGINT)
        if not callable(interrupted):
            raise KeyboardInterrupt
        interrupted(number, frame)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handled = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        handled = []
    for number in handled:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print each warning once, as a line on the standard error."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = str(message)
        if text not in shown:
            shown.add(text)
            click.echo(f"Warning: {text}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)  # all warnings of this package are of this category
        warnings.showwarning = show
        yield


def plain(value: Any) -> Any:
    """Convert to types that JSON has; NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy arrays and numbers
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def options_of(command: click.Command) -> Callable[[str, tuple[Any, ...], str], str | None]:
    """Function that maps an argument of the library to the option of a command; None where it has no such option."""
    click_options = [param for param in command.params if isinstance(param, click.Option)]
    options = {param.name: next((word for word in param.opts if word.startswith("--")), "") for param in click_options}

    def spell(name: str, value: tuple[Any, ...], words: str) -> str | None:
        if value and isinstance(value[0], bool):
            return _SWITCHES.get((name, value[0]))
        option = options.get(_NAMES.get(name, name))
        if not option:
            return None
        if name == "subset" and not value:
            return f"{option} or --subset"
        if not value or value[0] is ...:
            return option
        text = ",".join(map(str, value[0])) if isinstance(value[0], list) else value[0]
        assignment = f"{option} {text:g}" if isinstance(text, float) else f"{option} {shlex.quote(str(text))}"
        return f"{words} with {assignment}" if words else assignment

    return spell
