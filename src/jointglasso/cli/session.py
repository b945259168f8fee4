"""Shared behaviour of all commands: --json, --debug, exit codes, and errors in one sentence."""

from __future__ import annotations

import ast
import errno
import json
import math
import re
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click
import numpy as np

from jointglasso.cli.options import OTHERS, READ, SECTIONS
from jointglasso.errors import InputError, InputTypeError

OK, NOT_CONVERGED, BAD_INPUT, INTERRUPTED, DEFECT = range(5)

EXIT_CODES = (
    "Exit codes: 0 success; 1 not converged, the result is still written, with its duality gap; "
    "2 bad input or usage; 3 interrupted; 4 a defect of the program."
)

#: Parameters of the library whose option has another name.
_NAMES = {"cv": "folds", "subset": "classes", "annotations": "covariates"}

#: Texts of messages that the command line words in another way, with the parameter whose option they need.
_PHRASES = {
    "complementary_pairs=False": ("stability", "no --stability"),
    "warm_start=this solution": ("checkpoint", "--checkpoint"),
    "`annotations`": ("groups", "--groups or --covariates"),
    "`subset`": ("subset", "--classes or --subset"),
    "there: drop them": ("constant", "there: drop them with --constant drop"),
    "there: leave them out": ("constant", "there: leave them out with --constant drop"),
    "drop those variables": ("missing", "drop those variables with --missing drop-variables"),
}

#: A parameter as `errors.argument` writes it: `name`, name= or name=value.
_PARAMETER = re.compile(
    r"`(?P<bare>\w+)`|\b(?P<name>[a-z]\w*)=(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|[-+\w.]*\w)?"
)

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
        self._fields: dict[str, Any] = {}

    def in_options(self, text: str) -> str:
        """Message of the library with the options of the command in place of parameters."""
        return in_options(text, click.get_current_context().command)

    def echo(self, text: str = "") -> None:
        """Print text; silent with --json and --quiet."""
        if not self.as_json and not self.quiet:
            click.echo(text)

    def note(self, text: str) -> None:
        """Print a note on the standard error."""
        click.echo(text, err=True)

    @property
    def shows_progress(self) -> bool:
        """Whether progress is shown: the standard error is a terminal, and --quiet is not set."""
        return sys.stderr.isatty() and not self.quiet

    def add(self, **fields: Any) -> None:
        """Add fields to the JSON object."""
        self._fields |= fields

    def close(self, code: int) -> None:
        """Print the JSON object, with --json."""
        if self.as_json:
            click.echo(json.dumps(plain({**self._fields, "exit_code": code}), ensure_ascii=False, allow_nan=False))


def note_compilation(session: Session) -> None:
    """Print a note where kernels must be compiled first, and start compiling them in another process."""
    from jointglasso.kernels import jit
    from jointglasso.warm import compile_ahead, kernel_cache

    cache = kernel_cache()
    if not session.quiet:
        jit.announce = session.note
    if not cache.sweeps:
        once = "First use on this machine: compiling takes half a minute, once."
        session.note(once if cache.lasting else "Compiling takes half a minute.")
        click.get_current_context().with_resource(compile_ahead())


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
                _print_json_error(error.format_message(), BAD_INPUT)
            raise
        context.meta["jointglasso.typed"] = shlex.join(["jointglasso", info_name or "", *typed])
        return context

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options under headings, the most used first."""
        records = {
            param.name: param.get_help_record(ctx) for param in self.get_params(ctx) if isinstance(param, click.Option)
        }
        for title, names in (*SECTIONS.items(), (OTHERS, list(records))):
            listed = [record for name in names if name in records and (record := records.pop(name)) is not None]
            if listed:
                with formatter.section(title):
                    formatter.write_dl(listed)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the callback; turn exceptions into a message and an exit code."""
        as_json, quiet, debug = (ctx.params.pop(name) for name in ("as_json", "quiet", "debug"))
        typed = ctx.meta["jointglasso.typed"]
        ctx.obj = Session(as_json=as_json, quiet=quiet, command_line=typed, arguments=ctx.params)
        try:
            with _warnings_as_notes(self), _terminated_like_interrupted():
                code = super().invoke(ctx) or OK
        except click.UsageError as error:
            if as_json:
                _print_json_error(error.format_message(), BAD_INPUT)
            raise
        except click.exceptions.Exit:
            raise
        except (Exception, KeyboardInterrupt) as error:
            if debug or (isinstance(error, OSError) and error.errno == errno.EPIPE):
                raise
            code = _failed(error, as_json, ctx)
        else:
            ctx.obj.close(code)
        ctx.exit(code)


