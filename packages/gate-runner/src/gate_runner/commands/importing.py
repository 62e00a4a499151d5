"""``gate-runner import``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gate_runner.commands.options import AsJson
from gate_runner.terminal import echo, echo_json
from wary_files.text import number_of

_SHOWN = 8
_LINE = re.compile(r"line (\d+)")


def import_(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Result files of other tools, or folders of them.")
    ],
    output: Annotated[Path, typer.Option(help="Where the run folders go, one for each model.")] = Path("runs/imported"),
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="THEIRS=OURS", help="A benchmark's name here; may be given several times."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Read other tools' scores as run folders.

    CLIP_benchmark's JSON and CSV, open_clip's published CSV, lm-eval's JSON, torchgeo-bench's CSV. The folders hold no
    outcomes: reports, `compare` and eevee show them next to yours, and nothing is tested.
    """
    from gate_runner.errors import UsageError
    from gate_runner.importing import import_scores

    names = dict(pair.partition("=")[::2] for pair in rename or ())
    for theirs, ours in names.items():
        if not theirs or not ours:
            raise UsageError(f"--rename {theirs!r}: expected THEIRS=OURS, such as vtab/cifar10=cifar-10")
    done = import_scores(*files, output=output, rename=names)
    if json:
        echo_json({**vars(done), "folders": {name: str(path) for name, path in done.folders.items()}})
        return
    for path, reason, places in done.skipped:
        echo(f"skipped in {path}: {reason}: {_listed(places)}", err=True)
    tools = ", ".join(dict.fromkeys(done.tools.values()))
    scores, results = number_of(done.scores, "score"), number_of(done.results, "result")
    echo(f"{scores} in {results} of {number_of(len(done.folders), 'model')} ({tools}) in {output}")
    shown = [str(path) for path in done.folders.values()]
    echo(f"report them: gate-runner report {' '.join(map(_quoted, shown[:2]))}{' ...' if len(shown) > 2 else ''}")


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)


def _listed(places: Sequence[str]) -> str:
    """Return places in few words: lines that follow one another as a range."""
    ranges: list[list[int]] = []
    others = []
    for place in places:
        match = _LINE.fullmatch(place)
        if match is None:
            others.append(place)
        elif ranges and int(match[1]) == ranges[-1][1] + 1:
            ranges[-1][1] += 1
        else:
            ranges.append([int(match[1])] * 2)
    words = [f"line {low}" if low == high else f"lines {low} to {high}" for low, high in ranges] + others
    more = f" and {len(words) - _SHOWN:,} more places (--json lists all)" if len(words) > _SHOWN else ""
    return "; ".join(words[:_SHOWN]) + more
