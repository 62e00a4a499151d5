"""Small inputs on which others' tools failed, where the checkout has them beside it: right, or refused with a reason.

Each folder of `bugs`, beside the shared data, makes its input (`make.py`) and prints what comes of it; the lines that
have to be among the output are here. A line is a regular expression; one that begins with "NOT" must not be there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("VLB_SHARED_DATA") or Path(__file__).parents[2] / "shared" / "data")
BUGS = SHARED.parent / "bugs"
RIGHT = r"\{(\('(\w+)', '\2'\): \d+(, )?)+\}"
"""Classes that are called as the colour in their boxes."""

CUT_OUTS = """
import sys
from pathlib import Path
import numpy as np
from show import nearest
from gate_data.own import OwnBenchmark, guess
from gate_data.own.originals import originals_from
from gate_data.request import DataRequest
for name in sys.argv[1:]:
    try:
        values = guess(Path(name)).values
        values = {**values, "benchmark": {**values["benchmark"], "task": "image-classification"}}
        own = OwnBenchmark.model_validate(values)
        data = originals_from(own, Path(name) / "benchmark.toml").load(Path(name), DataRequest(None, None, 40))
        seen = {}
        for split in (data.train, data.validation, data.test):
            for row in range(len(split)):
                key = (data.classes[int(split.targets[row])], nearest(np.asarray(split.images[row])))
                seen[key] = seen.get(key, 0) + 1
        print(name, dict(sorted(seen.items())))
    except ValueError as error:
        print(name, type(error).__name__, error)
