"""The questions of a suite as a split's targets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqben_builder.suites import SuiteData, SuiteRow


@dataclass(frozen=True, eq=False)
class Questions:
    """A suite's questions, one a sample: targets that are no tensor.

    Args:
        data: the suite as it was read, whose rows are the samples.

    Example:
        >>> from eqben_builder.suites import micro_suite
        >>> questions = Questions(micro_suite(pairs=1, size=32))
        >>> len(questions), len(questions.take(np.array([3, 0])))
        (15, 2)
    """

    data: SuiteData

    @property
    def rows(self) -> list[SuiteRow]:
        """The questions."""
        return self.data.rows

    def __len__(self) -> int:
        return len(self.data.rows)

    def take(self, index: Any, /) -> Questions:
        """Those at these positions."""
        return Questions(self.data._replace(rows=[self.data.rows[at] for at in np.asarray(index).tolist()]))

    def collate(self, index: Any, /) -> list[SuiteRow]:
        """Those at these positions, as rows: nothing is trained on them."""
        return self.take(index).rows

    def note_in(self, digest: hashlib._Hash, /) -> None:
        """Add all that is asked to a digest; the pictures are the split's."""
        for row in self.data.rows:
            fields = (row.id, row.subset, row.shape, row.captions, row.cluster, row.group, sorted(row.sets.items()))
            digest.update(f"{fields} {row.label}\n".encode())

    def clusters(self) -> tuple[np.ndarray, np.ndarray]:
        """Questions that share a picture, together.

        Returns:
            Positions of the questions, cluster by cluster in the order in which they first come, and how many each has.
        """
        at: dict[str, list[int]] = {}
        for index, row in enumerate(self.data.rows):
            at.setdefault(row.cluster, []).append(index)
        places = np.array([index for members in at.values() for index in members], dtype=np.int64)
        return places, np.array([len(members) for members in at.values()], dtype=np.int64)
