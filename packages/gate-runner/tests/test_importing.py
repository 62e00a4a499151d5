"""Scores of other tools: every form as they publish it, nothing lost unnamed, and what reads the folders."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gate_runner
from gate_runner.errors import DataError, UsageError
from gate_runner.importing import Imported, import_scores
from gate_runner.importing.entry import direction_of
from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_run

from ._command import call_here
from ._folders import write_run

HEAD = (
    "acc1,acc5,mean_per_class_recall,dataset,model,pretrained,task,mean_average_precision,image_retrieval_recall@5,"
    "text_retrieval_recall@5,model_fullname\n"
)
BUILT = HEAD + (
    "0.77,0.93,0.73,digits,ViT-L-14,openai,zeroshot_classification,,,,ViT-L-14 openai\n"
    "0.44,,0.39,vtab/dtd,ViT-L-14,openai,zeroshot_classification,,,,ViT-L-14 openai\n"
    "0.61,0.9,0.6,digits,ViT-B-32,openai,zeroshot_classification,,,,ViT-B-32 openai\n"
    ",,,voc2007_multilabel,ViT-B-32,openai,zeroshot_classification,0.8,,,ViT-B-32 openai\n"
    ",,,flickr30k,ViT-B-32,openai,zeroshot_retrieval,,0.83,0.94,ViT-B-32 openai\n"
    ",,,empty,ViT-B-32,openai,zeroshot_classification,,,,ViT-B-32 openai\n"
)
PROBED = {
    "dataset": "wds/vtab/cifar10", "model": "ViT-B-32", "pretrained": "openai", "task": "linear_probe",
    "language": "en",
    "metrics": {
        "lp_acc1": 0.95, "lp_acc5": math.nan, "lp_mean_per_class_recall": 0.94, "weight_decay": 0.1, "epochs": 10,
        "seed": 3, "fewshot_k": 16, "normalized": True,
    },
}  # fmt: skip
HARNESS = {
    "results": {
        "mmlu": {"acc,none": 0.61, "acc_stderr,none": 0.004, "alias": "mmlu"},
        "wikitext": {"word_perplexity,none": 9.5, "word_perplexity_stderr,none": "N/A"},
        "group": {"alias": "group"},
    },
    "n-samples": {"mmlu": {"original": 14042, "effective": 14000}},
    "n-shot": {"mmlu": 5, "wikitext": 0},
    "config": {"model": "hf", "model_args": "pretrained=some/model,dtype=float16"},
}
LONG = (
    "dataset,method,metric_name,metric_value,ci_lower,ci_upper,n_test,seed,model,name,bands,image_size\n"
    "m-eurosat,knn5,accuracy,0.504,0.474,0.530,1000,0,a.B,prithvi,rgb,224.0\n"
    "m-eurosat,knn5,accuracy,0.604,0.574,0.630,1000,0,a.B,prithvi,all,224.0\n"
    "m-eurosat,knn5,accuracy,0.604,0.574,0.630,1000,0,a.B,prithvi,all,224\n"
    "m-eurosat,profile,params_m,86.0,0.0,0.0,1000,0,a.B,prithvi,all,224\n"
)
PUBLISHED = (
    "name,pretrained,params (M),FLOPs (B),Average perf. on 2 datasets,ImageNet 1k,Flickr\n"
    "ViT-H-14,dfn5b,986.7,1054.0,0.70,0.8437,0.88\n"
)


def imported(tmp_path: Path, name: str, content: Any, **options: Any) -> Imported:
    file = tmp_path / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return import_scores(file, output=tmp_path / "runs", **options)


def stored(done: Imported, model: str) -> dict[str, Result]:
    return {result.name: result for result in read_run(done.folders[model]).results}


def test_a_built_csv_loses_no_score(tmp_path: Path) -> None:
    done = imported(tmp_path, "benchmark.csv", BUILT)
    assert (done.results, done.scores) == (5, 11)  # as many numbers as the six rows hold
    assert done.skipped == ((str(tmp_path / "benchmark.csv"), "no score", ("line 7",)),)
    results = stored(done, "ViT-B-32 openai")
    assert {name: result.task for name, result in results.items()} == {
        "digits": "zero-shot", "voc2007_multilabel": "zero-shot", "flickr30k": "zero-shot-retrieval"
    }  # fmt: skip
    scores = {score.metric: score.value for score in results["digits"].scores}
    assert scores == {"acc@1": 0.61, "acc@5": 0.9, "mean_per_class_recall": 0.6}
    assert {score.metric for score in results["flickr30k"].scores} == {"t2i_r@5", "i2t_r@5"}
    assert all(math.isnan(score.low) and math.isnan(score.chance) for score in results["digits"].scores)


def test_a_linear_probe_is_not_taken_for_class_prompts(tmp_path: Path) -> None:
    (result,) = stored(imported(tmp_path, "a.json", PROBED), "ViT-B-32 openai").values()
    assert (result.name, result.seed) == ("vtab/cifar10@16-shot", 3)
    assert [(score.metric, score.value) for score in result.scores] == [
        ("acc@1", 0.95),
        ("mean_per_class_recall", 0.94),
    ]


@pytest.mark.parametrize(
    "metric", ["nll", "val_eer", "fpr95", "fpr@95", "fid", "mape", "hd95", "abs_rel", "cross_entropy"]
)
def test_errors_and_distances_are_better_when_lower(metric: str) -> None:
    """They were taken for shares of which higher ones are better."""
    assert direction_of(metric) == "lower"


def test_names_that_hold_an_errors_letters_are_no_errors() -> None:
    assert {direction_of(metric) for metric in ("acc", "spider", "fidelity", "terms", "depth_acc", "kidney_dice")} == {
        "higher"
    }


def test_a_harness_result_has_intervals_and_directions(tmp_path: Path) -> None:
    done = imported(tmp_path, "results.json", HARNESS)
    results = stored(done, "some/model")
    (score,) = results["mmlu@5-shot"].scores
    assert (score.metric, score.direction) == ("acc", "higher")
    assert (score.low, score.high) == (pytest.approx(0.61 - 1.96 * 0.004, abs=1e-6), pytest.approx(0.61784, abs=1e-6))
    assert results["mmlu@5-shot"].data == {"test": 14000}
    assert results["wikitext"].scores[0].direction == "lower"
    assert [(reason, places) for _, reason, places in done.skipped] == [
        ("a group without scores of its own", ("group",))
    ]


def test_a_long_csv_keeps_variants_apart_and_names_the_rest(tmp_path: Path) -> None:
    done = imported(tmp_path, "all_results.csv", LONG)
    assert sorted(done.folders) == ["prithvi (all)", "prithvi (rgb)"]
    (score,) = stored(done, "prithvi (rgb)")["m-eurosat@knn5"].scores
    assert (score.metric, score.value, score.low, score.high) == ("acc@1", 0.504, 0.474, 0.530)
    assert [(reason, places) for _, reason, places in done.skipped] == [
        ("cost of a profile, not a score", ("line 5",)),
        ("repeats a score", ("line 4 (as line 3)",)),
    ]
    assert done.scores + sum(len(places) for *_, places in done.skipped) == 4


def test_published_tables_of_open_clip(tmp_path: Path) -> None:
    done = imported(tmp_path, "openclip_results.csv", PUBLISHED)
    results = stored(done, "ViT-H-14 dfn5b")
    assert {name: result.scores[0].metric for name, result in results.items()} == {
        "ImageNet 1k": "acc@1", "Flickr": "score"
    }  # fmt: skip
    assert done.skipped[0][1:] == ("a mean of others", ("column Average perf. on 2 datasets",))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("other.csv", "model,top1\na,0.5\n", "columns model, top1: no version of a tool that is known"),
        ("other.json", '{"accuracy": 0.5}', "the fields accuracy: no version of a tool that is known"),
        ("list.json", "[1, 2]", "a list of 2: no version"),
        ("cut.json", '{"results": {', "not whole JSON"),
        ("word.csv", BUILT.replace("0.77", "high"), "line 2, acc1 is 'high'; expected a number"),
        ("comma.csv", BUILT.replace("0.77", '"0,77"'), "acc1 is '0,77'; expected a number; write a decimal comma"),
        ("short.csv", BUILT + "0.5,0.6\n", "line 8: 2 cells; expected 11"),
        ("none.csv", HEAD, "no score"),
        ("inf.csv", BUILT.replace("0.77", "inf"), "line 2, acc1 is 'inf'; expected a finite number"),
        ("model.csv", BUILT.replace("ViT-L-14,openai", ",").replace("ViT-L-14 openai", ""), "the model is empty"),
    ],
)
def test_files_of_other_versions_are_one_line(tmp_path: Path, name: str, content: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        imported(tmp_path, name, content)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_a_name_to_rename_that_no_file_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--rename 'cifar': .* there are: digits, empty|--rename 'cifar'"):
        imported(tmp_path, "benchmark.csv", BUILT, rename={"cifar": "cifar-10"})


def test_reading_again_changes_nothing(tmp_path: Path) -> None:
    imported(tmp_path, "benchmark.csv", BUILT)
    before = {path: path.read_bytes() for path in (tmp_path / "runs").rglob("results/*.json")}
    imported(tmp_path, "benchmark.csv", BUILT)
    assert len(before) == 5
    assert {path: path.read_bytes() for path in (tmp_path / "runs").rglob("results/*.json")} == before


def test_reports_and_comparisons_show_them_next_to_ours(tmp_path: Path) -> None:
    ours = write_run(tmp_path / "ours", {"digits": 0.7}, encoder="mine")
    done = imported(tmp_path, "benchmark.csv", BUILT)
    theirs = [done.folders["ViT-L-14 openai"], done.folders["ViT-B-32 openai"]]
    comparison = gate_runner.compare(ours, *theirs)
    assert comparison.contrasts == ()
    assert [(pair.second, pair.values[1]) for pair in comparison.untested] == [
        ("ViT-L-14 openai", 0.77), ("ViT-B-32 openai", 0.61)
    ]  # fmt: skip
    assert comparison.sentences == (comparison.sentences[0],)
    assert "not tested" in comparison.sentences[0]
    with pytest.warns(UserWarning, match="some scores were imported"):
        rows = list(csv.DictReader(io.StringIO(gate_runner.report(ours, *theirs, form="csv"))))
    shown = {(row["run"], row["benchmark"]): row for row in rows}
    assert shown["ViT-L-14 openai", "digits"]["value"] == "0.77"
    assert shown["ViT-L-14 openai", "digits"]["low"] == ""
    assert "imported" in shown["mine", "digits"]["not_comparable"]
    page = gate_runner.report(ours, *theirs)
    assert "0.770" in page
    assert ">nan" not in page
    with pytest.warns(UserWarning, match="some scores were imported"):
        assert " 0.770 " in gate_runner.report(ours, *theirs, form="md")


def test_imported_runs_alone_are_ranked(tmp_path: Path) -> None:
    done = imported(tmp_path, "benchmark.csv", BUILT)
    rows = list(csv.DictReader(io.StringIO(gate_runner.report(*done.folders.values(), form="csv"))))
    assert {row["run"]: row["rank"] for row in rows if row["benchmark"] == "digits"} == {
        "ViT-B-32 openai": "2", "ViT-L-14 openai": "1"
    }  # fmt: skip
    assert "<html" in gate_runner.report(*done.folders.values())
    assert "imported, without outcomes or chance" in gate_runner.report(done.folders["ViT-L-14 openai"])


def test_what_needs_outcomes_says_so(tmp_path: Path) -> None:
    folder = imported(tmp_path, "benchmark.csv", BUILT).folders["ViT-L-14 openai"]
    with pytest.raises(UsageError, match="was imported, without outcomes"):
        gate_runner.power(folder)
    with pytest.raises(UsageError, match="exported as csv alone"):
        gate_runner.export(folder, "every-eval-ever")
    (table,) = gate_runner.export(folder, "csv").files
    assert "nan" not in table.read_text()


def test_eevee_takes_them_as_a_table(tmp_path: Path) -> None:
    from eevee.tables.runs import table_of_runs

    rows = "".join(
        f"0.{5 + i},0.9,0.5,{data},m{i},openai,zeroshot_classification,,,,m{i} openai\n"
        for i in range(5)
        for data in ("digits", "cars")
    )
    done = imported(tmp_path, "benchmark.csv", HEAD + rows)
    ours = write_run(tmp_path / "ours", {"digits": 0.7}, encoder="mine")
    table = table_of_runs([*done.folders.values(), ours])
    assert table.values.shape == (6, 2)
    assert table.models[-1] == "mine"


def test_an_own_result_without_an_interval_is_refused(tmp_path: Path) -> None:
    done = imported(tmp_path, "benchmark.csv", BUILT)
    result = stored(done, "ViT-L-14 openai")["digits"]
    raw = json.loads(result.to_json())
    assert raw["scores"][0]["low"] is None
    assert Result.from_mapping(raw, "it") == result
    with pytest.raises(DataError, match="imported ones alone may lack"):
        Result.from_mapping(json.loads(replace(result, source="local").to_json()), "it")


def test_the_command_names_what_it_skips(tmp_path: Path) -> None:
    (tmp_path / "benchmark.csv").write_text(BUILT)
    done = call_here("import", "benchmark.csv", "--rename", "vtab/dtd=dtd", cwd=tmp_path)
    assert done.stderr.decode() == "skipped in benchmark.csv: no score: line 7\n"
    assert done.stdout.decode().startswith("11 scores in 5 results of 2 models (CLIP_benchmark) in runs/imported\n")
    assert (tmp_path / "runs/imported/ViT-L-14 openai/results/dtd.seed0.json").is_file()
    shown = call_here("compare", *(f"runs/imported/ViT-{size} openai" for size in ("B-32", "L-14")), cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "+0.160" in shown.stdout.decode()
    listed = call_here("import", "benchmark.csv", "--json", cwd=tmp_path)
    assert json.loads(listed.stdout)["skipped"] == [["benchmark.csv", "no score", ["line 7"]]]
    wrong = call_here("import", "gone.csv", cwd=tmp_path)
    assert wrong.stderr.decode() == "gate-runner: gone.csv is not there; expected a file of results\n"


def written(folder: Path, content: Any, name: str = "scores") -> Path:
    path = folder / f"{name}.{'csv' if isinstance(content, str) else 'json'}"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def one_score(**changed: Any) -> dict[str, Any]:
    """CLIP_benchmark's JSON of a score."""
    content = {"dataset": "cars", "model": "V", "pretrained": "o", "task": "zeroshot_classification"}
    return {**content, "metrics": {"acc1": 0.6}, **changed}


