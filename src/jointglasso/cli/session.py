"""What all commands have in common: --json, --debug, exit codes, and errors in one sentence."""

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
from jointglasso.errors import spelt

OK, NOT_CONVERGED, BAD_INPUT, INTERRUPTED, DEFECT = range(5)

EXIT_CODES = (
    "Exit codes: 0 all is well; 1 not converged, the result is written all the same with its true gap; "
    "2 bad input or usage; 3 interrupted; 4 a defect of the program."
)

#: Headings of the help, and the parameters below each in their order; all others come last.
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

#: Keyword arguments of the library that are several options, or one of another name.
_NAMES = {"missing_markers": "missing_marker", "cv": "folds", "subset": "classes", "warm_start": "checkpoint"}

#: What is switched rather than given.
_SWITCHES = {
    ("header", True): "--header",
    ("header", False): "--no-header",
    ("names", False): "--no-names",
    ("comment", False): "--no-comment",
    ("relaxed", False): "--penalized-scores",
    ("complementary_pairs", False): "no --stability",
}

#: Errors that are about what the user gave, each with a message that says what to do.
INPUT_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)


class Session:
    """One run of a command: where its words go, and what it answers.

    People read words on the standard output. With ``json`` that holds one JSON object and nothing else. Notes, warnings
    and progress always go to the standard error.
    """

    def __init__(self, *, as_json: bool, command_line: str, arguments: Mapping[str, Any], quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.command_line = command_line
        self.arguments = dict(arguments)
        self._answer: dict[str, Any] = {}

    def say(self, text: str = "") -> None:
        """Tell a person; silent with --json and --quiet."""
        if not self.as_json and not self.quiet:
            click.echo(text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> None:
        """Show cells in columns, numbers to the right and those of the columns `left` to the left."""
        for line in aligned(header, rows, left):
            self.say(f"  {line}")

    def note(self, text: str) -> None:
        """Tell beside the result, on the standard error."""
        click.echo(text, err=True)

    @property
    def shows_progress(self) -> bool:
        """Whether a person watches the standard error."""
        return sys.stderr.isatty() and not self.quiet

    def answer(self, **fields: Any) -> None:
        """Add to what --json prints."""
        self._answer |= fields

    def close(self, code: int) -> None:
        """Print the answer, if it was asked for as JSON."""
        if self.as_json:
            click.echo(json.dumps(plain({**self._answer, "exit_code": code}), ensure_ascii=False, allow_nan=False))


class Command(click.Command):
    """A command with --json and --debug, whose callback gets a `Session` and returns an exit code."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("epilog", EXIT_CODES)
        super().__init__(*args, **options)
        self.params += [
            click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object instead of words."),
            click.Option(["--quiet"], is_flag=True, help="Say nothing but warnings and errors."),
            click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
        ]

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Remember what was typed, and keep to JSON where it was asked for even if the rest makes no sense."""
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
        """List the options under headings, what one needs most first."""
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
        """Run the callback; turn what goes wrong into a sentence and an exit code."""
        as_json, quiet, debug = (ctx.params.pop(name) for name in ("as_json", "quiet", "debug"))
        typed = ctx.meta["jointglasso.typed"]
        ctx.obj = Session(as_json=as_json, quiet=quiet, command_line=typed, arguments=ctx.params)
        try:
            with spelt(options_of(self)), _warnings_as_notes(), _asked_to_end_like_interrupted():
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
    """Say what went wrong and return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        kept = "" if checkpoint is None else f" The same command goes on from the work kept in {checkpoint}."
        code, text = INTERRUPTED, f"Interrupted: no result was written.{kept}"
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
    """Text of an error without the number that the system puts in front."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}."
    return str(error) or type(error).__name__


def _answer_error(text: str, code: int, error: BaseException | None = None) -> None:
    """The error as JSON, with the class, variable and parameter that it is about where it tells."""
    named = {"class": "class_name", "variable": "variable", "parameter": "parameter"}
    about = {key: getattr(error, name, None) for key, name in named.items()}
    known = {key: value for key, value in about.items() if value is not None}
    click.echo(json.dumps({"error": text, **known, "exit_code": code}, ensure_ascii=False))


@contextmanager
def _asked_to_end_like_interrupted() -> Iterator[None]:
    """Let a polite request to end, and a terminal that goes away, do what Ctrl-C does: clean up, keep what is wanted.

    What is ignored stays ignored, as after nohup; a background job of a script ignores Ctrl-C, and ends all the same
    when it is asked to. Only the main thread receives signals.
    """

    def end(number: int, frame: FrameType | None) -> None:
        interrupted = signal.getsignal(signal.SIGINT)
        if not callable(interrupted):
            raise KeyboardInterrupt
        interrupted(number, frame)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        ours = []
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Show each warning once, as a line on the standard error."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = str(message)
        if text not in shown:
            shown.add(text)
            click.echo(f"Warning: {text}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)  # ours are all of this kind
        warnings.showwarning = show
        yield


def plain(value: Any) -> Any:
    """Lists, dicts, words and numbers that JSON knows; numbers it does not know become null."""
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
    """How the arguments of the library are spelt as options of a command; None where it has no such option."""
    given = [param for param in command.params if isinstance(param, click.Option)]
    options = {param.name: next((word for word in param.opts if word.startswith("--")), "") for param in given}

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
        given = ",".join(map(str, value[0])) if isinstance(value[0], list) else value[0]
        said = f"{option} {given:g}" if isinstance(given, float) else f"{option} {shlex.quote(str(given))}"
        return f"{words} with {said}" if words else said

    return spell
