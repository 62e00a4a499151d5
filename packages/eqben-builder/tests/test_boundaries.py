from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
SIBLINGS = ("eqsim", "knowledge_prompts", "vision_adapters", "oven_retrieval", "eevee", "gate_runner")


def imported_by(statement):
    code = f"{statement}; import sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_it_imports_neither_torch_nor_a_sibling():
    names = set(imported_by("from eqben_builder import *; from eqben_builder.micro import *"))
    assert "eqben_builder" in names
    assert not names & {"torch", "matplotlib", *SIBLINGS}


def test_the_boundary_test_sees_an_import():
    assert "json" in imported_by("import json")


def test_engines_stand_below_kubric():
    sources = Path(__file__).parents[1] / "src" / "eqben_builder" / "engines"
    if not sources.is_dir():
        pytest.skip("the sources are not beside the tests of an installed package")
    imported = re.compile(r"^\s*(from|import) eqben_builder\.kubric", flags=re.MULTILINE)
    assert imported.search("import os\n    from eqben_builder.kubric import Thing")
    assert [path.name for path in sources.glob("*.py") if imported.search(path.read_text("utf-8"))] == []


def test_the_readmes_code_runs(tmp_path, monkeypatch):
    if not README.exists():
        pytest.skip("the README is not part of an installed package")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    namespace = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), namespace)


SCORED = """
import json, sys, tempfile
from pathlib import Path

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Refusing())
import numpy as np
from PIL import Image
from eqben_builder.scoring import *
from eqben_builder.suites import *

class Lengths:
    def encode_image(self, images):
        return [[1.0, image.mean() / 255] for image in images]
    def encode_text(self, captions):
        return [[1.0, len(text) / 9] for text in captions]

root = Path(tempfile.mkdtemp())
for name in ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"):
    row = {"filename": "1.jpg", "caption": "a cup", "negative_caption": "a large hat"}
    (root / f"{name}.json").write_text(json.dumps({"0": row}))
Image.new("RGB", (2, 2)).save(root / "1.jpg")
data = read_suite(SUITES["sugarcrepe"], root)
table = suite_table(data, similarities(data.rows, encode_rows(data.rows, Lengths())))
images, right = tuple(row.images[0] for row in data.rows) * 2, {"original": ({0: [0]}, {0: [0]})}
gallery = Gallery("own", images, ("a cup",) * 14, right)
searched = gallery_table(gallery, *encode_gallery(gallery, Lengths()))
pairs = score_table(np.random.default_rng(0).standard_normal((20, 2, 2)))
print(table.overall.score.value, len(searched), len(pairs.rows), *sys.modules)
"""


def test_suites_are_read_and_scored_without_a_builders_dependency():
    """In a process that has none of the extras, neither locks nor templates, and where no engine is imported."""
    extras = ("mitsuba", "drjit", "oidn", "av", "cv2", "pyarrow", "torch", "diffusers", "transformers", "typer")
    arguments = [sys.executable, "-c", SCORED, *extras, "jinja2", "filelock"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    score, lines, rows, *loaded = done.stdout.split()
    assert (float(score), int(lines), int(rows)) == (1.0, 10, 3)
    ours = {name.split(".")[1] for name in loaded if name.startswith("eqben_builder.")}
    assert not ours & {"building", "engines", "kubric", "diffusion", "video", "pages", "commands"}


WAYS = {
    "build": """
import tempfile
from eqben_builder.building import build
from eqben_builder.kubric import KubricBuilder
with tempfile.TemporaryDirectory() as folder:
    build(KubricBuilder(engine="raster", size=64, aspects=["attribute"]), folder, pairs=1)
""",
    "score": """
from eqben_builder import dual_similarities, score_table
from eqben_builder.formats import PairRow, Picture, encode_png
import numpy as np
class Brightness:
    def encode_image(self, images):
        return [[image.mean() / 255, 1 - image.mean() / 255] for image in images]
    def encode_text(self, captions):
        return [[float("white" in text), float("black" in text)] for text in captions]
white, black = (Picture(content=encode_png(np.full((2, 2, 3), level, np.uint8))) for level in (255, 0))
score_table(dual_similarities([PairRow("a", "own", "", white, black, "white", "black")], Brightness()))
""",
    "suites": """
from eqben_builder.suites import SUITES, encode_rows, read_suite, similarities, suite_table
""",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_way_in_passes_few_files(way):
    code = f"{WAYS[way]}import sys\nprint(*(name for name in sys.modules if name.startswith('eqben_builder')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < len(done.stdout.split()) <= 25, done.stdout


def test_no_public_name_is_also_a_modules():
    """A submodule that was imported first would stand where the name is looked for."""
    import importlib
    import pkgutil

    import eqben_builder

    packages = [module.name for module in pkgutil.iter_modules(eqben_builder.__path__) if module.ispkg]
    for name in ("eqben_builder", *(f"eqben_builder.{package}" for package in packages)):
        package = importlib.import_module(name)
        modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
        assert not modules & set(getattr(package, "__all__", ())), name
