"""What encoders give, encoded once for everything that asks for it."""

from gate_runner.features.cache import ChangedRows, EncodedRows, FeatureCache, IndexedRows, cache_folder, cut
from gate_runner.features.encoding import Kind, encode_pictures, images_at
from gate_runner.features.inputs import digests_of

__all__ = [
    "ChangedRows",
    "EncodedRows",
    "FeatureCache",
    "IndexedRows",
    "Kind",
    "cache_folder",
    "cut",
    "digests_of",
    "encode_pictures",
    "images_at",
]
