"""A ``matplotlibrc`` in the working folder starts no LaTeX in the commands that draw."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EEVEE = """
from eevee.reports.charts import draw_bars, render
assert render(draw_bars({"a": 1.0, "b": 2.0}, "x"), "png").startswith(b"\\x89PNG")
"""
PROMPTS = """
from pathlib import Path
import numpy as np
from knowledge_prompts.cli import diversity
diversity(["cifar-10", "mnist"], lambda texts: np.random.default_rng(len(texts)).random((len(texts), 8)), Path("x.png"))
assert Path("x.png").stat().st_size
"""


@pytest.mark.parametrize("code", [EEVEE, PROMPTS], ids=["eevee", "prompts"])
def test_no_latex_is_started(code: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("latex", "pdflatex", "dvipng", "xelatex"):
        (programs / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/RAN'\nexit 1\n")
        (programs / name).chmod(0o755)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "matplotlibrc").write_text("text.usetex: True\ntext.latex.preamble: \\input{/etc/passwd}\n")
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "RAN").exists()
