"""Images in inks (CMYK) to RGB: through their own colour profile if it fits."""

from __future__ import annotations

import io
from typing import Any

UNFIT = "has a colour profile that does not fit its pixels: it is read without the profile"
"""What is remarked of an image for which `from_inks` returns false."""


def from_inks(image: Any, colours: Any) -> tuple[Any, bool]:
    """Return an image of CMYK in RGB, and whether its colour profile was taken, or it has none.

    ``colours`` is Pillow's ``ImageCms``. A profile that is broken or of other colours is passed over, such as that of
    an image before it was converted.

    Example:
        >>> class Opened:
        ...     info = {}
        ...     def convert(self, mode):
        ...         return f"pixels in {mode}"
        >>> from_inks(Opened(), None)
        ('pixels in RGB', True)
    """
    profile = image.info.get("icc_profile")
    if not profile:
        return image.convert("RGB"), True
    image.load()  # damaged pixels are no fault of the profile
    try:
        own = colours.ImageCmsProfile(io.BytesIO(profile))
        return colours.profileToProfile(image, own, colours.createProfile("sRGB"), outputMode="RGB"), True
    except (colours.PyCMSError, OSError):
        return image.convert("RGB"), False
