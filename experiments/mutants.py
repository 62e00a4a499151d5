"""Break one place of a module at a time and see whether its tests fail.

    python experiments/mutants.py packages/eqsim/src/eqsim/loss.py --tests packages/eqsim/tests/test_loss.py

Prints a line for each mutant that the tests let pass, and the share that they killed. Each mutant is a forked process
in which the module's code is compiled with the change; no file is written. A mutant that runs for longer than the limit
counts as killed, as it would hang a suite.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.USub: ast.UAdd, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Mult,
}  # fmt: skip
"""An operator, and what stands in its place in a mutant."""


def changed(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Other nodes for one node, with what changed."""
    for name in ("op", "ops"):
        have = getattr(node, name, None)
        for number, operator in enumerate(have if isinstance(have, list) else [have]):
            if type(operator) in OTHER:
                new = copy.deepcopy(node)
                other = OTHER[type(operator)]()
                if isinstance(have, list):
                    getattr(new, name)[number] = other
                else:
                    setattr(new, name, other)
                yield f"{type(operator).__name__} -> {type(other).__name__}", new
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        values = [not node.value] if isinstance(node.value, bool) else [node.value + 1, node.value - 1]
        for value in values:
            yield f"{node.value} -> {value}", ast.Constant(value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not dropped", node.operand
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        new = copy.deepcopy(node)
        new.test = ast.UnaryOp(ast.Not(), new.test)
        yield "condition turned", new
    if isinstance(node, ast.Return) and node.value is not None:
        yield "nothing returned", ast.Return(ast.Constant(None))
    if isinstance(node, ast.AugAssign | ast.Raise) or (
        isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom)
    ):
        yield f"{type(node).__name__} dropped", ast.Pass()


def _of_types(node: ast.AST) -> set[int]:
    """Nodes that are annotations or types: nothing runs them."""
    roots = [getattr(child, name, None) for child in ast.walk(node) for name in ("annotation", "returns")]
    return {id(inner) for root in roots if root is not None for inner in ast.walk(root)}


def mutants(source: str, only: int | None = None) -> list[tuple[int, str, ast.Module | None]]:
    """Line, change and tree of each; trees take long to copy, and are there for one of them."""
    tree = ast.parse(source)
    nothing_runs = _of_types(tree)
    every: list[tuple[int, str, ast.Module | None]] = []
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            for place, node in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(node, ast.AST) or id(node) in nothing_runs or not hasattr(node, "lineno"):
                    continue
                for what, new in changed(node):
                    if len(every) == only:
                        if isinstance(value, list):
                            value[place] = new
                        else:
                            setattr(parent, name, new)
                        return [(node.lineno, what, ast.fix_missing_locations(tree))]
                    every.append((node.lineno, what, None))
    return every


def passes(path: Path, tree: ast.Module | None, tests: list[str], limit: int) -> bool:
    """Whether all tests pass with a tree in the place of a file's."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        signal.alarm(limit)
        original = SourceFileLoader.get_code

        def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
            if tree is not None and Path(loader.path).resolve() == path:
                return compile(tree, loader.path, "exec")
            return original(loader, name)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
        code = 1
        try:
            code = pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests])
        finally:
            os._exit(int(code))
    return os.waitpid(child, 0)[1] == 0


def main() -> int:
    """Break and test."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="modules that are broken")
    parser.add_argument("--tests", nargs="+", required=True, help="what pytest runs, the quickest first")
    parser.add_argument("--sample", type=int, help="this many mutants, drawn at random; all by default")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--limit", type=int, default=900, help="seconds of a mutant")
    parser.add_argument("--import", dest="imported", nargs="*", default=(), help="loaded once, e.g. numpy, torch")
    options = parser.parse_args()
    for name in options.imported:
        importlib.import_module(name)
    texts = {path.resolve(): path.read_text(encoding="utf-8") for path in options.files}
    every = [(path, number) for path, text in texts.items() for number in range(len(mutants(text)))]
    drawn = every if options.sample is None else random.Random(options.seed).sample(every, options.sample)
    if not passes(Path(), None, options.tests, options.limit):
        print("the tests do not pass on the code as it is: run them alone, or --import less")
        return 2
    killed, start = 0, time.monotonic()
    for number, (path, place) in enumerate(drawn, start=1):
        ((line, what, tree),) = mutants(texts[path], place)
        if passes(path, tree, options.tests, options.limit):
            print(f"lives: {path.name}:{line}: {what}", flush=True)
        else:
            killed += 1
        if number % 10 == 0:
            print(f"{killed} of {number} killed, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    print(f"{killed} of {len(drawn)} killed ({killed / len(drawn):.0%}), drawn from {len(every)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
