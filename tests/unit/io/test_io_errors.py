"""What a bad file gets: one sentence that names the file and the place, and says what to do."""

import bz2
import gzip
import io
import lzma
import os
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jointglasso as jgl

GOOD = "sample,g1,g2,kind\na,1,2,u\nb,2,1,u\nc,3,5,v\nd,4,4,v\n"
PLAIN = "sample,g1,g2\na,1,2\nb,2,1\nc,3,5\nd,4,4\n"
LABELS = "sample,kind\na,u\nb,u\nc,v\nd,v\n"
SOFT = (
    "^DATASET = GDS1\n!dataset_title = Tiny\n"
    "^SUBSET = GDS1_1\n!subset_description = drug\n!subset_sample_id = GSM1,GSM2\n!subset_type = agent\n"
    "^SUBSET = GDS1_2\n!subset_description = none\n!subset_sample_id = GSM3,GSM4\n!subset_type = agent\n"
    "!dataset_table_begin\nID_REF\tIDENTIFIER\tGSM1\tGSM2\tGSM3\tGSM4\n"
    "p1\tActb\t1\t2\t3\t4\np2\tActb\t2\tnull\t1\t5\n!dataset_table_end\n"
)


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


#: File name, its content, options (labels= is the content of a file labels.csv), and the whole message; {path} and
#: {labels} stand for the two files, {folder} for where they are.
CASES = [
    # The file itself
    ("empty.csv", b"", {}, "{path} is empty (0 bytes): copy or download it again."),
    (
        "only_comments.csv",
        "# nothing\n\n# here\n",
        {},
        "{path} has no lines besides blank and comment lines: copy or download it again.",
    ),
    ("only_header.csv", "sample,g1,g2\n", {}, "{path} has a header but no rows below it: add the samples."),
    (
        "zeros.csv",
        bytes(range(256)) * 4,
        {},
        "{path} holds binary data, not text: save it as a text table, or say format= with its real kind.",
    ),
    (
        "zip.csv",
        b"PK\x03\x04\x00\x00\xff\xfe",
        {},
        (
            "{path} holds a zip archive or a spreadsheet, not text: save it as a text table, or say format= with "
            "its real kind."
        ),
    ),
    (
        "latin.csv",
        "sample,g1\nJos\xe9,1\n".encode("latin-1"),
        {},
        "{path}, line 2: the characters are not UTF-8: say encoding='latin-1' or what it is.",
    ),
    (
        "good.csv",
        GOOD,
        {"encoding": "klingon"},
        "encoding='klingon' is not known: say for instance 'utf-8' or 'latin-1'.",
    ),
    (
        "cut.csv.gz",
        gzip.compress(GOOD.encode() * 50)[:-20],
        {},
        "{path}: the gzip data are damaged or cut off: copy or download it again.",
    ),
    (
        "cut.csv.bz2",
        bz2.compress(GOOD.encode() * 50)[:-20],
        {},
        "{path}: the bzip2 data are damaged or cut off: copy or download it again.",
    ),
    (
        "cut.csv.xz",
        lzma.compress(GOOD.encode() * 50)[:-20],
        {},
        "{path}: the xz data are damaged or cut off: copy or download it again.",
    ),
    ("nothing.csv.gz", gzip.compress(b""), {}, "{path} is empty once decompressed: copy or download it again."),
    (
        "table.foo",
        GOOD,
        {},
        (
            "{path}: the kind of file cannot be told from its name: rename it, or say format='text' (or another "
            "of 'excel', 'h5ad', 'npz', 'parquet', 'soft', 'text')."
        ),
    ),
    (
        "good.csv",
        GOOD,
        {"format": "exel"},
        "format='exel' is not known; choose one of 'excel', 'h5ad', 'npz', 'parquet', 'soft', 'text'.",
    ),
    # Lines and cells
    (
        "ragged.csv",
        "sample,g1,g2\na,1,2\n\nb,1\n",
        {},
        (
            "{path}, line 4 has 2 cells, the header 3 (separated by comma): correct that line, or say delimiter= "
            "if it is another one."
        ),
    ),
    (
        "comma_too_many.csv",
        "g1,g2\n1.5,2,\n3,4,\n",
        {},
        (
            "{path}, line 2 has 3 cells, the header 2 (separated by comma): correct that line, or say delimiter= if it "
            "is another one."
        ),
    ),
    (
        "quote.csv",
        'sample,g1\n"a,1\nb,2\n',
        {"delimiter": ","},
        "{path}, line 2: a cell does not end properly (unexpected end of data): close the quote, or say "
        "delimiter= if it is another one.",
    ),
    (
        "word.csv",
        "g1,g2\n1,2\n# remark\n3,x7\n5,6\n",
        {},
        (
            "{path}, line 4, column 'g2': 'x7' is not a finite number: correct it, or say missing_markers=['x7'] if it "
            "stands for a missing value."
        ),
    ),
    (
        "infinite.csv",
        "g1,g2\n1,2\n3,inf\n",
        {},
        (
            "{path}, line 3, column 'g2': 'inf' is not a finite number: correct it, or say missing_markers=['inf'] if "
            "it stands for a missing value."
        ),
    ),
    (
        "underscore.csv",
        "g1,g2\n1,2\n3,1_000\n4,5\n",
        {},
        (
            "{path}, line 3, column 'g2': '1_000' is not a finite number: correct it, or say missing_markers=['1_000'] "
            "if it stands for a missing value."
        ),
    ),
    (
        "mistake.csv",
        "g1,g2,g3\nx1,1,2\n2,3,4\n3,5,6\n",
        {},
        (
            "{path}, line 2, column 'g1': 'x1' is not a finite number: correct it, or say missing_markers=['x1'] if it "
            "stands for a missing value."
        ),
    ),
    (
        "grouped.csv",
        'g1,g2\n"1,234",2\n3,4\n5,6\n',
        {},
        (
            "{path}, line 2, column 'g1': '1,234' is not a finite number: say thousands=',' if that comma "
            "separates thousands."
        ),
    ),
    (
        "doubtful.csv",
        "g1;g2\n1,234;2\n3;4,567\n",
        {},
        "{path}: '1,234' can mean 1.234 or 1234: say decimal=',' or thousands=','.",
    ),
    (
        "mixed.csv",
        "g1;g2\n1,5;2\n3;4.5\n5;6\n",
        {},
        (
            "{path}, line 3, column 'g2': '4.5' is not a finite number: the other numbers have a decimal comma; "
            "correct it, or say decimal='.'."
        ),
    ),
    (
        "blanks.txt",
        "g1 g2\n1 2\n3 4\n",
        {},
        ("{path}: no comma, tab, semicolon or vertical bar separates its cells: say delimiter=' ' or what it is."),
    ),
    (
        "two_ways.csv",
        "a,b;c\n1,x;2\n3,y;4\n",
        {},
        "{path}: the cells can be separated by comma and semicolon: say which with delimiter=.",
    ),
    (
        "commented.csv",
        "g1,g2\n1,2\n#3,4\n5,6\n",
        {},
        (
            "{path}, line 3 begins with '#' but has 2 cells like a row of the table: say comment=False if it is "
            "one, comment='#' if it is to be left out."
        ),
    ),
    (
        "no_header.csv",
        "1,2,3\n4,5,6\n",
        {},
        (
            "{path}: the first line holds numbers ('2', '3') where names of columns are expected: say "
            "header=False if it is data, header=True if these are names."
        ),
    ),
    # Rows, columns and labels inside the table
    (
        "two_sides.csv",
        PLAIN.replace("sample", "id"),
        {},
        (
            "{path}: its rows and its columns have names (4 rows, 2 columns), so either can be the samples: say "
            "samples_in='rows' or samples_in='columns'."
        ),
    ),
    (
        "nameless.csv",
        "1,2,3\n4,5,6\n",
        {"header": False},
        (
            "{path}: its columns have no names (2 rows, 3 columns), so either can be the samples: say "
            "samples_in='rows' or samples_in='columns'."
        ),
    ),
    (
        "named_rows.csv",
        "a,1,2\nb,3,4\n",
        {"header": False},
        (
            "{path}: its columns have no names (2 rows, 2 columns), so either can be the samples: say "
            "samples_in='rows' or samples_in='columns'."
        ),
    ),
    (
        "good.csv",
        GOOD,
        {},
        (
            "{path}, line 2: column 'kind' holds words (here 'u'): say label='kind' or names='kind', or leave it "
            "out with drop=['kind'] (annotations=['kind'] if it is a covariate)."
        ),
    ),
    (
        "title.csv",
        "My study,,,\n" + GOOD,
        {},
        (
            "{path}: the first line has one cell only, 'My study', as a title has: remove what stands above the names "
            "of the columns."
        ),
    ),
    (
        "heading.csv",
        "My study\n" + GOOD,
        {"label": "kind"},
        (
            "{path}, line 2 has 4 cells, the header 1 (separated by comma): remove the first line if it is a title, "
            "correct that line, or say delimiter= if it is another one."
        ),
    ),
    (
        "wordy.csv",
        "kind,g1\nu,1\nu,2\nv,3\nv,4\n",
        {},
        (
            "{path}, line 2: column 'kind' holds words (here 'u'): say label='kind' or names='kind', or leave it "
            "out with drop=['kind'] (annotations=['kind'] if it is a covariate)."
        ),
    ),
    ("good.csv", GOOD, {"label": "Kind"}, "{path} has no column or row 'Kind' (similar: 'kind'): correct `label`."),
    (
        "good.csv",
        GOOD,
        {"label": "batch"},
        (
            "{path} has no column or row 'batch' (there are 'g1', 'g2', 'kind', 'a', 'b', 'c' and 1 more): "
            "correct `label`."
        ),
    ),
    (
        "good.csv",
        GOOD,
        {"label": "kind", "samples_in": "columns"},
        "{path} has no row 'kind' (but the other side has: check `samples_in`): correct `label`.",
    ),
    (
        "both.csv",
        "sample,g1,kind\na,1,u\nkind,2,v\n",
        {"label": "kind"},
        (
            "{path} has a column and a row 'kind': say samples_in='rows' if the column is meant, "
            "samples_in='columns' if the row."
        ),
    ),
    (
        "twice.csv",
        "g1,kind,kind\n1,u,v\n2,u,v\n",
        {"label": "kind"},
        "{path} has 2 columns 'kind': rename or remove all but one.",
    ),
    (
        "good.csv",
        GOOD,
        {"label": "kind", "names": "who"},
        "{path} has no column 'who' (there are 'sample', 'g1', 'g2', 'kind'): correct `names`.",
    ),
    (
        "good.csv",
        GOOD,
        {"label": "kind", "drop": ["g9"]},
        "{path} has no column 'g9' (there are 'g1', 'g2', 'kind'): correct `drop`.",
    ),
    (
        "good.csv",
        GOOD,
        {"label": "kind", "drop": ["g1", "g2"]},
        "{path}: no variables are left beside names and labels: check `label`, `names` and `drop`.",
    ),
    (
        "genes.csv",
        "gene,s1,s2\ntissue,u,v\nA,1,2\nB,3,4\n",
        {"samples_in": "columns"},
        (
            "{path}, line 2: row 'tissue' holds words (here 'u'): say label='tissue', or leave it out with "
            "drop=['tissue'] (annotations=['tissue'] if it is a covariate)."
        ),
    ),
    (
        "genes.csv",
        "probe,gene,s1,s2\np1,A,1,2\np2,B,3,4\n",
        {"samples_in": "columns"},
        ("{path}, line 2: column 'gene' holds words (here 'A'): say names='gene', or leave it out with drop=['gene']."),
    ),
    (
        "unlabelled.csv",
        "g1,kind\n1,u\n2,NA\n3,u\n4,v\n5,v\n",
        {"label": "kind"},
        ("{path}: 1 sample without a label ('2'): add the labels, or leave the samples out with unmatched='drop'."),
    ),
    (
        "one_class.csv",
        "g1,kind\n1,u\n2,u\n",
        {"label": "kind"},
        ("{path}: all samples have the label 'u': choose another label, or say subset=['u'] to go on with one class."),
    ),
    (
        "small_class.csv",
        "g1,kind\n1,u\n2,u\n3,v\n",
        {"label": "kind"},
        (
            "{path}: class 'v' has 1 sample (1 such of 2), a covariance needs 2: add samples, or keep other "
            "classes with subset=['u']."
        ),
    ),
    (
        "singles.csv",
        "g1,kind\n1,u\n2,v\n",
        {"label": "kind"},
        "{path}: every class has 1 sample ('u', 'v'): choose another label.",
    ),
    (
        "good.csv",
        GOOD,
        {"label": "kind", "subset": ["w"]},
        "'w' is not among the classes of {path} (there are 'u', 'v'): correct `subset`.",
    ),
    (
        "good.csv",
        GOOD,
        {"label": "kind", "subset": {"g1": "9"}},
        "'9' is not among 'g1' in {path} (there are '1', '2', '3', '4'): correct `subset`.",
    ),
    (
        "good.csv",
        GOOD,
        {"drop": ["kind"], "samples_in": "rows", "subset": ["u"]},
        "subset=['u'] names classes, but no label is given: say label= or labels=.",
    ),
    (
        "stocks.csv",
        "A,B,C\n1,2,3\n4,5,6\n",
        {"samples_in": "columns"},
        (
            "{path}: the samples are in columns, but the first column 'A' holds numbers instead of names of variables: "
            "say names=False if it is a sample, names='A' if these are names."
        ),
    ),
    # Labels in a file of their own
    (
        "plain.csv",
        PLAIN,
        {"labels": LABELS.replace("d,v\n", "")},
        "{path}: 1 sample without a label ('d'): add the labels, or leave the samples out with unmatched='drop'.",
    ),
    (
        "plain.csv",
        PLAIN,
        {"labels": LABELS + "e,v\n"},
        (
            "{labels} labels 1 sample that the table does not have ('e'): check that the files belong together, "
            "or leave them out with unmatched='drop'."
        ),
    ),
    ("plain.csv", PLAIN, {"labels": LABELS + "a,v\n"}, "{labels} has sample 'a' twice: leave one of them out."),
    (
        "plain.csv",
        PLAIN,
        {"labels": "who,kind\nx,u\ny,v\n"},
        (
            "{labels} names neither the rows nor the columns of {path}: give the label file of "
            "this table, or say samples_in= if it is."
        ),
    ),
    (
        "plain.csv",
        PLAIN,
        {"labels": "who,kind\nx,u\ny,v\n", "samples_in": "rows"},
        (
            "None of the samples ('a', 'b' and 2 more) is in {labels} ('x', 'y'): give the label file of this "
            "table, or say samples_in= if the other side of the table holds the samples."
        ),
    ),
    (
        "plain.csv",
        PLAIN,
        {"labels": "u\nu\nv\nv\nv\nv\n", "samples_in": "rows"},
        ("{labels} has 6 labels for 4 samples: give one label per sample, or two columns with the sample names first."),
    ),
    (
        "plain.csv",
        PLAIN,
        {"labels": "sample,age,kind\na,3,u\nb,4,v\n"},
        "{labels} has 3 columns: say which with label= ('age', 'kind').",
    ),
    (
        "plain.csv",
        PLAIN,
        {"labels": LABELS, "label": "state"},
        "{labels} has no column 'state' (there is 'kind'): correct `label`.",
    ),
    (
        "plain.csv",
        PLAIN,
        {"labels": "sample,kind\na,u\nb\n"},
        "{labels}, line 3 has 1 cell, the first line 2 cells: correct it.",
    ),
    (
        "plain.csv",
        PLAIN,
        {"labels": "# none\n"},
        "{labels} has no lines besides blank and comment lines: copy or download it again.",
    ),
    (
        "plain.csv",
        PLAIN,
        {"labels": LABELS.replace("d,v", "d,")},
        ("{path}: 1 sample without a label ('d'): add the labels, or leave the samples out with unmatched='drop'."),
    ),
    (
        "repeated.csv",
        PLAIN.replace("b,2", "a,2"),
        {"labels": LABELS, "names": "sample"},
        "Sample 'a' occurs twice in the table, so labels cannot be matched: rename it.",
    ),
    (
        "numbers.csv",
        "g1,g2\n1,2\n3,4\n",
        {"labels": LABELS},
        (
            "{labels} gives labels by sample name, but the table has no sample names: name them in its first "
            "column, or give a label file of one column in the order of the samples."
        ),
    ),
    (
        "square.csv",
        "id,s1,s2\na,1,2\nb,3,4\n",
        {"labels": "u\nv\n"},
        (
            "{path}: its rows and its columns have names (2 rows, 2 columns), so either can be the samples: "
            "say samples_in='rows' or samples_in='columns'."
        ),
    ),
    # NumPy files
    (
        "table.npz",
        npz(data=np.ones((2, 2))),
        {},
        "{path} has no array 'X' (it has 'data'): store the samples x variables under that name.",
    ),
    (
        "table.npz",
        npz(X=np.ones(3)),
        {},
        ("{path}: the array 'X' has shape (3,) and type float64: it must be a table of numbers, samples x variables."),
    ),
    (
        "table.npz",
        npz(X=np.ones((3, 2)), y=["u", "v"]),
        {},
        "{path}: 'y' has shape (2,), but there are 3 samples: give one label each.",
    ),
    (
        "table.npz",
        npz(X=np.ones((3, 2)), features=["a", "b", "c"]),
        {},
        (
            "{path}: 'features' has shape (3,), but X has 2 variables: give one name each, or say samples_in= if "
            "X is the other way round."
        ),
    ),
    (
        "table.npz",
        npz(X=np.ones((4, 2)), y=["u", "u", "v", "v"]),
        {"label": "kind"},
        "{path} has no annotation 'kind' (there is 'y'): correct `label`.",
    ),
    (
        "table.npz",
        npz(X=np.array([[1.0, np.inf], [1.0, 2.0]])),
        {},
        "{path}: sample 1, variable 2 is inf (1 such value): correct it, or make it NaN if it is missing.",
    ),
    (
        "table.npz",
        npz(X=np.ones((2, 2)), features=np.array(["a", None], dtype=object)),
        {},
        "{path}: 'features' holds Python objects, which are not loaded for safety: store names as arrays of strings.",
    ),
    (
        "table.npz",
        b"PK\x03\x04 junk",
        {},
        "{path} is not a NumPy archive or is damaged: write it again with numpy.savez.",
    ),
    (
        "table.npz",
        npy(np.ones((2, 2))),
        {},
        "{path} is not a NumPy archive or is damaged: write it again with numpy.savez.",
    ),
    (
        "table.npz",
        npz(X=np.ones((3, 2))),
        {"label": "kind"},
        "{path} has no annotation 'kind' (there are none): correct `label`.",
    ),
    # GEO DataSets
    (
        "tiny.soft",
        SOFT,
        {"label": "agents"},
        "{path} has no subsets of type 'agents' (similar: 'agent'): correct `label`.",
    ),
    (
        "tiny.soft",
        SOFT.replace("!dataset_table_end\n", ""),
        {},
        "{path} ends before the line '!dataset_table_end': it is cut off; download it again.",
    ),
    (
        "tiny.soft",
        SOFT.replace("!dataset_table_begin", "!begin"),
        {},
        "{path} has no line '!dataset_table_begin': it is no GEO DataSet (GDS) or cut off; download it again.",
    ),
    (
        "tiny.soft",
        "^SERIES = GSE1\n^SAMPLE = GSM1\n",
        {},
        (
            "{path} is a SOFT family file ('^SAMPLE', '^SERIES'), not a GEO DataSet: download the GDS file, or "
            "the series matrix as a text table."
        ),
    ),
    (
        "tiny.soft",
        SOFT.replace("ID_REF\tIDENTIFIER", "ID\tNAME"),
        {},
        (
            "{path}: the table begins with the columns 'ID', 'NAME', 'GSM1' and 3 more instead of ID_REF, "
            "IDENTIFIER and samples: download the GDS file again."
        ),
    ),
    (
        "tiny.soft",
        SOFT.replace("p2\tActb\t2\t", "p2\tActb\t"),
        {},
        "{path}, line 14 has 5 cells, the header 6: download it again.",
    ),
    (
        "tiny.soft",
        SOFT.replace("null", "low"),
        {},
        (
            "{path}, line 14, column 'GSM2': 'low' is not a finite number: correct it, or say missing_markers=['low'] "
            "if it stands for a missing value."
        ),
    ),
    (
        "tiny.soft",
        SOFT.replace("GSM3,GSM4", "GSM2,GSM3"),
        {"label": "agent"},
        (
            "{path}: sample 'GSM2' is in the subsets 'drug' and 'none' of type 'agent': correct the file, or give "
            "a label file with labels=."
        ),
    ),
    (
        "tiny.soft",
        SOFT.replace("GSM3,GSM4", "GSM3"),
        {"label": "agent"},
        ("{path}: 1 sample without a label ('GSM4'): add the labels, or leave the samples out with unmatched='drop'."),
    ),
    (
        "tiny.soft",
        SOFT.replace("p1\tActb\t1\t2\t3\t4\np2\tActb\t2\tnull\t1\t5\n", ""),
        {},
        "{path}: the table has no probes: download it again.",
    ),
    # Options
    (
        "good.csv",
        GOOD,
        {"label": "kind", "sheet": "one"},
        "{path} is read as text, where sheet='one' means nothing (sheet is for excel): leave it out.",
    ),
    ("good.csv", GOOD, {"samples_in": "lines"}, "samples_in='lines' is not known; choose one of 'rows', 'columns'."),
    ("good.csv", GOOD, {"unmatched": "keep"}, "unmatched='keep' is not known; choose one of 'error', 'drop'."),
    ("good.csv", GOOD, {"decimal": ",", "thousands": ","}, "decimal and thousands are both ',': they must differ."),
    ("good.csv", GOOD, {"delimiter": "::"}, "delimiter='::' must be one character, such as ',' or '\\t'."),
    ("book.xlsx", b"junk", {}, "{path} is not an Excel file or is damaged: save it again, or export it as .csv."),
    ("frame.parquet", b"junk", {}, "{path} is not a Parquet file or is damaged: write it again."),
    ("cells.h5ad", b"junk", {}, "{path} is not an AnnData file or is damaged: write it again with write_h5ad."),
    (
        "frame.parquet.gz",
        gzip.compress(b"junk"),
        {},
        "{path}: compressed parquet files are not read: decompress it first.",
    ),
]


