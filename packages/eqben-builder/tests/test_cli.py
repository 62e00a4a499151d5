"""`eqben` by itself: no runner, models by `MODULE:FUNCTION`, help without torch, errors in one line."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("typer")

from eqben_builder.cli import main
from eqben_builder.commands.models import Models, encoder_by
from eqben_builder.formats import PairRow

MODELS = """
import numpy as np

class Brightness:
    def __init__(self, device):
        self.device = device
    def encode_image(self, images):
        return np.stack([np.append(image.mean((0, 1)), 1.0) for image in images])
    def encode_text(self, captions):
        return np.stack([[len(text), text.count("a"), text.count("e"), 1.0] for text in captions])

def load(device):
    return Brightness(device)

def nothing():
    return object()

def asks(images, captions):
    return [0.0 for _ in images]

def fusion():
    return lambda images, captions: [image.mean() - len(text) for image, text in zip(images, captions)]

def follower():
    return lambda images, prompt: "1;2"

def silent():
    return lambda images, prompt: ""

def language():
    return lambda captions: [len(text) for text in captions]
"""


def call(capsys, *arguments, models=None):
    """Exit status, and what was printed."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments], models)
    printed = capsys.readouterr()
    return ended.value.code or 0, printed.out, printed.err


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_eqben_models.py").write_text(MODELS)
    yield tmp_path
    sys.modules.pop("own_eqben_models", None)


def test_pairs_are_built_checked_converted_and_scored(here, capsys):
    status, out, _ = call(capsys, "build", "micro", "pairs", "--pairs", 2, "--size", 32, "--workers", 1)
    assert status == 0
    assert "6 pairs in pairs (2 attribute, 2 count, 2 relation)" in out
    status, out, _ = call(capsys, "verify", "pairs", "--render", 2)
    assert (status, out) == (0, "6 pairs, 6 certified again from their sources, 0 failures\n")
    status, out, _ = call(capsys, "convert", "pairs", "flat", "--format", "eqben-flat")
    assert status == 0
    assert call(capsys, "review", "flat", "page.html")[0] == 0
    arguments = ["--encoder", "own_eqben_models:load", "--save", "s.npz", "--blind"]
    status, out, _ = call(capsys, "score", "pairs", "--limit", 5, *arguments)
    assert status == 0
    assert "own_eqben_models:load" in out
    assert "leak" in out
    assert np.load(here / "s.npz")["scores"].shape == (5, 2, 2)


def test_the_interval_of_foils_that_are_all_told_apart_has_a_width(here, capsys):
    """It was 1.000 to 1.000 of three rows, where --scale gave Wilson's."""
    Image.new("RGB", (8, 8)).save(here / "v.png")
    row = {"image_file": "v.png", "caption": "There is a cat.", "foil": "There is a dog."}
    (here / "existence.json").write_text(json.dumps({str(number): row for number in range(3)}))
    np.savez(here / "s.npz", scores=np.array([[0.9, 0.1]] * 3))
    status, out, _ = call(capsys, "score", "existence.json", "--scores", "s.npz")
    assert status == 0
    assert "pairwise      1.000 (0.439, 1.000)" in out


def test_a_page_takes_the_place_of_nothing_else(here, capsys):
    call(capsys, "build", "micro", "pairs", "--pairs", 1, "--size", 32, "--workers", 1)
    content = (here / "pairs" / "pairs.jsonl").read_bytes()
    for command in (["review", "pairs"], ["score", "pairs", "--encoder", "own_eqben_models:load", "--page"]):
        status, _, err = call(capsys, *command, "pairs/pairs.jsonl")
        assert (status, "expected a name that ends in .html" in err) == (2, True)
    assert (here / "pairs" / "pairs.jsonl").read_bytes() == content
    arguments = ["score", "pairs", "--encoder", "own_eqben_models:load", "--save", "s.html", "--page", "s.html"]
    assert "both s.html" in call(capsys, *arguments)[2]
    assert "there is no folder none" in call(capsys, *arguments[:4], "--save", "none/s.npz")[2]


def test_a_verified_folder_that_was_changed_ends_with_status_1(here, capsys):
    call(capsys, "build", "micro", "pairs", "--pairs", 1, "--size", 32, "--workers", 1)
    next((here / "pairs" / "images").rglob("*.png")).unlink()
    status, out, _ = call(capsys, "verify", "pairs")
    assert status == 1
    assert "is missing" in out


