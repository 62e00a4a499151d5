"""What training draws its batches from: tensors, memory-mapped features, and samples made by worker processes."""

from vision_adapters.rows.samples import BrokenSampleError, SampleRows, WorkerDiedError, sample_generator
from vision_adapters.rows.source import Draw, Rows, StreamedRows, drawn
from vision_adapters.rows.stored import DiskFullError, RowWriter, StoredRows

__all__ = [
    "BrokenSampleError",
    "DiskFullError",
    "Draw",
    "RowWriter",
    "Rows",
    "SampleRows",
    "StoredRows",
    "StreamedRows",
    "WorkerDiedError",
    "drawn",
    "sample_generator",
]
