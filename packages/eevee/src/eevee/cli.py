"""The command line: `eevee check|select|score|predict|pareto|rank|items|report`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from eevee.errors import EeveeError
from wary_files.errors import UsageError, line_of
from wary_files.folders import refuse_empty_paths
from wary_files.text import escape_output, printable_json

if TYPE_CHECKING:
    from collections.abc import Sequence

METHODS = ("evolution", "greedy", "greedy-swap", "random", "exhaustive", "medoids")
HOLDOUTS = ("model", "family", "date", "frontier")
TOGETHER = HOLDOUTS[:2]


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like all others."""

    def error(self, message: str) -> None:  # type: ignore[override]  # raises, as the parent exits
        raise EeveeError(f"{message} (see {self.prog} --help)")


def parser(prog: str = "eevee") -> argparse.ArgumentParser:
    """The argument parser; `prog` is the command's name in its help."""
    top = _Parser(prog=prog, description="Which few benchmarks tell the rest, how surely, and at what cost.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    source = _Parser(add_help=False)
    source.add_argument("runs", nargs="*", metavar="RUN", help="run folders of gate-runner, one for each model")
    source.add_argument(
        "--table", help="gate, gate-full, mieb or a CSV file (default: gate); with RUNs, they are added to it"
    )
    source.add_argument("--about", help="CSV with metric or benchmark, and direction, cost, task, family, low, high")
    source.add_argument("--models", help="CSV with model, and model_family, model_date, group")
    source.add_argument(
        "--model-column", default="", metavar="COLUMNS", help="columns that name a model, comma-separated"
    )
    source.add_argument("--value", default="", metavar="COLUMN", help="column with the scores of a long file")
    source.add_argument("--drop", default="", metavar="COLUMNS", help="columns to leave out, comma-separated")
    source.add_argument("--bounds", metavar="LOW,HIGH", help="bounds of metrics that do not name theirs, such as 0,100")
    source.add_argument(
        "--scaling",
        choices=("plain", "winsor", "rank", "auto"),
        default="plain",
        help="scale of the columns; auto compares all by leave-one-out (default: plain)",
    )
    source.add_argument("--direction", choices=("higher", "lower"), help="direction of metrics that do not name theirs")
    source.add_argument(
        "--twins",
        type=float,
        default=0.1,
        metavar="SD",
        help="models nearer than this stay on one side of every split (default: 0.1; 0: off)",
    )
    source.add_argument("--json", metavar="FILE", help="write the result here; - prints it")
    source.add_argument("--quiet", action="store_true", help="no progress")

    model = _Parser(add_help=False)
    model.add_argument(
        "--scorer",
        default="ridge",
        help="meta-model: ridge, gp, knn, mean, mlp, lowrank, two with a plus, module:callable, auto (default: ridge)",
    )
    model.add_argument("--objective", choices=("all", "unselected"), help="metrics whose error counts (default: all)")
    model.add_argument("--alpha", type=float, default=1.0, help="ridge penalty (default: 1)")
    model.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")

    rules = _Parser(add_help=False)
    rules.add_argument("--include", default="", metavar="IDS", help="must be chosen, comma-separated")
    rules.add_argument("--exclude", default="", metavar="IDS", help="must not be chosen, comma-separated")
    rules.add_argument("--one-per-family", action="store_true", help="at most one benchmark of each family")

    add = commands.add_parser
    add("check", parents=[source], help="constant columns, duplicate models, outliers, gaps")

    select = add("select", parents=[source, model, rules], help="search a subset")
    select.add_argument("-k", type=int, help="number of benchmarks")
    select.add_argument(
        "--given",
        default="",
        metavar="IDS",
        help="benchmarks measured in any case, in addition to the k and free of cost",
    )
    select.add_argument("--budget", type=float, help="largest total cost")
    select.add_argument(
        "--cover", default="", metavar="TASKS", help="tasks that must be present, comma-separated, or all"
    )
    select.add_argument("--method", choices=METHODS, default="evolution", help="searcher (default: evolution)")
    select.add_argument(
        "--holdout",
        choices=HOLDOUTS,
        default="model",
        help="whom the held-out error is for: frontier, a better model than all (default: model)",
    )
    select.add_argument("--no-nested", action="store_true", help="skip the held-out estimate and the learning curve")

    score = add("score", parents=[source, model], help="judge a given subset")
    score.add_argument(
        "--holdout", choices=TOGETHER, default="model", help="unit that errors leave out (default: model)"
    )
    score.add_argument(
        "--subset",
        required=True,
        metavar="IDS",
        help="ids, comma-separated; a tier of the paper (small, base, big); or a result's JSON file",
    )

    predict = add("predict", parents=[source], help="a new model's whole row from its scores on a subset")
    predict.add_argument("--subset", required=True, metavar="IDS", help="as for score")
    predict.add_argument(
        "--scores", required=True, metavar="FILE", help="CSV with model and a column for each subset metric"
    )
    predict.add_argument("--level", type=float, default=0.9, help="level of the intervals (default: 0.9)")
    predict.add_argument("--mean", action="store_true", help="the plain mean of all metrics, too, with its interval")
    predict.add_argument("--scorer", default="auto", help="as for select (default: auto)")
    predict.add_argument(
        "--nested", action="store_true", help="intervals of searches without each fold of models: wider, safer"
    )
    predict.add_argument(
        "--holdout",
        choices=HOLDOUTS,
        default="model",
        help="whom the intervals are for: a model like these, of a new family, newer, or better (default: model)",
    )

    pareto = add("pareto", parents=[source, model, rules], help="error against cost, and tiers from budgets")
    pareto.add_argument(
        "--holdout", choices=TOGETHER, default="model", help="unit that errors leave out (default: model)"
    )
    pareto.add_argument("--largest", type=int, default=12, help="largest size of a subset (default: 12)")
    pareto.add_argument("--tiers", default="", metavar="NAME=COST,...", help="choose a subset for each budget as well")

    rank = commands.add_parser("rank", help="every model's place with a simultaneous interval, and who is tied")
    rank.add_argument("source", nargs="+", metavar="TABLE|RUN", help="tables (as --table), or as --outcomes of items")
    rank.add_argument("--direction", help="as for the other commands")
    rank.add_argument("--level", type=float, default=0.95, help="joint level of all intervals (default: 0.95)")
    rank.add_argument("--seed", type=int, default=0, help="seed of the draws (default: 0)")
    rank.add_argument("--json", metavar="FILE", help="write the ranking here; - prints it")
    rank.add_argument("--quiet", action="store_true", help="no progress")

    items = commands.add_parser("items", help="the few test items of each benchmark that tell its score")
    items.add_argument(
        "--outcomes",
        required=True,
        nargs="+",
        metavar="PATH",
        help="run folders of gate-runner, one for each model; an .npz with models and, for each benchmark, an array; "
        "benchmark-prediction's .jbl files; or UniBench's output folder",
    )
    items.add_argument("--share", type=float, default=0.05, help="share of the items (default: 0.05)")
    items.add_argument("--count", type=int, help="number of items, in place of the share")
    items.add_argument(
        "--method",
        choices=("drawn", "clusters", "adaptive"),
        default="drawn",
        help="drawn (default): with known chances, holds whatever the model; clusters: anchors and gp-IRT, for "
        "models like these; adaptive: a bank of all items for gate-runner run --items BANK --setting until=POINTS",
    )
    items.add_argument(
        "--holdout",
        choices=("model", "family", "frontier"),
        default="model",
        help="whom the errors are of: a model like these, of a new family, or better than all (default: model)",
    )
    items.add_argument("--level", type=float, default=0.9, help="level of the intervals (default: 0.9)")
    items.add_argument("--seed", type=int, default=0, help="seed of folds and draws (default: 0)")
    items.add_argument("--json", metavar="FILE", help="write the choice here; - prints it")
    items.add_argument("--quiet", action="store_true", help="no progress")

    report = add("report", parents=[source], help="one HTML page about a table, a selection, ranks and items")
    report.add_argument("--result", metavar="FILE", help="JSON of eevee select")
    report.add_argument("-k", type=int, help="select so many first, where no --result is given")
    report.add_argument("--seed", type=int, default=0, help="seed of that selection (default: 0)")
    report.add_argument("--output", required=True, metavar="FOLDER", help="folder for index.html")
    report.add_argument("--largest", type=int, default=12, help="largest k in the images (default: 12)")
    report.add_argument("--scores", metavar="FILE", help="CSV of new models' scores on the subset, to be predicted")
    report.add_argument("--outcomes", nargs="+", metavar="PATH", help="as for items: ranks on other items, and items")
    return top


def main(argv: Sequence[str] | None = None, prog: str = "eevee") -> int:
    """Run a command."""
    escape_output()
    try:
        refuse_empty_paths(argv)
        options = parser(prog).parse_args(argv)
        from eevee import commands

        return commands.run(options)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except (EeveeError, UsageError, OSError, UnicodeEncodeError) as error:
        print(f"{prog}: {printable_json(line_of(error))}", file=sys.stderr)  # noqa: T201
        return 2


def console() -> None:
    """Entry point of the console script."""
    sys.exit(main())
