"""What `gate-runner plan` expects of the pack `small`, beside what the run then takes.

For each encoder a plan in a fresh process, then the run in another one. Checks first that the plan has the run's parts
and that none of them failed. Both are measured in processor seconds, one thread each, so that other work on the machine
falls on neither: what is tested is the extrapolation. What the run took by the clock is printed beside it.

    python packages/gate-runner/benchmarks/planned.py [small] [--limit 150] [--encoder micro-clip --encoder ...]
    python packages/gate-runner/benchmarks/planned.py cifar100 --tune full --recipe gate --set steps=24 \
        --set validate_every=12 --output packages/gate-runner/benchmarks/results/planned_tuned.json
    python packages/gate-runner/benchmarks/planned.py mini cifar100 iwildcam --tune full --limit 300 --set steps=24 \
        --set validate_every=12 --encoder micro-clip --output packages/gate-runner/benchmarks/results/planned_quick.json

The second trains whole encoders by GATE's recipe, shortened, the third by `quick`, whose heads are trained first;
memory counts there, too. `hf-tiny` stands for a small CLIP of random weights, written here as transformers writes one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

PLAN = """
import json, resource, sys, time
from pathlib import Path

time.perf_counter = time.process_time
from gate_runner.benchmarks import resolve
from gate_runner.executors.worker_process import WorkerProcess
from gate_runner.planning.plan import plan
from gate_runner.runs import RunRequest
from gate_runner.settings import Settings

def startup(encoder, device):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    slot = WorkerProcess(encoder, device)
    slot.open()
    slot.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

sys.modules["gate_runner.planning.plan"]._startup = startup
encoder, output, changes, *names = sys.argv[1:]
request = RunRequest(resolve(names), encoder, Path(output), Settings(**json.loads(changes), isolate="worker"))
print(json.dumps(plan(request).to_mapping()))
"""
COMMAND = [sys.executable, "-c", "from gate_runner.cli import main; main()"]


def tiny_clip(folder: Path) -> str:
    """A CLIP of random weights as a Hugging Face directory."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    torch.manual_seed(0)
    vision = {"hidden_size": 96, "intermediate_size": 192, "num_hidden_layers": 3, "num_attention_heads": 3}
    text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = CLIPConfig(
        vision_config={**vision, "image_size": 64, "patch_size": 8}, text_config=text, projection_dim=64
    )
    CLIPModel(config).save_pretrained(folder)
    CLIPImageProcessor(size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64}).save_pretrained(folder)
    return f"hf:{folder}"


def timed(words: list[str]) -> tuple[float, float, str]:
    """Processor seconds of a command and all that it starts, seconds by the clock, and what it printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        words, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.monotonic() - start, done.stdout


def words_of(changes: dict[str, Any]) -> list[str]:
    """Settings as the command line has them."""
    fields = changes.get("recipe_fields", {})
    plain = {name: value for name, value in changes.items() if name != "recipe_fields"}
    return [
        *(word for name, value in plain.items() for word in (f"--{name}", str(value))),
        *(word for name, value in fields.items() for word in ("--set", f"{name}={value}")),
    ]


def compare(names: list[str], encoder: str, changes: dict[str, Any], folder: Path) -> dict[str, Any]:
    words = [*names, "--encoder", encoder, "--output", str(folder), *words_of(changes)]
    load = os.getloadavg()[0]
    planning, _, printed = timed([sys.executable, "-c", PLAN, encoder, str(folder), json.dumps(changes), *names])
    plan = json.loads(printed)
    seconds, clock, _ = timed([*COMMAND, "run", *words])
    rows = []
    for part in plan["parts"]:
        path = folder / "results" / f"{part['name'].replace('/', '-')}.seed{part['seed']}.json"
        result = json.loads(path.read_text())
        if result["status"] != "ok" or part["reason"]:
            raise SystemExit(f"{part['name']}: {result['reason'] or part['reason']}")
        rows.append(
            {
                "benchmark": part["name"],
                "planned": part["seconds"],
                "taken_by_the_clock": result["seconds"]["total"],
                "planned_gb": part["peak_bytes"] / 1e9,
                "taken_gb": result["memory"].get("peak_bytes", 0) / 1e9,
            }
        )
        print(
            f"  {part['name']:<18}{part['seconds']:>7.1f} s planned{result['seconds']['total']:>8.1f} s by the clock"
            f"{rows[-1]['planned_gb']:>7.2f} GB planned{rows[-1]['taken_gb']:>6.2f} GB taken",
            flush=True,
        )
    report = {
        "encoder": encoder if not encoder.startswith("hf:") else "hf-tiny",
        "names": names,
        "limit": changes.get("limit"),
        **({"settings": changes} if "tune" in changes else {}),
        "planned_seconds": plan["seconds"],
        "taken_seconds": seconds,
        "taken_by_the_clock": clock,
        "ratio": plan["seconds"] / seconds,
        "planning_seconds": planning,
        "load": [load, os.getloadavg()[0]],
        "rows": rows,
    }
    print(
        f"{report['encoder']}: {plan['seconds']:.0f} s planned (in {planning:.0f} s), {seconds:.0f} s taken", flush=True
    )
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["small"], help="packs or benchmarks")
    parser.add_argument("--encoder", action="append")
    parser.add_argument("--limit", type=int, default=150, help="0 for the whole pack")
    parser.add_argument("--tune", default="frozen")
    parser.add_argument("--recipe", default="quick")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="of the recipe")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "planned.json")
    options = parser.parse_args()
    changes: dict[str, Any] = {"limit": options.limit} if options.limit else {}
    if options.tune != "frozen":
        fields = dict(pair.split("=", 1) for pair in options.set)
        changes |= {"tune": options.tune, "recipe": options.recipe, "recipe_fields": fields}
    reports = json.loads(options.output.read_text())["encoders"] if options.output.exists() else []
    for name in options.encoder or ["micro-clip", "timm:resnet18/random", "hf-tiny"]:
        with tempfile.TemporaryDirectory() as folder:
            encoder = tiny_clip(Path(folder) / "clip") if name == "hf-tiny" else name
            measured = compare(options.names, encoder, changes, Path(folder) / "run")
        reports = [past for past in reports if any(past[key] != measured[key] for key in ("encoder", "limit", "names"))]
        reports.append(measured)
    report = {
        "encoders": reports,
        "within_a_quarter": sum(0.75 <= past["ratio"] <= 1.25 for past in reports),
        "memory": {
            past["encoder"]: max(row["planned_gb"] for row in past["rows"])
            / max(row["taken_gb"] for row in past["rows"])
            for past in reports
        },
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count()},
        "versions": {name: version(name) for name in ("gate-runner", "torch", "timm", "numpy")},
    }
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