"""
MAPS = """
import sys
from pathlib import Path
import numpy as np
from gate_data.own import OwnBenchmark, guess
from gate_data.own.originals import originals_from
from gate_data.request import DataRequest
values = guess(Path("maps")).values
data = originals_from(OwnBenchmark.model_validate(values), Path("maps/benchmark.toml")).load(
    Path("maps"), DataRequest(None, None, 112)
)
for split in (data.train, data.validation, data.test):
    for row in range(len(split)):
        image, target = np.asarray(split.images[row]), np.asarray(split.targets.collate([row]))[0]
        for value in (1, 2):
            print(value, *(int(v) // 60 for v in np.median(image[:, target == value], axis=1)))
"""
SHARDS = """
import sys
from gate_runner.finetuning.pairs import read_captioned
for name in ("mixed", "same", "all"):
    captioned = read_captioned(f"data/{name}.tar")
    print(name, len(captioned.train) + len(captioned.validation))
"""
SCALES = """
import sys
import eevee
print(eevee.load_table("data/percent.csv", direction="higher").values[0].tolist())
for name in sorted(p.stem for p in __import__("pathlib").Path("data").glob("*.csv") if "new" not in p.name):
    try:
        about = eevee.check(eevee.load_table(f"data/{name}.csv", direction="higher"))
        print(name, "read", about)
    except eevee.EeveeError as error:
        print(name, "refused", error)
table = eevee.load_table("data/plain.csv", direction="higher")
print("new", eevee.predict(table, ["b0", "b1"], eevee.read_scores("data/new.csv")).models["mine"].outside)
"""
MOVED = {f"vision_adapters{part}": f"paired_scores{part}" for part in (".metrics", ".paired")} | {
    "from gate_runner.tasks.matching import _recalls": "from vision_adapters.retrieval import recalls\n"
    "_recalls = lambda joint: recalls(joint[:, 0], joint[:, 1:])"
}
"""What is elsewhere now, by the names that the inputs' scripts know it by."""
PLACED = (
    "yolo", "coco_upright", "coco_nosize", "coco_raw", "voc_upright", "voc_nosize", "voc_raw", "coco_resized",
    "voc_resized",
)  # fmt: skip
"""Folders whose boxes have to lie on their objects."""
CASES: dict[str, tuple[list[str], list[str]]] = {
    "01-numeric-class-folders": (
        ["../show.py data/zero.toml"],
        [r"picture gray +class 'gray'", r"picture blue +class 'blue'", r"NOT picture (\w+) +class '(?!\1')"],
    ),
    "02-class-missing-in-test": (
        ["../show.py data empty"],
        [r"picture yellow +class '270'", r"empty/test/180 holds no", r"NOT picture yellow +class '180'"],
    ),
    "06-leading-zeros": (
        ["../show.py data ints zero"],
        [r"classes \('001', '01', '010', '1', '10'\)", r"classes in test that training lacks: 0\.0",
         r"classes \('0', '00', '000'\)"],
    ),
    "08-stray-quotes-tsv": (
        ["../show.py tsv csv labels first"],
        [r"tsv/captions\.tsv, line 3", r"csv/captions\.csv, line 3", r"labels/labels\.csv, line 7",
         r"first/captions\.tsv, line 3"],
    ),
    "09-long-fields": (["../show.py data"], [r"train: 9", r"class 0 \['yellow word word"]),
    "11-dots-in-shards": (
        [SHARDS, "../show.py dots stems"],
        ["mixed 12", "same 10", "all 6", r"stems/labels/0\.txt would stand for two images"],
    ),
    "12-exif-boxes": (
        [f"look.py {' '.join([*PLACED, 'coco_swapped'])}", MAPS],
        [*(rf"{name} +{task} .*: \{{\('red', 'red'\): 10, \('blue', 'blue'\): 10\}}"
           for name in PLACED for task in ("detection", "image-classification")),
         "coco_swapped .*DataError.*write the width and height", "1 3 0 0", "2 0 0 3", "NOT 1 2 2 2", "NOT 2 2 2 2"],
    ),
    "13-yolo-rows": (
        ["look.py mixed twice border confidence floats windows pixels empty commas decimal nanbox nomore"],
        [r"mixed +\[\('a', \[32\.0, 12\.0, 16\.0, 16\.0\]\), \('b', \[8\.0, 4\.0, 16\.0, 16\.0\]\)\]",
         "twice .*1 row left out, equal to another", "border .*1 box cut", "confidence .*line 1 has 6 fields",
         "commas .*line 1", "decimal .*line 1", "nanbox .*line 1", "nomore .*line 1", r"empty +\[\]"],
    ),
    "15-voc-xml": (
        ["look.py order floats parts difficult blanks fromzero swapped none polygon nofilename otherfile sizewrong"],
        [*(rf"{name} +\[\('a', \[2\.0, 4\.0, 10\.0, 20\.0\]\)\]"
           for name in ("order", "parts", "nofilename", "otherfile")),
         r"floats +\[\('a', \[2\.0, 4\.25, 10\.75, 19\.75\]\)\]", "difficult .*neither found nor missed",
         "blanks .*differ only in their case", r"fromzero +\[\('a', \[0\.0, 0\.0, 12\.0, 24\.0\]\)\]",
         r"swapped .*swapped/0\.xml", r"polygon .*polygon/0\.xml", "sizewrong .*other widths and heights"],
    ),
    "16-coco-ids": (
        [CUT_OUTS + "# zeros gaps unsorted names_twice texts big negative two"],
        [*(rf"^{name} {RIGHT}$" for name in ("zeros", "gaps", "unsorted", "texts", "big", "negative", "two")),
         r"names_twice .*\('green \(3\)', 'blue'\)"],
    ),
    "17-map-of-empty-pictures": (["look.py"], ["every line: ours X pycocotools X"]),
    "18-crowds-and-cut-outs": (
        [CUT_OUTS + "# data textual bool nobox"],
        [r"^data \{\('blue', 'blue'\): 6, \('red', 'red'\): 6\}", r"^textual \{\('blue', 'blue'\): 6, ",
         "bool DataError .*entry 0", "nobox DataError .*'bbox'"],
    ),
    "19-deep-gray": (
        ["look.py"],
        [*(rf"{name} .*difference (to the ramp )?[01]$"
           for name in (r"gray16\.png", r"gray16\.tif", r"rgb16\.png", r"float01\.tif", r"la16\.png")),
         r"values of 12 bits", r"float_neg\.tif .*from -1 to 1", r"gray32_over\.tif .*262140"],
    ),
    "20-transparency": (
        ["look.py"],
        [*(rf"^{name}\.\w+ +gate-data: corner \[255, 255, 255\] middle \[23[01], (19|20), (19|20)\].*"
           rf"oven_retrieval: \[255, 255, 255\] .*eqben_builder: \[255, 255, 255\]"
           for name in ("avif", "gif", "palette_bytes", "palette_index", "rgb_trns", "rgba_hidden_black", "tiff")),
         r"^cmyk\.jpg +gate-data: corner \[255, 0, 255\] middle \[230, 20, 20\]", "more than one frame"],
    ),
    "22-nothing-labelled-loss": (["look.py"], ["all void +loss 0.00000 gradient finite True", "NOT finite False",
                                               r"weighted \[-100, -100\] 0\.0 True"]),
    "23-absent-classes-in-miou": (
        ["look.py"],
        [r"miou 10 classes, given as scores: 0\.5833", r"mean_per_class .*: 0\.8333", "all void: ValueError"],
    ),
    "27-one-caption-two-pictures": (["look.py"], [r"'i2t_r@1': np\.float64\(0\.75\), 't2i_r@1': np\.float64\(0\.75\)"]),
    "28-knn-top5-of-one-neighbour": (
        ["look.py"], [r"acc@5 truths 1 and 3 .*: 0\.7222", r"no neighbour at all: acc@1 0\.3333", "NOT RuntimeWarning"],
    ),
    "29-self-and-copies-in-retrieval": (
        ["look.py"], [r"recall@1,2,10 \[0\.5, 1\.0, 1\.0\]", "NaN query: ValueError"],
    ),
    "30-bm25-common-words": (
        ["look.py"],
        [r"and one more word \[\('big house', 'bm25', 0\.3406\), \('big old house'", r"NOT 'bm25', -",
         r"'C\+\+', 'exact name'", r"'C#', 'folded name'"],
    ),
    "32-fewer-neighbours-than-asked": (
        ["look.py"], [r"exact, 5 vectors, k = 9: \[\[0, 1, 4, 3, 2, -1, -1, -1, -1\]", "row 0 holds NaN or infinity",
                      r"expected shape \[n, 16\], got \[1, 8\]"],
    ),
    "37-classes-with-gaps": (
        ["look.py"],
        [r"classes_ \[0, 1, 2, 4, 5, 6\] \(72, 6\) right 1\.0 columns agree True", "Input X contains NaN",
         "validation has the class 9", "NOT columns agree False"],
    ),
    "38-labels-without-positives": (
        ["look.py"], [r"roc_auc: 1\.0000", "no positive anywhere UndefinedMetricError label 0", "NOT cannot reshape"],
    ),
    "39-low-rank-attention": (
        ["look.py"],
        ["untrained: same True", "removed: to the bit True", "NOT same False", "NOT bit False", "NOT AttributeError"],
    ),
    "40-one-word-two-classes": (
        ["look.py"], ["'apple tree' begin with a class's name", r"\('red', 'crane blue', 'crane blue', 'yellow'\)"],
    ),
    "42-dicom-inverted": (
        ["look.py"],
        [*(rf"{name} +left 0 middle 132 right 255" for name in ("plain", "signed", "slope", "slope_window")),
         *(rf"{name} +left 255 middle 123 right 0" for name in ("inverted", "inverted_window", "negative_slope")),
         r"window +left 0 middle 255 right 255"],
    ),
    "43-cells-of-result-tables": (
        [SCALES],
        [r"^\[71\.8, 53\.5, 42\.0, 40\.8, 80\.7\]$", *(f"^{name} refused .*" for name in (
            "bold", "comma", "commaquoted", "dash", "minus", "parentheses", "percent_some", "plusminus", "thousands")),
         "^plain read", r"^new \('b0', 'b1'\)$"],
    ),
    "44-hidden-test-labels": (
        ["../show.py tables nolabel some flat hf hf_some hf_good hf_none"],
        [r"tables/test\.csv, line 2: the label is -1", r"hf/test, row 1: field 'label' is '-1'",
         r"classes \('x', 'y', 'z'\)", r"hf_none/test, row 6", r"NOT class '-1'"],
    ),
}  # fmt: skip


DRIVER = """
import io, os, runpy, sys, traceback
from pathlib import Path
import datasets, numpy, PIL.Image, sklearn, torch  # once for all
import eevee, eqben_builder, gate_data.own.originals, gate_data.readers.decode, gate_runner, oven_retrieval
import paired_scores.metrics, vision_adapters
torch.set_num_threads(1)

def run(here, words, code):
    os.chdir(here)
    output = open("printed.txt", "a", buffering=1)
    os.dup2(output.fileno(), 1), os.dup2(output.fileno(), 2)
    sys.path[:0] = [str(here), str(here.parent)]
    sys.argv = words
    try:
        exec(compile(code, words[0], "exec"), {"__name__": "__main__"}) if code else runpy.run_path(
            words[0], run_name="__main__")
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)

for line in sys.stdin:
    here, words, code = eval(line)
    pid = os.fork()
    if pid == 0:
        run(Path(here), words, code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def faults_of(name: str, output: str) -> list[str]:
    """Return the expectations that an output does not meet."""
    faults = []
    for line in CASES[name][1]:
        if line.startswith("every line"):
            rows = re.findall(r"ours (\S+) +pycocotools (\S+)", output)
            met = len(rows) > 9 and all(
                ours == "nan" or abs(float(ours) - float(theirs)) < 1e-9 for ours, theirs in rows
            )
        elif line.startswith("NOT "):
            met = not re.search(line.removeprefix("NOT "), output, re.MULTILINE)
        else:
            met = re.search(line, output, re.MULTILINE) is not None
        if not met:
            faults.append(f"{name}: {line!r} in\n{output[-1500:]}")
    return faults


@pytest.mark.long
def test_inputs_on_which_others_failed(tmp_path: Path) -> None:
    if not BUGS.is_dir():
        return
    copied = tmp_path / "bugs"
    shutil.copytree(BUGS, copied)
    environment = {**os.environ, "GATE_RUNNER_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1",
                   "OMP_NUM_THREADS": "1"}  # fmt: skip
    lines, names = [], []
    for name in CASES:
        here = copied / name
        if not here.is_dir():
            continue
        for script in here.glob("*.py"):
            text = script.read_text()
            for before, now in MOVED.items():
                text = re.sub(rf"{re.escape(before)}\b", now, text)
            script.write_text(text)
        commands = ["make.py"] if (here / "make.py").exists() else []
        for command in (*commands, *CASES[name][0]):
            code, _, words = command.partition("# ") if "\n" in command else ("", "", command)
            lines.append(repr((str(here), ["-", *words.split()] if code else words.split(), code)))
            names.append(name)
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], input="\n".join(lines), env=environment, capture_output=True, text=True
    )
    statuses = done.stdout.split()
    assert len(statuses) == len(lines), done.stderr[-2000:]
    faults = [f"{name}: ended with {status}" for name, status in zip(names, statuses, strict=True) if status != "0"]
    for name in dict.fromkeys(names):
        faults += faults_of(name, (copied / name / "printed.txt").read_text())
    assert not faults, "\n\n".join(faults)
