"""Frames of a video: ours against seeking to each frame and against one pass over all, from 2 to 128 frames."""

from __future__ import annotations

import json
import platform
import statistics
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from eqben_builder.video.decode import frames_at

FRAMES, RATE, COUNTS, ROUNDS = 600, 30, (2, 4, 8, 16, 32, 64, 128), 9
BITS = 12


def write(path: Path, codec: str, interval: int, b_frames: int) -> None:
    """A video that shows its frame's number as black and white fields, over a moving texture."""
    rng = np.random.default_rng(0)
    texture = rng.integers(0, 255, (30, 40, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=RATE)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 320, 240, "yuv420p", interval
        stream.max_b_frames = b_frames
        for k in range(FRAMES):
            image = np.roll(texture, k, 1)
            image[:40] = 0
            for bit in range(BITS):
                image[:40, bit * 24 : (bit + 1) * 24] = 255 * (k >> bit & 1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


def number(image: np.ndarray) -> int:
    return sum((image[5:35, bit * 24 + 6 : bit * 24 + 18].mean() > 128) << bit for bit in range(BITS))


def one_pass(path: Path, times: list[float]) -> list[np.ndarray]:
    wanted, frames = sorted(times), []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        last = None
        for frame in container.decode(stream):
            at = float(frame.pts * stream.time_base)
            while last is not None and len(frames) < len(wanted) and wanted[len(frames)] < at:
                frames.append(last.to_ndarray(format="rgb24"))
            if len(frames) == len(wanted):
                return frames
            last = frame
        frames += [last.to_ndarray(format="rgb24")] * (len(wanted) - len(frames))
    return frames


def seeking(path: Path, times: list[float]) -> list[np.ndarray]:
    frames = []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        for time_ in sorted(times):
            container.seek(int(Fraction(time_) / stream.time_base), stream=stream, backward=True)
            last = None
            for frame in container.decode(stream):
                if float(frame.pts * stream.time_base) > time_:
                    break
                last = frame
            frames.append(last.to_ndarray(format="rgb24"))
    return frames


def ours(path: Path, times: list[float]) -> list[np.ndarray]:
    return [frame.image for frame in frames_at(path, times)]


def main() -> None:
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for codec, interval, b_frames in (("mpeg4", 12, 0), ("mpeg4", 250, 0), ("libx264", 60, 2), ("libx264", 250, 2)):
            path = Path(folder) / f"{codec}-{interval}.mp4"
            write(path, codec, interval, b_frames)
            for count in COUNTS:
                times = [(k + 0.5) * FRAMES / RATE / count for k in range(count)]
                expected = [int(time_ * RATE + 1e-9) for time_ in times]
                for function in (ours, one_pass, seeking):
                    if [number(image) for image in function(path, times)] != expected:
                        sys.exit(f"{function.__name__} gives wrong frames of {codec}: no speed is reported")
                seconds: dict[str, list[float]] = {"ours": [], "one_pass": [], "seeking": []}
                for _ in range(ROUNDS):
                    for function in (ours, one_pass, seeking):
                        start = time.process_time()
                        function(path, times)
                        seconds[function.__name__].append(time.process_time() - start)
                medians = {name: statistics.median(values) for name, values in seconds.items()}
                ratio = medians["ours"] / min(medians["one_pass"], medians["seeking"])
                results.append(
                    {"codec": codec, "key_frame_every": interval, "frames": count, "ratio": ratio, **medians}
                )
                shown = ", ".join(f"{name} {1000 * value:.0f} ms" for name, value in medians.items())
                print(f"{codec} every {interval}, {count} frames: {shown}; ratio to the faster {ratio:.2f}", flush=True)
    worst = max(row["ratio"] for row in results)
    print(f"worst ratio {worst:.2f} (target 1.2)")
    report = {
        "machine": {"processor": platform.processor() or platform.machine(), "python": platform.python_version()},
        "versions": {"av": av.__version__, "numpy": np.__version__},
        "video": {"frames": FRAMES, "rate": RATE, "size": [320, 240]},
        "clock": f"process time, median of {ROUNDS} alternating rounds",
        "worst_ratio": worst,
        "results": results,
    }
    output = Path(__file__).parent / "results" / "decoding.json"
    output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
