"""Which entries must be zero, class by class, before anything is solved."""

from jointglasso.screening.partition import Partition
from jointglasso.screening.rules import RULES, screen

__all__ = ["RULES", "Partition", "screen"]
