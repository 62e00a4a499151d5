"""Energy: counters that the test writes, and reasons where there are none."""

from __future__ import annotations

import sys
import time
import types
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest

from gate_runner.machine import energy
from gate_runner.machine.energy import EnergyMeter
from gate_runner.reports import sections
from gate_runner.trackers import _scores

from ._folders import result

RANGE = 262_143_328_850


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """Two packages, one with memory, a core zone inside a package, and the whole platform."""
    root = tmp_path / "powercap"
    for zone, name, start in (
        ("intel-rapl:0", "package-0", 1_000_000),
        ("intel-rapl:0:0", "core", 0),
        ("intel-rapl:0:1", "dram", 5_000_000),
        ("intel-rapl:1", "package-1", RANGE - 1_000_000),
        ("intel-rapl:2", "psys", 0),
    ):
        folder = root / zone
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "energy_uj").write_text(f"{start}\n")
        (folder / "max_energy_range_uj").write_text(f"{RANGE}\n")
    (root / "intel-rapl").mkdir()
    return root


def spend(root: Path, zone: str, joules: float) -> None:
    counter = root / zone / "energy_uj"
    # In one step, as the kernel does it: a meter that polls meanwhile must not read a file that is still empty.
    changed = counter.with_suffix(".new")
    changed.write_text(str((int(counter.read_text()) + round(joules * 1e6)) % RANGE))
    changed.replace(counter)


def test_packages_and_memory_are_summed_by_phase_and_turning_over_is_seen(powercap: Path) -> None:
    meter = EnergyMeter("cpu", powercap=powercap)
    with meter.around("encode"):
        spend(powercap, "intel-rapl:0", 3)
        spend(powercap, "intel-rapl:0:0", 100)  # inside the package: not counted again
        spend(powercap, "intel-rapl:2", 1000)  # the platform holds the packages
    spend(powercap, "intel-rapl:0", 2)  # between phases: in the total only
    with meter.around("train"):
        spend(powercap, "intel-rapl:1", 7)  # turns over
        spend(powercap, "intel-rapl:0:1", 0.5)
    with meter.around("encode"):
        spend(powercap, "intel-rapl:0", 1)
    values = meter.read()
    assert values["joules"] == {"cpu": {"encode": 4.0, "train": 7.5, "total": 13.5}}
    assert values["unmeasured"] == {"gpu": "the run used no GPU"}


def test_a_long_phase_is_looked_at_in_between(powercap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "_POLL_SECONDS", 0.01)
    meter = EnergyMeter("cpu", powercap=powercap)
    rapl = meter.counters["cpu"]
    with meter.around("train"):
        for _ in range(3):  # twice and a half around, seen only by looking more often
            before = rapl.microjoules  # type: ignore[union-attr]
            spend(powercap, "intel-rapl:0", RANGE / 1e6 * 0.8)
            for _ in range(1000):
                if rapl.microjoules > before:  # type: ignore[union-attr]
                    break
                time.sleep(0.005)
    assert meter.read()["joules"]["cpu"]["train"] == pytest.approx(RANGE / 1e6 * 2.4, rel=1e-9)


@pytest.mark.parametrize("damage", ["unreadable", "no number", "nothing"])
def test_what_cannot_be_read_is_a_reason(powercap: Path, damage: str) -> None:
    counter = powercap / "intel-rapl:1" / "energy_uj"
    if damage == "nothing":
        for zone in list(powercap.iterdir()):
            for file in zone.iterdir():
                file.unlink()
    elif damage == "no number":
        counter.write_text("many")
    else:
        counter.unlink()
        counter.mkdir()
    values = EnergyMeter("cpu", powercap=powercap).read()
    assert values["joules"] == {}
    expected = f"no counters under {powercap}" if damage == "nothing" else f"{counter} cannot be read"
    assert values["unmeasured"]["cpu"].startswith(expected)


def test_a_counter_that_goes_away_takes_its_figures_with_it(powercap: Path) -> None:
    meter = EnergyMeter("cpu", powercap=powercap)
    with meter.around("encode"):
        spend(powercap, "intel-rapl:0", 3)
    (powercap / "intel-rapl:0" / "energy_uj").unlink()
    with meter.around("train"):
        pass
    values = meter.read()
    assert values["joules"] == {}
    assert "energy_uj cannot be read: FileNotFoundError" in values["unmeasured"]["cpu"]


