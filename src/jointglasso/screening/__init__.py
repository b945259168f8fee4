"""Which entries must be zero, class by class, before anything is solved."""

from jointglasso.screening.curve import ComponentCurve, component_curve
from jointglasso.screening.partition import Partition
from jointglasso.screening.rules import RULES, screen

__all__ = ["RULES", "ComponentCurve", "Partition", "component_curve", "screen"]