def _failed(error: BaseException, as_json: bool, ctx: click.Context) -> int:
    """Print the error message and return the exit code."""
    checkpoint = ctx.params.get("checkpoint")
    if isinstance(error, KeyboardInterrupt):
        resume = "" if checkpoint is None else f" The same command resumes from the checkpoint in {checkpoint}."
        code, text = INTERRUPTED, f"Interrupted: no result was written.{resume}"
    elif isinstance(error, INPUT_ERRORS):
        code, text = BAD_INPUT, in_options(_sentence(error), ctx.command)
    else:
        code = DEFECT
        text = f"Unexpected {type(error).__name__}: {error}. Run again with --debug and report what it shows, please."
    click.echo(f"Error: {text}" if code != INTERRUPTED else text, err=True)
    if as_json:
        _print_json_error(text, code, error)
    return code


def _sentence(error: BaseException) -> str:
    """Message of an error, without the errno of an OSError."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}."
    return str(error) or type(error).__name__


def _print_json_error(text: str, code: int, error: BaseException | None = None) -> None:
    """Print the error as JSON, with the class, variable and parameter it concerns where known."""
    fields = {}
    if isinstance(error, InputError | InputTypeError):
        named = {"class": error.class_name, "variable": error.variable, "parameter": error.parameter}
        fields = {key: value for key, value in named.items() if value is not None}
    click.echo(json.dumps({"error": text, **fields, "exit_code": code}, ensure_ascii=False))


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like SIGINT (Ctrl-C), so that checkpoints and partial results are written.

    Ignored signals stay ignored, as after nohup. Where SIGINT is ignored, as in a background job of a script, SIGTERM
    still raises KeyboardInterrupt. Only the main thread receives signals.
    """

    def end(number: int, frame: FrameType | None) -> None:
        interrupted = signal.getsignal(signal.SIGINT)
        if not callable(interrupted):
            raise KeyboardInterrupt
        interrupted(number, frame)

    numbers = [signal.SIGTERM] if sys.platform == "win32" else [signal.SIGTERM, signal.SIGHUP]
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
def _warnings_as_notes(command: click.Command) -> Iterator[None]:
    """Print each warning once, as a line on the standard error."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = in_options(str(message), command)
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
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def in_options(text: str, command: click.Command) -> str:
    """Message of the library with the parameters that are options of the command written as on the command line."""
    click_options = [param for param in command.params if isinstance(param, click.Option)]
    options = {param.name: next((word for word in param.opts if word.startswith("--")), "") for param in click_options}
    for phrase, (name, replacement) in _PHRASES.items():
        if options.get(name):
            text = text.replace(phrase, replacement)

    def spell(match: re.Match[str]) -> str:
        name, value = match["bare"] or match["name"], match["value"]
        option = options.get(_NAMES.get(name, name))
        if name in READ and "read" in options:
            return f"--read {shlex.quote(f'{name}={_literal(value)}')}"
        if not option or value == "False":
            return match["bare"] or match[0]
        return option if value in (None, "True") else f"{option} {shlex.quote(_literal(value))}"

    return _PARAMETER.sub(spell, text)


def _literal(literal: str | None) -> str:
    """Value of an option from the Python literal of a message."""
    try:
        value = ast.literal_eval(literal or "")
    except (SyntaxError, ValueError):
        return literal or ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
