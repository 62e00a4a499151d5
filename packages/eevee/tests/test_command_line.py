"""The command line, the report and the executors, from end to end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import eevee
from eevee import EeveeError, Outcomes, load_table, read_selection, report, select
from eevee.cli import main
from eevee.errors import MissingExtraError

from ._tables import made_up


def write_table(path, table):
    header = ["model", *table.metric_ids]
    lines = [",".join(header)] + [
        ",".join([model, *("" if np.isnan(v) else repr(float(v)) for v in row)])
        for model, row in zip(table.models, table.values, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


def test_select_prints_and_records(tmp_path, capsys):
    out = tmp_path / "chosen.json"
    argv = ["select", "--table", "gate", "-k", "3", "--method", "greedy-swap", "--no-nested", "--json", str(out)]
    assert main(argv) == 0
    words = capsys.readouterr().out
    raw = json.loads(out.read_text())
    for key in raw["benchmarks"]:
        assert key in words
    assert "random subsets" in words
    assert "greedy" in words
    assert raw["seed"] == 0
    assert main(["score", "--subset", str(out)]) == 0
    assert f"{raw['error']:.4f}" in capsys.readouterr().out
    assert main(["score", "--table", "gate-full", "--subset", str(out)]) == 2
    assert "made from another table" in capsys.readouterr().err


@pytest.mark.parametrize("nested", [[], ["--no-nested"]])
def test_a_subset_of_everything_prints_no_errors_of_cells_outside(tmp_path, capsys, nested):
    table = tmp_path / "t.csv"
    write_table(table, made_up(models=12))
    common = ["--table", str(table), "--direction", "higher", "--quiet"]
    chosen = tmp_path / "all.json"
    argv = ["select", *common, "-k", "6", "--method", "greedy", "--json", str(chosen), *nested]
    assert main(argv) == 0
    words = capsys.readouterr().out
    assert "outside   nothing: the subset holds every metric that counts" in words
    assert "no other subset is as large" in words
    assert main(["score", *common, "--subset", str(chosen)]) == 0
    words += capsys.readouterr().out
    assert main(["report", *common, "--result", str(chosen), "--output", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "nothing: the subset holds every metric that counts" in page
    assert not re.search(r"\bnan\b", words + re.sub(r"base64,[^\"]*", "", page))


def test_json_to_standard_output(capsys):
    assert main(["check", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == 30


def test_own_table_end_to_end(tmp_path, capsys):
    table, about, new = tmp_path / "t.csv", tmp_path / "about.csv", tmp_path / "new.csv"
    write_table(table, made_up(models=12, missing=0.1))
    about.write_text("benchmark,cost,task\n" + "".join(f"b{i},{i + 1},t{i % 2}\n" for i in range(6)))
    common = ["--table", str(table), "--direction", "higher", "--about", str(about), "--quiet"]
    assert main(["check", *common]) == 0
    assert main(["select", *common, "--budget", "7", "--cover", "all", "--method", "greedy"]) == 0
    assert "cost " in capsys.readouterr().out
    assert main(["pareto", *common, "--largest", "3", "--tiers", "small=3,big=9"]) == 0
    words = capsys.readouterr().out
    assert "tier small: cost" in words
    new.write_text("model,b0/m0,b3/m0\nmine,0.5,\n")
    assert main(["predict", *common, "--subset", "b0,b3", "--scores", str(new)]) == 0
    words = capsys.readouterr().out
    assert "mine: rank" in words
    assert "predicted without b3/m0" in words


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["select"], "neither k nor a budget"),
        (["select", "-k", "99"], "k is 99; expected 1 to 30"),
        (["select", "-k", "x"], "invalid int value"),
        (["select", "-k", "3", "--include", "nope"], "unknown benchmark 'nope'"),
        (["select", "-k", "3", "--alpha", "-1"], "alpha is -1.0"),
        (["select", "-k", "3", "--scorer", "hill"], "expected one of ridge"),
        (["select", "-k", "3", "--twins", "-1"], "--twins is -1.0"),
        (["select", "--budget", "5"], "has no cost"),
        (["check", "--table", "absent.csv"], "absent.csv: cannot be read"),
        (["check", "--table", "gatee"], "no file and no shipped table 'gatee'; there are gate, gate-full, mieb"),
        (["pareto", "--tiers", "small"], "'small'; expected NAME=COST"),
        (["predict", "--subset", "acdc", "--scores", "absent.csv"], "absent.csv: cannot be read"),
        (["report", "--output", "x"], "neither --result nor -k"),
        (["frob"], "invalid choice"),
        ([], "required"),
    ],
)
def test_one_line_and_exit_2(argv, message, capsys):
    assert main(argv, prog="gate-runner eevee") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("gate-runner eevee: ")
    assert error.count("\n") == 1


def test_help_names_the_program(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["select", "--help"], prog="gate-runner eevee")
    assert stopped.value.code == 0
    assert "gate-runner eevee select" in capsys.readouterr().out


def test_help_does_not_import_torch():
    code = "import sys\nfrom eevee.cli import parser\nparser().format_help()\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


def test_every_public_name_is_there():
    assert all(getattr(eevee, name) is not None for name in eevee.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = eevee.nothing


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.sources = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.sources += [value for key, value in attrs if key in ("src", "href")]


def test_report_is_one_page_with_every_name_escaped(tmp_path):
    pytest.importorskip("matplotlib")
    table = made_up(models=10, costs=True)
    chosen = select(table, 3, method="greedy", randoms=20, folds=3)
    scores = {"new <b>": {f"{chosen.benchmarks[0]}/m0": 9.0}}
    right = (np.random.default_rng(0).random((10, 60)) < np.linspace(0.2, 0.9, 10)[:, None]).astype(float)
    outcomes = {"<i>toy": Outcomes("<i>toy", table.models, tuple(map(str, range(60))), right)}
    written = report(table, chosen, tmp_path, largest=2, scores=scores, outcomes=outcomes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "selection.json"]
    page = written.read_text()
    links = Links()
    links.feed(page)
    assert links.tags.count("img") == 7
    assert all(source.startswith("data:image/svg+xml") for source in links.sources)
    assert "new <b>" not in page
    assert "new &lt;b&gt;: rank" in page
    assert "<i>toy" not in page
    for figure in page.split("<h2>")[1:]:  # a sentence beside every figure
        assert figure.count("<p>") == 1
    assert "Test items that tell a score" in page
    assert read_selection(tmp_path / "selection.json", table) == chosen
    with pytest.raises(EeveeError, match="another table"):
        report(load_table("gate"), chosen, tmp_path)


def test_a_report_takes_the_place_of_a_report_alone(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    table = made_up(models=10)
    first, second = (select(table, k, method="greedy", nested=False, randoms=5) for k in (2, 3))
    (tmp_path / "index.html").write_text("my start page")
    with pytest.raises(EeveeError, match=r"index\.html is there and is no report"):
        report(table, first, tmp_path, largest=2)
    assert main(["report", "-k", "2", "--output", str(tmp_path)]) == 2  # before anything is searched
    assert "is no report of eevee's; name another folder" in capsys.readouterr().err
    assert (tmp_path / "index.html").read_text() == "my start page"
    (tmp_path / "index.html").unlink()
    first.to_json(tmp_path / "selection.json")
    with pytest.raises(EeveeError, match=r"selection\.json is there and is another selection"):
        report(table, second, tmp_path, largest=2)
    report(table, first, tmp_path, largest=2)
    report(table, second, tmp_path, largest=2)  # in place of the report
    assert read_selection(tmp_path / "selection.json", table) == second


def test_missing_extras_are_named(monkeypatch):
    from eevee.reports.charts import new_figure

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'eevee-search\[plot\]'"):
        new_figure(1, 1)
