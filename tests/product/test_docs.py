"""The site: nothing public is missing from the reference, links lead somewhere, examples in docstrings run."""

import doctest
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import jointglasso as jgl

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NOTES = sorted((DOCS / "design").glob("[0-9]*.md"))
PAGES = sorted(
    [*DOCS.glob("*.md"), *(DOCS / "theory").glob("*.md"), *(DOCS / "design").glob("*.md"), ROOT / "README.md"]
)
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.md"))


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"^   ([\w.]+)$", (DOCS / "api.rst").read_text("utf-8"), flags=re.M))
    packages = {"anndata", "datasets", "io", "pl", "plots", "tl"}
    public = {name for name in jgl.__all__ if not name.startswith("_") and name not in packages}
    assert public - listed == set()
    assert {f"plots.{name}" for name in jgl.plots.__all__} - listed == set()
    for name in listed:
        found = jgl
        for part in name.split("."):
            found = getattr(found, part)
        assert found.__doc__, f"{name} says nothing about itself"


def anchors(page):
    """Anchors of a page: those of its headings, which GitHub and the site make alike, and explicit ones."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)
    headings = [heading.lower().replace("`", "") for heading in re.findall(r"^#+ (.*)$", text, flags=re.M)]
    on_github = {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}
    on_the_site = {re.sub(r"[^a-z0-9]+", "-", heading).strip("-") for heading in headings}
    return on_github & on_the_site | set(re.findall(r"^\((\w+)\)=$", text, flags=re.M))


@pytest.mark.parametrize("page", [*PAGES, *sorted((DOCS / "reproduction").rglob("*.md"))], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    made = {"gallery/index.rst"}  # by the build
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text("utf-8")):
        if "://" not in target and target not in made:
            found = page.parent / target if target else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found), f"{target}#{anchor}"


@pytest.mark.parametrize(
    "page", [DOCS / "architecture.md", DOCS / "glossary.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem
)
def test_what_the_pages_on_the_code_name_exists(page):
    package = ROOT / "src" / "jointglasso"
    code = "".join(path.read_text("utf-8") for top in (package, ROOT / "tests") for path in top.rglob("*.py"))
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)
    for named in re.findall(r"`([^`]+)`", text.replace("/NAME", "/group")):  # the place of a new penalty
        file, _, inside = named.partition(": ")
        if re.fullmatch(r"[\w/]+(\.py|/)", file):
            places = [top / file for top in (ROOT, package, *package.iterdir()) if (top / file).exists()]
            assert places, f"there is no {file}"
            assert not inside or inside.partition("(")[0] in places[0].read_text("utf-8"), named
        elif re.fullmatch(r"\w+(\.\w+)*", named):
            assert named.rpartition(".")[2] in code, named


def test_the_picture_and_the_loop_name_files_and_functions_that_exist():
    package = ROOT / "src" / "jointglasso"
    code = "".join(path.read_text("utf-8") for path in package.rglob("*.py"))
    picture, loop = re.findall(r"```(.*?)```", (DOCS / "architecture.md").read_text("utf-8"), flags=re.S)
    files = re.findall(r"\b[a-z_]+/[a-z_]*(?:\.py)?|\b[a-z_]+\.py", picture)
    assert len(files) > 10
    assert [file for file in files if not any((top / file).exists() for top in (package, package / "screening"))] == []
    called = set(re.findall(r"\b(\w+)\(", loop.replace("def ", "")))
    assert len(called) > 10
    assert [name for name in sorted(called) if not re.search(rf"(def|class) {name}\b", code)] == []


def test_the_architecture_page_is_short():
    assert len((DOCS / "architecture.md").read_text("utf-8").splitlines()) <= 150
    assert len((ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines()) <= 120


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_design_notes_have_context_choice_measurement_and_date(path):
    text = path.read_text("utf-8")
    assert re.match(rf"# {int(path.stem[:3])}\. \S.*\n\nDate: \d{{4}}-\d\d-\d\d\n", text)
    parts = re.split(r"^## (\w+)\n", text, flags=re.M)
    assert parts[1::2] == ["Context", "Choice", "Measurement"] and all(part.strip() for part in parts[2::2])
    assert path.name in (DOCS / "design" / "index.md").read_text("utf-8")


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_name_script_date_and_machine(path):
    text = path.read_text("utf-8")
    scripts = re.findall(r"benchmarks/[\w/]+\.py", text)
    assert scripts and all((ROOT / script).exists() for script in scripts)
    assert re.search(r"\d{4}-\d\d-\d\d", text) and re.search(r"\d+ cores|two cores", text)


def test_every_page_of_results_is_on_the_site():
    assert {page.name for page in (DOCS / "results").glob("*.md")} == {"index.md", *(page.name for page in RESULTS)}
    for page in RESULTS:
        assert f"{{include}} ../../benchmarks/results/{page.name}\n" in (DOCS / "results" / page.name).read_text(
            "utf-8"
        )


def test_links_of_the_readme_lead_to_the_repository_from_a_package_index():
    core = pytest.importorskip("hatchling.metadata.core")
    manager = importlib.import_module("hatchling.plugin.manager").PluginManager()
    readme = core.ProjectMetadata(str(ROOT), manager).core.readme
    repository = "https://github.com/jointglasso/jointglasso"
    expected = {
        f"{repository}/{'raw' if mark else 'blob'}/main/{file}"
        for mark, file in re.findall(r"(!?)\[[^]]*\]\(([^)]*)\)", (ROOT / "README.md").read_text("utf-8"))
    }
    assert len(expected) > 20
    assert set(re.findall(r"\[[^]]*\]\(([^)]*)\)", readme)) == expected


def test_the_performance_page_has_six_tables_and_one_picture():
    text = (DOCS / "performance.md").read_text("utf-8")
    assert len(re.findall(r"^\|(?:-+\|)+$", text, flags=re.M)) == 6 and text.count("![") == 1
    assert {path.name for path in RESULTS} <= set(re.findall(r"results/(\w+\.md)", text))


def test_questions_have_answers():
    text = (DOCS / "howto.md").read_text("utf-8")
    questions = re.findall(r"^### (\d+)\. .*\?$", text, flags=re.M)
    assert [int(number) for number in questions] == list(range(1, len(questions) + 1)) and len(questions) >= 22


def test_attributes_that_the_answers_name_exist():
    text = (DOCS / "howto.md").read_text("utf-8")
    for name in set(re.findall(r"\bjgl\.([a-zA-Z_]+(?:\.[a-zA-Z_]+)?)\(", text)):
        found = jgl
        for part in name.split("."):
            found = getattr(found, part)
    for name in set(re.findall(r"\bnetworks\.([a-z_]+)\(", text)):
        assert hasattr(jgl.JointNetworks, name), name


def public_objects():
    """Every public name with what it stands for, those in public packages included."""
    found = {name: getattr(jgl, name) for name in jgl.__all__ if not name.startswith("_")}
    packages = {name: thing for name, thing in found.items() if inspect.ismodule(thing)}
    public = {name: thing for name, thing in found.items() if name not in packages}
    for package, module in packages.items():
        names = getattr(module, "__all__", ["fit", "networks"])
        public |= {f"{package}.{name}": getattr(module, name) for name in names}
    return {name: thing for name, thing in public.items() if callable(thing)}


def test_every_public_name_but_the_warnings_has_an_example():
    def examples(thing):
        """Of a class, those of its methods count too."""
        members = vars(thing).values() if inspect.isclass(thing) else ()
        return ">>>" in "".join(inspect.getdoc(part) or "" for part in (thing, *members))

    shown = {name: thing for name, thing in public_objects().items() if not name.endswith("Warning")}
    assert [name for name, thing in shown.items() if not examples(thing)] == []


@cache
def example_names(package):
    """Names that the examples in the docstring of a package define for those of its functions."""
    globs = {}
    for example in doctest.DocTestParser().get_examples(importlib.import_module(package).__doc__):
        exec(example.source, globs)
    return globs


def modules_with_examples():
    """Modules of the public names, and of the functions that are methods of a public class."""
    methods = [
        part for thing in public_objects().values() if inspect.isclass(thing) for part in vars(thing).values()
        if inspect.isfunction(part) and ">>>" in (part.__doc__ or "") and "jointglasso" in part.__module__
    ]  # fmt: skip
    things = [thing for name, thing in public_objects().items() if not name.endswith("Warning")]
    return sorted({thing.__module__ for thing in [*things, *methods]})


@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_in_docstrings_run(module):
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("anndata")
    pyplot = importlib.import_module("matplotlib.pyplot")
    globs = example_names(module.rpartition(".")[0])
    flags = doctest.NORMALIZE_WHITESPACE
    result = doctest.testmod(importlib.import_module(module), optionflags=flags, extraglobs=globs)
    pyplot.close("all")
    assert result.attempted > 0 and result.failed == 0


def test_no_merge_has_doubled_a_line_of_the_changelog():
    lines = [line for line in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines() if len(line) > 20]
    assert sorted(set(lines)) == sorted(lines)


def test_the_citation_is_of_this_version():
    assert f"version: {jgl.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
