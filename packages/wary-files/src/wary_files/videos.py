"""How FFmpeg opens a stranger's video: as a container of frames, never as a list that names other files."""

from __future__ import annotations

from types import MappingProxyType

_CONTAINERS = (
    *("mov", "mp4", "m4a", "3gp", "3g2", "mj2", "m4v", "matroska", "webm", "avi", "mpeg", "mpegts", "mpegvideo"),
    *("flv", "asf", "ogg", "gif", "nut", "mxf", "dv", "h264", "hevc", "mjpeg", "ivf", "wav", "mp3", "aac", "flac"),
)
"""FFmpeg's names of formats that hold frames or sound; concat, hls and dash read other files, which they name."""

VIDEO_OPTIONS = MappingProxyType(
    {"format_whitelist": ",".join(_CONTAINERS), "protocol_whitelist": "file", "enable_drefs": "0"}
)
"""Options for FFmpeg and PyAV: what a file is called says nothing, and a text called ``.mp4`` may name any file."""
