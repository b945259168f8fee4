"""Arguments of solves and penalty grids from the options, Dask clients, and progress bars."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import jointglasso as jgl
from jointglasso._display import readable_seconds
from jointglasso._optional import require
from jointglasso.cli.input_data import Data
from jointglasso.cli.options import numbers, split
from jointglasso.cli.session import Session
from jointglasso.errors import InputError

#: From this many variables on a note on the time is printed: at the smallest penalties of a grid all variables form
#: one block.
MANY_VARIABLES = 1000

#: Seconds between two lines on the progress, where the standard error is not a terminal; later a tenth of the time so
#: far.
LINE_EVERY = 10.0

#: Solves after which the remaining time is estimated: the first ones may compile kernels.
FIRST_ESTIMATE = 5


def arguments_of_solve(options: dict[str, Any], data: Data) -> dict[str, Any]:
    """Keyword arguments common to `solve`, `solve_path`, `select` and `edge_stability`, the class weights excepted.

    `options` has the executor of `workers_of` as well.
    """
    names = ("tol", "max_iter", "penalize_diagonal", "penalty_shape", "n_jobs", "executor")
    arguments = {name: options[name] for name in names if options[name] is not None}
    if options["max_memory"] is not None:
        arguments["max_memory"] = options["max_memory"] * 2**30
    if options.get("latent_rank") is not None:
        arguments["latent_rank"] = _latent_rank(options["latent_rank"])
    return arguments | _penalty(options, data)


def _latent_rank(text: str) -> int | list[int]:
    """The number of ``--latent-rank``, or the list of numbers by class."""
    try:
        ranks = [int(word) for word in split([text])]
    except ValueError:
        raise click.UsageError(f"--latent-rank {text} is not a whole number, or one for each class: 1,1.") from None
    return ranks if len(ranks) > 1 else ranks[0]


def _penalty(options: dict[str, Any], data: Data) -> dict[str, Any]:
    """Keyword arguments of the similarity penalty, its class graph and the weights of pairs."""
    graph, penalty = options["class_graph"], options["penalty"] or ("group" if options["time"] is None else "chain")
    arguments: dict[str, Any] = {"penalty": penalty}
    if graph is not None:
        arguments["class_graph"] = [_edge(word, data.source.class_names) for word in split([graph])]
    if options["pair_weights"] is not None:
        arguments["pair_weights"] = read_pair_weights(options["pair_weights"])
    return arguments


def _edge(word: str, classes: Sequence[str]) -> tuple[str, str, float]:
    """Parse an edge ``a-b`` or ``a-b=0.5`` of the class graph; class names may contain dashes."""
    ends, _, weight = word.partition("=")
    for position, letter in enumerate(ends):
        if letter == "-" and ends[:position] in classes and ends[position + 1 :] in classes:
            try:
                return ends[:position], ends[position + 1 :], float(weight) if weight else 1.0
            except ValueError:
                break
    raise InputError(
        f"--class-graph {word!r} is not an edge between two of the classes {', '.join(classes)}: write a-b or a-b=0.5.",
        "class_graph",
    )


def make_grid(options: dict[str, Any], data: Data) -> jgl.LambdaGrid:
    """Penalty grid of the options."""
    arguments: dict[str, Any] = {
        name: options[name] for name in ("n_lambdas", "min_ratio") if options[name] is not None
    }
    if options["ratios"] is not None:
        arguments["ratios"] = numbers("--ratios", options["ratios"])
    if options["penalty"] == "auto":
        raise click.UsageError("--penalty auto chooses by a search: leave --n-lambdas, --ratios and --min-ratio out.")
    arguments |= _penalty(options, data)
    return jgl.lambda_grid(data.source, weights=data.preparation["weights"], **arguments)


def choose(session: Session, data: Data, criterion: str, options: dict[str, Any]) -> jgl.SelectionResult:
    """Select the penalties by a criterion."""
    has_grid_options = any(options[name] is not None for name in ("n_lambdas", "ratios", "min_ratio"))
    if data.samples.n_variables > MANY_VARIABLES:
        session.note(
            f"Choosing penalties for {data.samples.n_variables:,} variables may take long; the time for the others is "
            f"shown from solve number {FIRST_ESTIMATE} on. Fewer variables, or --min-ratio and --n-lambdas, take less."
        )
    with counting(session, f"choosing penalties by {criterion}") as show:
        selection = jgl.select(
            data.samples,
            criterion=criterion,
            grid=make_grid(options, data) if has_grid_options else None,
            gamma=options["gamma"],
            cv=options["folds"],
            n_subsamples=options["subsamples"],
            random_state=options["seed"],
            callback=show,
            on_interrupt="return",
            halves=data.samples.n_variables <= MANY_VARIABLES,
            checkpoint=options["checkpoint"],
            **data.preparation,
            **arguments_of_solve(options, data),
        )
    if selection.interrupted:
        session.note("Interrupted: the choice is among the grid points solved so far.")
    return selection


@contextmanager
def workers_of(session: Session, options: dict[str, Any]) -> Iterator[Any]:
    """Yield a client of the Dask cluster of --scheduler, or None without this option."""
    address = options["scheduler"]
    if address is None:
        yield None
        return
    try:
        client = require("distributed", "dask").Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"No Dask scheduler answers at {address} ({error}): check the address and that it runs."
        ) from None
    with client:
        if client.dashboard_link:
            session.note(f"Dask dashboard: {client.dashboard_link}")
        yield client


def read_pair_weights(file: Path) -> dict[tuple[str, str], float]:
    """Read a CSV file of variable, variable, weight; a first line without a number is a header."""
    from jointglasso.io.delimited import DelimitedRows
    from jointglasso.io.opening import read_text, require_file

    weights: dict[tuple[str, str], float] = {}
    for number, (line, row) in enumerate(DelimitedRows(read_text(require_file(file), None), ",", str(file), None)):
        try:
            first, second, weight = map(str.strip, row)
            value = float(weight)
        except ValueError:
            if number == 0 and len(row) == 3:
                continue
            raise InputError(
                f"{file}, line {line}: {','.join(row)!r} is not variable,variable,weight: correct it.", "pair_weights"
            ) from None
        if weights.setdefault((first, second), value) != value:
            raise InputError(
                f"{file}, line {line}: the pair {first!r}, {second!r} has two weights: keep one.", "pair_weights"
            )
    if not weights:
        raise InputError(f"{file} holds no pair weights: write lines of variable,variable,weight.", "pair_weights")
    return weights


def bar_options(session: Session) -> dict[str, Any]:
    """Options of a transient rich progress bar, disabled unless the standard error is a terminal."""
    from rich.console import Console

    return {"console": Console(stderr=True), "transient": True, "disable": not session.shows_progress}


@contextmanager
def counting(session: Session, what: str, unit: str = "solves") -> Iterator[Callable[[jgl.SelectionProgress], None]]:
    """Yield a callback for `select` and `edge_stability` that shows what is done (solves, resamples) and what is left.

    On a terminal this is a progress bar, elsewhere lines as in `noting`, also before the first solve.
    """
    latest: list[tuple[float, jgl.SelectionProgress]] = []

    def state() -> str:
        if not latest:
            return f"{what}: first {unit}"
        reported, progress = latest[-1]
        return f"{what}: {progress_in_words(progress, unit, time.perf_counter() - reported)}"

    if not session.shows_progress:
        with noting(session, state):
            yield lambda progress: latest.append((time.perf_counter(), progress))
        return
    from rich.progress import MofNCompleteColumn, Progress

    with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), **bar_options(session)) as bar:
        task = bar.add_task(what, total=None)

        def show(progress: jgl.SelectionProgress) -> None:
            words = f"{what}: {progress.stage}"
            bar.update(task, description=words, completed=progress.done, total=progress.total or None)

        yield show


def progress_in_words(progress: jgl.SelectionProgress, unit: str, waited: float) -> str:
    """Stage, solves done and time for the others; after `waited` seconds without a report no time is predicted."""
    words = f"{progress.stage}, {progress.done} of about {progress.total} {unit}" if progress.total else progress.stage
    if FIRST_ESTIMATE <= progress.done < progress.total:
        if waited > max(LINE_EVERY, 2 * progress.seconds / progress.done):
            return f"{words}, the next one for {readable_seconds(waited)}"
        return f"{words}, about {readable_seconds(progress.seconds_left)} for the others"
    return words


@contextmanager
def noting(session: Session, state: Callable[[], str]) -> Iterator[None]:
    """Note what is being done, and for how long, every `LINE_EVERY` seconds or less often."""
    began = time.perf_counter()
    finished = threading.Event()

    def write() -> None:
        seconds = 0.0
        while not finished.wait(max(LINE_EVERY, 0.1 * seconds)):
            seconds = time.perf_counter() - began
            session.note(f"{state()} ({readable_seconds(seconds)} so far)")

    writer = threading.Thread(target=write, daemon=True)
    if not session.quiet:
        writer.start()
    try:
        yield
    finally:
        finished.set()
        if not session.quiet:
            writer.join()