#: Packages without which a kind of file is not looked at.
NEEDS = {"xlsx": ("pandas", "openpyxl"), "parquet": ("pandas", "pyarrow"), "h5ad": ("anndata",)}


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def message_of(folder, name, content, options):
    path = write(folder / name, content)
    labels = folder / "labels.csv"
    if "labels" in options:
        options = {**options, "labels": write(labels, options["labels"])}
    with pytest.raises(ValueError) as caught:
        jgl.io.read_table(path, **options)
    text = str(caught.value)
    return text.replace(str(path), "{path}").replace(str(labels), "{labels}").replace(str(folder), "{folder}")


@pytest.mark.parametrize(("name", "content", "options", "message"), CASES, ids=[case[0] for case in CASES])
def test_bad_input_gets_its_sentence(tmp_path, name, content, options, message):
    for package in NEEDS.get(name.rpartition(".")[2], ()):
        pytest.importorskip(package)
    assert message_of(tmp_path, name, content, options) == message


def test_every_sentence_is_one_and_ends_like_one():
    """The rule itself: it ends with a full stop, and a remedy follows a colon or semicolon."""
    for name, _, _, message in CASES:
        assert message.endswith("."), name
        assert ":" in message.removeprefix("{path}:") or ";" in message or "must" in message, message
        assert "\n" not in message


