"""Makes temperature over mountains at two resolutions: python downscaling.py FILE.nc [DAYS] [ROWS] [TIMES]

The coarse temperature is the mean over each cell, as a climate model has it; the fine one knows the valleys: it falls
by 6.5 K a kilometre, and the wind warms lee slopes. The orography is the same every day, and as fine as the target.
"""
import sys

import numpy as np
import xarray as xr


def waves(random, shape, longest, count):
    """A sum of waves of many directions, none much shorter than `longest` points, with a deviation of 1."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    field = np.zeros(shape)
    for _ in range(count):
        ky, kx = random.uniform(-1, 1, 2) / longest
        field += np.cos(2 * np.pi * (ky * y + kx * x) + random.uniform(0, 2 * np.pi))
    return field / np.sqrt(count / 2)


def make(path, days=60, rows=12, times=4, seed=1):
    random = np.random.default_rng(seed)
    shape = height, width = rows * times, 2 * rows * times
    orography = np.maximum(0, 500 * waves(random, shape, 3 * times, 60) + 400)
    slope = np.gradient(orography, axis=1)
    weather = np.stack([3 + 4 * waves(random, shape, 10 * times, 12) for _ in range(days)])
    wind = np.stack([waves(random, shape, 15 * times, 8) for _ in range(days)])
    fine = weather - 0.0065 * orography + 0.01 * wind * slope

    def coarse(field):
        return field.reshape(-1, rows, times, 2 * rows, times).mean((2, 4)).astype("f4")

    def axis(name, values, units, standard_name):
        return name, values, {"units": units, "standard_name": standard_name}

    small, large = ("time", "rlat", "rlon"), ("time", "lat", "lon")
    xr.Dataset(
        {
            "temperature": (small, coarse(fine), {"units": "degC", "long_name": "mean over a coarse cell"}),
            "wind": (small, coarse(wind), {"units": "1"}),
            "orography": (large[1:], orography.astype("f4"), {"units": "m", "standard_name": "surface_altitude"}),
            "fine": (large, fine.astype("f4"), {"units": "degC", "standard_name": "air_temperature"}),
        },
        coords={
            "time": np.datetime64("2001-01-01", "ns") + np.arange(days) * np.timedelta64(1, "D"),
            "lat": axis("lat", np.linspace(60, 40, height), "degrees_north", "latitude"),
            "lon": axis("lon", np.linspace(0, 40, width), "degrees_east", "longitude"),
        },
    ).to_netcdf(path)


if __name__ == "__main__":
    make(sys.argv[1], *map(int, sys.argv[2:]))
