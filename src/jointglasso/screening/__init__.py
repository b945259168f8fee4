"""Screening: entries that are zero in the solution, found class by class from the covariances before solving."""

from jointglasso.screening.curve import ComponentCurve, component_curve
from jointglasso.screening.partition import Partition
from jointglasso.screening.rules import RULES, screen

__all__ = ["RULES", "ComponentCurve", "Partition", "component_curve", "screen"]
