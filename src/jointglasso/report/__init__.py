"""Report on a solution as one self-contained HTML file: interactive networks, tables and the certificate."""

from jointglasso.report.write import write_report

__all__ = ["write_report"]
