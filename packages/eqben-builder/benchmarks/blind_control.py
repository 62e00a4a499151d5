"""The blind control on pairs that are built here: a model that reads captions only must stay at chance."""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path

import numpy as np

from eqben_builder.building import Made
from eqben_builder.building.builder import builder_of
from eqben_builder.scoring import blind_scores

PAIRS, LIMIT = 6000, 0.02
BUILDERS = {"micro": {"size": 32}, "kubric": {"engine": "raster", "size": 64}}


def main() -> None:
    leaking = [(f"a {colour} ball", f"no {colour} ball") for colour in ("red", "blue", "green", "pink") * 50]
    if blind_scores(leaking).leak < 0.49:
        sys.exit("the control does not see captions that give the answer away: nothing is reported")
    results = {}
    for subset, options in BUILDERS.items():
        builder = builder_of(subset)(**options)
        captions: list[tuple[str, str]] = []
        aspects: list[str] = []
        start, index = time.process_time(), 0
        while len(captions) < PAIRS:
            result = builder.make(index)
            index += 1
            if isinstance(result, Made):
                captions.append(result.captions)
                aspects.append(result.aspect)
        built = time.process_time() - start
        scores = {"all": blind_scores(captions)}
        for aspect in sorted(set(aspects)):
            pairs = [pair for pair, value in zip(captions, aspects, strict=True) if value == aspect]
            scores[aspect] = blind_scores(pairs)
        for name, value in scores.items():
            assert value.learnt is not None
            print(
                f"{subset} {name}: {len(value.outcomes)} pairs, caption 0 likelier {value.likelier.value:.3f} "
                f"({value.likelier.low:.3f}, {value.likelier.high:.3f}), told apart {value.learnt.value:.3f} "
                f"({value.learnt.low:.3f}, {value.learnt.high:.3f}), leak {value.leak:.3f}"
            )
        results[subset] = {
            name: {"pairs": len(value.outcomes), "likelier": value.likelier, "learnt": value.learnt, "leak": value.leak}
            for name, value in scores.items()
        } | {"seconds_to_build": round(built, 1)}
    worst = max(results[subset]["all"]["leak"] for subset in results)
    print(f"worst leak over all aspects {worst:.3f} (target {LIMIT})")
    report = {
        "machine": platform.machine(), "python": platform.python_version(), "numpy": np.__version__,
        "worst_leak": worst, "results": results,
    }  # fmt: skip
    path = Path(__file__).parent / "results" / "blind_control.json"
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
