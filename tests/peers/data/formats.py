"""Writes one small, good file of each format into the folder that is asked for: what the tests of bad data damage."""
import io
import json
import os
import struct
import sys
import zipfile

import h5py
import netCDF4
import numpy as np
from PIL import Image

folder = json.load(sys.stdin)
r = np.random.default_rng(0)
x = r.normal(size=(80, 4)).astype("f4")
y = x.sum(axis=1)

for name in ("cat", "dog"):
    os.makedirs(f"{folder}/images/{name}")
    for i in range(40):
        pixels = r.integers(0, 256, (32, 32, 3), dtype="u1")
        Image.fromarray(pixels).save(f"{folder}/images/{name}/{i:02}.jpg")
Image.fromarray(r.integers(0, 256, (48, 32, 3), dtype="u1")).save(f"{folder}/tall.jpg")

np.savez(f"{folder}/rows.npz", x=x, y=y)
np.savez_compressed(f"{folder}/small.npz", x=x, y=y)
missing = x.copy()
missing[7, 2] = np.nan
np.savez(f"{folder}/nan.npz", x=missing, y=y)
objects = np.array([{"a": i} for i in range(80)], dtype=object)
np.savez(f"{folder}/objects.npz", x=objects, y=y)
np.save(f"{folder}/objects.npy", objects)


def header(shape):
    into = io.BytesIO()
    np.lib.format.write_array_header_1_0(into, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return into.getvalue()


def bomb(name, shape, declared):
    """An archive whose x inflates to 256 MiB, whatever its header and its directory say."""
    zeros = header(shape) + bytes(2**28)
    with zipfile.ZipFile(f"{folder}/{name}", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x.npy", zeros)
        z.writestr("y.npy", header((80,)) + y.tobytes())
    content = open(f"{folder}/{name}", "rb").read()
    real = struct.pack("<I", len(zeros))
    assert content.count(real) >= 2
    open(f"{folder}/{name}", "wb").write(content.replace(real, struct.pack("<I", declared)))


bomb("hidden_bomb.npz", (80, 4), len(header((80, 4))) + 80 * 4 * 4)
bomb("huge.npz", (80, 10**9), 0xFFFFFFF0)

with h5py.File(f"{folder}/rows.h5", "w") as f:
    f.create_dataset("x", data=x, chunks=(8, 4), compression="gzip", shuffle=True)
    f.create_dataset("y", data=y)
with h5py.File(f"{folder}/flat.h5", "w") as f:
    f.create_dataset("x", data=x)  # in one piece: chunks are kept unpacked, and such a small file is read but once
    f.create_dataset("y", data=y)

for name, kind in (("rows.nc", "NETCDF4"), ("classic.nc", "NETCDF3_CLASSIC")):
    with netCDF4.Dataset(f"{folder}/{name}", "w", format=kind) as d:
        d.createDimension("sample", 80)
        d.createDimension("level", 4)
        d.createVariable("wind", "f4", ("sample", "level"))[:] = x
        d.createVariable("ice", "f4", ("sample",))[:] = y
        d.createVariable("pressure", "f4", ("level",))[:] = np.arange(4)
        d.createVariable("maps", "f4", ("sample", "level", "level"))[:] = r.normal(size=(80, 4, 4))
        d.createVariable("version", "i4", ())[...] = 3

(np.arange(20000) % 50).astype("<u2").tofile(f"{folder}/tokens.bin")
print("null")
