"""What a folder of floor-scene pairs costs and holds: CPU seconds and bytes for each pair, certificates, colour pairs.

    python packages/eqben-builder/benchmarks/kubric_pairs.py FOLDER [--engine mitsuba|raster] [--pairs 20] [--workers 1]
        [--output FILE]

Builds `--pairs` pairs of each aspect into FOLDER (an unfinished build is continued, and only what is made now is
timed), verifies the folder, and prints no figure when a certificate does not hold. CPU seconds are those of this
process and its workers; `hours_for_6000` divides them by two cores.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np
from reporting import report

from eqben_builder.building import build, read_records, verify
from eqben_builder.kubric import KubricBuilder


def cpu_seconds() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", default="mitsuba", choices=("mitsuba", "raster"))
    parser.add_argument("--pairs", type=int, default=20, help="of each aspect")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    finished: list[int] = []
    begun, start = cpu_seconds(), time.perf_counter()
    manifest = build(
        KubricBuilder(engine=options.engine),
        options.folder,
        pairs=options.pairs,
        workers=options.workers,
        progress=lambda phase, done, total: finished.append(done),
    )
    cpu, wall = cpu_seconds() - begun, time.perf_counter() - start
    start = time.perf_counter()
    verification = verify(options.folder)
    if verification.failures or verification.certified != manifest["pairs"]:
        for failure in verification.failures[:20]:
            print(failure, file=sys.stderr)
        sys.exit(
            f"FAILED: {len(verification.failures)} failures, {verification.certified} of {manifest['pairs']} certified"
        )
    result = {
        "engine": options.engine,
        "pairs": manifest["pairs"],
        "counts": manifest["counts"],
        "dropped": manifest["dropped"],
        "certified_again": verification.certified,
        "verify_seconds": round(time.perf_counter() - start, 1),
        "megabytes": round(manifest["bytes"] / 1e6, 2),
        "megabytes_for_6000": round(manifest["bytes"] / manifest["pairs"] * 6000 / 1e6, 1),
        "workers": options.workers,
        "versions": manifest["versions"],
        "hash": manifest["hash"],
    }
    if finished:
        pairs = finished[-1] - finished[0] + 1
        result |= {
            "made_now": pairs,
            "wall_seconds": round(wall, 1),
            "cpu_seconds_per_pair": round(cpu / pairs, 4),
            "hours_for_6000_on_2_cores": round(cpu / pairs * 6000 / 2 / 3600, 3),
        }
    colours = [r for r in read_records(options.folder) if r.certificate["difference"]["field"] == "colour"]
    if colours:
        outside = [record.certificate["pixels"]["moved_outside"] for record in colours]
        result |= {
            "colour_pairs": len(colours),
            "moved_outside_mask": {"mean": round(float(np.mean(outside)), 5), "most": round(float(np.max(outside)), 5)},
        }
        untouched = [record.source["render"].get("untouched_before_denoising") for record in colours]
        if None not in untouched:
            shares = [round(float(value), 4) for value in (np.mean(untouched), np.min(untouched))]
            result["untouched_before_denoising"] = {"mean": shares[0], "least": shares[1]}
    report(result, options.output)


if __name__ == "__main__":
    main()
