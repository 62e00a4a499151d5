"""What lies beside the user, what names contain and what was replaced must not pass for what was asked for."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import os
import stat
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import gate_runner
from gate_data.data import Data, Split
from gate_data.pictures import Pictures
from gate_data.readers import table
from gate_data.readers.arrays import read_matlab, stored_array
from gate_data.readers.decode import decode
from gate_data.readers.maps import ClassMap
from gate_data.readers.nifti import volume
from gate_data.readers.source import Stored
from gate_data.readers.tables import read_json
from gate_data.shared import shared_pictures
from gate_runner.benchmarks import BENCHMARKS, DataRequest, resolve
from gate_runner.errors import DataError, EncoderError, UsageError
from gate_runner.executors.executor import HereExecutor
from gate_runner.executors.worker import COMMAND
from gate_runner.executors.worker_process import WorkerProcess
from gate_runner.reports.contents import gather
from gate_runner.reports.forms import as_markdown
from gate_runner.runs import RunRequest
from gate_runner.runs.stored import read_runs
from vision_features.encoders import load_encoder
from vision_features.encoders.spec import agree
from vision_features.features import digests_of
from wary_files import archives
from wary_files.folders import write

from ._folders import write_run

INTRUDER = "from pathlib import Path\nPath('ran').touch()\nraise ImportError('not the library')\n"


def test_a_terminal_obeys_no_file_and_no_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from io import StringIO

    from gate_runner.cli import main
    from vision_features.heads.predicting import Prediction, write_csv

    with pytest.raises(SystemExit):
        main(["report", str(tmp_path / "\x1b]0;title\x07")])
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert r"\x1b]0;title\x07" in err

    file = StringIO()  # a file, too, is shown by `cat`
    write_csv([Prediction("\x1b[2J.png", ("\x1b[31mred",), (1.0,))], 1, file)
    assert r"\x1b[2J.png,\x1b[31mred" in file.getvalue()


def test_a_file_called_like_a_library_does_not_run_in_a_worker(tmp_path: Path) -> None:
    for name in ("jaxtyping", "torch", "typer"):
        (tmp_path / f"{name}.py").write_text(INTRUDER)
    order = json.dumps({"open": {"encoder": "micro-clip/random", "device": "cpu"}}) + "\n"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    text = os.pathsep.join(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path)
    done = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**environment, **({"PYTHONPATH": text} if text else {})},
    )  # fmt: skip
    assert done.stdin is not None
    assert done.stdout is not None
    done.stdin.write(order)
    done.stdin.flush()
    answer = json.loads(done.stdout.readline())
    done.stdin.close()
    done.stdout.close()
    done.wait(timeout=60)
    assert answer["event"] == "opened", answer
    assert not (tmp_path / "ran").exists()


def test_the_users_folder_is_on_no_path_for_own_encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"mine_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text("from torch import nn\ndef make():\n    return nn.Flatten()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    assert load_encoder(f"{name}:make").spec == f"{name}:make"
    assert str(tmp_path) not in sys.path


def test_a_broken_image_processor_stops(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, image_size=16, patch_size=8
    )
    transformers.ViTModel(config).save_pretrained(tmp_path)
    assert load_encoder(f"hf:{tmp_path}").mean == (0.5, 0.5, 0.5)  # it has none: the family's
    for text in ("{", json.dumps({"image_processor_type": "Unheard"}), json.dumps({"auto_map": {"a": "b.c"}})):
        (tmp_path / "preprocessor_config.json").write_text(text)
        with pytest.raises(EncoderError, match="its image processor cannot be read"):
            load_encoder(f"hf:{tmp_path}")


def test_code_that_a_directory_brings_is_not_run(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "modeling_own.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    about = {"model_type": "own", "auto_map": {"AutoConfig": "modeling_own.C", "AutoModel": "modeling_own.M"}}
    (tmp_path / "config.json").write_text(json.dumps(about))
    with pytest.raises(EncoderError, match="does not load"):
        load_encoder(f"hf:{tmp_path}")
    assert not (tmp_path / "ran").exists()


def test_markdown_shows_names_as_they_are(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", {"digits": 0.5}, encoder="[here](javascript:x) *b* `c` ![d](e) <i> | &lt;")
    shown = as_markdown(gather(read_runs([folder])))
    assert r"\[here\](javascript:x) \*b\* \`c\` !\[d\](e) &lt;i> \| &amp;lt;" in shown


def test_files_have_the_rights_that_the_user_gives(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write(tmp_path / "private", b"")
        os.umask(0o002)
        write(tmp_path / "shared", b"")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("private", "shared")]
    assert modes == [0o600, 0o664]


def test_a_data_root_without_the_files_is_no_stand_in(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not hold its files .*; without them: --source micro"):
        BENCHMARKS["cifar100"].choose_source(None, tmp_path)
    assert BENCHMARKS["cifar100"].choose_source("micro", tmp_path) == "micro"
    assert BENCHMARKS["cifar100"].choose_source(None, None) == "micro"


def test_a_name_as_results_print_it_is_that_stand_in(tmp_path: Path) -> None:
    (benchmark,) = resolve(["micro/cifar100"])
    assert benchmark.choose_source(None, tmp_path) == "micro"
    assert benchmark.name_with("micro") == "micro/cifar100"
    assert len(benchmark.load("micro", DataRequest(limit=8)).train) == 8
    with pytest.raises(UsageError, match="unknown pack or benchmark 'micro/digits'"):
        resolve(["micro/digits"])


OWN = """
import torch
from PIL import Image
from gate_data.data import Data, Split
from gate_data.original_files import Originals
from gate_data.pictures import Pictures

