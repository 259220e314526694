"""Writes the maps benchmark's files into a folder, once: seeded, so that every machine reads the same. Arguments: folder, share of
the full size, and the folders of zarr-python and pyarrow. What is whole is renamed into place; what is there already is left alone."""
import os
import shutil
import sys

sys.path.extend(sys.argv[3].split(":"))
import netCDF4
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import xarray as xr
from numcodecs import Blosc

SIDE, CHANNELS = 128, 2


def smooth(random, side):
    """Waves of all lengths, rounded as models store them: they compress as fields of climate models do."""
    noise = np.fft.rfft2(random.standard_normal((side, side)))
    waves = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None])
    field = np.fft.irfft2(noise / np.maximum(waves, 1 / side) ** 1.5, (side, side))
    return (field / field.std()).astype(np.float32)


def fields(samples, seed, side=SIDE):
    random = np.random.default_rng(seed)
    pool = np.stack([smooth(random, side) for _ in range(64)])
    maps = pool[random.integers(0, 64, (samples, CHANNELS))] + pool[random.integers(0, 64, (samples, CHANNELS))]
    return np.round(maps * 512) / 512, random.standard_normal((samples, 2), np.float32)


def dataset(first, samples, seed):
    maps, parameters = fields(samples, seed)
    return xr.Dataset(
        {"maps": (("time", "channel", "lat", "lon"), maps), "parameters": (("time", "parameter"), parameters)},
        {"time": ("time", np.arange(first, first + samples, dtype=np.float64)),
         "lat": ("lat", np.linspace(-80, 80, SIDE)), "lon": ("lon", np.linspace(0, 357, SIDE))},
    )


def zarr(path, share, chunk, blosc):
    samples = int(2000 * share)
    data = dataset(0, samples, 1)
    codec = {"compressors": Blosc("lz4", 5, Blosc.SHUFFLE)} if blosc else {}
    chunks = (chunk, CHANNELS, SIDE, SIDE)
    encoding = {"maps": {"chunks": chunks, **codec}, "parameters": {"chunks": (samples, 2)}}
    data.to_zarr(path, zarr_format=2 if blosc else 3, encoding=encoding)


def netcdf(path, share, packed):
    each = int(200 * share)
    os.makedirs(path)
    for number in range(12):
        data = dataset(number * each, each, 10 + number)
        packing = {"zlib": True, "complevel": 4, "shuffle": True, "chunksizes": (1, CHANNELS, SIDE, SIDE)}
        data.to_netcdf(f"{path}/{1980 + number}.nc", engine="netcdf4", encoding={"maps": packing if packed else {}})


def years(path, share):
    """Forty files of a thousand steps each, small maps: what counts is how long it takes until they are open."""
    os.makedirs(path)
    random = np.random.default_rng(4)
    steps = int(1000 * share)
    for number in range(40):
        first = number * steps
        data = xr.Dataset(
            {"ice": (("time", "lat", "lon"), random.random((steps, 18, 36), np.float32))},
            {"time": ("time", np.arange(first, first + steps, dtype=np.float64), {"units": "days since 1979-01-01", "calendar": "noleap"}),
             "lat": ("lat", np.linspace(-85, 85, 18)), "lon": ("lon", np.arange(0.0, 360, 10))},
        )
        chunked = {"ice": {"zlib": True, "chunksizes": (1, 18, 36)}}
        data.to_netcdf(f"{path}/{1979 + number}.nc", engine="netcdf4", encoding=chunked, unlimited_dims=["time"])


def masked(path, share, land):
    """Maps in, maps out. With land a third of the target is NaN."""
    samples = int(256 * share)
    maps, _ = fields(samples, 5, 64)
    target = maps[:, :1] * 0.5
    if land:
        target[:, :, np.abs(fields(1, 6, 64)[0][0, 0]) > 1.4] = np.nan
    data = xr.Dataset({"maps": (("time", "channel", "lat", "lon"), maps), "later": (("time", "one", "lat", "lon"), target)})
    data.to_netcdf(path, engine="netcdf4")


def table(path, share, codec):
    """Twenty features and a target, as pandas would write them."""
    rows = int(10_000_000 * share)
    random = np.random.default_rng(7)
    columns = {f"f{i}": random.standard_normal(rows, np.float32) for i in range(10)}
    columns |= {f"d{i}": random.standard_normal(rows) for i in range(5)}
    for i, most in enumerate((10, 100, 1000, 50_000, 1_000_000)):
        columns[f"i{i}"] = random.integers(0, most, rows).astype(np.int32 if i % 2 else np.int64)
    columns["y"] = columns["f0"] + columns["f1"] * columns["f2"]
    parquet.write_table(pa.table(columns), path, compression=codec)


def main(folder, share):
    files = {
        "zstd_1.zarr": lambda path: zarr(path, share, 1, False),
        "zstd_16.zarr": lambda path: zarr(path, share, 16, False),
        "blosc_1.zarr": lambda path: zarr(path, share, 1, True),
        "blosc_16.zarr": lambda path: zarr(path, share, 16, True),
        "deflated": lambda path: netcdf(path, share, True),
        "plain": lambda path: netcdf(path, share, False),
        "years": lambda path: years(path, share),
        "sea.nc": lambda path: masked(path, max(share, 0.1), False),
        "land.nc": lambda path: masked(path, max(share, 0.1), True),
        "snappy.parquet": lambda path: table(path, share, "snappy"),
        "zstd.parquet": lambda path: table(path, share, "zstd"),
    }
    os.makedirs(folder, exist_ok=True)
    for name, write in files.items():
        path = os.path.join(folder, name)
        if os.path.exists(path):
            continue
        begun = f"{folder}/begun-{name}"
        shutil.rmtree(begun, ignore_errors=True)
        if os.path.isfile(begun):
            os.remove(begun)
        write(begun)
        os.rename(begun, path)


main(sys.argv[1], float(sys.argv[2]))
