"""What encoders give, encoded once for everything that asks for it."""

from gate_runner.features.cache import EncodedRows, FeatureCache, IndexedRows, cache_folder
from gate_runner.features.encoding import Kind, encode_pictures, images_at
from gate_runner.features.inputs import digests_of

__all__ = [
    "EncodedRows",
    "FeatureCache",
    "IndexedRows",
    "Kind",
    "cache_folder",
    "digests_of",
    "encode_pictures",
    "images_at",
]
