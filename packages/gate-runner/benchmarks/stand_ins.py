"""Whether each of GATE's 31 stand-ins tells the shipped encoder from the same one with random weights, and from chance.

Runs `full` with micro-clip and with `micro-clip/random`, one stand-in after the other, into a folder that a second call
goes on with; prints both scores with their intervals, and writes them as JSON. `--table` puts the untrained scores into
the table that gate-runner ships.

    python packages/gate-runner/benchmarks/stand_ins.py [NAME …] [--folder runs/stand-ins] [--table]
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gate_runner
from gate_runner.benchmarks import PACKS
from gate_runner.runs.results import ENCODER, Result, as_table

TABLE = Path(gate_runner.__file__).parent / "runs" / "untrained.json"
SLOW = ("ade20k", "cityscapes", "coco-10k", "coco-164k", "nyu", "pascal", "acdc", "clevr", "clevr-math", "iwildcam")
"""What takes over half a minute; the others come first."""


def scored(name: str, encoder: str, folder: Path) -> Result:
    """One stand-in's result, computed where the folder lacks it."""
    output = folder / encoder.replace("/", "-") / name.replace("/", "-")
    (result,) = gate_runner.run([name], encoder=encoder, output=output, isolate="none", show=False)
    if not result.scores:
        raise SystemExit(f"{name} with {encoder} failed: {result.note}")
    return result


def row_of(shipped: Result, untrained: Result) -> dict[str, Any]:
    """Both scores, whether their intervals are apart the right way, and whether the shipped one's is above chance."""
    score, bare = shipped.scores[0], untrained.scores[0]
    sign = 1 if score.direction == "higher" else -1
    low, high = (score.low, bare.high) if sign == 1 else (-score.high, -bare.low)
    return {
        "benchmark": f"micro/{shipped.name.removeprefix('micro/')}",
        "metric": score.metric,
        "chance": score.chance,
        "shipped": [score.value, score.low, score.high],
        "untrained": [bare.value, bare.low, bare.high],
        "apart": low > high,
        "above_chance": score.chance is None or low > sign * score.chance,
    }


def main() -> None:
    """Print the rows, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="stand-ins; those of the pack full by default")
    parser.add_argument("--folder", type=Path, default=Path("runs/stand-ins"))
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "stand_ins.json")
    parser.add_argument("--table", action="store_true", help="renew the shipped table's rows")
    options = parser.parse_args()
    names = options.names or [f"micro/{name}" for name in sorted(PACKS["full"], key=lambda name: (name in SLOW, name))]
    stored = json.loads(options.output.read_text())["rows"] if options.output.is_file() else []
    rows = {row["benchmark"]: row for row in stored}
    bare = []
    for name in names:
        shipped, untrained = (scored(name, encoder, options.folder) for encoder in ("micro-clip", ENCODER))
        bare.append(untrained)
        row = row_of(shipped, untrained)
        rows[row["benchmark"]] = row
        shown = ("{:.3f} [{:.3f}, {:.3f}]".format(*row[side]) for side in ("shipped", "untrained"))
        verdict = "apart" if row["apart"] else "NOT APART"
        print(f"{row['benchmark']:<20}{row['metric']:<16}{'   '.join(shown)}   {verdict}", flush=True)
        about = {"encoder": "micro-clip", "untrained": ENCODER, "version": version("gate-runner")}
        options.output.write_text(json.dumps({**about, "rows": [rows[key] for key in sorted(rows)]}, indent=1) + "\n")
    if options.table:
        table = as_table(bare)
        before = json.loads(TABLE.read_text())
        renewed = {row["name"] for row in table["rows"]}
        table["rows"] += [row for row in before["rows"] if row["name"] not in renewed]
        table["rows"].sort(key=lambda row: str(row["name"]))
        TABLE.write_text(json.dumps(table, indent=1) + "\n")
    print(f"{sum(row['apart'] and row['above_chance'] for row in rows.values())} of {len(rows)} apart and above chance")


if __name__ == "__main__":
    main()
