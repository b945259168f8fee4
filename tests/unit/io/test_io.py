"""Reading good files: what is written comes back, whatever the kind of file and the way round."""

import bz2
import csv
import gzip
import io
import lzma
import math
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import jointglasso as jgl
from jointglasso.io.grid import MISSING_MARKERS, NumberFormat
from jointglasso.io.labelled_table import unique_names

X = np.array([[1.0, 2.5], [2.0, np.nan], [3.0, -1e-3], [4.0, 4e5]])
Y = ["u", "u", "v", "v"]
SAMPLES = ("s1", "s2", "s3", "s4")
ROWS = "sample,kind,g1,g2\ns1,u,1,2.5\ns2,u,2,NA\ns3,v,3,-1e-3\ns4,v,4,4e5\n"
COLUMNS = "gene,s1,s2,s3,s4\nkind,u,u,v,v\ng1,1,2,3,4\ng2,2.5,NA,-1e-3,4e5\n"
SOFT = """^DATABASE = Geo
^DATASET = GDS9
!dataset_title = A drug at two times
^SUBSET = GDS9_1
!subset_description = drug
!subset_sample_id = GSM1,GSM2
!subset_type = agent
^SUBSET = GDS9_2
!subset_description = none
!subset_sample_id = GSM3
!subset_sample_id = GSM4
!subset_type = agent
^SUBSET = GDS9_3
!subset_description = 0 h
!subset_sample_id = GSM1,GSM3
!subset_type = time
^SUBSET = GDS9_4
!subset_description = 6 h
!subset_sample_id = GSM2,GSM4
!subset_type = time
^DATASET = GDS9
#ID_REF = Platform reference identifier
!dataset_table_begin
ID_REF\tIDENTIFIER\tGSM1\tGSM2\tGSM3\tGSM4\tGene title
p1\tActb\t1\t2\t3\t4\tactin
p2\tTp53\t2.5\tnull\t-1e-3\t4e5\ttumor protein
p3\tActb\t1\t1\t2\tnull\tactin
p4\t--\t0\t1\t2\t3\t
!dataset_table_end
"""


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read_text(tmp_path, text, name="table.csv", **options):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return jgl.io.read_table(path, **options)


def assert_is_the_table(table):
    np.testing.assert_array_equal(table.X, X)
    assert table.y.tolist() == Y
    assert table.variable_names == ("g1", "g2")
    assert table.sample_names == SAMPLES


# Text tables


@pytest.mark.parametrize("text", [ROWS, COLUMNS], ids=["rows", "columns"])
@pytest.mark.parametrize(
    "rewrite",
    [
        lambda text: text,
        lambda text: text.replace(",", "\t"),
        lambda text: text.replace(",", ";"),
        lambda text: text.replace(",", "|"),
        lambda text: text.replace(",", ";").replace(".", ","),
        lambda text: text.replace(",", " , "),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text.replace("\n", "\n\n") + "\n\n",
        lambda text: "\ufeff" + text,
        lambda text: "# made by hand\n" + text + "# end\n",
        lambda text: text.replace("u", '"u"').replace("kind", '"kind"').replace("2.5", '"2.5"'),
        lambda text: text.rstrip("\n"),
    ],
)
def test_every_way_to_write_the_same_table(tmp_path, text, rewrite):
    assert_is_the_table(read_text(tmp_path, rewrite(text), label="kind"))


@pytest.mark.parametrize(("end", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_compressed_files(write, end, compress):
    assert_is_the_table(jgl.io.read_table(write("table.csv" + end, compress(ROWS.encode())), label="kind"))


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "table.csv.bz2"])
@pytest.mark.parametrize("content", [ROWS.encode(), lzma.compress(ROWS.encode())], ids=["plain", "xz"])
def test_the_content_tells_the_compression_whatever_the_name(write, name, content):
    assert_is_the_table(jgl.io.read_table(write(name, content), label="kind"))


def test_other_character_sets(write):
    text = ROWS.replace("s1", "Zoë")
    for encoding, told in (("utf-8", None), ("utf-16", None), ("latin-1", "latin-1")):
        table = jgl.io.read_table(write("table.csv", text.encode(encoding)), label="kind", encoding=told)
        assert table.sample_names[0] == "Zoë"