def test_what_was_exchanged_after_the_build_is_not_scored(here, capsys):
    call(capsys, "build", "micro", "pairs", "--pairs", 2, "--size", 32, "--workers", 1)
    score = ["score", "pairs", "--encoder", "own_eqben_models:load"]
    first, second, *_ = sorted((here / "pairs" / "images").rglob("*_0.png"))
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    status, _, err = call(capsys, *score)
    assert status == 2
    assert f"{first.name} is not the image of the manifest" in " ".join(err.split())
    assert "eqben verify" in err
    first.write_bytes(contents[0])
    second.write_bytes(contents[1])
    assert call(capsys, *score)[0] == 0
    rows = (here / "pairs" / "pairs.jsonl").read_bytes()
    (here / "pairs" / "pairs.jsonl").write_bytes(b"\n".join(reversed(rows.split(b"\n")[:-1])) + b"\n")
    status, _, err = call(capsys, *score)
    assert status == 2
    assert "pairs.jsonl is not the file of the manifest" in " ".join(err.split())


def test_a_suite_is_scored_with_a_blind_line_of_ones_own(here, capsys):
    names = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")
    (here / "sugarcrepe").mkdir()
    for name in names:
        row = {"filename": "1.jpg", "caption": "a cup", "negative_caption": "a large hat"}
        (here / "sugarcrepe" / f"{name}.json").write_text(json.dumps({"0": row}))
    Image.new("RGB", (4, 4)).save(here / "sugarcrepe" / "1.jpg")
    status, out, _ = call(
        capsys, "score", "sugarcrepe", "--encoder", "own_eqben_models:load", "--data-root", ".",
        "--language-model", "own_eqben_models:language",
    )  # fmt: skip
    assert status == 0
    assert "SugarCrepe, own_eqben_models:load" in out
    assert all(name in out for name in names)