def load(place, request):
    files = sorted((place / "own").glob("*.png"))
    split = Split(Pictures.of(files, request.size), torch.arange(len(files)) % 2)
    return Data(split, split, split, ("a", "b"))

OWN = Originals("own/", lambda root: root, lambda place: None, load)
"""


def test_results_on_pictures_that_were_replaced_are_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another data root, and by a file of equal size."""
    name = f"pictures_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    for root in ("data", "other"):
        (tmp_path / root / "own").mkdir(parents=True)
        for at in range(12):
            grey = 20 * at + (3 if root == "other" and at == 5 else 0)
            Image.new("RGB", (16, 16), (grey, grey, grey)).save(tmp_path / root / "own" / f"{at:02}.png")
    short = {"lr": 1e-2, "steps": 2, "batch_size": 4, "validate_every": 1}
    benchmark = replace(BENCHMARKS["digits"], id="own", sources={"local": f"{name}:OWN"}, training=short)

    def run(root: str) -> gate_runner.Run:
        return gate_runner.run(
            benchmark, encoder="micro-clip/random", output=tmp_path / "run", data_root=tmp_path / root, show=False
        )

    assert run("data").failed == ()
    assert run("data").failed == ()
    with pytest.raises(UsageError, match=r"holds a result of own seed 0 on other data \(sha256 \w{12}, now \w{12}\)"):
        run("other")
    picture = tmp_path / "data" / "own" / "03.png"
    before, content = picture.stat(), bytearray(picture.read_bytes())
    swapped = (tmp_path / "data" / "own" / "04.png").read_bytes()
    assert len(swapped) == len(content)
    picture.write_bytes(swapped)
    os.utime(picture, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(UsageError, match="on other data"):
        run("data")


ENCODER = """
import pathlib

import torch
from torch import nn

class Own(nn.Module):
    image_size = 16

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(48, 8)

    def encode_image(self, images):
        return CODE(self.layer(nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)))

class Hidden:  # nobody sees its weights
    image_size = 16

    def encode_image(self, images):
        return images.mean((2, 3)) * eval(pathlib.Path("weight.txt").read_text())

make = MAKE
"""


def own_encoder(folder: Path, name: str, code: str = "torch.relu", weight: str = "1.0", make: str = "Own") -> str:
    text = ENCODER.replace("CODE", code).replace("MAKE", make)
    (folder / "weight.txt").write_text(weight)
    (folder / f"{name}.py").write_text(text)
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return f"{name}:make"


@pytest.mark.parametrize(
    ("first", "then", "words"),
    [
        ({"code": "torch.relu"}, {"code": "torch.tanh"}, "with other source files"),
        ({"make": "Hidden"}, {"make": "Hidden", "weight": "1.01"}, "gave other features for the same images or texts"),
    ],
    ids=["other code, same weights", "other weights that nobody sees"],
)
def test_an_own_encoder_that_changed_is_not_taken_for_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: dict[str, str], then: dict[str, str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a changed file of equal size and second is read again
    name = f"changing_{abs(hash((str(tmp_path), str(first))))}"

    def run(**how: str) -> gate_runner.Run:
        return gate_runner.run(
            "digits", encoder=own_encoder(tmp_path, name, **how), output=tmp_path / "run", limit=40, show=False
        )

    assert run(**first).failed == ()
    before = (tmp_path / "run" / "manifest.json").read_bytes()
    assert run(**first).failed == ()
    with pytest.raises(UsageError, match=words):
        run(**then)
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before


def test_threads_and_devices_do_not_make_another_encoder() -> None:
    fingerprint = {"device": "cpu", "image": [3.0, -4.0], "text": [1.0]}
    assert agree(fingerprint, {**fingerprint, "image": [3.001, -4.0]})
    assert not agree(fingerprint, {**fingerprint, "image": [3.01, -4.0]})
    assert agree(fingerprint, {**fingerprint, "device": "cuda", "image": [3.01, -4.0]})
    assert not agree(fingerprint, {**fingerprint, "device": "cuda", "image": [3.2, -4.0]})
    assert not agree(fingerprint, {"device": "cpu", "image": [3.0, -4.0]})
    assert not agree(fingerprint, {**fingerprint, "text": [1.0, 1.0]})


def test_a_worker_that_loads_another_encoder_than_before_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = own_encoder(tmp_path, "drawn_anew", make="Hidden", weight="__import__('random').random()")
    slot = WorkerProcess(spec, "cpu")
    slot.opening = HereExecutor(RunRequest([], spec, tmp_path / "run")).open()  # as if a worker had loaded it before
    try:
        with pytest.raises(EncoderError, match="gives other features each time it is loaded, with the same weights"):
            slot.open()
    finally:
        slot.close()


def test_test_pictures_that_are_trained_on_are_named(tmp_path: Path) -> None:
    def split(*greys: int) -> Split:
        images = torch.stack([torch.full((3, 4, 4), grey, dtype=torch.uint8) for grey in greys])
        return Split(images, torch.zeros(len(greys), dtype=torch.long))

    assert shared_pictures(Data(split(1, 2), split(3), split(4, 5), ())) == (0, "", "")
    assert shared_pictures(Data(split(1, 2), split(3), split(4, 3, 2), ())).sentence == (
        "2 test images are trained on, too, such as test 1 (validation 0)"
    )
    for name, grey in (("a", 1), ("b", 2), ("c", 1), ("d", 3)):
        Image.new("RGB", (4, 4), (grey, grey, grey)).save(tmp_path / f"{name}.png")

    def files(*names: str) -> Split:
        return Split(Pictures.of([tmp_path / f"{name}.png" for name in names], 4), torch.zeros(len(names)))

    shared = shared_pictures(Data(files("a", "b"), files("d"), files("c", "d"), ()))
    assert (shared.number, shared.test, shared.train) == (2, str(tmp_path / "c.png"), str(tmp_path / "a.png"))


def test_a_result_says_which_test_pictures_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"leaking_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "data" / "own").mkdir(parents=True)
    for at in range(8):
        Image.new("RGB", (16, 16), (20 * at, 0, 0)).save(tmp_path / "data" / "own" / f"{at:02}.png")
    short = {"lr": 1e-2, "steps": 2, "batch_size": 4, "validate_every": 1}
    benchmark = replace(BENCHMARKS["digits"], id="own", sources={"local": f"{name}:OWN"}, training=short)
    (result,) = gate_runner.run(
        benchmark, encoder="micro-clip/random", output=tmp_path / "run", data_root=tmp_path / "data", show=False
    )
    assert result.data["shared"] == 8
    assert result.note.startswith("8 test images are trained on, too, such as ")


def test_every_pixel_is_in_the_mark_of_stored_features() -> None:
    images = torch.zeros(2, 3, 40, 40, dtype=torch.uint8)
    changed = images.clone()
    changed[1, 2, 17, 23] = 1
    first, second = digests_of(images), digests_of(changed)
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_limits_are_named_and_can_be_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "1000")
    over = r"more than 1,000; WARY_FILES_MAX_BYTES sets another limit"
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(5000))
    with pytest.raises(DataError, match=rf"a.zip: zeros has 5,000 bytes, {over}"):
        archives.read(tmp_path / "a.zip", "zeros")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as packed:
        member = tarfile.TarInfo("zeros")
        member.size = 5000
        packed.addfile(member, io.BytesIO(bytes(5000)))
    with pytest.raises(DataError, match=rf"a.tar.gz: zeros has 5,000 bytes, {over}"):
        archives.read_packed(tmp_path / "a.tar.gz", ["zeros"])
    (tmp_path / "a.json").write_text("[" + "1," * 1000 + "1]")
    with pytest.raises(DataError, match=rf"a.json: the file has 2,003 bytes, {over}"):
        read_json(tmp_path / "a.json")
    parquet.write_table(pyarrow.table({"path": ["x" * 5000] * 3}), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(DataError, match=rf"a.parquet, row group 0 has [\d,]+ bytes, {over}"):
        list(table(tmp_path / "a.parquet", ["path"]))
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "100000")
    assert len(list(table(tmp_path / "a.parquet", ["path"]))) == 3
    assert len(archives.read(tmp_path / "a.zip", "zeros")) == 5000
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "15")
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    with pytest.raises(
        DataError, match=r"a.png has 16 pixels, more than 15, and PNG is only decoded whole: .*WARY_FILES_MAX_PIXELS"
    ):
        decode(str(tmp_path / "a.png"))
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "many")
    with pytest.raises(DataError, match="WARY_FILES_MAX_BYTES is 'many', expected a positive whole number"):
        archives.read(tmp_path / "a.zip", "zeros")


