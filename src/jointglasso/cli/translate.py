"""Messages of the library speak of keyword arguments; on the command line the same things are options."""

from __future__ import annotations

import re
import shlex
from ast import literal_eval

#: Keyword arguments whose option has another name, or that are spoken of with a value.
_NAMES = {
    "samples_in": "--samples-in",
    "label": "--label",
    "labels": "--labels",
    "sheet": "--sheet",
    "delimiter": "--delimiter",
    "layer": "--layer",
    "subset": "--classes",
    "names": "--names",
    "drop": "--drop",
    "decimal": "--decimal",
    "thousands": "--thousands",
    "encoding": "--encoding",
    "comment": "--comment",
    "unmatched": "--unmatched",
    "format": "--format",
    "missing": "--missing",
    "missing_markers": "--missing-marker",
    "constant": "--constant",
    "criterion": "--criterion",
    "checkpoint": "--checkpoint",
    "lambda1": "--lambda1",
    "lambda2": "--lambda2",
    "gamma": "--gamma",
    "tol": "--tol",
    "ratios": "--ratios",
    "min_ratio": "--min-ratio",
    "n_jobs": "--n-jobs",
    "max_iter": "--max-iter",
    "max_memory": "--max-memory",
    "cv": "--folds",
}

#: What is switched rather than given, or done by a function.
_SWITCHES = {
    "header=True": "--header",
    "header=False": "--no-header",
    "names=False": "--no-names",
    "comment=False": "--no-comment",
    "relaxed=False": "--penalised-scores",
    "scale='covariance'": "--scale covariance",
    "warm_start=this solution": "--checkpoint",
    "complementary_pairs=False": "leave out --stability",
    "drop those variables,": "drop those variables with --missing drop-variables,",
    "set format to": "set --format to",
    "no correlation there: drop them,": "no correlation there: drop them with --constant drop,",
}

_VALUE = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\[[^\]]*\]|-?\d(?:[\d.e+-]*\d)?|(?=[\s.,;:)]|$)"""
_ASSIGNED = re.compile(rf"\b({'|'.join(_NAMES)})=({_VALUE})")
_BARE = re.compile(
    r"\b(samples_in|min_ratio|max_iter|max_memory|n_jobs)\b|\b(correct|check|raising|raise) (label|subset|drop|tol)\b"
)


def in_options(message: str) -> str:
    """Rewrite ``samples_in='rows'`` as ``--samples-in rows``, and so on."""
    for argument, option in _SWITCHES.items():
        message = message.replace(argument, option)
    return _BARE.sub(_bare, _ASSIGNED.sub(_assigned, message))


def name_options(message: str) -> str:
    """Call the options that a message speaks of by their names here, and leave values such as ``gamma=0.5`` alone."""
    return _BARE.sub(_bare, message).replace("ratios lambda2 / lambda1", "--ratios lambda2 / lambda1")


def _assigned(found: re.Match[str]) -> str:
    name, text = found.groups()
    if not text:
        return _NAMES[name]
    value = literal_eval(text)
    if isinstance(value, list):
        return f"{_NAMES[name]} {shlex.quote(','.join(map(str, value)))}"
    return f"{_NAMES[name]} {shlex.quote(value) if isinstance(value, str) else text}"


def _bare(found: re.Match[str]) -> str:
    word, verb, name = found.groups()
    if name == "subset":
        return f"{verb} --classes or --subset"
    return _NAMES[word] if word else f"{verb} {_NAMES[name]}"