@pytest.mark.parametrize("marker", [*MISSING_MARKERS, "na", "NULL", " NA "])
def test_missing_markers_are_those_listed(tmp_path, marker):
    assert_is_the_table(read_text(tmp_path, ROWS.replace("NA", marker), label="kind"))


def test_own_missing_markers_may_be_numbers(tmp_path):
    text = ROWS.replace("NA", "-999")
    assert read_text(tmp_path, text, label="kind").X[1, 1] == -999
    assert_is_the_table(read_text(tmp_path, text, label="kind", missing_markers=["-999"]))
    assert_is_the_table(read_text(tmp_path, text.replace("-999", "too low"), label="kind", missing_markers=["too low"]))


def test_thousands_are_read_when_told(tmp_path):
    text = 'g1,g2\n"1,234.5",2\n"-12,345,678",3\n'
    assert read_text(tmp_path, text, thousands=",").X[:, 0].tolist() == [1234.5, -12345678]
    text = "g1;g2\n1.234,5;2\n12;3\n"
    assert read_text(tmp_path, text, thousands=".", decimal=",").X[:, 0].tolist() == [1234.5, 12]
    assert read_text(tmp_path, "g1;g2\n1,234;2\n3;4\n", decimal=",").X[0, 0] == 1.234
    assert read_text(tmp_path, "g1;g2\n1,234;2\n3;4\n", thousands=",").X[0, 0] == 1234


def test_three_decimals_behind_zero_are_no_thousands(tmp_path):
    assert read_text(tmp_path, "g1;g2\n1,234;2\n0,567;4\n").X[:, 0].tolist() == [1.234, 0.567]


def test_row_names_without_a_header_of_their_own(tmp_path):
    """As R writes them."""
    table = read_text(tmp_path, "g1\tg2\tkind\na\t1\t2\tu\nb\t3\t4\tu\nc\t5\t6\tv\nd\t7\t8\tv\n", label="kind")
    assert table.sample_names == ("a", "b", "c", "d")
    assert table.variable_names == ("g1", "g2")


def test_a_delimiter_too_many_in_every_line(tmp_path):
    table = read_text(tmp_path, ROWS.replace("\n", ",,\n"), label="kind")
    assert_is_the_table(table)
    assert "2 empty columns left out" in table.source


def test_numbered_rows_as_r_writes_them(tmp_path):
    table = read_text(tmp_path, '"g1" "g2"\n"1" 5 6\n"2" 7 8\n', delimiter=" ", samples_in="rows")
    assert (table.sample_names, table.X.tolist()) == (("1", "2"), [[5, 6], [7, 8]])


def test_geo_series_matrix_as_a_text_table(tmp_path):
    """Its remarks begin with an exclamation mark; the rest is a table with samples in columns."""
    text = '!Series_title\t"x"\n\n!series_matrix_table_begin\n"ID_REF"\t"GSM1"\t"GSM2"\n"p1"\t1\t2\n"p2"\t\t4\n!end\n'
    table = read_text(tmp_path, text, name="GSE1_series_matrix.txt", comment="!")
    assert (table.sample_names, table.variable_names) == (("GSM1", "GSM2"), ("p1", "p2"))
    np.testing.assert_array_equal(table.X, [[1, np.nan], [2, 4]])


