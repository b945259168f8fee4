"""Architecture: imports point to lower layers, files and functions stay small, names are terms, importing is cheap."""

import ast
import importlib
import importlib.util
import io
import os
import re
import statistics
import subprocess
import sys
import tokenize
import venv
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import jointglasso

PACKAGE = Path(jointglasso.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
ROOT = Path(__file__).parents[2]

#: Folders outside the package whose names are checked as well.
OUTSIDE = ("tests", "benchmarks", "reproduction", "examples")

#: Packages and modules from low to high; one may import what stands on a lower line, or beside it without a cycle.
LAYERS = [
    ("_typing", "_cached_property", "_version", "errors", "config"),
    ("_threads", "_lapack", "_sparse", "_files", "_memory", "_optional", "_display", "_wording"),
    ("kernels",),
    ("backends",),
    ("data",),
    ("penalties",),
    ("problem", "datasets", "io"),
    ("screening",),
    ("blocks",),
    ("solution",),
    ("duality", "rounding", "solvers"),
    ("engine",),
    ("networks",),
    ("estimators", "selection"),
    ("inference",),
    ("anndata", "plots"),
    ("pl", "tl"),
    ("report", "cli", "progress_bar", "warm", "__main__"),
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

#: Packages whose imports are limited further than by their layer, to the prefixes listed.
ONLY = {
    "_typing": (),
    "_cached_property": (),
    "_version": (),
    "errors": (),
    "config": (),
    "_threads": ("_typing", "config"),
    "_lapack": ("_typing",),
    "_sparse": ("_typing",),
    "_files": (),
    "_memory": (),
    "_optional": (),
    "_display": (),
    "_wording": (),
    "backends": ("_typing", "_optional"),
    "problem": ("_typing", "_sparse", "_cached_property", "errors", "kernels", "penalties", "data"),
    "solution": (
        *("_typing", "_cached_property", "errors", "_version", "_files", "_memory", "_display", "_wording", "data"),
        "screening.partition",
    ),
    "datasets": ("io.labelled_table",),
    "io": ("_typing", "_cached_property", "errors", "_files", "_memory", "_optional", "_wording", "data"),
}

#: The packages that may import a third-party package.
OWNERS = {
    "numba": ("kernels", "_lapack"),
    "sklearn": ("estimators", "selection", "inference"),
    "click": ("cli",),
    "cupy": ("backends",),
}


@dataclass(frozen=True)
class Import:
    path: Path
    line: int
    target: str
    """Full dotted name of what is imported."""

    @property
    def package(self) -> str:
        return package_of(self.path)

    @property
    def inner(self) -> str | None:
        """Name below `jointglasso` of an import within the package, the public names excepted."""
        head, _, rest = self.target.partition(".")
        return rest if head == "jointglasso" and rest and not self.is_public_name else None

    @property
    def is_public_name(self) -> bool:
        """Whether it imports a public name instead of the module that defines it."""
        parts = self.target.split(".")
        return parts[0] == "jointglasso" and (len(parts) == 1 or parts[1] not in packages())

    def __str__(self) -> str:
        return f"{self.path.relative_to(PACKAGE)}:{self.line} imports {self.target}"


def package_of(path: Path) -> str:
    """Name of the package or module right below `jointglasso` that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def packages() -> frozenset[str]:
    return frozenset(package_of(path) for path in MODULES)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def dotted_package(path: Path) -> list[str]:
    return ["jointglasso", *path.relative_to(PACKAGE).parts[:-1]]


@cache
def imports_of(path: Path) -> list[Import]:
    """Every import statement, at top level and inside functions."""
    found = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [Import(path, node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = dotted_package(path)
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [Import(path, node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


def all_imports(*, without_front: bool = True) -> list[Import]:
    return [
        statement
        for path in MODULES
        for statement in imports_of(path)
        if not (without_front and path == PACKAGE / "__init__.py")
    ]


def functions_of(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def length(function: ast.FunctionDef) -> int:
    """Lines of a function, its docstring not counted."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        lines -= function.body[0].end_lineno - function.body[0].lineno + 1
    return lines


def run_python(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    return result.stdout.strip()


# Imports point one way


def test_the_reader_of_imports_sees_nested_and_relative_ones():
    """Known imports are in the list, so that an empty list cannot pass the tests below."""
    found = {(statement.path.name, statement.target) for statement in all_imports()}
    assert ("base.py", "jointglasso.kernels.pair.module_of") in found  # inside a method
    assert ("result.py", "jointglasso.screening.partition.Partition") in found
    assert len([statement for statement in all_imports() if statement.inner]) > 60


def test_every_module_has_its_layer():
    packages = {package_of(path) for path in MODULES} - {"__init__", "__main__"}
    assert packages <= set(RANK), f"give {sorted(packages - set(RANK))} a place in LAYERS and in the architecture page"


def test_imports_point_to_lower_layers():
    wrong = [
        str(statement)
        for statement in all_imports()
        if statement.inner
        and statement.package in RANK
        and (target := statement.inner.split(".")[0]) != statement.package
        and RANK.get(target, len(LAYERS)) > RANK[statement.package]
    ]
    assert wrong == []


def test_packages_have_no_import_cycle():
    needs: dict[str, set[str]] = {}
    for statement in all_imports():
        if statement.inner and (target := statement.inner.split(".")[0]) != statement.package:
            needs.setdefault(statement.package, set()).add(target)
    while leaves := {package for package in set(needs) | set().union(*needs.values()) if not needs.get(package)}:
        needs = {package: others - leaves for package, others in needs.items() if package not in leaves}
        if not needs:
            break
    assert needs == {}


@pytest.mark.parametrize("package", ONLY)
def test_limited_packages_import_only_what_is_listed(package):
    wrong = [
        str(statement)
        for statement in all_imports()
        if statement.package == package
        and statement.inner
        and not any(f"{statement.inner}.".startswith(f"{allowed}.") for allowed in (package, *ONLY[package]))
    ]
    assert wrong == []


def test_only_the_top_layer_imports_the_public_names():
    """Below it, `import jointglasso` would hide an arrow from the tests above."""
    wrong = [
        str(statement)
        for statement in all_imports()
        if statement.is_public_name and statement.package not in LAYERS[-1]
    ]
    assert wrong == []


@pytest.mark.parametrize("library", OWNERS)
def test_a_third_party_package_is_imported_by_its_owner_only(library):
    wrong = [
        str(statement)
        for statement in all_imports(without_front=False)
        if statement.target.split(".")[0] == library and statement.package not in OWNERS[library]
    ]
    assert wrong == []


def test_the_top_module_imports_packages_only_for_type_checkers():
    front = tree_of(PACKAGE / "__init__.py")
    eager = [
        node
        for node in front.body
        if isinstance(node, ast.Import | ast.ImportFrom) and "jointglasso" in ast.unparse(node)
    ]
    assert [ast.unparse(node) for node in eager] == ["from jointglasso._version import __version__"]


# Style that a reader relies on


def test_modules_have_a_docstring_print_nothing_and_assert_nothing():
    wrong = []
    for path in MODULES:
        tree, name = tree_of(path), path.relative_to(PACKAGE)
        wrong += [f"{name} has no docstring"] * (not ast.get_docstring(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                wrong.append(f"{name}:{node.lineno} prints")
            if isinstance(node, ast.Assert):
                wrong.append(f"{name}:{node.lineno} asserts")
    assert wrong == []


def test_public_functions_and_classes_have_docstrings():
    public = [
        (path, node)
        for path in MODULES
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    assert len(public) > 500
    assert [f"{path.relative_to(PACKAGE)}: {node.name}" for path, node in public if not ast.get_docstring(node)] == []


def documented(docstring, section):
    """Names that a section of a docstring lists; those of attributes that exist after fitting only are left out."""
    _, found, text = docstring.partition(f"\n{section}\n{'-' * len(section)}\n")
    lines = re.split(r"\n\n[A-Z][a-z]+\n---", text)[0].splitlines() if found else []
    heads = [line.partition(" : ")[0] for line in lines if line and not line.startswith((" ", "{"))]
    names = [name.strip().lstrip("*") for head in heads for name in head.split(",")]
    return {name for name in names if name and not name.endswith("_")}


def test_docstrings_list_parameters_and_attributes_that_exist():
    """Names in the sections of docstrings are those of the code; the parameters of subclasses are not checked."""
    wrong = []
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            docstring = "\n" + (ast.get_docstring(node) or "")
            parameters, attributes = documented(docstring, "Parameters"), documented(docstring, "Attributes")
            if not parameters | attributes:
                continue
            is_class = isinstance(node, ast.ClassDef)
            inside = list(ast.walk(tree_of(path) if is_class and node.bases else node))
            members = {getattr(n, kind, None) for n in inside for kind in ("attr", "id", "name")}
            function = next((n for n in node.body if getattr(n, "name", "") == "__init__"), node)
            if isinstance(function, ast.FunctionDef):
                parameters -= {n.arg for n in ast.walk(function.args) if isinstance(n, ast.arg)}
            else:
                parameters = set() if node.bases else parameters - members
            unknown = sorted(parameters | attributes - members)
            wrong += [f"{path.relative_to(PACKAGE)}: {node.name} has no {name}" for name in unknown]
    assert wrong == []


def test_files_are_small():
    lines = {str(path.relative_to(PACKAGE)): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > 500} == {}
    assert statistics.median(lines.values()) < 200


def test_functions_are_short():
    lengths = {
        f"{path.relative_to(PACKAGE)}:{function.name}": length(function)
        for path in MODULES
        for function in functions_of(path)
    }
    long = {name: lines for name, lines in lengths.items() if lines >= 40}
    assert len(lengths) > 100
    assert len(long) <= len(lengths) / 10, long
    assert {name: lines for name, lines in long.items() if lines > 60} == {}


def n_parameters(function: ast.FunctionDef) -> int:
    """Number of positional parameters, `self` and `cls` excluded."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_functions_have_at_most_eight_positional_parameters():
    functions = [
        (n_parameters(function), f"{path.relative_to(PACKAGE)}:{function.lineno} {function.name}")
        for path in MODULES
        for function in functions_of(path)
    ]
    assert max(functions)[0] == 8  # they are counted
    assert [function for function in functions if function[0] > 8] == []


def test_compiled_kernels_are_cached_on_disk():
    """A peer compiles for 14-20 s in every new process; `jointglasso.kernels.jit.njit` keeps what it compiles."""
    decorators = [
        ast.unparse(decorator)
        for path in MODULES
        for function in functions_of(path)
        for decorator in function.decorator_list
        if "njit" in ast.unparse(decorator)
    ]
    kinds = {decorator.split("(")[0] for decorator in decorators}
    assert 10 < len(decorators) <= 213 and kinds <= {"njit", "njit_internal", "njit_no_refcount"}


def test_kernels_are_compiled_by_the_one_that_finds_a_folder():
    """`numba.njit` raises where no cache folder can be written; `jointglasso.kernels.jit.njit` goes on."""
    assert [str(statement) for statement in all_imports() if statement.target == "numba.njit"] == []


# Names

#: Words that were used for several things; `docs/glossary.md` has the term for each. Local variables are included.
BANNED = """
hands Hands make_hands hands_of Held held hold Own Room room make_room Visited visited leaf helper leak leaks Leaks
narrow narrowed unheard Tell tell elsewhere Sameness sameness blurred sharpened desperate bend bent crew Crew
next_look look_cost rough_gap ties Ties tied wants worth reach Reach lend_a_hand spelt Opened reopen settled waiting
WaitingPairs doubtful Zoom objection charge Kept Shown Panels PanelPenalty at_once NeedsMore AMPLE HOPE CLOSER AHEAD
NO_QUESTION TiedPenalty TieProofs stretch stretches Listed Draft Cuts cuts snap rescue take_over
"""

#: Words that say nothing about the quantity they name; a few are fine.
VAGUE = "at mine here there some given found whole most left kept same apart alone own look instead offer"

#: Methods of the standard library with such a name.
STANDARD = {".tell"}


def identifiers(path: Path) -> list[str]:
    """Names as the tokenizer gives them, an attribute that belongs to the standard library with its dot."""
    with tokenize.open(path) as file:
        tokens = [token for token in tokenize.generate_tokens(io.StringIO(file.read()).readline)]
    names = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == tokenize.NAME:
            dotted = f".{token.string}"
            names.append(dotted if before and before.string == "." and dotted in STANDARD else token.string)
    return names


def test_banned_words_are_not_used_as_names():
    others = [path for folder in OUTSIDE for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__)]
    used = {path: Counter(identifiers(path)) for path in [*MODULES, *others]}
    assert sum(used.values(), Counter())["penalty"] > 1000  # they are counted
    wrong = {
        f"{path.relative_to(ROOT)}: {name}": count
        for path, names in used.items()
        for name, count in names.items()
        if name in set(BANNED.split())
    }
    assert wrong == {}


def test_no_private_attribute_is_read_by_name():
    calls = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant) and re.match(r"_(?!_)", str(node.args[1].value))
    ]  # fmt: skip
    assert calls == []


def test_names_say_what_they_hold():
    words = set(VAGUE.split())
    assert sum(name in words for path in MODULES for name in identifiers(path)) <= 150


#: Ways of speaking in docstrings and comments that are not terms of the field.
PHRASES = re.compile(
    r"\b(nobody|somebody|whoever|who (?:sweeps|looks|asks|wants|does)|is no |are no |has a say|at hand|lets? go|"
    r"looks? at|looked at|is told|are told|hears?|heard|say so|comes? in by|as it is called)\b",
    re.IGNORECASE,
)


def prose(path: Path) -> list[str]:
    """Docstrings and comments of a module."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    with tokenize.open(path) as file:
        comments = [t.string for t in tokenize.generate_tokens(file.readline) if t.type == tokenize.COMMENT]
    return [ast.get_docstring(node) or "" for node in ast.walk(tree_of(path)) if isinstance(node, kinds)] + comments


def test_prose_uses_terms():
    texts = {path: "\n".join(prose(path)) for path in MODULES}
    assert sum(len(re.findall(r"\bpenalty\b", text)) for text in texts.values()) > 100  # they are read
    wrong = [
        f"{path.relative_to(PACKAGE)}: {phrase}" for path, text in texts.items() for phrase in PHRASES.findall(text)
    ]
    assert len(wrong) <= 20, wrong


def test_class_names_are_unique():
    names = Counter(node.name for path in MODULES for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef))
    assert len(names) > 200
    assert [name for name, count in names.items() if count > 1] == []


def test_few_modules_share_a_name():
    names = Counter(path.name for path in MODULES if path.name != "__init__.py")
    assert len([name for name, count in names.items() if count > 1]) <= 10


# Importing


def test_importing_loads_no_heavy_package():
    loaded = run_python("import sys, jointglasso; print(*sys.modules)").split()
    assert "jointglasso" in loaded
    assert {"numba", "sklearn", "scipy.optimize", "pandas", "matplotlib", "joblib"} & set(loaded) == set()


def test_solving_loads_no_package_that_it_does_not_use():
    code = "import sys, jointglasso as jgl; jgl.solve([[[1.0, 0.5], [0.5, 1.0]]], 0.1, 0.1); print(*sys.modules)"
    run_python(code)  # the first run may have to compile
    loaded = run_python(code).split()
    assert "numba" in loaded and {"sklearn", "scipy.stats", "pandas", "matplotlib"} & set(loaded) == set()


def test_importing_takes_less_than_half_a_second():
    code = "import time; t = time.process_time(); import jointglasso; print(time.process_time() - t)"
    assert min(float(run_python(code)) for _ in range(3)) < 0.5


def test_a_new_process_does_not_wait_for_a_compiler():
    """Import of numba and a solve included; the first run may have to fill the cache."""
    code = (
        "import time; t = time.process_time(); import numpy as np, jointglasso as jgl\n"
        "S = np.cov(np.random.default_rng(0).normal(size=(30, 20)).T)\n"
        "jgl.solve([S, S], 0.2, 0.1, screening='hybrid', solver='admm'); print(time.process_time() - t)"
    )
    run_python(code)
    assert min(float(run_python(code)) for _ in range(2)) < 8.0


def test_public_names_resolve_and_are_documented():
    names = dir(jointglasso)
    assert {"solve", "screen", "SampleCovariance", "Partition", "ADMM", "datasets", "__version__"} <= set(names)
    assert set(jointglasso.__all__) == set(names)
    for name in names:
        value = getattr(jointglasso, name)
        assert name == "__version__" or value.__doc__, name


def test_public_names_resolve_in_a_fresh_process():
    code = (
        "from jointglasso import *\nprint(callable(solve), callable(screen))\n"
        "import jointglasso as j\nprint(all(hasattr(j, name) for name in dir(j)))"
    )
    assert run_python(code).split() == ["True"] * 3


def test_unknown_attribute_raises_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        jointglasso.no_such_name  # noqa: B018


def test_names_of_type_checkers_are_the_lazy_names():
    front = tree_of(PACKAGE / "__init__.py")
    guarded = {
        alias.name
        for node in front.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert guarded == set(jointglasso.__all__) - {"__version__"}


def test_every_module_can_be_imported():
    for path in MODULES:
        if path.name == "__main__.py":
            continue
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        importlib.import_module(".".join(["jointglasso", *(part for part in parts if part != "__init__")]))


def test_what_benchmarks_and_examples_import_exists():
    """Nothing runs all of them, and type checkers do not read them."""
    root, missing = Path(__file__).parents[2], []
    scripts = [path for folder in ("benchmarks", "examples", "reproduction") for path in (root / folder).rglob("*.py")]
    assert len(scripts) > 20
    for path in scripts:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jointglasso":
                try:
                    module = importlib.import_module(node.module)
                except ModuleNotFoundError:
                    missing.append(f"{path.name}: {node.module}")
                    continue
                missing += [
                    f"{path.name}: {node.module}.{alias.name}" for alias in node.names if not _has(module, alias.name)
                ]
    assert not missing


def _has(module, name):
    return hasattr(module, name) or importlib.util.find_spec(f"{module.__name__}.{name}") is not None


# Packaging


def test_every_mutant_can_be_applied():
    """A mutant whose text is gone from the source would test nothing."""
    mutants = pytest.importorskip("mutants", reason="The benchmarks are not part of an installed package.")
    stale = [m.name for m in mutants.MUTANTS if (PACKAGE / m.file).read_text("utf-8").count(m.old) != 1]
    assert stale == [] and len(mutants.MUTANTS) > 100


def test_type_checkers_of_users_see_the_types(tmp_path):
    """The package among those of another environment, where a checker reads only what is marked as typed."""
    venv.create(tmp_path / "their", with_pip=False)
    python = tmp_path / "their" / "bin" / "python"
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    place = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    (Path(place) / "jointglasso").symlink_to(PACKAGE)
    script = tmp_path / "script.py"
    script.write_text(
        "import jointglasso as jgl\n"
        "solution = jgl.solve([[[1.0]]], 0.1, lambda2='0.1')\n"
        "reveal_type(solution.certificate.gap)\n"
        "jgl.JointNetworks.from_solution(solution).edgse()\n"
    )
    command = [sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "--python-executable", python, script]
    said = subprocess.run([*command, "--ignore-missing-imports"], capture_output=True, text=True, cwd=tmp_path).stdout
    assert 'Argument "lambda2" to "solve" has incompatible type "str"' in said
    assert 'Revealed type is "float"' in said or 'Revealed type is "builtins.float"' in said
    assert '"JointNetworks" has no attribute "edgse"; maybe "edges"?' in said
    assert "Found 2 errors in 1 file" in said


def test_no_penalty_is_spelled_out_beyond_its_own_module():
    """Solvers, blocks and certificate do not know lambda1 from lambda2; the engine hands them on and reads neither."""
    silent = [path for path in MODULES if package_of(path) in ("blocks", "solvers", "duality")]
    assert len(silent) > 10
    assert [str(path) for path in silent if re.search(r"lambda[12]", path.read_text("utf-8"))] == []
    engine = [path for path in MODULES if package_of(path) == "engine"]
    assert [str(path) for path in engine if re.search(r"\.lambda[12]", path.read_text("utf-8"))] == []


def test_call_chain_of_a_default_solve_does_not_grow():
    """Python frames from `solve` to the first compiled function, and to the sweeps over small groups."""
    path = PACKAGE.parents[1] / "benchmarks" / "call_chain.py"
    if not path.is_file():
        pytest.skip("The benchmarks are not part of an installed package.")
    spec = importlib.util.spec_from_file_location("call_chain", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    S = module.example()
    jointglasso.solve(S, 0.2, 0.05)  # kernels that are replaced for the measurement cannot be compiled into others
    found = module.chains(lambda: jointglasso.solve(S, 0.2, 0.05))
    assert len(next(iter(found.values()))) <= 8, found
    assert len(found["small_columns.ascend_small_groups"]) <= 15, found