def matlab(value: object, *, packed: bool = False) -> bytearray:
    import scipy.io

    file = io.BytesIO()
    scipy.io.savemat(file, {"m": value}, do_compression=packed)
    return bytearray(file.getvalue())


def test_a_matlab_file_is_checked_before_its_library_reads_it(tmp_path: Path) -> None:
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = np.arange(3), {"a": "text", "b": np.array([1 + 2j])}
    for packed in (False, True):
        (tmp_path / "a.mat").write_bytes(matlab(cell, packed=packed))
        assert read_matlab(str(tmp_path / "a.mat"), "m")[0, 0].tolist() == [[0, 1, 2]]
    whole = matlab(np.arange(12, dtype=np.int32).reshape(3, 4))
    data = whole.index(bytes([5, 0, 0, 0, 48, 0, 0, 0]))  # the type and the size of the values
    for offset, value, message in (
        (data, 0x60, "an element of type 96 and 48 bytes"),  # scipy looks this up in a table of 20: the process ends
        (data, 0, "an element of type 0"),
        (data + 4, 200, "an element of 200 bytes where"),
        (data + 4, 44, "11 values of an array of 12"),
        (144, 17, "an array of class 17"),
        (124, 0, "Unknown mat file type|cannot be read as MATLAB 5"),
    ):
        broken = bytearray(whole)
        broken[offset] = value
        if offset == 124:
            broken[125] = 9
        (tmp_path / "b.mat").write_bytes(broken)
        with pytest.raises(DataError, match=message):
            read_matlab(str(tmp_path / "b.mat"), "m")
    deep = np.arange(2)
    for _ in range(40):
        holder = np.empty((1, 1), dtype=object)
        holder[0, 0] = deep
        deep = holder
    with pytest.raises(DataError, match="more than 32 deep"):
        read_matlab("deep", "m", bytes(matlab(deep)))


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


