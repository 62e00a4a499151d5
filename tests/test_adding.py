"""The page on adding an EqSim backend, followed to the letter in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_on_eqsim_backends_can_be_followed(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "adding" / "eqsim-backend.md").read_text(encoding="utf-8")
    shutil.copytree(ROOT / "packages" / "eqsim" / "src", tmp_path / "packages" / "eqsim" / "src")
    files = re.findall(r'```python title="([^"]+)"\n(.*?)```', page, flags=re.DOTALL)
    for path, text in files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (change,) = re.findall(r"```diff\n(.*?)```", page, flags=re.DOTALL)
    choice = tmp_path / "packages/eqsim/src/eqsim/backends/__init__.py"
    source = choice.read_text()
    for hunk in change.split("\n\n"):
        lines = hunk.strip("\n").split("\n")
        before = "\n".join(line[1:] for line in lines if line[0] in " -")
        after = "\n".join(line[1:] for line in lines if line[0] in " +")
        assert source.count(before) == 1, f"{choice.name} does not hold\n{before}"
        source = source.replace(before, after)
    choice.write_text(source)
    test = next(path for path, _ in files if "/tests/" in path)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), test],
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": str(tmp_path / "packages" / "eqsim" / "src")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "27 passed" in done.stdout, done.stdout[-3000:] + done.stderr[-2000:]
