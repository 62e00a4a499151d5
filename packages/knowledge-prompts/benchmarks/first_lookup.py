"""CPU time and memory until the first definition is there: this reader against NLTK's, each in a fresh process.

    pip install nltk

NLTK's reader wants ``lexnames`` beside the database files, which Debian's package lacks; it is written here from
WordNet's manual page lexnames(5WN). Both read the same files.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measurement import arguments, write

from knowledge_prompts.sources.wordnet_files import find_wordnet

# WordNet's lexicographer files in the order of their numbers: what each part of speech has.
TOPICS = {
    "adj": "all pert",
    "adv": "all",
    "noun": "Tops act animal artifact attribute body cognition communication event feeling food group location motive "
    "object person phenomenon plant possession process quantity relation shape state substance time",
    "verb": "body change cognition communication competition consumption contact creation emotion motion perception "
    "possession social stative weather",
}
LEXICOGRAPHER_FILES = [f"{part}.{topic}" for part, topics in TOPICS.items() for topic in topics.split()] + ["adj.ppl"]

CHILD = """
import json, sys, time
folder = sys.argv[1]
start = time.process_time()
{imports}
imported = time.process_time()
{lookup}
end = time.process_time()
peak = int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) / 1024  # Linux
print(json.dumps({{"import_s": imported - start, "lookup_s": end - imported, "peak_mib": peak, "text": text}}))
"""
OURS = CHILD.format(
    imports="from knowledge_prompts import WordNet", lookup="text = WordNet(folder).definition('sunflower')"
)
NLTK = CHILD.format(
    imports="from nltk.corpus.reader.wordnet import WordNetCorpusReader",
    lookup="text = WordNetCorpusReader(folder, None).synsets('sunflower')[0].definition()",
)
BARE = CHILD.format(imports="", lookup="text = ''")


def child(code: str, folder: Path) -> dict[str, float | str]:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(folder)], stdout=subprocess.PIPE, text=True, check=True
    )
    record: dict[str, float | str] = json.loads(run.stdout)
    return record


def nltk_folder(database: Path, root: Path) -> Path:
    """The same files where NLTK allows itself to read, with the two that it wants beside them."""
    folder = root / "corpora" / "wordnet"
    folder.mkdir(parents=True)
    for file in database.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    lines = [f"{number:02d}\t{name}\t1" for number, name in enumerate(LEXICOGRAPHER_FILES)]
    (folder / "lexnames").write_text("\n".join(lines) + "\n")
    (folder / "index.sense").touch()
    return folder


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    database = find_wordnet()
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["NLTK_DATA"] = temporary
        theirs = nltk_folder(database, Path(temporary))
        if child(OURS, database)["text"] != child(NLTK, theirs)["text"]:
            raise SystemExit("the two readers disagree; no time is reported")
        runs: dict[str, list[dict[str, float | str]]] = {"ours": [], "nltk": [], "bare": []}
        for _ in range(repeats):
            runs["ours"].append(child(OURS, database))
            runs["nltk"].append(child(NLTK, theirs))
            runs["bare"].append(child(BARE, database))
    medians = {
        name: {
            key: round(statistics.median(float(run[key]) for run in measured), 6)
            for key in ("import_s", "lookup_s", "peak_mib")
        }
        for name, measured in runs.items()
    }
    ours, nltk = medians["ours"], medians["nltk"]
    figures: dict[str, object] = {
        "repeats": repeats,
        "medians": medians,
        "cpu_ratio_lookup": round(nltk["lookup_s"] / ours["lookup_s"], 1),
        "cpu_ratio_import_and_lookup": round(
            (nltk["import_s"] + nltk["lookup_s"]) / (ours["import_s"] + ours["lookup_s"]), 1
        ),
        "peak_mib": ours["peak_mib"],
    }
    write("first_lookup", figures, "nltk")


if __name__ == "__main__":
    main()
