"""What care for strangers' files and two writers costs: the same work by an earlier commit and by this one, in turn.

    git archive COMMIT packages | tar -x -C before
    python experiments/trust_speed.py before [--rounds 15]

Work that both do: pairs read by `read_any`, entities added to a project, an image folder listed, pictures decoded. Each
round runs each of them once in a process of its own for either commit, after one run that is not counted; the answers
must agree. Printed are medians of processor and of wall time, and their ratios, now over before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from PIL import Image

RESULTS = Path(__file__).parent / "results"

WORK = {
    "eqben-builder: read_any of 10,000 rows": """
from eqben_builder.formats import read_any
def work(place):
    return len([row.id for row in read_any(place / "pairs")])
""",
    "oven-retrieval: add of 1,000 entities to 10,000": """
import shutil
from oven_retrieval.workspace import add_to_workspace, build_workspace
def prepare(place):
    shutil.rmtree(place / "project", ignore_errors=True)
    build_workspace(place / "kb.csv", place / "project", tokenizer="whitespace")
def work(place):
    return len(add_to_workspace(place / "more.csv", place / "project").kb)
""",
    "gate-runner: an image folder of 2,000 files listed": """
try:
    from gate_data.own import guess
except ImportError:
    from gate_runner.own_data import guess
def work(place):
    return len(str(guess(place / "classes")))
""",
    "gate-runner: 200 JPEG files of 500 x 375 px scaled to 224": """
from gate_data.pictures import read_square
def work(place):
    return sum(read_square(path, 224).size[0] for path in sorted((place / "jpeg").iterdir()))
""",
    "gate-runner: 100 PNG files of 500 x 375 px scaled to 224": """
from gate_data.pictures import read_square
def work(place):
    return sum(read_square(path, 224).size[0] for path in sorted((place / "png").iterdir()))
""",
    "eqben-builder: 200 JPEG files of 500 x 375 px decoded": """
from eqben_builder.formats import Picture
def work(place):
    return sum(int(Picture(path).load()[::50].sum()) for path in sorted((place / "jpeg").iterdir()))
""",
}
CHILD = """
import json, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
prepare = lambda place: None
exec(sys.argv[2])
place = Path(sys.argv[1])
for counted in (False, True):
    prepare(place)
    cpu, wall = time.process_time(), time.perf_counter()
    answer = work(place)
    took = (time.process_time() - cpu, time.perf_counter() - wall)
print(json.dumps([answer, *took]))
"""


def make(folder: Path) -> None:
    """Everything that is read, the same for both."""
    rng = np.random.default_rng(0)
    (folder / "pairs").mkdir()
    for name in ("a.png", "b.png"):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3)).astype(np.uint8)).save(folder / "pairs" / name)
    rows = [
        {"image_0_file_name": "a.png", "image_1_file_name": "b.png", "caption_0": f"one {at}", "caption_1": f"two {at}",
         "id": f"p{at}", "subset": "own", "aspect": "count", "extra": "{}"}
        for at in range(10_000)
    ]  # fmt: skip
    (folder / "pairs" / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, first, count in (("kb", 0, 10_000), ("more", 10_000, 1_000)):
        words = "".join(f"e{at},thing {at} of {at % 97},thing {at}|{at}th\n" for at in range(first, first + count))
        (folder / f"{name}.csv").write_text(f"id,name,aliases\n{words}")
    for at in range(2_000):
        file = folder / "classes" / f"class {at % 20}" / f"{at}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    for ending, count in (("jpeg", 200), ("png", 100)):
        (folder / ending).mkdir()
        for at in range(count):
            small = Image.fromarray(rng.integers(0, 256, (24, 32, 3)).astype(np.uint8))
            small.resize((500, 375), Image.Resampling.BICUBIC).save(folder / ending / f"{at}.{ending}")


def once(packages: Path, work: str, folder: Path) -> tuple[float, float, float]:
    """The answer, and seconds of the processor and of the clock."""
    sources = os.pathsep.join(str(path) for path in sorted(packages.glob("*/src")))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), work], env={**os.environ, "PYTHONPATH": sources},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    answer, cpu, wall = json.loads(done.stdout.splitlines()[-1])
    return answer, cpu, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="folder that holds the packages of the earlier commit")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="work whose name holds this")
    parser.add_argument("--output", type=Path, default=RESULTS / "trust_speed.json")
    options = parser.parse_args()
    sides = {"before": options.before.resolve() / "packages", "now": Path(__file__).parents[1] / "packages"}
    figures = {}
    with tempfile.TemporaryDirectory() as root:
        make(Path(root))
        for name, work in WORK.items():
            if options.only not in name:
                continue
            timings: dict[str, list[tuple[float, float, float]]] = {"before": [], "now": []}
            for turn in range(options.rounds):
                for side in ("before", "now") if turn % 2 else ("now", "before"):
                    timings[side].append(once(sides[side], work, Path(root)))
            answers = {timing[0] for side in timings.values() for timing in side}
            if len(answers) != 1:
                raise SystemExit(f"{name}: different answers: {answers}")
            medians = {
                side: [median(timing[at] for timing in rounds) for at in (1, 2)] for side, rounds in timings.items()
            }
            figures[name] = {
                "milliseconds_before": [round(1000 * value, 1) for value in medians["before"]],
                "milliseconds_now": [round(1000 * value, 1) for value in medians["now"]],
                "ratio_cpu": round(medians["now"][0] / medians["before"][0], 3),
                "ratio_wall": round(medians["now"][1] / medians["before"][1], 3),
            }
            print(name, figures[name], flush=True)
    result = {
        "rounds": options.rounds,
        "work": figures,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    if not options.only:
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