def test_values_written_by_pandas_come_back_to_the_last_bit(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    values = rng.normal(size=(30, 7)) * 10.0 ** rng.integers(-300, 300, size=(30, 7))
    values[rng.random(values.shape) < 0.1] = np.nan
    path = tmp_path / "table.csv"
    pandas.DataFrame(values, columns=list("abcdefg")).to_csv(path, index=False)
    np.testing.assert_array_equal(jgl.io.read_table(path).X, values)


def test_without_a_header(tmp_path):
    table = read_text(tmp_path, "1,2\n3,4\n5,6\n", header=False, samples_in="rows")
    assert table.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert (table.variable_names, table.sample_names, table.y) == (("x1", "x2"), ("1", "2", "3"), None)


def test_numbers_can_be_names_and_labels(tmp_path):
    """Labels keep the form they were written in: 01 is not 1."""
    table = read_text(tmp_path, "id,g1,case\n007,1,01\n008,2,01\n009,3,1\n010,4,1\n", label="case")
    assert table.sample_names == ("007", "008", "009", "010")
    assert table.classes == {"01": 2, "1": 2}


def test_the_title_of_the_first_column_tells_the_side(tmp_path):
    assert read_text(tmp_path, "sample,a,b\nx,1,2\ny,3,4\nz,5,6\n").X.shape == (3, 2)
    assert read_text(tmp_path, "gene,a,b\nx,1,2\ny,3,4\nz,5,6\n").X.shape == (2, 3)


def test_only_the_columns_have_names(tmp_path):
    table = read_text(tmp_path, "a,b\n1,2\n3,4\n5,6\n")
    assert table.X.shape == (3, 2)
    assert table.classes == {}


def test_names_and_drop(tmp_path):
    text = "probe,gene,s1,s2\np1,A,1,2\np2,B,3,4\n"
    table = read_text(tmp_path, text, names="gene", drop=["probe"], samples_in="columns")
    assert (table.variable_names, table.sample_names) == (("A", "B"), ("s1", "s2"))
    table = read_text(tmp_path, ROWS, label="kind", names=False, drop=["sample", "g2"])
    assert (table.variable_names, table.sample_names) == (("g1",), ("1", "2", "3", "4"))


def test_comments_that_look_like_rows(tmp_path):
    text = "name,g1,g2\na,1,2\n#b,3,4\nc,5,6\n"
    assert read_text(tmp_path, text, comment="#", samples_in="rows").sample_names == ("a", "c")
    assert read_text(tmp_path, text, comment=False, samples_in="rows").sample_names == ("a", "#b", "c")


def test_source_tells_how_the_file_was_understood(tmp_path):
    source = read_text(tmp_path, "# one\n" + ROWS.replace(",", ";").replace(".", ","), label="kind").source
    for words in (
        "semicolon",
        "1 comment line left out",
        "decimal comma",
        "samples in rows",
        "'sample'",
        "label 'kind'",
    ):
        assert words in source


def test_a_big_table_takes_seconds(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 10_000)).round(3)
    body = "\n".join(f"s_{i},{'uv'[i % 2]}," + ",".join(map(str, row)) for i, row in enumerate(values.tolist()))
    header = "sample,kind," + ",".join(f"g{j}" for j in range(10_000))
    path = tmp_path / "big.csv"
    path.write_text(f"{header}\n{body}\n")
    began = time.process_time()
    table = jgl.io.read_table(path, label="kind")
    assert time.process_time() - began < 10  # a second as a rule
    np.testing.assert_array_equal(table.X, values)


def test_text_numpy_and_geo_files_need_no_further_package(write):
    path = write("table.csv.gz", gzip.compress(ROWS.encode()))
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['pandas', 'pyarrow', 'openpyxl', 'anndata', 'numba']))\n"
        f"import jointglasso; print(jointglasso.io.read_table({str(path)!r}, label='kind').classes)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert result.stdout.strip() == "{'u': 2, 'v': 2}"


words = st.text(
    st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="\ufeff"), min_size=1, max_size=8
)
clean = words.map(str.strip).filter(lambda word: word and not word.startswith("#"))
numbers = st.floats(allow_nan=True, allow_infinity=False)


@st.composite
def tables(draw):
    n, p = draw(st.integers(4, 7)), draw(st.integers(2, 5))
    names = draw(st.lists(clean.map("g:{}".format), min_size=p, max_size=p, unique=True))
    samples = draw(st.lists(clean.map("s:{}".format), min_size=n, max_size=n, unique=True))
    values = draw(st.lists(st.lists(numbers, min_size=p, max_size=p), min_size=n, max_size=n))
    labels = ["k:u", "k:v"] * 2 + draw(st.lists(st.sampled_from(["k:u", "k:v"]), min_size=n - 4, max_size=n - 4))
    return np.array(values), labels, names, samples


