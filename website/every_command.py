"""Run each command of the documents once, as it stands, in a room that holds what the pages name.

    hatch run test:python -m website.every_command [PAGE ...] [--room FOLDER] [--match WORDS]

A page's shell blocks run in order, in a copy of one room: folders of pictures, tables, run folders, heads and small
models by the names that pages use, all made here. Commands in a clone lose ``hatch run``; placeholders in capitals and
``/data`` stand for folders of the room; packs are shortened by ``--limit``. Whatever is changed in a command is kept
beside it. Where an encoder's weights lie on a hub, the command must say so in one line, and runs again with an encoder
that ships. Installing is left to tests of wheels and tutorials, and the consoles of tutorials to their own. What came
out is kept in website/results/commands.json, which a test holds against the pages. Exit status 1 where a command fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from website.room import SHORT, furnish

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "website" / "results" / "commands.json"
BLOCK = re.compile(r"^( *)```(bash|sh|console)\b[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
ELSEWHERE = ("docs/tutorials/", "docs/adding/", "docs/index.md")
"""Pages whose consoles other tests run, with what they print."""
LEFT = {
    r"^(pip install|apt-get)": "tests of wheels, tutorials and CI install",
    r"hatch run test($| )": "tests of the suite",
    r"cluster\.py": "tests/slurm runs it",
    r"on_a_gpu\.py|--device cuda|runs/gpu": "needs a GPU",
    r"--executor slurm": "tests/slurm runs it",
    r"upload .*--yes": "sends to a hub",
    r"…": "has a gap to be filled",
    r"num_processes=4": "needs several GPUs",
}
"""Commands that do not run here, and why."""
NEEDS = re.compile(
    r"build (ag|youcook2|sd)|--meshes|hf-itm|score coco|run (coop --protocol|icinw|odinw|imagenet1k|dtd|sugarcrepe aro)"
    r"|--source (local|hub)|open-vocabulary --data-root|aro |coop .*(/data|DATA)|to elevater|--fetch"
    r"|forecast|report runs/b32"
)
"""Commands whose data sets or models are not here: they must say so in a line, without a traceback."""
FETCHED = re.compile(r"open_clip:\S+/(?:openai|laion\w+)|timm:(?!\S+/)\S+|hf:\S+")
"""Specs whose weights come from a hub."""
PLAIN = re.compile(rf"gate-runner run small {SHORT}\s*(#.*)?$")
"""The command whose run folder the room holds: given again, it goes on."""
CHANGES: list[tuple[str, str, str]] = [
    ("", r"^hatch run (test:)?", ""),
    ("", r"\. \./hatch-here\.sh && hatch run ", ""),
    ("", r"(?<=[ =])/(data|mirror)\b", r"\1"),
    ("docs/how-to/train-the-encoder.md", r"(run .*)(?=--tune)", r"\1--set steps=20 --set validate_every=10 "),
    ("docs/how-to/train-the-encoder.md", r"(run|plan) (small|cifar100) ", r"\1 micro/cifar100 micro/mini --limit 60 "),
    ("docs/packages/gate-runner.md", r"--setting language_model", "--output runs/words --setting language_model"),
    ("docs/packages/gate-runner.md", r"\b(run|plan) small\b", r"\1 micro/cifar100 micro/mini --limit 120"),
    ("", r"\b(run|plan) (small|real)\b", rf"\1 \2 {SHORT}"),
    ("", r"tuned:FOLDER", "tuned:runs/tuned"),
    ("docs/how-to/choose-an-encoder.md", r"compare RUN", "compare runs/here"),
    ("", r"run digits omniglot", "run digits omniglot --limit 40"),
    ("docs/how-to/score-retrieval.md", r"\bphotos\b", "my-captions"),
    ("docs/icinw.md", r"--shots 0,5,20,50,full --tune frozen,full", "--limit 10 --shots 0,5 --tune frozen"),
    ("docs/icinw.md", r"none,wiktionary,wordnet,gpt3,auto", "none,wordnet"),
    ("docs/icinw.md", r"--seed 0 --seed 1 --seed 2 --workers 2", "--seed 0"),
    ("packages/gate-runner/README.md", r"micro/icinw --shots 0,5,full", "micro/icinw --limit 10 --shots 0,5"),
    ("", r"gate-runner trade (?!BEFORE)", "gate-runner trade --runs runs/traded --limit 60 "),
    ("docs/tutorials/compare-two-encoders.md", r"runs/micro-clip", "runs/here-micro-clip"),
    ("docs/how-to/fine-tune-on-captions.md", r"runs/mine", "runs/tuned-here"),
    ("docs/how-to/from-my-runs-to-the-few.md", r"runs/\*", "of-gate/*"),
    ("docs/how-to/keep-and-use-a-head.md", r"photographs/ --prompts", "pets/ --prompts"),
    ("docs/how-to/keep-and-use-a-head.md", r"photographs/ --words", "synsets/ --words"),
    ("docs/how-to/test-on-fewer-items.md", r"runs/\*", "items/*"),
    ("docs/packages/oven-retrieval.md", r"(oven .*generat.*)--kb project", r"\1--kb written"),
    ("docs/packages/oven-retrieval.md", r"--batch-size 256", "--batch-size 16 --steps 8 --validate-every 4"),
    ("docs/packages/oven-retrieval.md", r"(?<=train-generator )", "--steps 8 --validate-every 4 --batch-size 8 "),
    ("docs/packages/oven-retrieval.md", r"--output model$", "--output model --steps 40"),
    ("README.md", r"new FOLDER", "new photos"),
    ("docs/own-data.md", r"RUN", "runs/of-folds"),
    ("docs/own-data.md", r"setting folds=5", "setting folds=5 --output runs/of-folds"),
    ("docs/own-data.md", r"labels-ID", "labels-folder"),
    ("", r"build kubric pairs ", "build kubric pairs-new "),
    ("", r"--output (kb|project)(?=\s|$)", r"--output \1-new"),
    ("docs/packages/eqben-builder.md", r"--pairs 2000", "--pairs 2"),
    ("docs/packages/eqben-builder.md", r"pairs-flat --engine", "pairs-flat --pairs 8 --engine"),
    ("docs/packages/eqben-builder.md", r"--render 20", "--render 2"),
    ("packages/eqben-builder/README.md", r"--pairs 100", "--pairs 2"),
    ("docs/how-to/segment-by-words.md", r"--encoder micro-dense", "--encoder micro-dense --limit 8"),
    ("docs/how-to/use-original-files.md", r"run (.*)cifar100 (ade20k|mini)", r"run \1cifar100 --limit 60"),
    ("docs/odinw.md", r"micro/odinw", "micro/odinw --limit 20"),
    ("packages/gate-runner/README.md", r"micro/odinw", "micro/odinw --limit 20"),
]
"""What a page's command loses or gains, by the start of the page's name."""


def commands(page: Path) -> Iterator[str]:
    """The commands of a page's shell blocks; of a console's, what stands behind ``$``."""
    elsewhere = str(page.relative_to(ROOT)).startswith(ELSEWHERE)
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if elsewhere and block[2] == "console":
            continue
        lines = block[3].splitlines()
        if block[2] == "console":
            lines = [line.strip().removeprefix("$ ") for line in lines if line.strip().startswith("$ ")]
        command = ""
        for line in lines:
            command += line[len(block[1]) :] if block[2] != "console" else line
            if not command.strip() or command.lstrip().startswith("#"):
                command = ""
            elif command.endswith("\\") or not whole(command):
                command += "\n"
            else:
                yield command
                command = ""


def whole(command: str) -> bool:
    """Whether bash reads a command to its end."""
    done = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True, check=False)
    return done.returncode == 0 and "warning" not in done.stderr


def pages(names: list[str]) -> list[Path]:
    """Those named, or all; the page of all commands has none to run."""
    if names:
        return [ROOT / name for name in names]
    return [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("packages/*/README.md"))]


def as_run(page: str, command: str) -> str:
    """A command with what this machine and the room change in it."""
    for start, old, new in CHANGES:
        if page.startswith(start):
            command = re.sub(old, new, command)
    if re.search(r"gate-runner run (?!.*--(output|data-root /))", command) and not PLAIN.match(command):
        encoder = re.search(r"--encoder (\S+)", command)
        place = "here" if encoder is None else "here-" + re.sub(r"\W", "-", encoder[1])
        place = f"small-{zlib.crc32(command.encode())}" if re.search(r" small | --items|icinw", command) else place
        command = command.replace("gate-runner run ", f"gate-runner run --output runs/{place} ", 1)
    return command


def reason_to_leave(command: str) -> str:
    """Why a command does not run here; empty where it does."""
    return next((why for words, why in LEFT.items() if re.search(words, command)), "")


def run(command: str, room: Path, seconds: float = 420) -> tuple[int, str, float]:
    """A command in bash: its status, the end of what it printed, and how long it took."""
    environ = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(room.parent / "home"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "120",
    }
    start, output = time.perf_counter(), room.parent / "output.txt"
    with output.open("w") as file:
        process = subprocess.Popen(
            ["bash", "-c", f"set -o pipefail\n{command}"],
            cwd=room,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return 124, f"longer than {seconds:.0f} s", seconds
    text = output.read_text(encoding="utf-8", errors="replace").replace(str(room), "ROOM")
    return status, text[-1500:], time.perf_counter() - start


def main() -> int:
    """Run them, keep what came out, and say what failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    parser.add_argument("--room", type=Path, help="a furnished room, made where it is missing")
    parser.add_argument("--match", default="", help="only commands with these words")
    given = parser.parse_args()
    outcomes: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    now = {f"{path.relative_to(ROOT)}: {command}" for path in pages([]) for command in commands(path)}
    with tempfile.TemporaryDirectory() as scratch:
        base = given.room or Path(scratch) / "room"
        if not base.exists():
            furnish(base)
        failed = 0
        for path in pages(given.pages):
            name = str(path.relative_to(ROOT))
            page_commands = [command for command in commands(path) if given.match in command]
            if not page_commands:
                continue
            room = Path(scratch) / "rooms" / str(len(list(Path(scratch).glob("rooms/*"))))
            shutil.copytree(base, room, symlinks=True)
            for command in page_commands:
                entry, seconds = outcome(name, command, room)
                outcomes[f"{name}: {command}"] = entry
                failed += entry["came out"] == "failed"
                print(f"{entry['came out']:8} {seconds:6.1f} s  {name}: {command}", flush=True)
                if entry["came out"] == "failed":
                    print("    " + entry["last"].replace("\n", "\n    "), flush=True)
            shutil.rmtree(room)
            outcomes = {key: outcomes[key] for key in sorted(outcomes.keys() & now)}
            RESULTS.write_text(json.dumps(outcomes, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return min(failed, 1)


def outcome(page: str, command: str, room: Path) -> tuple[dict[str, Any], float]:
    """What came of a command (ran, left, refused or failed), and how long it took."""
    why = reason_to_leave(command)
    if why:
        return {"came out": "left", "why": why}, 0.0
    line = as_run(page, command)
    entry: dict[str, Any] = {} if line == command else {"as run": line}
    status, text, seconds = run(line, room)
    if status and FETCHED.search(line) and "Traceback" not in text:
        entry["without weights"] = text.strip().splitlines()[-1]
        line = FETCHED.sub("my_models:texts" if line.startswith("prompts") else "micro-clip", line)
        entry["as run"] = line
        status, text, more = run(line, room)
        seconds += more
    if not status:
        return {"came out": "ran", **entry}, seconds
    if NEEDS.search(command) and "Traceback" not in text:
        return {"came out": "refused", **entry, "last": text.strip().splitlines()[-1]}, seconds
    return {"came out": "failed", **entry, "last": text}, seconds


if __name__ == "__main__":
    raise SystemExit(main())
