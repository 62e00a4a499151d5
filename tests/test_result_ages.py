"""Result files are named that another version of their script wrote, and each that is here is entered as what it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from website import result_ages, results  # noqa: E402 - found by the line above

SCRIPT = '''"""Times."""
import json
from pathlib import Path
# repeats
def seconds():
    """Of one run."""
    return 3 * 0.5
place = Path(__file__).parent / "results"
place.mkdir(exist_ok=True)
(place / "speed.json").write_text(json.dumps({"seconds": seconds()}))
'''


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A benchmark that ran through the command, and a list of its own."""
    folder = tmp_path / "packages/swift/benchmarks"
    folder.mkdir(parents=True)
    (tmp_path / "packages/swift/src/swift").mkdir(parents=True)
    (tmp_path / "packages/swift/src/swift/__about__.py").write_text('__version__ = "0.3.0"\n')
    (folder / "speed.py").write_text(SCRIPT)
    for module in (result_ages, results):
        monkeypatch.setattr(module, "AGES", tmp_path / "ages.json")
    (tmp_path / "ages.json").write_text("{}")
    assert result_ages.main([str(folder / "speed.py")]) == 0
    return folder / "speed.py"


def found(script: Path) -> list[str]:
    result = script.parent / "results/speed.json"
    return result_ages.findings(results.ages(), {result.as_posix(): result})


def test_every_result_here_is_its_scripts_or_marked_as_older() -> None:
    assert result_ages.findings(results.ages(), result_ages.all_results()) == []


def test_a_file_that_another_version_wrote_is_named(script: Path) -> None:
    assert found(script) == []
    assert [entry["version"] for entry in results.ages().values()] == ["0.3.0"]
    script.write_text(SCRIPT.replace('"""Of one run."""', '"""Seconds of a run."""').replace("# repeats", "# more"))
    assert found(script) == []
    script.write_text(SCRIPT.replace("3 * 0.5", "4 * 0.5"))
    (line,) = found(script)
    assert "speed.json: older than speed.py; python -m website.result_ages" in line
    result_ages.main(["--older", "it takes a day", str(script.parent / "results/speed.json")])
    assert found(script) == []
    assert result_ages.main([str(script)]) == 0  # taken again: the mark goes
    assert found(script) == []
    assert not any(results.OLDER in entry for entry in results.ages().values())


def test_a_file_that_was_changed_or_never_entered_is_named(script: Path) -> None:
    result = script.parent / "results/speed.json"
    result.write_text(json.dumps({"seconds": 1.0}))
    (line,) = found(script)
    assert "speed.json: not the file that was entered" in line
    result_ages.main(["--enter", str(result)])
    assert found(script) == []
    (line,) = result_ages.findings({}, {"speed.json": result})
    assert line.startswith("speed.json: not entered;")
    assert result_ages.findings({"gone.json": {}}, {}) == ["gone.json: entered, and not there"]


def test_a_mark_on_a_file_that_is_not_older_is_named(script: Path) -> None:
    result_ages.main(["--older", "it takes a day", str(script.parent / "results/speed.json")])
    (line,) = found(script)
    assert "made by the script as it is, and marked as older" in line
