"""Patch features by words on synthetic stand-ins, beside the best blind map, the class-token grid and random weights.

    python packages/gate-runner/benchmarks/words_of_patches.py

The rule was written, and micro-dense was trained, before any image below was drawn:

1. Images. The three stand-ins with words, drawn from seeds that nothing else uses (`FRESH`): 200 test images of
   `zero-shot-segmentation` and `large-things`, 300 of `ade20k`. What shaped the encoder, the stand-ins and this rule
   were the validation images of their own seeds; of `large-things` not even those were scored.
2. Setting. Preset `encoder`, each benchmark's own words and templates. `ade20k` is scored twice: with the word
   "background", and with a threshold that its validation images choose.
3. Encoders. micro-dense, micro-clip, and micro-dense with random weights from three seeds.
4. A variant of patch features stands out where its 95 % interval (images resampled) is above the interval of the best
   map that never looks and above that of the class-token grid. Claimed: value, sclip, clearclip and naclip, with
   micro-dense, on `zero-shot-segmentation` and on `large-things`. All else is printed without a claim: shapes on
   `ade20k` were poor on validation, even for a trained head.
5. Random weights. Claimed: on each stand-in, each variant's mean over the three seeds is at most 0.02 above the best
   map that never looks.
6. Order. All pairs of variants of micro-dense on a stand-in are tested on the same images (paired, 9,999 permutations),
   with Holm's correction over its 15 pairs. No order is claimed; what the tests tell apart is printed.

Whatever comes out is written to results/words_of_patches.json. A claim that fails is printed, and the exit status is 1.
"""

from __future__ import annotations

import itertools
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eqben_builder.stand_ins.drawing import SEEDS
from gate_runner.benchmarks import DataRequest
from gate_runner.benchmarks.resolving import find_benchmark
from gate_runner.settings import Settings
from gate_runner.tasks import Job, Outcome, run_task
from paired_scores.paired import holm, paired_test
from vision_features import load_encoder
from vision_features.encoders.patch_features import VARIANTS

RESULTS = Path(__file__).with_name("results") / "words_of_patches.json"
FRESH = {"colours_of_places": 80_000, "large_things": 81_000, "shape_maps": 82_000}
THRESHOLD = {"background": "threshold", "background_threshold": "validation"}
SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "zero-shot-segmentation": ("zero-shot-segmentation@features={}", {}),
    "large-things": ("large-things@features={}", {}),
    "ade20k, word": ("ade20k@zero-shot-segmentation,features={}", {}),
    "ade20k, threshold": ("ade20k@zero-shot-segmentation,features={}", THRESHOLD),
}
"""Name, benchmark and settings of each stand-in."""
CLAIMED_SETS = ("zero-shot-segmentation", "large-things")
GOOD = ("value", "sclip", "clearclip", "naclip")
FEATURES = tuple(name for name, variant in VARIANTS.items() if not variant.proxy)
TRAINED = ("micro-dense", "micro-clip")
RANDOM = tuple(f"micro-dense/random:{seed}" for seed in (11, 12, 13))
ABOVE_BLIND, LEVEL = 0.02, 0.05


def scored(spec: str, name: str) -> dict[str, Outcome]:
    """Return the outcome of each variant of an encoder on a stand-in."""
    benchmark, settings = SETS[name]
    encoder, outcomes = load_encoder(spec), {}
    data = None
    for features in FEATURES:
        chosen = find_benchmark(benchmark.format(features))
        data = data or chosen.load("micro", DataRequest(None, None))
        outcomes[features] = run_task(Job(encoder, chosen, data, Settings(**settings)))
    return outcomes


def row(outcome: Outcome) -> dict[str, Any]:
    """Return mIoU and what stands beside it, each as value, low and high."""
    score, beside = outcome.scores[0], outcome.training["beside"]
    things = next((score.value for score in outcome.scores if score.metric == "miou_things"), None)
    return {
        "miou": [score.value, score.low, score.high],
        **{name: about["miou"] for name, about in beside.items()},
        **({} if things is None else {"without_background": things}),
        "setting": outcome.training["setting"],
    }


def stands_out(rows: dict[str, dict[str, Any]], features: str) -> bool:
    """Return whether a variant's interval is above the blind map's and the class-token grid's."""
    low = rows[features]["miou"][1]
    return bool(low > rows[features]["blind"][2] and low > rows["class-token"]["miou"][2])


def order_of(outcomes: dict[str, Outcome]) -> list[dict[str, Any]]:
    """Return every pair of variants, the better first, with its difference and Holm's p over all pairs."""
    ordered = sorted(outcomes, key=lambda name: -outcomes[name].scores[0].value)
    pairs = list(itertools.combinations(ordered, 2))
    tests = [
        paired_test("miou", [outcomes[worse].samples], [outcomes[better].samples], resamples=1000)
        for better, worse in pairs
    ]
    adjusted = holm([test.p for test in tests])
    return [
        {"better": better, "worse": worse, "difference": test.difference, "ci": [test.low, test.high], "p_holm": p}
        for (better, worse), test, p in zip(pairs, tests, adjusted, strict=True)
    ]


def main() -> None:
    """Score, test, print, write, and fail where a claim does."""
    SEEDS.update(FRESH)
    results: dict[str, Any] = {}
    claims: dict[str, bool] = {}
    for name in SETS:
        about: dict[str, Any] = {}
        for spec in TRAINED:
            outcomes = scored(spec, name)
            rows = {features: row(outcome) for features, outcome in outcomes.items()}
            about[spec] = {"rows": rows, "stands_out": [each for each in FEATURES if stands_out(rows, each)]}
            print(f"\n{name}, {spec}: best map that never looks {shown(rows['value']['blind'])}")
            for features in sorted(rows, key=lambda each: -rows[each]["miou"][0]):
                mark = "  above blind and class token" if features in about[spec]["stands_out"] else ""
                print(f"  {features:12s} {shown(rows[features]['miou'])}{mark}")
            if spec == TRAINED[0]:
                about[spec]["order"] = order_of(outcomes)
                apart = [pair for pair in about[spec]["order"] if pair["p_holm"] <= LEVEL]
                print(
                    f"  {len(apart)} of {len(about[spec]['order'])} pairs of variants differ (Holm, p at most {LEVEL})"
                )
                if name in CLAIMED_SETS:
                    for features in GOOD:
                        claims[f"{features} stands out on {name}"] = features in about[spec]["stands_out"]
        random = [{each: row(outcome) for each, outcome in scored(spec, name).items()} for spec in RANDOM]
        means = {each: sum(rows[each]["miou"][0] for rows in random) / len(random) for each in FEATURES}
        blind = random[0]["value"]["blind"][0]
        about["random"] = {"means": means, "seeds": random}
        print(f"  random weights, mean of {len(RANDOM)}: {', '.join(f'{k} {v:.3f}' for k, v in means.items())}")
        claims[f"random weights are at the blind level on {name}"] = max(means.values()) <= blind + ABOVE_BLIND
        results[name] = about
    print()
    for claim, holds in claims.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {claim}")
    packages = {name: version(name) for name in ("torch", "open_clip_torch", "numpy")}
    about = {"fresh_seeds": FRESH, "claims": claims, "sets": results, "machine": platform.machine()}
    text = json.dumps({**about, "python": platform.python_version(), "versions": packages}, indent=1)
    RESULTS.write_text(text + "\n", encoding="utf-8")
    if not all(claims.values()):
        raise SystemExit(1)


def shown(interval: list[float]) -> str:
    """Return a value and its interval in words."""
    return "{:.3f} ({:.3f} to {:.3f})".format(*interval)


if __name__ == "__main__":
    main()