def test_images_that_a_suite_shares_are_no_gallery_without_its_captions(here, capsys):
    (here / "sugarcrepe").mkdir()
    rows = {"0": {"filename": "1.jpg", "caption": "a cup", "negative_caption": "a large hat"}}
    for name in ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"):
        (here / "sugarcrepe" / f"{name}.json").write_text(json.dumps(rows))
    (here / "coco" / "val2017").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(here / "coco" / "val2017" / "1.jpg")
    score = ("score", "compositional", "--encoder", "own_eqben_models:load", "--data-root", ".")
    status, out, err = call(capsys, *score)
    assert (status, "SugarCrepe, own_eqben_models:load" in out) == (0, True), err
    row = {"image": "val2017/1.jpg", "caption": ["a cup"]}
    (here / "coco" / "coco_karpathy_test.json").write_text(json.dumps([row]))
    assert "1 images and 1 captions: expected at least 10 of both" in call(capsys, *score)[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "mikro", "x"], "unknown subset 'mikro'; nearest: micro"),
        (["build", "sd", "x", "--engine", "raster"], "--engine is no option of the subset 'sd'"),
        (["score", "micro/compositional"], "give --encoder MODULE:FUNCTION"),
        (
            ["score", "sugarcrepe", "--encoder", "own_eqben_models:load"],
            "sugarcrepe reads original files: give --data-root",
        ),
        (["score", "micro/compositional", "--encoder", "own_eqben_models:nothing"], "has no encode_image"),
        (["score", "micro/compositional", "--encoder", "own_eqben_models:asks"], "takes images, captions; expected a"),
        (["score", "micro/compositional", "--fusion", "own_eqben_models:asks"], "takes images, captions; expected a"),
        (["score", "micro/compositional", "--encoder", "own_eqben_models:absent"], "has no 'absent'"),
        (["score", "micro/compositional", "--encoder", "noSuchModule:f"], "cannot import 'noSuchModule'"),
        (["score", "micro/compositional", "--encoder", "clip"], "expected MODULE:FUNCTION"),
        (["convert", "nowhere", "x"], "nowhere"),
    ],
)
def test_errors_are_one_line(here, capsys, arguments, message):
    status, _, err = call(capsys, *arguments)
    assert status == 2
    assert err.startswith("eqben: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_caller_brings_its_own_encoders(here, capsys):
    requests = []

    def encoder(spec, device):
        requests.append((spec, device))
        return encoder_by("own_eqben_models:load", device)

    status, out, _ = call(capsys, "score", "micro/compositional", "--limit", 15, models=Models(encoder, usual="mine"))
    assert status == 0
    assert requests == [("mine", "cpu")]
    assert "suite, mine" in out


def test_help_imports_nothing_heavy():
    code = """if True:
        import sys
        from eqben_builder.cli import main
        try:
            main([*sys.argv[1:], "--help"])
        except SystemExit:
            print(sorted({"torch", "mitsuba", "av", "pyarrow", "gate_runner"} & set(sys.modules)))
        """
    for command in ([], ["build"], ["score"]):
        done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"
        assert "Usage: eqben" in done.stdout


def test_without_typer_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    assert call(capsys, "--help") == (2, "", "eqben: the command line needs typer: pip install 'eqben-builder[cli]'\n")


#: Clears a screen, colours what follows, writes over a line, turns the direction of what follows, ends a line.
ODD = "\x1b[2J\x9b31m\rfine\u202egnorw\u2066\u2028 \x07"
OBEYED = set(ODD) - set("[2J31mfinegnorw ")


def test_a_terminal_obeys_no_caption_id_or_subset(here, capsys):
    call(capsys, "build", "micro", "pairs", "--pairs", 5, "--aspect", "count", "--size", 32, "--workers", 1)
    call(capsys, "convert", "pairs", "flat", "--format", "eqben-flat")
    flat = here / "flat" / "pairs.json"
    rows = json.loads(flat.read_text())
    odd = [row | {"id": f"{ODD}{k}", "subset": ODD, "aspect": ODD} for k, row in enumerate(rows)]
    flat.write_text(json.dumps([row | {"caption0": f"{row['caption0']} {ODD}"} for row in odd]))
    lines = (here / "pairs" / "pairs.jsonl").read_text().splitlines()
    record = json.loads(lines[0])
    (here / "pairs" / "pairs.jsonl").write_text(json.dumps(record | {"id": ODD, "caption0": ODD}) + "\n")
    encoder = ["--encoder", "own_eqben_models:load"]
    (here / "sugarcrepe").mkdir()
    for name in ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"):
        settings = {"filename": "1.jpg", "caption": ODD, "negative_caption": "a hat"}
        (here / "sugarcrepe" / f"{name}.json").write_text(
            json.dumps({"0": settings, "1": settings | {"filename": f"{ODD[:-1]}.jpg"}})
        )
    Image.new("RGB", (4, 4)).save(here / "sugarcrepe" / "1.jpg")
    printed = []
    for arguments, shown in (
        (["score", "flat", *encoder, "--blind", "--page", "results.html"], "fine\\u202egnorw"),
        (["review", "flat", "review.html"], "5 pairs in review.html"),
        (["verify", "pairs"], "\\x1b[2J"),
        (["score", "sugarcrepe", *encoder, "--data-root", "."], "image is missing (val2017/\\x1b[2J"),
        (["convert", "flat", f"{ODD[:4]}out"], "parquet in \\x1b[2Jout"),
        (["convert", f"{ODD}nowhere", "out"], "\\x1b[2J"),
        (["score", f"{ODD}", *encoder], "\\x1b[2J"),
    ):
        _, out, err = call(capsys, *arguments)
        assert shown in out + err, arguments
        printed.append(out + err)
    pages = [path.read_text(encoding="utf-8") for path in here.glob("*.html")]
    assert len(pages) == 2
    for text in (*printed, *pages):
        assert not OBEYED & set(text)


def test_commands_print_by_the_way_that_escapes():
    import eqben_builder.commands as commands

    sources = {path.name: path.read_text("utf-8") for path in Path(commands.__path__[0]).glob("*.py")}
    echoes = [
        (name, line.strip())
        for name, text in sources.items()
        for line in text.splitlines()
        if "echo(" in line or "print(" in line
    ]
    assert echoes
    assert all(name == "printing.py" or '"\\r' in line for name, line in echoes), echoes


def test_fusion_models_score_suites_and_every_line_is_written(here, capsys):
    arguments = ["score", "micro/compositional", "--limit", 15, "--fusion", "own_eqben_models:fusion"]
    for file in ("scores.json", "scores.csv"):
        status, out, _ = call(capsys, *arguments, "--encoder", "own_eqben_models:load", "--results", file)
        assert status == 0
        assert f"scores {file}" in out
    records = json.loads((here / "scores.json").read_text())
    assert {record["model"] for record in records} == {"own_eqben_models:load", "own_eqben_models:fusion"}
    assert all(0 <= record["score"] <= 1 for record in records if record["measure"] != "mean rank")
    assert (here / "scores.csv").read_text().count("\n") == len(records) + 1
    for wrong, message in (
        (["--results", "scores.txt"], "expected a file that ends in .json or .csv"),
        (["--scores", "x.npz"], "--scores is for pairs"),
    ):
        status, _, err = call(capsys, *arguments, *wrong)
        assert status == 2
        assert message in err


def test_pictures_in_parquet_are_read_again_and_not_held(here, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    call(capsys, "build", "micro", "pairs", "--pairs", 30, "--size", 32, "--workers", 1)
    assert call(capsys, "convert", "pairs", "flat", "--format", "parquet")[0] == 0
    live, most = set(), 0
    make = PairRow.__init__

    def counted(self, *values, **named):
        nonlocal most
        make(self, *values, **named)
        if self.image0.content is not None:
            live.add(key := object.__hash__(self))
            weakref.finalize(self, live.discard, key)
            most = max(most, len(live))

    monkeypatch.setattr(PairRow, "__init__", counted)
    encoder = ["--encoder", "own_eqben_models:load"]
    status, streamed, _ = call(capsys, "score", "flat", *encoder, "--batch-size", 4, "--blind")
    assert status == 0
    assert 0 < most <= 64 + 5 * 4  # the rows of one read, and the batches that are decoded
    status, plain, _ = call(capsys, "score", "pairs", *encoder, "--batch-size", 4, "--blind")
    assert plain == streamed


def test_a_model_is_asked_which_caption_is_whose(here, capsys):
    call(capsys, "build", "micro", "pairs", "--pairs", 2, "--size", 16, "--workers", 1)
    status, out, _ = call(capsys, "score", "pairs", "--ask", "own_eqben_models:follower")
    assert status == 0
    assert "right, own caption first    1.000" in out
    assert "right, own caption second   0.000" in out
    assert "0 of 12 answers could not be read; 1.000 say 1;2" in out
    assert out.splitlines()[-1].split() == ["micro", "6", "1.000", "0.000", "0.000"]
    for arguments, message in (
        (["--ask", "own_eqben_models:silent"], "none of 12 answers says which caption is whose, the first is ''"),
        (["--ask", "own_eqben_models:follower", "--page", "p.html"], "--page shows similarities, and --ask gives none"),
        (["--ask", "own_eqben_models:follower", "--save", "s.npz"], "--save keeps similarities, and --ask gives none"),
    ):
        status, _, err = call(capsys, "score", "pairs", *arguments)
        assert (status, err.count("\n")) == (2, 1)
        assert message in err


def test_boundaries_are_grounded_from_the_command_line(here, capsys):
    row = {"timestamp": 2, "prev_timestamp": 0, "next_timestamp": 4, "subject": "a wall"}
    row |= {"status_before": "is black", "status_after": "is white"}
    (here / "boundaries.json").write_text(json.dumps({"abcdefghijk": [row]}))
    (here / "videos").mkdir()
    status, _, err = call(capsys, "ground", "boundaries.json", "videos", "--encoder", "own_eqben_models:load")
    assert status == 2
    assert "none of 1 boundaries has a video in videos that can be decoded" in err
    pytest.importorskip("av")
    dark, light = (Image.new("RGB", (16, 16), colour) for colour in ("black", "white"))
    dark.save(here / "clip.gif", save_all=True, append_images=[light], duration=2000)
    (here / "clip.gif").rename(here / "videos" / "abcdefghijk.mkv")  # FFmpeg looks inside
    status, out, _ = call(capsys, "ground", "boundaries.json", "videos", "--encoder", "own_eqben_models:load")
    assert status == 0
    assert out.splitlines()[0] == "own_eqben_models:load: 1 boundaries, 0 without a video that can be decoded"
    assert out.splitlines()[1].split()[-3:] == ["3", "s", "mean"]
