"""Covariance sources: screening and solvers read S_k through the protocol `CovarianceSource`."""

from jointglasso.data.dense import DenseCovariance
from jointglasso.data.source import CovarianceSource, StreamedSource, absent_of, as_source, fingerprint, is_source
from jointglasso.data.streamed import SampleCovariance

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
