"""Linear probe on frozen features, with an interval: encode once, tune on the training split, score the test split.

python probe.py FOLDER [ENCODER]     # FOLDER has CLASS/IMAGE, or train/CLASS/IMAGE and test/CLASS/IMAGE
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from paired_scores import Score
from vision_adapters.tuning import HeldOut, tune, tuning_data
from vision_features import embed


def probe(folder: str, encoder: str) -> Score:
    """Return the test accuracy; features of images that were encoded before come from the cache."""
    with tempfile.TemporaryDirectory() as place:
        embed(folder, Path(place) / "features.npz", encoder=encoder)
        with np.load(Path(place) / "features.npz") as arrays:
            features, splits, names = (arrays[name] for name in ("features", "splits", "labels"))
    labels = np.unique(names, return_inverse=True)[1]
    test = splits == "test"
    tuned = tune(tuning_data(features[~test], labels[~test]))
    return HeldOut(features[test], labels[test]).score(tuned)


if __name__ == "__main__":
    score = probe(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "micro-clip")
    print(f"accuracy {score.value:.3f} [{score.low:.3f}, {score.high:.3f}]")  # noqa: T201
