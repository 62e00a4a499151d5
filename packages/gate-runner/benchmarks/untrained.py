"""Make the shipped table of an untrained encoder's scores, or see whether it still holds.

Runs packs with micro-clip's architecture and random weights, and writes what `gate_runner.runs.results` reads. To be
run again whenever heads, stand-ins or the form of results change; `--check` writes nothing and fails on a difference.

    python packages/gate-runner/benchmarks/untrained.py [small real …] [--check]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import gate_runner
from gate_runner.runs.results import ENCODER, as_table

TABLE = Path(gate_runner.__file__).parent / "runs" / "untrained.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["small", "real"], help="packs and benchmarks")
    parser.add_argument("--check", action="store_true", help="compare with the table instead of writing it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = gate_runner.run(options.names, encoder=ENCODER, output=folder)
    if done.failed:
        raise SystemExit(f"{len(done.failed)} failed: no table is worth writing")
    content = as_table(done)
    before = json.loads(TABLE.read_text()) if TABLE.exists() else {"rows": []}
    old = {row["name"]: row for row in before["rows"]}
    for row in content["rows"]:
        value = old.get(row["name"], {}).get("value")
        print(
            f"{row['name']:<18}{row['metric']:<10}{row['value']:.4f}  {'new' if value is None else f'was {value:.4f}'}"
        )
    if options.check:
        if any(old.get(row["name"]) != row for row in content["rows"]):
            raise SystemExit("the table does not hold any more: make it again")
        return
    rows = {row["name"] for row in content["rows"]}
    others = [row for row in before["rows"] if row["name"] not in rows and before.get("schema") == content["schema"]]
    content["rows"] = sorted([*others, *content["rows"]], key=lambda row: str(row["name"]))
    TABLE.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