@settings(max_examples=60)
@given(
    tables(), st.sampled_from(",;\t|"), st.sampled_from(["rows", "columns"]), st.sampled_from([".", ","]), st.booleans()
)
def test_round_trip_of_text(tmp_path, table, delimiter, side, decimal, quoted):
    values, labels, names, samples = table
    cells = [["" if math.isnan(v) else repr(v).replace(".", decimal) for v in row] for row in values.tolist()]
    grid = [["", *names, "the kind"]] + [[s, *row, k] for s, row, k in zip(samples, cells, labels, strict=True)]
    if side == "columns":
        grid = [list(row) for row in zip(*grid, strict=True)]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL).writerows(grid)
    options = {"delimiter": delimiter, "decimal": decimal, "label": "the kind"}
    read = read_text(tmp_path, text.getvalue(), **options)
    np.testing.assert_array_equal(read.X, values)
    assert (read.variable_names, read.sample_names, read.y.tolist()) == (tuple(names), tuple(samples), labels)


@settings(max_examples=40)
@given(tables(), st.sampled_from(",;\t|"))
def test_delimiter_is_found_or_asked_for(tmp_path, table, delimiter):
    """Names may hold every delimiter; then the reader may ask, but not give another table."""
    values, labels, names, samples = table
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(["", *names, "the kind"])
    writer.writerows([s, *map(repr, row), k] for s, row, k in zip(samples, values.tolist(), labels, strict=True))
    try:
        read = read_text(tmp_path, text.getvalue(), label="the kind")
    except ValueError as error:
        assert "delimiter=" in str(error)
    else:
        np.testing.assert_array_equal(read.X, values)
        assert read.variable_names == tuple(names)


@given(
    st.lists(st.one_of(st.text(max_size=6), numbers.map(repr), st.sampled_from(["1_0", "٣", "inf", "-nan", "1e999"])))
)
@example(["1,5", "1.5", ".", "\x1f"])
def test_a_row_of_cells_is_its_cells_one_by_one(cells):
    """The fast way through float() and the strict one agree, in every number format."""
    for form in (NumberFormat(), NumberFormat(","), NumberFormat(".", ","), NumberFormat(missing_markers=("1.0",))):
        values, found = form.row(cells)
        alone = [form.number(cell) for cell in cells]
        assert [i for i, value in enumerate(alone) if value is None] == sorted(found)
        np.testing.assert_array_equal(values, [math.nan if value is None else value for value in alone])


@given(st.lists(st.sampled_from(["a", "b", "a.2", "a.3", "", "x1", "x2"]), max_size=8))
def test_unique_names_keep_what_was_unique(names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.io.TableWarning)
        unique = unique_names(names, "file")
    assert len(set(unique)) == len(names)
    assert all(new == old for new, old in zip(unique, names, strict=True) if old and names.count(old) == 1)


def test_repeated_variable_names_get_a_number_and_a_warning(tmp_path):
    with pytest.warns(jgl.io.TableWarning, match=r"1 variable name occurred more than once \('a'\).*'a\.3'"):
        table = read_text(tmp_path, "a,a,a.2\n1,2,3\n4,5,6\n")
    assert table.variable_names == ("a", "a.3", "a.2")


