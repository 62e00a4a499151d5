"""What encoders give, encoded once for everything that asks for it."""

from gate_runner.features.cache import ChangedRows as ChangedRows
from gate_runner.features.cache import EncodedRows as EncodedRows
from gate_runner.features.cache import FeatureCache as FeatureCache
from gate_runner.features.cache import IndexedRows as IndexedRows
from gate_runner.features.cache import cut as cut
from gate_runner.features.encoding import Kind as Kind
from gate_runner.features.encoding import encode_pictures as encode_pictures
from gate_runner.features.encoding import images_at as images_at
from gate_runner.features.inputs import digests_of as digests_of