def test_a_picture_starts_no_other_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "started"
    stand_in = tmp_path / "bin" / "gs"
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\ntouch {started}\necho "$@" >> {started}\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    path = tmp_path / "eps.jpg"
    path.write_bytes(POSTSCRIPT)
    for read in (
        lambda: decode(str(path)),
        lambda: decode(str(path), 8),
        lambda: ClassMap({0: 0}, (), None).read(str(path)),
    ):
        with pytest.raises(ValueError, match=r"none of BMP, GIF, JPEG"):
            read()
    assert not started.exists()


def test_a_tiff_of_many_directories_is_read_at_once(tmp_path: Path) -> None:
    count, path = 30_000, tmp_path / "many.tif"
    fields = [(256, 3, 1, 1), (257, 3, 1, 1), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8),
              (277, 3, 1, 1), (278, 3, 1, 1), (279, 4, 1, 1)]  # fmt: skip
    size = 2 + 12 * len(fields) + 4
    body = bytearray(struct.pack("<2sHII", b"II", 42, 12, 0))
    for number in range(count):
        body += struct.pack("<H", len(fields)) + b"".join(struct.pack("<HHII", *field) for field in fields)
        body += struct.pack("<I", 12 + (number + 1) * size if number + 1 < count else 0)
    path.write_bytes(body)
    begun = time.process_time()
    assert decode(str(path)).size == (1, 1)
    assert time.process_time() - begun < 2  # milliseconds; 30,000 directories took Pillow's count 10 s


