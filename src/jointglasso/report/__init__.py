"""A report on a solution as one HTML file that needs nothing else: the networks to look at, tables, and the proof."""

from jointglasso.report.write import write_report

__all__ = ["write_report"]
