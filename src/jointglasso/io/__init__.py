"""Reading files: delimited text, spreadsheets, arrays, AnnData and GEO files become a `LabelledTable`."""

from jointglasso.io.cells import MISSING_MARKERS
from jointglasso.io.finishing import TableWarning
from jointglasso.io.reading import read_table
from jointglasso.io.table import LabelledTable

__all__ = ["MISSING_MARKERS", "LabelledTable", "TableWarning", "read_table"]
