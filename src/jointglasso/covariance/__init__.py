"""Covariance sources: screening and solvers read S_k through the protocol `CovarianceSource`."""

from jointglasso.covariance.dense import DenseCovariance
from jointglasso.covariance.samples import SampleCovariance
from jointglasso.covariance.source import CovarianceSource, StreamedSource, absent_of, as_source, fingerprint, is_source

__all__ = [
    "CovarianceSource",
    "DenseCovariance",
    "SampleCovariance",
    "StreamedSource",
    "absent_of",
    "as_source",
    "fingerprint",
    "is_source",
]
