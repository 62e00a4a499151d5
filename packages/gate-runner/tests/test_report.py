"""The report: what is in it, that nothing gets out of its quotes, and that a browser takes it."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gate_runner
import vision_features
from gate_runner.benchmarks import DataRequest, find_benchmark
from gate_runner.charts.plot import Dot, Line, plot, shortened
from gate_runner.cli import main
from gate_runner.comparison.contrasts import signed
from gate_runner.reports.contents import gather
from gate_runner.reports.forms import as_csv, as_latex, as_markdown
from gate_runner.reports.page import build_page
from gate_runner.reports.pictures import reload_samples
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.stored import StoredRun, read_runs
from vision_adapters.error_slices import error_slices

from ._folders import result, write_run

NAMES = {"micro/cifar100": 0.5, "micro/ade20k": 0.4, "micro/acdc": 0.6, "micro/iwildcam": 0.4, "digits": 0.8}
EVIL = "<script>alert(1)</script>\"'&|_$%"


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Tree(HTMLParser):
    """Elements, texts, and whether every element that is opened is closed."""

    VOID = frozenset({"meta", "img", "br", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(page: str) -> Tree:
    tree = Tree()
    tree.feed(page)
    assert tree.open == []
    return tree


@pytest.fixture
def two(tmp_path: Path) -> list[StoredRun]:
    weak = write_run(tmp_path / "w", {name: skill - 0.3 for name, skill in NAMES.items()}, encoder="weak", seeds=(0, 1))
    strong = write_run(tmp_path / "s", NAMES, encoder="strong", seeds=(0, 1))
    failed, _ = result("micro/mini", 0.5, encoder="weak", status="failed", reason=f"no memory {EVIL}", scores=())
    RunFolder(weak).save(failed, None)
    return read_runs([weak, strong])


def test_the_page_says_what_was_trained(two: list[StoredRun], tmp_path: Path) -> None:
    def lede(runs: list[StoredRun]) -> str:
        (paragraph,) = re.findall('<p class="lede">(.*?)</p>', build_page(runs, pictures=0))
        return str(paragraph)

    trained = {"tune": "full", "recipe": "gate"}
    tuned = read_runs([write_run(tmp_path / "t", NAMES, encoder="strong", seeds=(0,), settings=trained)])
    assert lede(two) == "Encoders frozen, heads trained on their features; 2 seeds."
    assert lede(tuned) == "Encoders trained with their heads (full by the recipe gate); 1 seed."
    both = "Encoders frozen, heads trained on their features; encoders trained with their heads"
    assert lede([*two, *tuned]) == f"{both} (full by the recipe gate); 2 seeds."
    assert "3 runs on 6 benchmarks" in build_page([*two, *tuned], pictures=0)  # of two encoders


def test_the_page_says_what_there_is(two: list[StoredRun]) -> None:
    page = build_page(two, pictures=0)
    tree = parsed(page)
    text = " ".join(tree.text.split())
    assert "2 encoders on 6 benchmarks" in text
    assert "strong has the best mean rank, 1.0 over the 5 benchmarks that every run finished, before weak" in text
    assert "5 of 6 benchmarks here are synthetic stand-ins" in text
    assert "1 benchmark run failed (micro/mini)" in text
    assert "1.50 GB" in text
    assert "cpu unmeasured: no counters; gpu unmeasured: no GPU" in text
    for run in two:
        for stored in run.results:
            assert stored.name in text
    contents = gather(two)
    for row in contents.rows:
        for cell in row.cells.values():
            if cell.value is not None:
                assert f"{cell.value:.3f}" in text
                assert f"{cell.low:.3f}–{cell.high:.3f}" in text


def test_what_differs_stands_first_as_compare_says_it(two: list[StoredRun]) -> None:
    page = build_page(two, pictures=0)
    assert page.index('id="differences"') < page.index('id="scores"')
    (section,) = re.findall('<section id="differences">(.*?)</section>', page, re.DOTALL)
    text = " ".join(parsed(section).text.split())
    comparison = gate_runner.compare(*two)
    assert comparison.sentences[0] in text
    assert f"strong is better ({sum(row.verdict == 'better' for row in comparison.contrasts)})" in text
    for contrast in comparison.contrasts:
        ends = (contrast.test.low, contrast.test.high)
        low, high = ends if contrast.direction == "higher" else (-ends[1], -ends[0])
        assert f"{signed(contrast.gain)}{signed(low)} to {signed(high)}" in text
    assert 'id="differences"' not in build_page(two, pictures=0, tests=False)
    assert 'id="differences"' not in build_page(two[:1], pictures=0)


def test_runs_on_other_data_say_why_they_are_not_tested(two: list[StoredRun], tmp_path: Path) -> None:
    other = read_runs([write_run(tmp_path / "o", NAMES, encoder="other", seeds=(0,))])
    assert "Not tested: digits cannot be compared: seeds is [0, 1]" in build_page([two[1], *other], pictures=0)


def test_the_page_is_whole_by_itself(two: list[StoredRun]) -> None:
    tree = parsed(build_page(two, pictures=0))
    names = {tag for tag, _ in tree.tags}
    assert not names & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for tag, attributes in tree.tags:
        for key, value in attributes.items():
            assert not key.startswith("on"), (tag, key)
            if key in ("src", "href"):
                assert value is not None
                assert value.startswith(("data:image/", "#"))
    assert any(dict(a).get("http-equiv") == "Content-Security-Policy" for tag, a in tree.tags if tag == "meta")
    sections = {a["id"] for tag, a in tree.tags if tag == "section"}
    assert {a["href"] for tag, a in tree.tags if tag == "a"} == {f"#{name}" for name in sections}


def test_every_chart_has_a_name_and_a_description(two: list[StoredRun]) -> None:
    page = build_page(two, pictures=0)
    charts = re.findall(r'<svg[^>]*role="img"[^>]*>(.{0,80})', page)
    assert len(charts) == 5  # learning curves
    assert all(start.startswith("<title>") for start in charts)
    assert page.count("<desc>") == len(charts)


def test_nothing_gets_out_of_its_quotes(tmp_path: Path) -> None:
    runs = read_runs(
        [write_run(tmp_path / "a", {"digits": 0.5}, encoder=EVIL), write_run(tmp_path / "b", {"digits": 0.5})]
    )
    evil, sample_scores = result(f"micro/{EVIL}", 0.4, task=EVIL, note=EVIL, reason=EVIL)
    wicked = replace(evil, training={"validation": [{"step": 1, EVIL: 0.5}, {"step": 2, EVIL: 0.6}]})
    RunFolder(tmp_path / "b").save(replace(wicked, name="micro/evil"), sample_scores)
    runs = [
        replace(run, results=tuple(replace(stored, name=stored.name.replace("evil", EVIL)) for stored in run.results))
        for run in runs
    ]
    page = build_page(runs, pictures=0, tests=False)
    assert "<script" not in page
    tree = parsed(page)
    assert EVIL in tree.text
    assert not {tag for tag, _ in tree.tags} & {"script"}
    assert "<script" not in as_markdown(gather(runs, tests=False))
    latex = as_latex(gather(runs, tests=False))
    assert r"\_\$\%" in latex
    for cell in (row for row in csv.DictReader(io.StringIO(as_csv(gather(runs, tests=False))))):
        assert set(cell) >= {"run", "benchmark", "value"}


def test_ranks_shares_and_ties(two: list[StoredRun]) -> None:
    contents = gather(two)
    rows = {row.name: row for row in contents.rows}
    error = rows["micro/iwildcam"].cells
    assert error["strong"].rank == 1  # the smaller error
    assert error["strong"].value < error["weak"].value  # type: ignore[operator]
    accuracy = rows["digits"].cells["strong"]
    assert accuracy.value is not None
    assert accuracy.share == pytest.approx((accuracy.value - 0.1) / 0.9)
    assert error["weak"].share == pytest.approx(1 - error["weak"].value / 0.1)  # type: ignore[operator]
    assert accuracy.value == pytest.approx(sum(accuracy.by_seed) / 2)
    assert not rows["micro/ade20k"].cells["weak"].near_best
    assert "micro/mini" not in [row.name for row in contents.rows if row.cells.get("weak") and row.cells["weak"].rank]
    same = gather([two[0], replace(two[0], label="again")])
    digits = next(row for row in same.rows if row.name == "digits").cells
    assert [cell.rank for cell in digits.values()] == [1, 1]
    assert digits["again"].near_best


def test_values_on_other_data_are_not_ranked(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", {"digits": 0.5}, encoder="a")
    b = write_run(tmp_path / "b", {"digits": 0.5}, encoder="b", data={"sha256": "other", "test": 120})
    contents = gather(read_runs([a, b]))
    assert contents.rows[0].mixed == "not ranked: the runs saw different data"
    assert {cell.rank for cell in contents.rows[0].cells.values()} == {None}
    assert "not ranked" in build_page(read_runs([a, b]), pictures=0)


@pytest.mark.parametrize("form", ["md", "latex", "csv"])
def test_tables_say_which_values_are_of_other_data(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Side by side in a paper they would be read as one comparison."""
    a = write_run(tmp_path / "a", {"digits": 0.5, "pets": 0.4}, encoder="a")
    b = write_run(tmp_path / "b", {"digits": 0.7}, encoder="b", data={"sha256": "other", "test": 120})
    c = write_run(tmp_path / "c", {"pets": 0.6}, encoder="c")
    with pytest.raises(SystemExit) as ended:
        main(["report", str(a), str(b), str(c), "--format", form, "--no-tests"])
    assert ended.value.code == 0
    shown = capsys.readouterr()
    reason = "Not comparable between runs: digits (the runs saw different data)."
    assert shown.err.splitlines() == [f"warning: {reason}"]
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(shown.out)))
        assert [(row["benchmark"], row["not_comparable"], row["rank"]) for row in rows] == [
            ("digits", "the runs saw different data", ""),
            ("digits", "the runs saw different data", ""),
            ("pets", "", "2"),
            ("pets", "", "1"),
        ]
        return
    assert reason in shown.out
    lines = shown.out.splitlines()
    (digits,) = [line for line in lines if line.startswith(("| digits", "digits"))]
    assert ("†" if form == "md" else r"$\dagger$") in digits
    assert "**" not in digits
    assert "textbf" not in digits
    (pets,) = [line for line in lines if line.startswith(("| pets", "pets"))]
    assert "†" not in pets
    assert ("**" if form == "md" else "textbf") in pets