@settings(max_examples=150)
@given(
    st.one_of(st.binary(max_size=200), st.text('ab1.,;|\t\n"#-', max_size=80).map(str.encode)),
    st.sampled_from(["csv", "soft", "npz", "csv.gz"]),
    st.sampled_from([{}, {"label": "a"}, {"samples_in": "columns"}, {"samples_in": "rows"}]),
)
def test_junk_is_refused_in_words_or_read(tmp_path, content, end, options):
    """No other exception than ours comes through, whatever the bytes; what is read has the shape of its names."""
    path = write(tmp_path / f"junk.{end}", content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.io.TableWarning)
        try:
            table = jgl.io.read_table(path, **{} if end == "soft" and "samples_in" in options else options)
        except ValueError as error:
            assert str(error).endswith(".")
            assert str(path) in str(error)
        else:
            assert table.X.shape == (len(table.sample_names), len(table.variable_names))


@settings(max_examples=100)
@given(st.data())
def test_a_damaged_file_is_refused_in_words_or_read(tmp_path, data):
    """One byte of a good file changed, or its end lost."""
    name, whole = data.draw(
        st.sampled_from(
            [
                ("good.csv", GOOD.encode()),
                ("good.csv.gz", gzip.compress(GOOD.encode())),
                ("good.csv.xz", lzma.compress(GOOD.encode())),
                ("good.npz", npz(X=np.ones((4, 2)), y=["u", "u", "v", "v"], features=["a", "b"])),
                ("good.soft", SOFT.encode()),
            ]
        )
    )
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.one_of(st.none(), st.integers(0, 255)))
    path = write(tmp_path / name, whole[:at] + (b"" if byte is None else bytes([byte]) + whole[at + 1 :]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.io.TableWarning)
        try:
            jgl.io.read_table(path, label={"csv": "kind", "soft": "agent"}.get(name.split(".")[1]))
        except ValueError as error:
            assert str(path) in str(error)


def test_a_missing_file_is_told_with_its_neighbours(tmp_path):
    write(tmp_path / "cells.csv", GOOD)
    with pytest.raises(FileNotFoundError) as caught:
        jgl.io.read_table(tmp_path / "cell.csv")
    assert str(caught.value) == f"{tmp_path / 'cell.csv'} does not exist: check the path (similar: 'cells.csv')."
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        jgl.io.read_table(tmp_path / "nowhere" / "cells.csv")
    with pytest.raises(FileNotFoundError, match=r"labels\.csv does not exist"):
        jgl.io.read_table(tmp_path / "cells.csv", labels=tmp_path / "labels.csv")


def test_a_folder_is_no_file(tmp_path):
    write(tmp_path / "cells.csv", GOOD)
    with pytest.raises(IsADirectoryError) as caught:
        jgl.io.read_table(tmp_path)
    assert str(caught.value) == f"{tmp_path} is a folder: give the path of one file in it (there is 'cells.csv')."


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    path = write(tmp_path / "secret.csv", GOOD)
    path.chmod(0)
    with pytest.raises(PermissionError, match=r"secret\.csv may not be read: change its permissions\."):
        jgl.io.read_table(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": 3}, "label must be the name of a column, not int 3."),
        ({"drop": 3}, "drop must be a word or a list of words, not int 3."),
        ({"names": True}, "names must be the name of a column, or False if none holds names, not True."),
    ],
)
def test_options_of_a_wrong_type(tmp_path, options, message):
    with pytest.raises(TypeError) as caught:
        jgl.io.read_table(write(tmp_path / "good.csv", GOOD), **options)
    assert str(caught.value) == message


def test_a_number_is_no_path():
    with pytest.raises(TypeError, match=r"A path is needed, not int 3\."):
        jgl.io.read_table(3)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("book.xlsx", "openpyxl", "tables"),
        ("frame.parquet", "pyarrow", "tables"),
        ("cells.h5ad", "anndata", "anndata"),
    ],
)
def test_a_package_that_is_not_installed(tmp_path, monkeypatch, name, package, extra):
    pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError) as caught:
        jgl.io.read_table(write(tmp_path / name, b"content"))
    expected = f"This needs the package {package}: install it with pip install 'jointglasso[{extra}]'."
    assert str(caught.value) == expected
