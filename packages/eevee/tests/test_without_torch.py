"""Everything but the paper's network works where torch is not installed."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Absent())
import eevee
table = eevee.load_table("gate")
"""


def run(code: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT + code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def test_select_and_every_public_name_need_no_torch() -> None:
    code = (
        "for name in eevee.__all__: getattr(eevee, name)\n"
        "print(len(eevee.select(table, 2, method='greedy', nested=False).benchmarks), 'torch' in sys.modules)"
    )
    assert run(code).split() == ["2", "False"]


def test_the_papers_network_names_its_extra() -> None:
    code = (
        "try: eevee.MlpScorer().score(eevee.standardise(table), [(0, 1)])\n"
        "except eevee.EeveeError as error: print(error)"
    )
    assert run(code).strip() == "torch is not installed; install it with: pip install 'eevee-search[mlp]'"