class NvmlError(Exception):
    pass


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A GPU whose counter the test moves: there is none on most machines that run this."""
    state = SimpleNamespace(millijoules=5_000_000, broken=False, busy=0, used=10)

    def total(handle: str) -> int:
        if state.broken or handle != "handle of GPU-1234":
            raise NvmlError("Not Supported")
        return int(state.millijoules)

    def busy(handle: str) -> SimpleNamespace:
        if state.broken:
            raise NvmlError("Lost")
        return SimpleNamespace(gpu=state.busy)

    fake = types.ModuleType("pynvml")
    fake.NVMLError = NvmlError  # type: ignore[attr-defined]
    fake.nvmlInit = lambda: None  # type: ignore[attr-defined]
    fake.nvmlDeviceGetHandleByUUID = lambda uuid: f"handle of {uuid}"  # type: ignore[attr-defined]
    fake.nvmlDeviceGetTotalEnergyConsumption = total  # type: ignore[attr-defined]
    fake.nvmlDeviceGetUtilizationRates = busy  # type: ignore[attr-defined]
    fake.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(used=state.used, total=40)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: SimpleNamespace(uuid="1234"))
    return state


def test_a_gpu_is_counted_beside_the_processor(driver: SimpleNamespace, powercap: Path) -> None:
    meter = EnergyMeter("cuda:1", powercap=powercap)
    with meter.around("train"):
        driver.millijoules += 2_500
        spend(powercap, "intel-rapl:0", 1)
    values = meter.read()
    assert values["joules"] == {"cpu": {"train": 1.0, "total": 1.0}, "gpu": {"train": 2.5, "total": 2.5}}
    assert values["unmeasured"] == {}


def test_a_gpu_without_a_counter_says_so(driver: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.broken = True
    assert EnergyMeter("cuda:0", powercap=Path("nowhere")).read()["unmeasured"]["gpu"] == "NVML: Not Supported"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    reason = EnergyMeter("cuda:0", powercap=Path("nowhere")).read()["unmeasured"]["gpu"]
    assert reason == "nvidia-ml-py is not installed (pip install 'gate-runner[energy]')"


def test_the_use_of_processor_and_gpu_is_known_by_phase(
    driver: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(user=10.0, idle=90.0)
    fake = types.ModuleType("psutil")
    row = namedtuple("row", ["user", "nice", "idle", "iowait", "guest"])
    fake.cpu_times = lambda: row(clock.user, 2.0, clock.idle, 1.0, clock.user)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "psutil", fake)
    meter = EnergyMeter("cuda:0", powercap=Path("nowhere"))
    for busy, idle, share, used in ((3.0, 1.0, 80, 10), (0.0, 4.0, 20, 30)):
        driver.busy, driver.used = share, used
        with meter.around("train"):
            clock.user, clock.idle = clock.user + busy, clock.idle + idle
    with meter.around("test"):
        clock.user += 2.0
    values = meter.read()
    assert values["used"]["cpu"] == {"train": 37.5, "test": 100.0}
    assert values["used"]["gpu"] == {"train": 50.0, "test": 20.0}
    assert values["used"]["gpu memory"] == {"train": 75.0, "test": 75.0}
    assert values["use_unknown"] == {}
    finished, _ = result("digits", 0.5, energy=values, seconds={"train": 3.0, "test": 1.0, "total": 8.0})
    scores = dict(_scores(finished))
    assert scores["gpu used train (%)"] == 50.0
    assert scores["cpu used test (%)"] == 100.0


def test_a_report_shows_how_busy_the_machine_was() -> None:
    used = {"cpu": {"train": 40.0, "test": 80.0}, "gpu": {"train": 90.0}}
    energy = {"joules": {}, "unmeasured": {}, "used": used}
    finished, _ = result("digits", 0.5, energy=energy, seconds={"train": 3.0, "test": 1.0, "total": 5.0})
    assert sections._used(SimpleNamespace(results=[finished])) == "cpu 50 %, gpu 90 %"  # type: ignore[arg-type]


def test_use_that_nobody_can_tell_is_a_reason(driver: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    driver.broken = True
    meter = EnergyMeter("cuda:0", powercap=Path("nowhere"))
    with meter.around("train"):
        pass
    values = meter.read()
    assert values["used"] == {}
    assert values["use_unknown"] == {
        "cpu": "psutil is not installed (pip install 'gate-runner[energy]')", "gpu": "NVML: Lost",
    }  # fmt: skip


def test_every_result_says_what_it_took_or_why_not(own: str, tmp_path: Path) -> None:
    from gate_runner.benchmarks import resolve
    from gate_runner.executors import run
    from gate_runner.runs import RunRequest
    from gate_runner.settings import Settings

    request = RunRequest(resolve(["digits", "ade20k"]), f"{own}:pooled_only", tmp_path / "run", Settings(limit=40))
    passed, failed = run(request)
    assert (passed.status, failed.status) == ("ok", "failed")
    for finished in (passed, failed):
        assert set(finished.energy) == {"joules", "unmeasured", "used", "use_unknown"}
        assert {*finished.energy["used"], *finished.energy["use_unknown"]} == {"cpu", "gpu"}
        assert all(0 <= percent <= 100 for percent in finished.energy["used"].get("cpu", {}).values())
        assert {*finished.energy["joules"], *finished.energy["unmeasured"]} == {"cpu", "gpu"}
        for phases in finished.energy["joules"].values():
            assert set(phases) <= {"data", "encode", "train", "test", "total"}
    if "cpu" in passed.energy["joules"]:
        phases = passed.energy["joules"]["cpu"]
        assert 0 <= sum(value for phase, value in phases.items() if phase != "total") <= phases["total"] * 1.001