@pytest.mark.parametrize("ending", ["png", "json"])
def test_a_named_pipe_is_not_waited_for(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    os.mkfifo(path)
    with pytest.raises(DataError, match=r"a\.png is no file that holds data, but a pipe|a\.json: a folder or a pipe"):
        decode(str(path)) if ending == "png" else read_json(path)


def hdf5(folder: Path) -> dict[str, tuple[Stored, str]]:
    """Files of HDF5 that ask for much, lead elsewhere, or hold no rows; and what is said of each."""
    h5py = pytest.importorskip("h5py")
    path = folder / "a.h5"
    (folder / "secret").write_bytes(bytes(range(12)) * 4)
    with h5py.File(folder / "other.h5", "w") as other:
        other["x"] = np.zeros((2, 4, 4), np.uint8)
    with h5py.File(path, "w") as file:
        file.create_dataset("large", (1, 60_000, 60_000, 3), np.uint8, chunks=(1, 100, 100, 3))
        file.create_dataset("chunk", (9, 4, 4), np.uint8, chunks=(2**12, 2**10, 2**10), maxshape=(None, None, None))
        file.create_dataset("outside", (1, 4, 4, 3), np.uint8, external=[(str(folder / "secret"), 0, 48)])
        layout = h5py.VirtualLayout((2, 4, 4), np.uint8)
        layout[:] = h5py.VirtualSource(folder / "other.h5", "x", (2, 4, 4))
        file.create_virtual_dataset("virtual", layout)
        file["link"] = h5py.ExternalLink(str(folder / "other.h5"), "x")
        file["nowhere"], file["loop"] = h5py.SoftLink("/none"), h5py.SoftLink("/loop")
        file.create_group("group/inner")
        file["scalar"], file["text"] = 3, np.array([b"a", b"b"])
        file["empty"] = h5py.Empty(np.uint8)
        file["fine/x"] = np.zeros((2, 4, 4), np.uint8)
    messages = {
        "large": r"large, row 0 has 10,800,000,000 bytes, more", "chunk": r"a chunk of chunk has [\d,]+ bytes, more",
        "outside": "lie in other files", "virtual": "lie in other files", "link": "is a link", "nowhere": "is a link",
        "loop": "is a link", "group": "no array of numbers", "group/inner": "no array of numbers",
        "scalar": "no array of numbers", "text": "no array of numbers", "empty": "no array of numbers",
        "fine/none": "has no array 'fine/none'", "fine/x/y": "has no array",
    }  # fmt: skip
    return {key: (Stored(str(path), key, 0), words) for key, words in messages.items()}


def test_hdf5_has_limits_and_stays_in_its_file(tmp_path: Path) -> None:
    for source, message in hdf5(tmp_path).values():
        with pytest.raises(DataError, match=message):
            stored_array(source)
    assert stored_array(Stored(str(tmp_path / "a.h5"), "fine/x", 1)).shape == (4, 4)


def test_nifti_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nibabel = pytest.importorskip("nibabel")
    path = tmp_path / "a.nii.gz"
    nibabel.save(nibabel.Nifti1Image(np.zeros((40, 50, 60), np.uint8), np.eye(4)), path)
    assert volume(path).shape == (40, 50, 60)
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "500000")
    with pytest.raises(DataError, match=r"a.nii.gz, as numbers, has 960,000 bytes, more than 500,000"):
        volume(path)
    monkeypatch.delenv("WARY_FILES_MAX_BYTES")
    head = bytearray(gzip.decompress(path.read_bytes())[:352])
    head[42:48] = struct.pack("<3h", 32_000, 32_000, 4)  # claims 4 GB, holds nothing
    (tmp_path / "b.nii.gz").write_bytes(gzip.compress(head))
    with pytest.raises(DataError, match=r"b.nii.gz, as numbers, has 32,768,000,000 bytes, more than"):
        volume(tmp_path / "b.nii.gz")
    head[108:112] = struct.pack("<f", 2e9)
    for content, message in ((head, "its values begin at byte 2e"), (b"\0" * 600, "no header of 348 or 540 bytes")):
        (tmp_path / "b.nii.gz").write_bytes(gzip.compress(content))
        with pytest.raises(DataError, match=message):
            volume(tmp_path / "b.nii.gz")