# Labels in a file of their own


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        ("sample,state\ns4,v\ns3,v\ns2,u\ns1,u\n", {}),
        ("s4\tv\ns3\tv\ns2\tu\ns1\tu\n", {}),
        ("state\nu\nu\nv\nv\n", {}),
        ("u\nu\nv\nv\n", {}),
        ("sample;age;state\ns1;3;u\ns2;4;u\ns3;5;v\ns4;6;v\n", {"label": "state"}),
        ("s9,u\ns1,u\ns2,u\ns3,v\ns4,v\n", {"unmatched": "drop"}),
    ],
    ids=["header", "no-header", "one-column-header", "one-column", "several-columns", "too-many"],
)
@pytest.mark.parametrize("text", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_label_files(tmp_path, write, labels, options, text):
    path = write("labels.txt", labels)
    assert_is_the_table(read_text(tmp_path, text, labels=path, drop=["kind"], **options))


def test_a_label_file_that_names_the_columns(tmp_path, write):
    labels = write("labels.csv", "stock,sector\nA,u\nB,u\nC,v\nD,v\n")
    prices = "A,B,C,D\n1,2,3,4\n5,6,7,8\n9,8,7,6\n"
    table = read_text(tmp_path, prices, labels=labels, names=False)
    assert table.X.shape == (4, 3)
    assert (table.sample_names, table.y.tolist()) == (("A", "B", "C", "D"), Y)
    with pytest.raises(ValueError, match="say names=False if it is a sample"):
        read_text(tmp_path, prices, labels=labels)


def test_repeated_genes_in_the_first_column(tmp_path):
    text = "what,s1,s2,s3,s4\nkind,u,u,v,v\ng,1,2,3,4\ng,5,6,7,8\n"
    with pytest.warns(jgl.io.TableWarning, match="'g'"):
        table = read_text(tmp_path, text, label="kind")
    assert table.variable_names == ("g", "g.2")
    assert table.X.shape == (4, 2)


def test_one_column_of_labels_tells_the_side_by_its_length(tmp_path, write):
    labels = write("labels.csv", "\n".join("uuuvvv"))
    rows = "id,a,b\n" + "".join(f"{name},1,2\n" for name in "pqrstw")
    assert read_text(tmp_path, rows, labels=labels).X.shape == (6, 2)
    columns = "id,p,q,r,s,t,w\na,1,2,3,4,5,6\nb,1,2,3,4,5,6\n"
    assert read_text(tmp_path, columns, labels=labels).X.shape == (6, 2)


def test_samples_without_label_are_left_out_when_told(tmp_path, write):
    labels = write("labels.csv", "s1,u\ns2,u\ns4,v\ns5,v\n")
    text = ROWS.replace("s3", "s5")
    table = read_text(tmp_path, text + "s6,v,1,1\n", labels=labels, drop=["kind"], unmatched="drop")
    assert table.sample_names == ("s1", "s2", "s5", "s4")
    text = ROWS + "s5,NA,1,2\n"
    assert_is_the_table(read_text(tmp_path, text, label="kind", unmatched="drop"))


def test_none_is_an_honest_label(tmp_path):
    assert read_text(tmp_path, ROWS.replace(",u,", ",none,"), label="kind").classes == {"none": 2, "v": 2}


# Subsets


def test_subset_of_classes_and_by_another_column(tmp_path):
    text = "g1,kind,batch\n1,u,1\n2,u,2\n3,v,1\n4,v,1\n5,w,1\n6,u,1\n"
    table = read_text(tmp_path, text, label="kind", subset=["v", "u"], drop=["batch"])
    assert table.classes == {"u": 3, "v": 2}
    table = read_text(tmp_path, text, label="kind", subset={"batch": "1", "kind": ["u", "v"]})
    assert table.X[:, 0].tolist() == [1, 3, 4, 6]
    assert table.variable_names == ("g1",)
    assert read_text(tmp_path, text, label="kind", subset=["u"], drop=["batch"]).classes == {"u": 3}


# Other kinds of files


def test_npz(write):
    buffer = io.BytesIO()
    np.savez(buffer, X=X, y=Y, features=["g1", "g2"], samples=SAMPLES, batch=[1, 2, 1, 2])
    path = write("table.npz", buffer.getvalue())
    assert_is_the_table(jgl.io.read_table(path))
    assert jgl.io.read_table(path, label="batch").classes == {"1": 2, "2": 2}


def test_npz_the_other_way_round(write):
    buffer = io.BytesIO()
    np.savez(buffer, X=X.T, y=Y, features=["g1", "g2"], samples=SAMPLES)
    assert_is_the_table(jgl.io.read_table(write("table.npz", buffer.getvalue()), samples_in="columns"))


def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"kind": Y, "g1": [1, 2, 3, 4], "g2": X[:, 1]}, index=list(SAMPLES))


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    frame().to_parquet(path)
    assert_is_the_table(jgl.io.read_table(path, label="kind"))
    frame().T.astype(str).replace("nan", "").to_parquet(path)
    assert_is_the_table(jgl.io.read_table(path, label="kind"))


