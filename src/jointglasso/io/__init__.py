"""Reading files: delimited text, spreadsheets, arrays, AnnData and GEO files become a `LabelledTable`."""

from jointglasso.io.grid import MISSING_MARKERS
from jointglasso.io.labelled_table import LabelledTable, TableWarning
from jointglasso.io.reading import read_gene_sets, read_table

__all__ = ["MISSING_MARKERS", "LabelledTable", "TableWarning", "read_gene_sets", "read_table"]