def test_arrays_that_unpack_beyond_the_limit_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eevee import EeveeError, read_outcomes
    from gate_runner.runs.folder import read_samples

    path = tmp_path / "digits.seed0.npz"
    np.savez_compressed(path, models=np.array(["a"]), outcomes=np.zeros((1, 2**20)))
    assert path.stat().st_size < 20_000
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "1000000")
    with pytest.raises(DataError, match="more than 1,000,000; WARY_FILES_MAX_BYTES"):
        read_samples(path)
    with pytest.raises(EeveeError, match="more than 1,000,000; WARY_FILES_MAX_BYTES"):
        read_outcomes([path])


def test_no_pipe_of_a_strangers_folder_is_waited_for(tmp_path: Path) -> None:
    from gate_data.own import read_benchmark
    from gate_data.readers import nifti
    from gate_data.readers.arrays import stored_shape
    from gate_runner.runs.folder import read_manifest, read_samples
    from gate_runner.runs.results import Result
    from vision_features.encoders.named import read_card
    from vision_features.heads.saved import load_head

    pytest.importorskip("h5py")
    pytest.importorskip("nibabel")
    pipe = tmp_path / "card.json"
    os.mkfifo(pipe)
    for read in (
        Result.from_file, read_manifest, read_samples, read_benchmark, nifti.volume,
        lambda path: stored_shape(str(path), "a"),
        lambda path: load_head(path.parent), lambda path: read_card(path.parent),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="pipe"):
            read(pipe)


def test_names_that_a_spreadsheet_would_run_are_read_as_the_predictions_wrote_them(tmp_path: Path) -> None:
    from vision_features.heads.predicting import Prediction, true_labels, write_csv

    names = ["=a.png", "-b.png", "@c.png", "'=d.png"]
    for name in (*names, "=d.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    table = tmp_path / "predictions.csv"
    with table.open("w", newline="") as file:
        write_csv([Prediction(name, ("-1",), (1.0,), "") for name in names], 1, file)
    labels = true_labels(table, "class1")
    assert labels == {str(tmp_path / name): "-1" for name in names}


def test_an_image_with_two_labels_is_not_scored_by_the_last(tmp_path: Path) -> None:
    from vision_features.heads.predicting import true_labels

    for name in "ab":
        Image.new("RGB", (8, 8)).save(tmp_path / f"{name}.png")
    (tmp_path / "labels.csv").write_text("image,label\na.png,cat\nb.png,dog\na.png,cat\n")
    assert [label for _, label in sorted(true_labels(tmp_path / "labels.csv").items())] == ["cat", "dog"]
    (tmp_path / "traps.csv").write_text("image,species,site\na.png,cat,1\nb.png,dog,2\n")
    assert sorted(true_labels(tmp_path / "traps.csv", "species").values()) == ["cat", "dog"]
    (tmp_path / "labels.csv").write_text("image,label\na.png,cat\nb.png,dog\na.png,dog\n")
    with pytest.raises(DataError, match="line 4: field 'label' is 'dog'"):
        true_labels(tmp_path / "labels.csv")
