"""Outputs of a command that would be lost, or would lose a user's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from wary_files.errors import UsageError
from wary_files.folders import refuse_over_inputs, require_ending, require_place


def test_an_output_that_is_read_is_refused_by_both_names(tmp_path: Path) -> None:
    labels, link = tmp_path / "labels.csv", tmp_path / "link.csv"
    labels.write_text("file,label\n")
    link.symlink_to(labels)
    for output in (labels, str(labels), link, tmp_path / "." / "labels.csv"):
        with pytest.raises(UsageError, match=r"--output .*\.csv is read here, as labels"):
            refuse_over_inputs({"labels": str(labels), "output": output, "top": 3})
        with pytest.raises(UsageError, match="is read here, as images"):
            refuse_over_inputs({"images": [tmp_path / "other.csv", labels], "output": output})
    other = tmp_path / "other.csv"
    refuse_over_inputs({"labels": labels, "output": other, "encoder": "micro-clip", "json": True, "save": None})
    other.write_text("of an earlier call")
    refuse_over_inputs({"labels": labels, "output": other})


def test_two_outputs_in_one_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--page and --save are both .*: one would be lost"):
        refuse_over_inputs({"save": tmp_path / "a.npz", "page": str(tmp_path / "a.npz")})
    refuse_over_inputs({"output": "-", "json": "-"})


def test_a_page_is_called_one() -> None:
    require_ending("--page", Path("a.HTML"), ".html", ".htm")
    with pytest.raises(UsageError, match=r"--page eq/pairs.jsonl: expected a name that ends in .html or .htm"):
        require_ending("--page", Path("eq/pairs.jsonl"), ".html", ".htm")


def test_a_place_that_cannot_be_written_is_refused_before_work(tmp_path: Path) -> None:
    require_place("--json", tmp_path / "a.json")
    with pytest.raises(UsageError, match=r"is a folder; expected a file in it"):
        require_place("--json", tmp_path)
    with pytest.raises(UsageError, match=r"--json .*a.json: there is no folder .*none; make it first"):
        require_place("--json", tmp_path / "none" / "a.json")