def test_parquet_with_markers_and_bad_cells(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    frame().fillna(-999.0).to_parquet(path)
    assert_is_the_table(jgl.io.read_table(path, label="kind", missing_markers=["-999"]))
    frame().replace(-1e-3, np.inf).to_parquet(path)
    with pytest.raises(ValueError, match=r"row 3, column 'g2': 'inf' is not a finite number"):
        jgl.io.read_table(path, label="kind")


def test_parquet_takes_the_options_of_tables(tmp_path):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    cells = {
        "who": ["s", "t", "u", "v"],
        "kind": list("aabb"),
        "g1": ["1,5", "2,5", "1.000,5", "2"],
        "g2": [4, 3, 5, 6],
    }
    pandas.DataFrame({**cells, "note": list("wxyz")}).to_parquet(path)
    table = jgl.io.read_table(path, label="kind", names="who", drop=["note"], decimal=",", thousands=".")
    assert table.sample_names == ("s", "t", "u", "v") and table.variable_names == ("g1", "g2")
    assert table.X[:, 0].tolist() == [1.5, 2.5, 1000.5, 2.0] and table.classes == {"a": 2, "b": 2}


def test_every_option_names_kinds_of_files_that_there_are():
    kinds = set(jgl.io.opening.KINDS.values())
    assert all(set(given) <= kinds for given in jgl.io.opening.FORMATS_OF_OPTION.values())


def test_excel(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    path = tmp_path / "table.xlsx"
    frame().to_excel(path)
    assert_is_the_table(jgl.io.read_table(path, label="kind"))
    with pandas.ExcelWriter(path) as book:
        frame().to_excel(book, sheet_name="data")
        frame().T.to_excel(book, sheet_name="turned")
    with pytest.raises(ValueError, match=r"has 2 sheets \('data', 'turned'\): say which with sheet=\."):
        jgl.io.read_table(path, label="kind")
    assert_is_the_table(jgl.io.read_table(path, label="kind", sheet="turned"))
    assert_is_the_table(jgl.io.read_table(path, label="kind", sheet=0))
    with pytest.raises(ValueError, match=r"has no sheet 'dat' \(similar: 'data'\): correct `sheet`\."):
        jgl.io.read_table(path, label="kind", sheet="dat")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([], r"sheet 'Sheet1' is empty: choose another one with sheet=\."),
        ([["sample", "g1"]], r"sheet 'Sheet1' has a header but no rows below it: add the samples\."),
        ([["g1", "g2"], [1, 2], [3, "x"], [5, 6]], r"row 3, column 'g2': 'x' is not a finite number"),
        ([["g1", "g2"], [1, 2], [3, True], [5, 6]], r"row 3, column 'g2': 'TRUE' is not a finite number"),
    ],
)
def test_bad_excel_sheets(tmp_path, cells, message):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    path = tmp_path / "table.xlsx"
    pandas.DataFrame(cells).to_excel(path, header=False, index=False)
    with pytest.raises(ValueError, match=message):
        jgl.io.read_table(path)


