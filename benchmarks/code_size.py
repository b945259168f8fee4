"""Size of the code: lines, modules, compiled functions, the largest functions, the widest signatures.

    python benchmarks/code_size.py [TREE ...]

Each TREE is a checkout (default: this one); several are set side by side, so that a redesign can be judged.
"""

from __future__ import annotations

import argparse
import ast
from dataclasses import dataclass, field
from pathlib import Path

LARGE, WIDE = 60, 8


@dataclass
class CodeSize:
    lines: int = 0
    modules: int = 0
    test_lines: int = 0
    compiled: int = 0
    functions: int = 0
    large: list[tuple[int, str]] = field(default_factory=list)
    wide: list[tuple[int, str]] = field(default_factory=list)

    def figures(self) -> dict[str, str]:
        return {
            "lines of src": f"{self.lines:,}",
            "modules": str(self.modules),
            "functions": f"{self.functions:,}",
            "compiled functions": str(self.compiled),
            f"functions above {LARGE} lines": str(len(self.large)),
            f"functions with more than {WIDE} parameters": str(len(self.wide)),
            "lines of tests / of src": f"{self.test_lines / max(1, self.lines):.2f}",
        }


def is_compiled(function: ast.FunctionDef) -> bool:
    """Whether numba compiles it: a decorator whose name speaks of njit, of a helper of kernels, or of overload."""
    words = "njit", "helper", "overload", "vectorize"
    return any(word in ast.unparse(decorator) for decorator in function.decorator_list for word in words)


def is_public_face(function: ast.FunctionDef) -> bool:
    """Click commands and constructors of estimators have as many parameters as there are options."""
    return function.name == "__init__" or any("click" in ast.unparse(d) for d in function.decorator_list)


def n_positional(function: ast.FunctionDef) -> int:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def measure(tree: Path) -> CodeSize:
    size = CodeSize(test_lines=sum(len(p.read_text().splitlines()) for p in (tree / "tests").rglob("*.py")))
    for path in sorted((tree / "src").rglob("*.py")):
        text = path.read_text()
        size.modules += 1
        size.lines += len(text.splitlines())
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef):
                continue
            size.functions += 1
            size.compiled += is_compiled(node)
            docstring = ast.get_docstring(node, clean=False) or ""
            length = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring.count("\n")
            where = f"{path.relative_to(tree / 'src')}:{node.lineno} {node.name}"
            if length > LARGE:
                size.large.append((length, where))
            if n_positional(node) > WIDE and not is_public_face(node):
                size.wide.append((n_positional(node), where))
    size.large.sort(reverse=True)
    size.wide.sort(reverse=True)
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path, default=[Path(__file__).resolve().parents[1]])
    trees = parser.parse_args().trees
    sizes = [measure(tree) for tree in trees]
    print("| | " + " | ".join(tree.resolve().name for tree in trees) + " |")
    print("|---|" + "---|" * len(trees))
    for name in sizes[0].figures():
        print(f"| {name} | " + " | ".join(size.figures()[name] for size in sizes) + " |")
    for title, rows in (("largest functions", sizes[-1].large), ("widest signatures", sizes[-1].wide)):
        print(f"\n{title} of the last:")
        for size, where in rows[:12]:
            print(f"  {size:4d}  {where}")


if __name__ == "__main__":
    main()
