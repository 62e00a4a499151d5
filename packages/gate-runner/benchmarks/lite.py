"""What ImageNet's weights give: `lite:0` beside its untrained self on the pack `real`, lite:0, 1 and 2 on pictures.

Prints a row per set with both intervals, and whether they are disjoint; then the paired differences of the three
encoders on a folder of labelled photographs (CIFAR-10, or any that `gate-runner new` takes). Writes JSON with versions.

    python packages/gate-runner/benchmarks/lite.py [--photographs cifar10-jpg/] [--runs FOLDER] [--output lite.json]

With a folder for the runs, the same command continues.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gate_runner
from gate_data.own import guess, write_benchmark
from gate_runner.errors import DataError

REAL = ("faces", "digits", "mnist5000")


def scored(names: list[str], encoder: str, folder: Path) -> dict[str, Any]:
    """The headline of each benchmark."""
    output = folder / encoder.replace(":", "-").replace("/", "-")
    done = gate_runner.run(names, encoder=encoder, output=output, batch_size=16)
    return {result.name: result.scores[0] for result in done if result.scores}


def photographs(folder: Path, output: Path) -> str:
    """A benchmark's file of a folder of labelled photographs, whose folder stays as it is."""
    values = guess(folder).values
    values["data"]["root"] = str(folder.resolve())
    with contextlib.suppress(DataError):  # it is there already
        write_benchmark(values, output / "photographs.toml")
    return str(output / "photographs.toml")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photographs", type=Path, help="a folder of labelled pictures")
    parser.add_argument("--sets", nargs="+", default=REAL, help="of the pack real")
    parser.add_argument("--runs", type=Path, help="a folder to keep the runs in")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "lite.json")
    options = parser.parse_args()
    report: dict[str, Any] = {"real": [], "photographs": []}
    with tempfile.TemporaryDirectory() as name:
        output = options.runs or Path(name)
        output.mkdir(parents=True, exist_ok=True)
        own = [] if options.photographs is None else [photographs(options.photographs, output)]
        for spec in ("lite:0", "lite:1", "lite:2") if own else ():
            scored(own, spec, output)
        for benchmark in [*own, *options.sets]:
            trained, untrained = (
                next(iter(scored([benchmark], spec, output).values())) for spec in ("lite:0", "lite:0/random")
            )
            disjoint = trained.low > untrained.high or trained.high < untrained.low
            shown = Path(benchmark).stem
            report["real"].append(
                {"benchmark": shown, "trained": vars(trained), "untrained": vars(untrained), "disjoint": disjoint}
            )
            print(
                f"{shown:<14}{trained.metric:<10} {trained.value:.3f} ({trained.low:.3f}, {trained.high:.3f})  "
                f"untrained {untrained.value:.3f} ({untrained.low:.3f}, {untrained.high:.3f})  "
                f"{'disjoint' if disjoint else 'not disjoint'}",
                flush=True,
            )
        if own:
            compared = gate_runner.compare(*(output / f"lite-{number}" for number in (0, 1, 2)))
            for contrast in compared.contrasts:
                report["photographs"].append(asdict(contrast))
            print(*compared.sentences, sep="\n")
    report["hardware"] = {"machine": platform.machine(), "cores": os.cpu_count()}
    report["versions"] = {contrast: version(contrast) for contrast in ("gate-runner", "torch", "timm", "numpy")}
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
