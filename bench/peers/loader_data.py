"""Writes the loader benchmark's files into a folder, once: seeded, so that every machine reads the same. Arguments: folder, share of
the full size. What is whole is renamed into place; what is there already is left alone."""
import os
import shutil
import struct
import sys

import h5py
import netCDF4
import numpy as np
from PIL import Image


def smooth(random, side, octaves=4):
    """A picture with detail at all sizes, in [0, 1]: it compresses about as photographs and simulations do."""
    total = np.zeros((side, side), np.float32)
    for octave in range(octaves):
        cells = 4 << octave
        noise = Image.fromarray(random.standard_normal((cells, cells), np.float32) / (1 << octave))
        total += np.asarray(noise.resize((side, side), Image.Resampling.BICUBIC))
    return (total - total.min()) / (total.max() - total.min())


def mnist(folder, share):
    raw = os.path.join(folder, "MNIST", "raw")
    os.makedirs(raw)
    random = np.random.default_rng(1)
    for name, count in (("train", 60000), ("t10k", 10000)):
        count = int(count * share)
        pixels = random.integers(0, 256, (count, 28, 28), np.uint8)
        labels = random.integers(0, 10, count, np.uint8)
        with open(f"{raw}/{name}-images-idx3-ubyte", "wb") as f:
            f.write(struct.pack(">4i", 2051, count, 28, 28) + pixels.tobytes())
        with open(f"{raw}/{name}-labels-idx1-ubyte", "wb") as f:
            f.write(struct.pack(">2i", 2049, count) + labels.tobytes())


def images(folder, share):
    """JPEGs of 224 x 224 in ten folders: quality 95, 4:2:0, about 18 kB each."""
    random = np.random.default_rng(2)
    for number in range(int(5000 * share)):
        here = os.path.join(folder, f"class_{number % 10}")
        os.makedirs(here, exist_ok=True)
        bright = smooth(random, 224, 6)
        colours = np.stack([bright, smooth(random, 224, 3), smooth(random, 224, 3)], -1) * [1, 0.3, 0.3] + [0, 0.35, 0.35]
        picture = Image.fromarray((colours * 255).clip(0, 255).astype(np.uint8), "YCbCr")
        picture.save(f"{here}/{number:05d}.jpg", quality=95)


def maps(samples):
    """Maps of four channels with a little noise, as simulations have it, and two numbers each to infer."""
    random = np.random.default_rng(3)
    pool = np.stack([smooth(random, 64) for _ in range(64)])
    x = pool[random.integers(0, 64, (samples, 4))]
    x += np.round(random.standard_normal(x.shape, np.float32) * 64) / 4096
    return x, random.standard_normal((samples, 2), np.float32)


def hdf5(path, share, chunk):
    x, y = maps(int(3000 * share))
    with h5py.File(path, "w") as f:
        f.create_dataset("maps", data=x, chunks=(chunk, *x.shape[1:]), compression="gzip", shuffle=True)
        f.create_dataset("parameters", data=y)


def netcdf(path, share, chunk):
    x, y = maps(int(3000 * share))
    with netCDF4.Dataset(path, "w") as f:
        for name, size in (("sample", len(x)), ("channel", 4), ("y", 64), ("x", 64), ("parameter", 2)):
            f.createDimension(name, size)
        sizes = (chunk, *x.shape[1:])
        stored = f.createVariable("maps", "f4", ("sample", "channel", "y", "x"), zlib=True, chunksizes=sizes)
        stored[:] = x
        f.createVariable("parameters", "f4", ("sample", "parameter"))[:] = y


def npz(path, samples, shape):
    random = np.random.default_rng(4)
    with open(path, "wb") as f:
        np.savez(f, x=random.standard_normal((samples, *shape), np.float32), y=random.standard_normal((samples, 2), np.float32))


def main(folder, share):
    made = {
        "mnist": lambda path: mnist(path, share),
        "images": lambda path: images(path, share),
        "each.h5": lambda path: hdf5(path, share, 1),
        "sixteen.h5": lambda path: hdf5(path, share, 16),
        "each.nc": lambda path: netcdf(path, share, 1),
        "sixteen.nc": lambda path: netcdf(path, share, 16),
        "vectors.npz": lambda path: npz(path, int(200000 * share), [32]),
        "maps.npz": lambda path: npz(path, int(20000 * share), [1, 64, 64]),
    }
    os.makedirs(folder, exist_ok=True)
    for name, make in made.items():
        path, part = os.path.join(folder, name), os.path.join(folder, f".part-{name}")
        if os.path.exists(path):
            continue
        shutil.rmtree(part) if os.path.isdir(part) else os.path.exists(part) and os.remove(part)
        make(part)
        os.rename(part, path)


main(sys.argv[1], float(sys.argv[2]))