def test_excel_with_dates_and_gaps_and_text_numbers(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    path = tmp_path / "table.xlsx"
    day = pandas.Timestamp("2024-01-02")
    rows = [["id", "day", "g1"], [1, day, "1,5"], [None] * 3, [2, day, 2.5], [3, day, None]]
    pandas.DataFrame(rows, dtype=object).to_excel(path, header=False, index=False)
    table = jgl.io.read_table(path, drop=["day"], decimal=",", samples_in="rows")
    np.testing.assert_array_equal(table.X[:, 0], [1.5, 2.5, np.nan])
    assert table.sample_names == ("1", "2", "3")
    table = jgl.io.read_table(path, subset={"day": "2024-01-02T00:00:00"}, decimal=",")
    assert table.X.shape == (3, 1)


def test_parquet_without_data(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    frame().iloc[:0].to_parquet(path)
    with pytest.raises(ValueError, match="has 0 rows and 3 columns"):
        jgl.io.read_table(path)


def test_h5ad(tmp_path):
    anndata = pytest.importorskip("anndata")
    from scipy import sparse

    path = tmp_path / "cells.h5ad"
    obs = frame()[["kind"]].astype("category")
    var = frame()[["g1", "g2"]].T[[]]
    stored = anndata.AnnData(
        np.nan_to_num(X), obs=obs, var=var, layers={"twice": sparse.csr_matrix(np.nan_to_num(2 * X))}
    )
    stored.raw = stored[:, ["g2"]]
    stored.write_h5ad(path)
    assert jgl.io.read_table(path, label="kind", layer="raw").variable_names == ("g2",)
    table = jgl.io.read_table(path, label="kind")
    np.testing.assert_array_equal(table.X, np.nan_to_num(X))
    assert (table.y.tolist(), table.variable_names, table.sample_names) == (Y, ("g1", "g2"), SAMPLES)
    np.testing.assert_array_equal(jgl.io.read_table(path, label="kind", layer="twice").X, np.nan_to_num(2 * X))
    with pytest.raises(ValueError, match=r"has no layer 'twce' \(similar: 'twice'\)"):
        jgl.io.read_table(path, label="kind", layer="twce")
    with pytest.raises(ValueError, match=r"has no column 'kinds' in obs \(similar: 'kind'\): correct `label`\."):
        jgl.io.read_table(path, label="kinds")


def test_h5ad_without_some_labels(tmp_path):
    anndata = pytest.importorskip("anndata")
    path = tmp_path / "cells.h5ad"
    obs = frame()[["kind"]]
    obs.loc["s5"] = None
    anndata.AnnData(np.ones((5, 2)), obs=obs.astype("category")).write_h5ad(path)
    with pytest.raises(ValueError, match=r"1 sample without a label \('s5'\)"):
        jgl.io.read_table(path, label="kind")
    assert jgl.io.read_table(path, label="kind", unmatched="drop").sample_names == SAMPLES


@pytest.mark.parametrize("compress", [None, gzip.compress])
def test_geo_datasets(write, compress):
    path = write("GDS9.soft", SOFT) if compress is None else write("GDS9.soft.gz", compress(SOFT.encode()))
    table = jgl.io.read_table(path, label="agent")
    assert table.classes == {"drug": 2, "none": 2}
    assert table.variable_names == ("Actb|p1", "Tp53", "Actb|p3", "p4" if "--" in MISSING_MARKERS else "--")
    assert table.sample_names == ("GSM1", "GSM2", "GSM3", "GSM4")
    np.testing.assert_array_equal(table.X[:, :2], X)
    assert np.isnan(table.X[3, 2])
    assert "'agent', 'time'" in table.source
    assert jgl.io.read_table(path, label="time").y.tolist() == ["0 h", "6 h", "0 h", "6 h"]
    assert jgl.io.read_table(path).y is None
    assert jgl.io.read_table(path, label="agent", subset={"agent": ["drug", "none"]}).classes == {"drug": 2, "none": 2}


def test_format_may_be_told(write):
    assert_is_the_table(jgl.io.read_table(write("table.data", ROWS), label="kind", format="text"))


# What a table can do


@pytest.fixture
def table(tmp_path):
    return read_text(tmp_path, ROWS, label="kind")


def test_select(table):
    chosen = table.select(variables=["g2", "g1"], classes=["v"])
    assert chosen.X.tolist() == [[-1e-3, 3.0], [4e5, 4.0]]
    assert (chosen.variable_names, chosen.sample_names, chosen.classes) == (("g2", "g1"), ("s3", "s4"), {"v": 2})
    assert table.select().X is table.X


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variables": ["g3"]}, r"'g3' is not among the variables of the table \(there are 'g1', 'g2'\)"),
        ({"classes": ["w"]}, r"'w' is not among the classes of the table \(there are 'u', 'v'\)"),
        ({"variables": ["g1", "g1"]}, "variables holds a name twice"),
        ({"variables": []}, "variables holds no names"),
    ],
)
def test_select_refuses_what_is_not_there(table, options, message):
    with pytest.raises(ValueError, match=message):
        table.select(**options)


