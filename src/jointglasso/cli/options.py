"""Options shared by several commands, and the parsing of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import click

from jointglasso._wording import nearest
from jointglasso.errors import InputError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

CRITERIA = click.Choice(["jbic", "ebic", "bic", "aic", "cv", "stars"])

_PATH = click.Path(path_type=Path)

#: Sections of the help and the parameters in each, in order; parameters of no section are listed last.
SECTIONS = {
    "Classes": ("label", "labels", "classes", "rename", "time", "windows", "width", "overlap", "groups"),
    "Table": ("subset", "variables", "drop", "top_variance", "log", "covariates", "missing", "constant", "read"),
    "Model": (
        "scale", "association", "weights", "penalty", "class_graph", "penalize_diagonal", "pair_weights",
        "penalty_shape", "latent_rank", "se",
    ),
    "Penalties": (
        "lambda1", "lambda2", "criterion", "gamma", "folds", "subsamples", "seed", "n_lambdas", "ratios",
        "min_ratio", "ratio", "points",
    ),
    "Result": (
        "out", "overwrite", "title", "differences", "stability", "prove", "fdr", "n_resamples", "figures", "plot",
    ),
    "Computation": (
        "tol", "max_iter", "max_memory", "n_jobs", "scheduler", "checkpoint", "keep_partial",
    ),
}  # fmt: skip
OTHERS = "Other options"

#: Arguments of `jointglasso.io.read_table` that --read sets.
READ = (
    "samples_in", "names", "header", "sheet", "layer", "delimiter", "decimal", "thousands", "missing_markers",
    "comment", "encoding", "unmatched", "format",
)  # fmt: skip


def together(*options: Decorator) -> Decorator:
    """Compose several option decorators into one."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


def data_options(association: str = "pearson") -> Decorator:
    """Decorator with the data arguments; `association` is the default kind of correlation."""
    kinds = click.option(
        "--association", type=click.Choice(["pearson", "spearman", "nonparanormal", "mixed", "zero_inflated"]),
        default=association, show_default=True,
        help="Kind of correlation; mixed: polychoric for ordinal variables; zero_inflated: also with many zeros.",
    )  # fmt: skip
    return together(*_DATA, kinds)


_DATA = [
    click.argument("file", type=_PATH, nargs=-1, required=True),
    click.option("--label", help="Column (or row, array, annotation) with the classes; one class if left out."),
    click.option("--labels", type=_PATH, help="File with the label of each sample."),
    click.option("--time", metavar="COLUMN", help="Column with the time of each sample: classes are windows in time."),
    click.option("--windows", type=click.IntRange(min=2), help="Number of windows of equal sample size."),
    click.option("--width", help="Length of the windows in time: a number, or 30D for dates."),
    click.option("--overlap", default=0.0, show_default=True, help="Fraction of a window that overlaps with the next."),
    click.option("--classes", multiple=True, help="Classes to keep, in the order for chain and laplacian: A,B,C."),
    click.option("--subset", multiple=True, metavar="NAME=VALUE", help="Keep samples with this annotation: sex=f."),
    click.option(
        "--variables", help="Variables to keep: A,B,C, or a file with one name on each line; or, where not all classes "
        "have the same, union or intersection.",
    ),
    click.option("--drop", multiple=True, help="Columns or rows to leave out: A,B,C."),
    click.option(
        "--read", multiple=True, metavar="NAME=VALUE", help="How to read the file, such as delimiter=tab, decimal=,, "
        f"sheet=2 or samples_in=columns; arguments of jointglasso.io.read_table: {', '.join(READ)}.",
    ),
    click.option(
        "--missing", type=click.Choice(["refuse", "complete", "drop-variables", "pairwise", "em"]), default="refuse",
        show_default=True, help="Missing values: refuse, keep complete samples, drop variables, pair by pair, or EM.",
    ),
    click.option(
        "--constant", type=click.Choice(["refuse", "isolate", "drop"]), default="refuse", show_default=True,
        help="Variables constant in a class: refuse, leave them without edges there, or drop them.",
    ),
    click.option(
        "--scale", type=click.Choice(["correlation", "covariance"]), default="correlation", show_default=True,
        help="Matrices from which the networks are estimated.",
    ),
    click.option(
        "--weights", type=click.Choice(["sqrt_sample_size", "equal", "sample_size"]), default="sqrt_sample_size",
        show_default=True, help="Weights of the classes in the objective.",
    ),
    click.option(
        "--rename", multiple=True, metavar="OLD=NEW", help="Other names for classes, in their order: 1=men,2=women."
    ),
    click.option(
        "--covariates", multiple=True, help="Columns to regress out of the variables, class by class: A,B."
    ),
    click.option("--log", is_flag=True, help="Transform values to log(1 + value), for counts and intensities."),
    click.option("--top-variance", type=click.IntRange(min=2), help="Number of variables of largest variance to keep."),
]  # fmt: skip