def test_runs_on_the_same_data_have_no_such_note(two: list[StoredRun]) -> None:
    contents = gather(two, tests=False)
    assert contents.not_comparable == ""
    assert "†" not in as_markdown(contents)
    assert {row["not_comparable"] for row in csv.DictReader(io.StringIO(as_csv(contents)))} == {""}


def test_what_one_run_alone_finished_has_no_rank(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", {"digits": 0.5, "micro/mini": 0.9}, encoder="a")
    b = write_run(tmp_path / "b", {"digits": 0.6}, encoder="b")
    contents = gather(read_runs([a, b]))
    alone = next(row for row in contents.rows if row.name == "micro/mini")
    assert alone.cells["a"].rank is None
    assert set(contents.mean_ranks.values()) == {1.0, 2.0}
    text = parsed(build_page(read_runs([a, b]), pictures=0, tests=False)).text
    assert "paired" not in text


def test_one_run_is_measured_against_chance(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", {"digits": 0.8, "micro/cifar100": 0.02}, encoder="only")
    text = parsed(build_page(read_runs([run]), pictures=0)).text
    assert "only on 2 benchmarks" in text
    assert "Not above chance, interval and all: micro/cifar100." in text
    assert "mean rank" not in text


def test_tables_for_papers(two: list[StoredRun]) -> None:
    contents = gather(two)
    markdown = as_markdown(contents).splitlines()
    assert markdown[0] == "| benchmark | metric | chance | weak | strong |"
    assert {line.count("|") for line in markdown[:8]} == {6}
    assert any("| **0." in line for line in markdown)
    rows = list(csv.DictReader(io.StringIO(as_csv(contents))))
    assert len(rows) == 11
    assert float(rows[0]["low"]) <= float(rows[0]["value"]) <= float(rows[0]["high"])
    assert [row["failed"] for row in rows if row["benchmark"] == "micro/mini"] == [f"no memory {EVIL}"]
    latex = as_latex(contents)
    assert latex.startswith(r"\begin{tabular}{llrrr}")
    assert latex.count(r"\\") == 1 + len(contents.rows)
    assert latex.count(r"\textbf") == 5


def test_the_hardest_samples_are_drawn_from_the_same_data_only(tmp_path: Path) -> None:
    data = find_benchmark("digits").load("built-in", DataRequest(limit=50))
    changes: dict[str, Any] = {"settings": {"limit": 50}, "samples": 50}
    right = write_run(
        tmp_path / "a", {"digits": 0.5}, encoder="a", data={"test": 50, "sha256": data.digest()}, **changes
    )
    page = build_page(read_runs([right]), pictures=3)
    tree = parsed(page)
    pictures = [attributes for tag, attributes in tree.tags if tag == "img"]
    assert len(pictures) == 3
    assert all(str(picture["src"]).startswith("data:image/jpeg;base64,") for picture in pictures)
    assert all(re.fullmatch(r"true: \d; wrong", str(picture["alt"])) for picture in pictures)
    assert len({picture["alt"] for picture in pictures}) == 3  # of different classes
    wrong = write_run(tmp_path / "b", {"digits": 0.5}, encoder="b", **changes)
    text = parsed(build_page(read_runs([wrong]), pictures=3)).text
    assert "No images: the data made now are not those of the run" in text
    gone = write_run(tmp_path / "c", {"micro/gone": 0.5}, encoder="c")
    text = parsed(build_page(read_runs([gone]), pictures=3)).text
    assert "No images: its data cannot be reloaded: unknown benchmark 'gone'" in text


@pytest.mark.parametrize("name", ["mini", "ade20k", "acdc", "clevr-math", "iwildcam", "pairs"])
def test_every_kind_of_sample_can_be_drawn(name: str, tmp_path: Path) -> None:
    from gate_data.imports import named
    from gate_runner.reports.pictures import _verdict
    from gate_runner.tasks import find_task_type

    benchmark = find_benchmark(name)
    data = benchmark.load("micro", DataRequest(limit=60 if name == "mini" else 8))
    pixels, caption, *_ = named(find_task_type(benchmark.task).draw)(data, {"ways": 2, "shots": 1, "queries": 5}, 0)
    assert pixels.dtype == "uint8"
    assert pixels.shape[2] == 3
    assert max(pixels.shape[:2]) <= 200
    assert pixels.std() > 0
    assert caption
    assert _verdict(benchmark.metrics[0], [0.25, 0.75])


def test_every_chart_names_both_axes(two: list[StoredRun]) -> None:
    charts = re.findall("<svg [^>]*class=.curve.*?</svg>", build_page(two, pictures=0), re.DOTALL)
    assert charts
    assert {chart.count('class="axis faint"') for chart in charts} == {2}


def test_svg_text_is_escaped_and_long_names_are_cut() -> None:
    ends = [(0.0, "<b>"), (1.0, "1")]
    lines, dots = [Line("<b>", [(0.0, 0.0), (1.0, 1.0)])], [Dot(0.5, 0.5, "<b>", text="<b>")]
    drawn = plot("<b>", "<b>", lines, dots, across=ends, up=ends, below="<b>", above="<b>", style='"')
    assert "<b>" not in drawn
    assert drawn.count("&lt;b&gt;") == 9
    assert 'class="&#34;"' in drawn
    assert shortened("abc", 3) == "abc"
    assert len(shortened("a" * 50, 20)) == 20


def test_the_command(two: list[StoredRun], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(run.path) for run in two]
    with pytest.raises(SystemExit) as ended:
        main(["report", *folders, "--output", str(tmp_path / "new" / "r.html"), "--pictures", "0"])
    assert ended.value.code == 0
    assert (tmp_path / "new" / "r.html").read_text().startswith("<!doctype html>")
    assert "wrote" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["report", folders[0], "--format", "csv"])
    printed = capsys.readouterr().out
    assert printed.startswith("run,benchmark,")
    with pytest.raises(SystemExit):
        main(["report", folders[0], "--format", "csv", "--output", "-"])
    assert capsys.readouterr().out == printed
    assert not Path("-").exists()
    note = tmp_path / "notes.md"
    note.write_text("mine")
    for form in ("csv", "latex", "html", "mistakes"):
        with pytest.raises(SystemExit) as ended:
            main(["report", folders[0], "--format", form, "--output", str(note)])
        assert ended.value.code == 2
        assert "notes.md: expected a name that ends in ." in capsys.readouterr().err
    assert note.read_text() == "mine"
    with pytest.raises(SystemExit) as ended:
        main(["report", folders[0], "--format", "pdf"])
    assert ended.value.code == 2
    assert (
        "must be one of html, md, csv, latex, classes, confusions, mistakes, slices, suspects, shifts, not 'pdf'"
        in capsys.readouterr().err
    )


def test_a_browser_takes_the_page_without_a_complaint(two: list[StoredRun], tmp_path: Path) -> None:
    program = chromium()
    if program is None:
        pytest.skip("there is no chromium here")
    page = tmp_path / "report.html"
    page.write_text(build_page(two, pictures=0))
    done = subprocess.run(
        [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--window-size=400,900", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    assert done.stdout.count("<section") == page.read_text().count("<section")


def test_five_runs_have_ranks_that_say_who_is_tied(tmp_path: Path) -> None:
    names = ("digits", "micro/mini", "micro/cifar100", "faces")
    runs = [
        write_run(tmp_path / key, {name: level + 0.01 * at for at, name in enumerate(names)}, encoder=key)
        for key, level in zip("abcde", (0.9, 0.7, 0.5, 0.3, 0.1), strict=True)
    ]
    text = parsed(build_page(read_runs(runs), pictures=0, tests=False)).text
    assert "Ranks on other benchmarks like these, all with 95 % at once" in text
    assert "a 1, b 2, c 3, d 4, e 5. 10 of 10 pairs are decided." in text
    assert "On other benchmarks, 10 of 10 pairs of runs are decided; the best may be a." in text
    assert "On other test samples, 10 of 10 pairs of runs are decided; the best may be a." in text
    assert "Ranks on other" not in parsed(build_page(read_runs(runs[:4]), pictures=0, tests=False)).text


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, own_cache: None) -> gate_runner.Run:
    """A run on sixty digits, which two tests read."""
    output = tmp_path_factory.mktemp("run")
    return gate_runner.run("digits", encoder="micro-clip/random", limit=60, output=output, show=False)


def test_confusions_are_a_matrix_with_the_samples_behind_its_cells(done: gate_runner.Run) -> None:
    """Matrix and images against a count by hand over what the run predicted."""
    (stored,) = read_runs([done])
    data = find_benchmark("digits").load("built-in", DataRequest(limit=60))
    predicted, targets = stored.predicted(done.results[0]), data.test.targets.numpy()
    assert predicted is not None
    counted = Counter(zip(targets.tolist(), predicted.tolist(), strict=True))
    page = build_page([stored], pictures=2)
    cells = re.findall(r'title="(\w+) taken for (\w+): (\d+) of (\d+)"', page)
    assert len(cells) == 100
    for true, guessed, count, support in cells:
        assert int(count) == counted[int(true), int(guessed)]
        assert int(support) == (targets == int(true)).sum()
    wrong = {pair: count for pair, count in counted.items() if pair[0] != pair[1]}
    rows = list(csv.DictReader(io.StringIO(gate_runner.report(done, form="confusions"))))
    assert {(int(row["class"]), int(row["taken_for"])): int(row["samples"]) for row in rows} == wrong
    (by_class,) = [result.training["by_class"]["rows"] for result in done.results]
    rows = list(csv.DictReader(io.StringIO(gate_runner.report(done, form="classes"))))
    assert [float(row["recall_low"]) for row in rows] == [row["recall"][1] for row in by_class]
    assert [int(row["support"]) for row in rows] == np.bincount(targets).tolist()
    listed = re.findall(r'class="name">(\d)</th><td class="name">(\d)</td><td class="num">(\d+)</td>', page)
    assert {(int(true), int(guessed)): int(count) for true, guessed, count in listed} == wrong
    most = max(wrong.values())
    again, _ = reload_samples(gather([stored]), gather([stored]).rows[0])
    assert again is not None
    confused = list(again.confused(2))
    assert len(confused) == 3
    assert confused[0][0].endswith(f": {most} of {(targets == int(listed[0][0])).sum()}")
    for _, shown in confused:
        assert 1 <= len(shown) <= 2
        for example in shown:
            assert targets[example.index] != predicted[example.index]
    assert page.count("<img ") == 2 + sum(len(shown) for _, shown in confused)


def test_a_look_at_the_features_shows_neighbours_by_cosine_and_a_map(
    done: gate_runner.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbours against cosines computed here; the map has a point for each test image."""
    monkeypatch.setattr("vision_adapters.error_slices._PER_SLICE", 4)  # the run has few images
    monkeypatch.setattr("vision_adapters.error_slices._INSIDE", 100)
    page = gate_runner.report(done, pictures=2, tests=False, look=True)
    assert parsed(page)
    encoder = vision_features.load_encoder("micro-clip/random")
    data = find_benchmark("digits").load("built-in", DataRequest(limit=60))
    train, test = (encoder.encode_image(split.images) for split in (data.train, data.test))
    cosines = torch.nn.functional.cosine_similarity(test[:, None], train[None], dim=2)
    again, _ = reload_samples(gather(read_runs([done.folder])), gather(read_runs([done.folder])).rows[0])
    assert again is not None
    for example in again.hardest(2)[0]:
        values, indices = cosines[example.index].topk(2)
        for value, index in zip(values.tolist(), indices.tolist(), strict=True):
            assert f"true: {int(data.train.targets[index])}; cosine {value:.2f}" in page
    (drawn,) = re.findall(r"<title>digits: test images by their features</title>.*?</svg>", page, re.DOTALL)
    assert drawn.count("<circle") == len(data.test)
    assert "its places" in page
    (stored,) = read_runs([done.folder])
    neighbourhoods = error_slices(test.numpy(), np.asarray(stored.outcomes(stored.results[0])))
    assert len(neighbourhoods) > 0
    assert [int(size) for size in re.findall(r"neighbourhood \d+</th><td[^>]*>\d+</td><td[^>]*>(\d+)</td>", page)] == [
        part.score.samples for part in neighbourhoods
    ]
    assert "A look at the features" not in gate_runner.report(done, pictures=0, tests=False)


def test_pages_and_folders_of_runs_among_the_runs_are_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell's runs/* names choose's page and folder, too."""
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        write_run(Path(f"runs/{number}"), NAMES, encoder=f"e{number}")
    write_run(Path("runs/choose/deep"), NAMES, encoder="deep")
    Path("runs/choice.html").write_text("<p>", encoding="utf-8")
    every = ["runs/choice.html", "runs/choose", "runs/0", "runs/1"]
    lines = [
        "left out: runs/choice.html is not a run folder",
        "left out: runs/choose is not a run folder; it holds some: runs/choose/*",
    ]
    for command in (["report", *every, "--pictures", "0"], ["compare", *every]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        out, err = capsys.readouterr()
        assert (ended.value.code, err.splitlines()) == (0, lines), out
    assert "e1" in Path("report.html").read_text(encoding="utf-8")
    for wrong, line in (
        (["runs/0", "runs/mistyped"], "run runs/mistyped is not a folder"),
        (["runs/choose"], "it holds run folders: give runs/choose/*"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["report", *wrong])
        assert ended.value.code == 2
        assert line in capsys.readouterr().err