def test_select_refuses_a_word_and_classes_without_labels(tmp_path, table):
    with pytest.raises(TypeError, match="put it in brackets"):
        table.select(variables="g1")
    with pytest.raises(ValueError, match="read without labels"):
        read_text(tmp_path, "a,b\n1,2\n3,4\n").select(classes=["u"])


def test_drop_missing(table):
    assert table.drop_missing("variables").variable_names == ("g1",)
    assert table.drop_missing("samples").sample_names == ("s1", "s3", "s4")
    assert table.drop_missing("samples").y.tolist() == ["u", "v", "v"]
    with pytest.raises(ValueError, match="what='rows' is not known"):
        table.drop_missing("rows")
    with pytest.raises(ValueError, match=r"All variables of .* have missing values: drop samples"):
        table.select(variables=["g2"]).drop_missing("variables")


@pytest.mark.parametrize("correlation", [True, False])
def test_to_source_keeps_the_order_of_classes(tmp_path, correlation):
    text = "g1,g2,kind\n1,2,z\n2,1,z\n3,3,z\n4,1,b\n5,3,b\n7,4,b\n"
    table = read_text(tmp_path, text, label="kind")
    source = table.to_source(scale="correlation" if correlation else "covariance")
    assert (source.class_names, source.variable_names) == (("z", "b"), ("g1", "g2"))
    for k, name in enumerate(source.class_names):
        part = table.X[table.y == name].T
        expected = np.corrcoef(part) if correlation else np.cov(part, bias=True)
        np.testing.assert_allclose(source.block(k, np.arange(2)), expected)


def test_to_source_without_labels_and_with_missing_values(tmp_path, table):
    source = read_text(tmp_path, "a,b\n1,2\n3,1\n").to_source()
    assert source.class_names == ("all",)
    with pytest.raises(ValueError, match=r"1 missing value \(NaN\) in 1 of 4 samples and 1 of 2 variables \('g2': 1\)"):
        table.to_source()
    complete = read_text(tmp_path, "a,b\n1,2\n3,1\n4,\n").to_source(missing="complete")
    np.testing.assert_allclose(complete.block(0, np.arange(2)), [[1, -1], [-1, 1]])


def test_repr_tells_the_size(table):
    assert repr(table).startswith("<LabelledTable: 4 samples, 2 variables, 2 classes, from ")


def test_tables_can_be_solved(table):
    solution = jgl.solve(table.drop_missing("variables").to_source(), 0.1, 0.1)
    assert (solution.class_names, solution.variable_names) == (("u", "v"), ("g1",))


def test_table_as_a_data_frame():
    table = jgl.datasets.load_rppa().select(classes=["OV"])
    frame = table.to_frame()
    assert list(frame.columns) == list(table.variable_names)
    assert list(frame.index) == list(table.sample_names)
    assert np.array_equal(frame.to_numpy(), table.X)


@pytest.mark.parametrize("side", ["rows", "columns"])
def test_annotations_describe_the_samples_and_are_no_variables(tmp_path, side):
    cells = [
        ["id", "kind", "g1", "age", "g2", "batch"], ["s1", "u", "1", "30", "2", "x"], ["s2", "u", "2", "NA", "1", "y"],
        ["s3", "v", "3", "41", "5", ""], ["s4", "v", "4", "52", "4", "x"],
    ]  # fmt: skip
    cells = cells if side == "rows" else [list(row) for row in zip(*cells, strict=True)]
    path = tmp_path / "cells.csv"
    path.write_text("\n".join(",".join(row) for row in cells) + "\n")
    found = jgl.io.read_table(path, label="kind", annotations=["age", "batch"])
    assert found.variable_names == ("g1", "g2") and found.X.tolist() == [[1, 2], [2, 1], [3, 5], [4, 4]]
    np.testing.assert_array_equal(found.annotations["age"], [30, np.nan, 41, 52])
    assert found.annotations["batch"].tolist() == ["x", "y", None, "x"]
    ill = found.select(classes=["v"])
    assert ill.annotations["age"].tolist() == [41, 52] and ill.annotations["batch"].tolist() == [None, "x"]
    with pytest.raises(ValueError, match="correct `annotations`"):
        jgl.io.read_table(path, label="kind", annotations=["site"])