def of_harness(**scores: Any) -> dict[str, Any]:
    return {"results": {"cifar": {name.replace("__", ","): value for name, value in scores.items()}}, "model_name": "m"}


ROW = "m-eurosat,knn5,{metric},{value},{low},{high},{samples},0,a.B,prithvi,rgb,224\n"


def long_row(
    metric: str = "accuracy", value: str = "0.5", low: str = "0.4", high: str = "0.6", samples: str = "9"
) -> str:
    row = ROW.format(metric=metric, value=value, low=low, high=high, samples=samples)
    return LONG.partition("\n")[0] + "\n" + row


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (one_score(metrics={"acc1": 63.2}), "acc1 is 63.2; expected a share from 0 to 1: divide per cent by 100"),
        (one_score(metrics={"mean_per_class_recall": -0.1}), "mean_per_class_recall is -0.1; expected a share"),
        (one_score(metrics={"acc1": 10**400}), "acc1 is 1000.*; expected a finite number"),
        (one_score(metrics={"acc1": "1_0"}), "acc1 is '1_0'; expected a number"),
        (one_score(metrics={"acc1": "٠.٥"}), "acc1 is '٠.٥'; expected a number"),
        (one_score(metrics={"acc1": True}), "acc1 is True; expected a number"),
        (one_score(metrics={"acc1": 0.5, "seed": 10**400}), "seed is 1000.*; expected a finite number"),
        (one_score(metrics={"acc1": 0.5, "seed": 2**60}), "seed is 1152.*; expected a whole number, at least 0"),
        (one_score(task="linear_probe", fewshot_k=10**400), "fewshot_k is 1000.*; expected a finite number"),
        (one_score(model="a\ud800"), r"model is .*; expected a name without control characters"),
        (one_score(model="a\x1b[31m"), r"model is .*; expected a name without control characters"),
        (one_score(model=["a"]), r"model is \['a'\]; expected a name"),
        (one_score(dataset={"a": 1}), r"dataset is \{'a': 1\}; expected a name"),
        (one_score(dataset="é" * 200), "dataset is 'é.*; expected a name of at most 200 bytes"),
        (of_harness(acc__none=55.0), "acc,none is 55.0; expected a share"),
        (of_harness(acc__none=10**400), "acc,none is 1000.*; expected a finite number"),
        (of_harness(acc__none=0.5, acc_stderr__none=10**400), "acc_stderr,none is 1000.*; expected a finite number"),
        (of_harness(acc__none=0.5, acc_stderr__none=math.inf), "acc_stderr,none is inf; expected a finite number"),
        (of_harness(acc__none=0.5, acc_stderr__none=-0.1), "acc_stderr,none is -0.1; expected a standard error"),
        (long_row(value="90"), "line 2, metric_value is '90'; expected a share"),
        (long_row(low="0.6", high="0.4"), "line 2: the interval is 0.6 to 0.4; expected its lower end first"),
        (long_row(samples="1_00"), "line 2, n_test is '1_00'; expected a number"),
        ("name,pretrained,cars\nViT,openai,50\n", "line 2, cars is '50'; expected a share"),
        (
            'name,pretrained,cars\nViT,"openai,0.5\nRN50,yfcc",0.4\nRN50,openai,0.3\n',
            "line 3: a quote opens in a row and holds the next, 'openai,0.5",
        ),
    ],
)
def test_a_score_that_cannot_be_is_refused_before_anything_is_written(
    content: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        import_scores(written(tmp_path, content), output=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_an_interval_with_one_end_is_none(tmp_path: Path) -> None:
    done = import_scores(written(tmp_path, long_row(high="")), output=tmp_path / "runs")
    (score,) = read_run(done.folders["prithvi"]).results[0].scores
    assert math.isnan(score.low)
    assert math.isnan(score.high)


@pytest.mark.parametrize("model", [".", "..", "../.."])
def test_a_model_called_like_a_folder_above_has_a_folder_below(model: str, tmp_path: Path) -> None:
    content = one_score(model=model, pretrained="")
    done = import_scores(written(tmp_path, content), output=tmp_path / "runs")
    assert done.folders[model].resolve().parent == (tmp_path / "runs").resolve()


def test_a_later_import_keeps_other_scores_and_names_what_it_replaces(tmp_path: Path) -> None:
    output = tmp_path / "runs"
    import_scores(written(tmp_path, one_score(), "a"), output=output)
    second = import_scores(written(tmp_path, one_score(metrics={"acc5": 0.9}), "b"), output=output)
    assert not second.skipped
    third = import_scores(written(tmp_path, one_score(metrics={"acc1": 0.7}), "c"), output=output)
    (result,) = read_run(third.folders["V o"]).results
    assert [(score.metric, score.value) for score in result.scores] == [("acc@1", 0.7), ("acc@5", 0.9)]
    ((_, reason, places),) = third.skipped
    assert (reason, places) == ("replaces a score of an earlier import", ("cars, acc@1: 0.7 for 0.6",))