def folder_options(contents: str, *, required: bool = False, checkpoint: bool = True) -> Decorator:
    """Decorator with the result folder, which holds `contents`, and the folder of checkpoints."""
    options = [
        click.option("--out", required=required, type=_PATH, help=f"Folder for {contents}."),
        click.option("--overwrite", is_flag=True, help="Replace an earlier result once the new one is complete."),
    ]
    if checkpoint:
        text = "Folder for checkpoints; a later run resumes from it."
        options.append(click.option("--checkpoint", type=_PATH, help=text))
    return together(*options)


solve_options = together(
    click.option("--tol", default=1e-6, show_default=True, help="Relative duality gap at which a solve has converged."),
    click.option("--max-iter", type=int, help="Maximum number of iterations of a solve."),
    click.option(
        "--max-memory", type=click.FloatRange(min=0, min_open=True), metavar="GIB",
        help="Memory budget of a solve; problems that need more are refused or skipped in advance.",
    ),
    click.option("--n-jobs", type=int, help="Number of parallel jobs; -1 for all cores."),
    click.option("--scheduler", metavar="ADDRESS", help="Address of a Dask scheduler: tcp://..."),
    click.option(
        "--pair-weights", type=_PATH,
        help="CSV of variable, variable, weight: factors on the penalty of pairs; inf forbids an edge.",
    ),
    click.option(
        "--penalize-diagonal/--free-diagonal", default=False, show_default=True,
        help="As in the paper, or as in the R package JGL.",
    ),
    click.option(
        "--penalty", type=click.Choice(["group", "maximum", "common", "fused", "chain", "graph", "laplacian", "auto"]),
        show_default="group; chain with --time",
        help="Similarity penalty: common support (group, maximum); a shared network beside that of each class "
        "(common); equal values in all classes (fused), in consecutive classes (chain), in neighbouring classes "
        "(graph); similar values in neighbouring classes (laplacian); or the better of group and fused (auto), where "
        "lambda1 and lambda2 are chosen.",
    ),
    click.option(
        "--penalty-shape", type=click.Choice(["adaptive", "scad", "mcp", "log", "sqrt", "atan"]),
        help="Concave penalty, which shrinks strong edges less (convex without it).",
    ),
    click.option(
        "--class-graph", help="Class graph for graph and laplacian, with optional weights: control-a,control-b=0.5.",
    ),
)  # fmt: skip

grid_options = together(
    click.option("--n-lambdas", type=int, help="Number of grid points for each ratio lambda2 / lambda1."),
    click.option("--ratios", help="Ratios lambda2 / lambda1 of the grid: 0,0.3,1."),
    click.option("--min-ratio", type=float, help="Smallest penalty of the grid, as a fraction of the largest."),
)

score_options = together(
    click.option("--gamma", type=float, help="Parameter of jbic (0.45) and ebic (0.5), 0 to 1."),
    click.option("--folds", default=5, show_default=True, help="Folds of cross-validation (cv)."),
    click.option("--subsamples", default=20, show_default=True, help="Subsamples of StARS (stars)."),
    click.option("--seed", default=0, show_default=True, help="Seed of folds, subsamples and --stability."),
)


def split(values: Sequence[str]) -> list[str]:
    """Values of an option that is repeated or holds a comma-separated list."""
    return [word.strip() for text in values for word in text.split(",") if word.strip()]


def assignments(option: str, texts: Sequence[str], form: str) -> list[tuple[str, str]]:
    """Names and values of an option whose values have the `form` NAME=VALUE."""
    pairs = [text.partition("=") for text in texts]
    for text, (name, _, value) in zip(texts, pairs, strict=True):
        if not name.strip() or not value:
            raise InputError(f"{option} {text!r} must have the form {form}.", option.lstrip("-"))
    return [(name.strip(), value) for name, _, value in pairs]


def read_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """Keyword arguments of `jointglasso.io.read_table` from the values of --read."""
    arguments: dict[str, Any] = {}
    for name, text in assignments("--read", texts, "NAME=VALUE"):
        if name not in READ:
            raise InputError(f"--read {name}={text}: there is no such argument ({nearest(name, READ)}).", "read")
        value: Any = {"true": True, "false": False, "tab": "\t"}.get(text.lower(), text)
        if name == "missing_markers":
            value = [*arguments.get(name, []), *split([text])]
        arguments[name] = int(text) if name == "sheet" and text.isdigit() else value
    return arguments


def numbers(option: str, text: str) -> list[float]:
    """Comma-separated numbers."""
    try:
        return [float(word) for word in split([text])]
    except ValueError:
        raise InputError(
            f"{option} {text!r} must be numbers with commas between, such as 0.1,0.3,1.", option.lstrip("-")
        ) from None
