"""Summaries of a solution, as sentences and as fields for JSON, and tests of differences where they are affordable."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from jointglasso._wording import count
from jointglasso.errors import InputError

if TYPE_CHECKING:
    from jointglasso import Inference, JointNetworks, Solution
    from jointglasso.cli.input_data import Data


def kinds_of_pairs(networks: JointNetworks) -> dict[str, int]:
    """Number of pairs of variables with an edge, by kind: shared, partly shared, specific."""
    import numpy as np

    from jointglasso.networks.edge_list import KINDS

    counts = np.bincount(networks.edge_list.kind_of_pair, minlength=len(KINDS))
    return dict(zip(KINDS, counts.tolist(), strict=True))


def networks_in_words(networks: JointNetworks) -> str:
    """Edges of each class, those in common, and those of equal value where the penalty is of the fused kind."""
    from jointglasso.networks.clusters import summary_of_edge_clusters

    if not networks.edge_list.n_pairs:
        return f"{networks}\nNo two variables are joined in any class: at these penalties the data show no edge."
    return str(networks) if networks.edge_clusters is None else f"{networks}\n{summary_of_edge_clusters(networks)}"


def facts_of(solution: Solution) -> dict[str, Any]:
    """Fields of a solution for JSON and path.csv."""
    certificate, latent = solution.certificate, solution.low_rank
    return {
        "lambda1": solution.parameters["lambda1"],
        "lambda2": solution.parameters["lambda2"],
        "converged": solution.status.converged,
        "status": str(solution.status),
        "status_code": solution.status.code,
        "objective": solution.objective,
        "relative_gap": certificate.relative_gap,
        "edges": dict(zip(solution.class_names, solution.n_edges, strict=True)),
        "latent": None if latent is None else dict(zip(solution.class_names, latent.ranks, strict=True)),
        "edges_proved_present": certificate.edges_present,
        "edges_proved_absent": certificate.edges_absent,
        "edges_undecided": certificate.edges_undetermined,
        **({} if solution.edge_clusters is None else {"comparisons": solution.edge_clusters.count()}),
        "largest_block": solution.partition.largest,
        "seconds": solution.timings["total"],
    }


#: Maximum number of variables, by what the standard errors take: one pass, resamples, resamples of polychoric fits.
MOST, MOST_RESAMPLED, MOST_MIXED = 500, 150, 40

#: Minimum number of samples of a class by variable.
SAMPLES_BY_VARIABLE = 0.2

#: False discovery rate of the differences that are called significant.
RATE = 0.1


def tested_differences(data: Data) -> tuple[Inference | None, str]:
    """Result of `infer` on the samples of a fit, or None with the reason.

    Pearson's correlations are tested on normal scores: with them heavy tails make differences where there are none.
    """
    import jointglasso as jgl
    from jointglasso.data.kinds import LATENT
    from jointglasso.data.windows import DependentSamplesWarning

    samples, association = data.samples, data.preparation["association"]
    missing = data.preparation.get("missing", "refuse")
    if samples.n_classes < 2:
        return None, "there is one class"
    resampled = association in ("spearman", *LATENT) or missing == "pairwise"
    most = MOST_MIXED if association in LATENT else MOST_RESAMPLED if resampled else MOST
    if samples.sample_fraction != 1.0:
        return None, "the windows share samples"
    if samples.absent is not None:
        return None, "the classes have different variables"
    if samples.n_variables > most:
        return None, f"{samples.n_variables:,} variables are more than the {most} up to which fit tests them"
    for name, size in zip(samples.class_names, samples.sizes.tolist(), strict=True):
        if size < SAMPLES_BY_VARIABLE * samples.n_variables:
            return None, f"class {name!r} has {count(size, 'sample')} for {samples.n_variables:,} variables"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jgl.InferenceWarning)
            warnings.simplefilter("error", DependentSamplesWarning)
            used = "nonparanormal" if association == "pearson" else association
            return jgl.infer(samples, association=used, missing=missing), ""
    except DependentSamplesWarning:
        return None, "consecutive samples are alike, and tests take samples as independent"
    except InputError as error:
        return None, str(error).rstrip(".")
