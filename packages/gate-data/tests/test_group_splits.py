"""Whole groups in splits: every class that can be held, shares near what was asked for, the same each time."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gate_data import load
from gate_data.errors import DataError
from gate_data.readers.group_splits import group_split

SHARES = [[0.72, 0.08, 0.2], [0.8, 0.2], [0.9, 0.1], [0.5, 0.25, 0.25]]


def table_of(folder: Path, per_class: int, classes: int, pictures: int = 3, group: str = "patient") -> Path:
    lines = ["file,label,patient"]
    for label, patient, shot in itertools.product(range(classes), range(per_class), range(pictures)):
        name = f"{label}_{patient}_{shot}.png"
        Image.fromarray(np.full((8, 8, 3), 9 * label + patient, np.uint8)).save(folder / name)
        lines.append(f"{name},c{label:02},p{label}_{patient}")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    (folder / "benchmark.toml").write_text(
        '[benchmark]\nid = "lesions"\ntask = "image-classification"\n[data]\nkind = "table"\ntable = "t.csv"\n'
        f'image = "file"\ntarget = "label"\n[splits]\ngroup = "{group}"\n'
    )
    return folder


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 9)), min_size=1, max_size=12),  # groups, rows of each
    st.sampled_from(SHARES),
    st.integers(0, 5),
)
@settings(max_examples=150, deadline=None)
def test_each_split_holds_every_class_that_can_be_held(
    structure: list[tuple[int, int]], shares: list[float], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    groups: list[str] = []
    classes: list[int] = []
    for label, (count, most) in enumerate(structure):
        for group in range(count):
            rows = int(rng.integers(1, most + 1))
            groups += [f"{label}-{group}"] * rows
            classes += [label] * rows
    holders = [count for count, _ in structure]
    spare = sum(holders) - len(holders)  # groups that training can do without
    if sum(holders) < len(shares) or spare < len(shares) - 1:
        with pytest.raises(DataError, match=f"{sum(holders)} groups are too few for {len(shares)} splits"):
            group_split(groups, shares, classes, seed=seed)
        return
    parts = group_split(groups, shares, classes, seed=seed)
    assert parts == group_split(groups, shares, classes, seed=seed)
    assert sorted(row for part in parts for row in part) == list(range(len(groups)))
    sides = [{groups[row] for row in part} for part in parts]
    assert all(sides)
    assert sum(map(len, sides)) == len(set(groups))
    inside = [{classes[row] for row in part} for part in parts]
    assert inside[0] == set(classes)
    for label, count in enumerate(holders):
        if count >= len(shares):
            assert all(label in part for part in inside)
    largest = max(map(groups.count, set(groups)))
    forced = sum(sorted((groups.count(name) for name in set(groups)), reverse=True)[: len(structure)])
    for part, share in zip(parts, shares, strict=True):  # off by what a class in each split takes, at most
        assert abs(len(part) - share * len(groups)) <= largest + forced


@given(st.integers(0, 10_000), st.sampled_from(SHARES))
@settings(max_examples=60, deadline=None)
def test_shares_are_near_where_there_are_groups_enough(seed: int, shares: list[float]) -> None:
    """Groups of one to four classes and of very different sizes: shares of all rows, and of every class."""
    rng = np.random.default_rng(seed)
    groups, classes = [], []
    for group in range(240):
        labels = rng.integers(0, 6, size=rng.integers(1, 5))
        for _ in range(int(rng.integers(1, 15))):
            groups.append(group)
            classes.append(int(rng.choice(labels)))
    parts = group_split(groups, shares, classes, seed=seed)
    sides = [{groups[row] for row in part} for part in parts]
    assert sum(map(len, sides)) == 240
    totals = np.bincount(classes, minlength=6)
    for part, share in zip(parts, shares, strict=True):
        assert abs(len(part) / len(groups) - share) < 0.01
        of_class = np.bincount([classes[row] for row in part], minlength=6) / totals
        assert np.all(np.abs(of_class - share) < 0.06)


def test_training_has_every_class_where_groups_hold_several() -> None:
    """A patient with a rare class besides a common one is trained on, whoever else it is needed by."""
    groups = [group for group in range(30) for _ in range(4)]
    classes: list[Any] = [group % 3 for group in groups]
    classes[0], classes[5] = 7, 8  # of one group each
    for seed in range(20):
        train, validation, test = group_split(groups, [0.72, 0.08, 0.2], classes, seed=seed)
        assert {classes[row] for row in train} == {0, 1, 2, 7, 8}
        for part in (validation, test):
            assert {classes[row] for row in part} == {0, 1, 2}
    marks = [tuple(int(label == index) for index in range(9)) for label in classes]
    assert group_split(groups, [0.8, 0.2], marks) == group_split(groups, [0.8, 0.2], classes)


def test_a_seed_draws_and_the_remainders_of_classes_are_made_up_for() -> None:
    groups = [f"{label}-{group}" for label in range(100) for group in range(2) for _ in range(10)]
    classes = [label for label in range(100) for _ in range(20)]
    drawn = [group_split(groups, [0.7, 0.1, 0.2], classes, seed=seed) for seed in (0, 1)]
    assert drawn[0] != drawn[1]
    for parts in drawn:
        assert [len(part) for part in parts] == [1400, 200, 400]
        assert [len({classes[row] for row in part}) for part in parts] == [100, 20, 40]


@pytest.mark.parametrize("per_class", [2, 3, 4, 6])
def test_a_table_of_few_patients_a_class_is_read(tmp_path: Path, per_class: int) -> None:
    classes = 12
    splits = load(table_of(tmp_path, per_class, classes), size=16)
    inside = [{int(part[at][1]) for at in range(len(part))} for part in splits]
    assert inside[0] == set(range(classes))
    assert [len(held) for held in inside[1:]] == ([2, 5] if per_class == 2 else [classes, classes])
    assert ("classes are not in test: too few groups" in splits.note) == (per_class == 2)
    assert ("validation has 33% of the samples, expected 8%: groups are few or large" in splits.note) == (
        per_class == 3
    )


def test_one_patient_a_class_says_why(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="5 groups are too few for 3 splits: training needs every class"):
        load(table_of(tmp_path, 1, 5), size=16)


def test_two_pictures_a_class_without_groups_are_read(tmp_path: Path) -> None:
    """Drawn one after another, the test took each second image, and nothing was left to validate."""
    for label, shot in itertools.product(range(10), range(2)):
        (tmp_path / f"c{label}").mkdir(exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), 9 * label + shot, np.uint8)).save(tmp_path / f"c{label}" / f"{shot}.png")
    splits = load(tmp_path, size=16)
    assert [len(part) for part in splits] == [15, 1, 4]
    assert len({int(target) for _, target in splits.train}) == 10


def test_rows_of_one_file_stay_in_one_split(tmp_path: Path) -> None:
    """Rows were drawn by themselves: an image that several questions are asked of was trained on and tested on."""
    lines = ["image,question,answer"]
    for number in range(20):
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(tmp_path / f"{number}.png")
        lines += [f"{number}.png,what is {word}?,{'yes' if number % 2 else 'no'}" for word in ("this", "that", "it")]
    (tmp_path / "questions.csv").write_text("\n".join(lines) + "\n")
    splits = load(tmp_path, size=8)
    sides = [{str(file) for (file,) in part.split.images.files} for part in splits]
    assert sum(map(len, sides)) == 20
    assert [len(part) % 3 for part in splits] == [0, 0, 0]
    assert splits.note == ""


def test_given_splits_that_share_files_are_noted(tmp_path: Path) -> None:
    lines = ["image,label,split"]
    for number in range(12):
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,{'ab'[number % 2]},{('train', 'train', 'val', 'test')[number // 3]}")
    (tmp_path / "all.csv").write_text("\n".join([*lines, "0.png,a,test", "1.png,b,test"]) + "\n")
    note = load(tmp_path, size=8).note
    assert note == f"2 files are tested on and trained or validated on, such as {tmp_path}/0.png"
