"""The Every Eval Ever schema: one JSON file of scores with intervals, one JSONL file with a line per test sample."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np

from gate_data.ragged import Outcomes, Ragged
from gate_runner.__about__ import __version__
from gate_runner.exporting.model import Files, ModelName, published
from gate_runner.runs.item_subsets import interval_level
from gate_runner.runs.results import Result
from gate_runner.runs.stored import StoredRun
from gate_runner.tasks import Score

SCHEMA = "0.3.0"
"""Version of the schema that the files follow."""

_COLLECTION = "gate-runner"


def files(run: StoredRun, model: ModelName, organization: str) -> Files:
    """Both files, under the path that the schema's datastore asks for.

    A line per test sample is written where an outcome is one number, 0 or 1: the schema wants to know whether the
    sample was answered rightly, which a dice or a distance does not say.
    """
    done = [result for result in run.results if result.status == "ok"]
    identity = _uuid([model.id, *(result.to_json() for result in done)])
    stem = f"data/{_COLLECTION}/{model.developer}/{model.name}/{identity}"
    versions: dict[str, str] = next(
        (entry["versions"] for entry in reversed(run.manifest.get("runs", [])) if "versions" in entry), {}
    )
    stamp = _finished(run)
    evaluation = f"{_COLLECTION}/{model.id}/{stamp}"
    lines: list[str] = []
    left_out = []
    for result in done:
        outcomes = _one_each(run.outcomes(result))
        if outcomes.ndim == 1 and bool(np.isin(outcomes, (0.0, 1.0)).all()):
            lines += [json.dumps(line) for line in _samples(result, outcomes, evaluation, model)]
        else:
            left_out.append(f"no lines per sample: {result.name} seed {result.seed}, whose outcomes are not 0 or 1")
    aggregate: dict[str, Any] = {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation,
        "evaluation_timestamp": stamp,
        "retrieved_timestamp": stamp,
        "source_metadata": {
            "source_name": "gate-runner",
            "source_type": "evaluation_run",
            "source_organization_name": organization,
            "evaluator_relationship": "third_party",
        },
        "eval_library": {"name": "gate-runner", "version": str(versions.get("gate-runner", __version__))},
        "model_info": {
            "name": model.name,
            "id": model.id,
            "developer": model.developer,
            "additional_details": {
                "spec": run.encoder,
                "weights_sha256": str(run.manifest["identity"]["encoder"].get("fingerprint")),
                "deployment_type": "self_deployed",
                "model_availability": "unknown",
            },
        },
        "evaluation_results": [_result(result, score) for result in done for score in result.scores],
    }
    contents = {}
    if lines:
        text = "".join(line + "\n" for line in lines)
        aggregate["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{stem}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(text.encode()).hexdigest(),
            "total_rows": len(lines),
        }
        contents[f"{stem}_samples.jsonl"] = text
    contents[f"{stem}.json"] = json.dumps(aggregate, indent=2, allow_nan=False) + "\n"
    return Files(contents, tuple(left_out))


def _result(result: Result, score: Score) -> dict[str, Any]:
    return {
        "evaluation_result_id": _result_id(result, score),
        "evaluation_name": published(result.name, result.source),
        "source_data": {
            "dataset_name": published(result.name, result.source),
            "source_type": "other",
            "additional_details": {
                "source": result.source,
                "split": "test",
                "samples": str(result.data.get("test")),
                "sha256": str(result.data.get("sha256")),
                **({"note": result.note} if result.note else {}),
            },
        },
        "metric_config": {
            "evaluation_description": f"{result.task}, seed {result.seed}; chance {score.chance:.6g}",
            "metric_id": f"gate_runner.{score.metric}",
            "metric_name": score.metric,
            "lower_is_better": score.direction == "lower",
            "score_type": "continuous",
            "min_score": 0.0 if min(score.value, score.low) >= 0 else "-Infinity",
            "max_score": 1.0 if score.direction == "higher" and max(score.value, score.high) <= 1 else "Infinity",
            "additional_details": {"chance": repr(score.chance), "seed": str(result.seed)},
        },
        "score_details": {
            "score": score.value,
            "uncertainty": {
                "confidence_interval": {
                    "lower": score.low,
                    "upper": score.high,
                    "confidence_level": interval_level(result),
                    "method": _method(result),
                },
            },
        },
    }


def _method(result: Result) -> str:
    if result.data.get("test_items") is not None:
        return result.note
    return "over test samples: Wilson for proportions, percentile bootstrap otherwise"


def _one_each(outcomes: Outcomes) -> np.ndarray:
    """Outcomes by sample; of questions that are kept by the image that they share, by question."""
    if not isinstance(outcomes, Ragged):
        return outcomes
    if set(outcomes.columns) != {"question", "right"}:
        return np.empty((len(outcomes), 0))
    return np.asarray(outcomes.columns["right"][np.argsort(outcomes.columns["question"])], dtype=np.float64)


def _samples(result: Result, outcomes: np.ndarray, evaluation: str, model: ModelName) -> Iterator[dict[str, Any]]:
    """A line per sample. Inputs are images: the line names the sample and the data's digest instead."""
    digest = str(result.data.get("sha256"))
    places = result.data.get("test_items") or range(len(outcomes))
    for index, outcome in zip(places, outcomes, strict=True):
        raw = f"{published(result.name, result.source)} test sample {index} (data {digest[:16]})"
        yield {
            "schema_version": SCHEMA,
            "evaluation_id": evaluation,
            "model_id": model.id,
            "evaluation_name": published(result.name, result.source),
            "evaluation_result_id": _result_id(result, result.scores[0]),
            "sample_id": f"{published(result.name, result.source)}/{index}",
            "sample_hash": hashlib.sha256(raw.encode()).hexdigest(),
            "interaction_type": "single_turn",
            "input": {"raw": raw, "reference": []},
            "output": {"raw": []},
            "answer_attribution": [],
            "evaluation": {"score": float(outcome), "is_correct": bool(outcome == 1.0)},
            "metadata": {"seed": str(result.seed), "metric": result.scores[0].metric},
        }


def _result_id(result: Result, score: Score) -> str:
    return f"{published(result.name, result.source)}.seed{result.seed}.{score.metric}"


def _uuid(texts: list[str]) -> uuid.UUID:
    """A version-4 UUID that follows from texts."""
    return uuid.UUID(bytes=hashlib.sha256("\0".join(texts).encode()).digest()[:16], version=4)


def _finished(run: StoredRun) -> str:
    """When the latest result was written, in seconds since 1970, as the schema wants times."""
    return str(int(max(path.stat().st_mtime for path in (run.path / "results").glob("*.json"))))
