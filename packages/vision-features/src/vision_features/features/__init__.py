"""What encoders give, encoded once for everything that asks for it."""

from vision_features.features.cache import ChangedRows as ChangedRows
from vision_features.features.cache import EncodedRows as EncodedRows
from vision_features.features.cache import FeatureCache as FeatureCache
from vision_features.features.cache import IndexedRows as IndexedRows
from vision_features.features.cache import cut as cut
from vision_features.features.encoding import Kind as Kind
from vision_features.features.encoding import at_once as at_once
from vision_features.features.encoding import encode_pictures as encode_pictures
from vision_features.features.encoding import images_at as images_at
from vision_features.features.inputs import digests_of as digests_of
