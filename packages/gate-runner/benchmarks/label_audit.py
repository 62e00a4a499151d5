"""Precision of label-audit candidates on human votes: ours and cleanlab's on the same probabilities.

Reads a checkout of cleanlab/label-errors: original test labels, cross-validated probabilities, and five people's votes
on each candidate of its authors. A label counts as wrong if fewer than three of five chose it. Votes exist for those
candidates alone, so precision is measured on the candidates that were voted on. The rule is fixed beforehand:
candidates by confident learning, ranked by the margin of the prediction over the label, as `report --format suspects`
has them; cleanlab's are `find_label_issues` with its defaults, ranked by `normalized_margin`.

    git clone https://github.com/cleanlab/label-errors
    python packages/gate-runner/benchmarks/label_audit.py label-errors
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gate_runner.runs.suspects import suspects
from paired_scores.metrics import wilson

RESULTS = Path(__file__).parent / "results" / "label_audit.json"
SETS = {"cifar10": "CIFAR-10", "mnist": "MNIST", "20news": "20 Newsgroups"}
FIRST = (25, 50, 100)


def precision(order: Sequence[int], wrong: dict[int, bool]) -> dict[str, Any]:
    """Precision of candidates in order, of those that were voted on."""
    votes = np.array([wrong[at] for at in order if at in wrong], bool)
    hits, share = int(votes.sum()), float(votes.mean())
    running = votes.cumsum() / np.arange(1, len(votes) + 1)
    return {
        "candidates": len(order),
        "voted": len(votes),
        "wrong": hits,
        "precision": share,
        "interval": wilson(share, len(votes)),
        "average_precision": float((running * votes).sum() / sum(wrong.values())),
        **{f"precision_of_first_{count}": float(running[count - 1]) for count in FIRST if count <= len(votes)},
    }


def measured(folder: Path, name: str) -> dict[str, Any]:
    """Both tools' precision on one data set."""
    labels = np.load(folder / "original_test_labels" / f"{name}_test_set_original_labels.npy").astype(np.int64)
    every = np.load(folder / "cross_validated_predicted_probabilities" / f"{name}_test_set_pyx.npy").astype(float)
    votes = json.loads((folder / "mturk" / f"{name}_mturk.json").read_text())
    wrong = {int(row["id"]): row["mturk"]["given"] < 3 for row in votes}
    predicted = every.argmax(axis=1)
    rows = {
        "files": np.arange(len(labels)).astype(str),
        "truth": labels,
        "classes": np.arange(every.shape[1]).astype(str),
        "confidence": every.max(axis=1),
        "distributions": every.astype(np.float16),
    }
    result: dict[str, Any] = {
        "images": len(labels),
        "voted": len(wrong),
        "wrong": sum(wrong.values()),
        "share_wrong_among_voted": sum(wrong.values()) / len(wrong),
        "ours": precision([suspect.place for suspect in suspects(rows, predicted)], wrong),
    }
    if find_spec("cleanlab") is not None:
        from cleanlab.filter import find_label_issues

        how: dict[str, Any] = {"return_indices_ranked_by": "normalized_margin", "n_jobs": 1}
        for rule in ("prune_by_noise_rate", "confident_learning"):
            order = find_label_issues(labels, every, filter_by=rule, **how).tolist()
            result[f"cleanlab, {rule}"] = precision(order, wrong)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a checkout of cleanlab/label-errors")
    arguments = parser.parse_args()
    result: dict[str, Any] = {title: measured(arguments.folder, name) for name, title in SETS.items()}
    result["machine"] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cleanlab": version("cleanlab") if find_spec("cleanlab") is not None else None,
    }
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
