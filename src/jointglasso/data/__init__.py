"""Covariance sources: screening and solvers read S_k through the base class `CovarianceSource`."""

from jointglasso.data.source import CovarianceSource, DenseCovariance, as_source, fingerprint
from jointglasso.data.streamed import SampleCovariance

__all__ = [
    "CovarianceSource",
    "DenseCovariance",
    "SampleCovariance",
    "as_source",
    "fingerprint",
]
