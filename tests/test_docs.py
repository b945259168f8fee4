"""The site: nothing public is missing from the reference, links lead somewhere, examples in docstrings run."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import jointglasso as jgl

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "theory").glob("*.md"), ROOT / "README.md"])


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"^   ([\w.]+)$", (DOCS / "api.rst").read_text("utf-8"), flags=re.M))
    packages = {"anndata", "datasets", "io", "plots"}
    public = {name for name in jgl.__all__ if not name.startswith("_") and name not in packages}
    assert public - listed == set()
    assert {f"plots.{name}" for name in jgl.plots.__all__} - listed == set()
    for name in listed:
        found = jgl
        for part in name.split("."):
            found = getattr(found, part)
        assert found.__doc__, f"{name} says nothing about itself"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    made = {"gallery/index.rst"}  # by the build
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target and target not in made:
            assert (page.parent / target).exists(), target


def test_what_the_architecture_names_is_there():
    package = ROOT / "src" / "jointglasso"
    code = "".join(path.read_text("utf-8") for top in (package, ROOT / "tests") for path in top.rglob("*.py"))
    *_, text = (DOCS / "architecture.md").read_text("utf-8").split("```")  # below the picture
    for named in re.findall(r"`([^`]+)`", text):
        file, _, inside = named.partition(": ")
        if re.fullmatch(r"[\w/]+(\.py|/)", file):
            places = [top / file for top in (ROOT, package, *package.iterdir()) if (top / file).exists()]
            assert places, f"there is no {file}"
            assert not inside or inside.partition("(")[0] in places[0].read_text("utf-8"), named
        elif re.fullmatch(r"\w+(\.\w+)*", named):
            assert named.rpartition(".")[2] in code, named


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
    """Every public name with what it stands for, those in the public rooms included."""
    found = {name: getattr(jgl, name) for name in jgl.__all__ if not name.startswith("_")}
    packages = {name: thing for name, thing in found.items() if inspect.ismodule(thing)}
    public = {name: thing for name, thing in found.items() if name not in packages}
    for room, module in packages.items():
        names = getattr(module, "__all__", ["fit", "networks"])
        public |= {f"{room}.{name}": getattr(module, name) for name in names}
    return {name: thing for name, thing in public.items() if callable(thing)}


def test_every_public_name_has_an_example():
    def examples(thing):
        """Of a class, those of its methods count too."""
        members = vars(thing).values() if inspect.isclass(thing) else ()
        return ">>>" in "".join(inspect.getdoc(part) or "" for part in (thing, *members))

    assert [name for name, thing in public_objects().items() if not examples(thing)] == []


@pytest.mark.parametrize("module", sorted({thing.__module__ for thing in public_objects().values()}))
def test_examples_in_docstrings_run(module):
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("anndata")
    pyplot = importlib.import_module("matplotlib.pyplot")
    result = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    pyplot.close("all")
    assert result.attempted > 0 and result.failed == 0


def test_no_merge_has_doubled_a_line_of_the_changelog():
    lines = [line for line in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines() if len(line) > 20]
    assert sorted(set(lines)) == sorted(lines)


def test_the_citation_is_of_this_version():
    assert f"version: {jgl.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
