"""Clips and sounds for the tests, made with PyAV."""

import io
from fractions import Fraction

import av
import numpy as np


def encode_clip(
    form="mp4",
    codec="libx264",
    shades=range(0, 200, 10),
    size=(48, 64),
    rate=10,
    pixel="yuv420p",
    stamps=None,
    sound=None,
):
    """The bytes of a clip; frame i is grey, of the i-th shade, with its top left quarter red."""
    file = io.BytesIO()
    height, width = size
    with av.open(file, "w", format=form) as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, pixel
        if codec == "libx264":
            stream.options = {"crf": "5"}
        stream.codec_context.time_base = Fraction(1, rate)
        track = None if sound is None else container.add_stream("aac", rate=16_000, layout="mono")
        for number, shade in enumerate(shades):
            pixels = np.full((height, width, 3), shade, np.uint8)
            pixels[: height // 2, : width // 2] = (255, 0, 0)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = number if stamps is None else stamps[number]
            frame.time_base = Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if track is not None:
            frame = av.AudioFrame.from_ndarray(sound[None], format="fltp", layout="mono")
            frame.sample_rate = 16_000
            container.mux(track.encode(frame))
            container.mux(track.encode(None))
    return file.getvalue()


def encode_sound(samples, rate=16_000, form="wav", codec="pcm_s16le"):
    """The bytes of a sound, from real samples in [-1, 1]: (channels, samples), or (samples,) for mono."""
    samples = np.atleast_2d(np.asarray(samples, np.float32))
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[len(samples)]
    file = io.BytesIO()
    with av.open(file, "w", format=form) as container:
        stream = container.add_stream(codec, rate=rate, layout=layout)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="fltp", layout=layout)
        frame.sample_rate = rate
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def tone(hertz, seconds=1.0, rate=16_000, loud=0.5):
    return (loud * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)
