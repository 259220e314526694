"""Makes monthly sea-ice concentration on a polar grid, a NetCDF file a year: python sea_ice.py FOLDER [YEARS] [SIDE]

Land is missing, and so is a hole around the pole until 1987, as in satellites' data. The calendar has no leap days. Ice
comes and goes with the seasons, shrinks over the decades, and has anomalies that drift and fade within some months: a
forecast can beat both the mean of the month and the last month seen.
"""
import sys
from pathlib import Path

import netCDF4
import numpy as np

FIRST_YEAR = 1979


def smooth(field, passes):
    for _ in range(passes):
        field = (
            field + np.roll(field, 1, 0) + np.roll(field, -1, 0) + np.roll(field, 1, 1) + np.roll(field, -1, 1)
        ) / 5
    return field


def make(folder, years=35, side=36, seed=1):
    random = np.random.default_rng(seed)
    height, width = side * 2 // 3, side
    y, x = np.mgrid[0:height, 0:width]
    distance = np.hypot((y - height / 2) / (height / 2), (x - width / 2) / (width / 2))
    angle = np.arctan2(y - height / 2, x - width / 2)
    land = (distance > 1.15 + 0.15 * np.sin(3 * angle)) | (np.hypot(y - height * 0.25, x - width * 0.7) < side / 10)
    hole = distance < 0.12
    anomaly = np.zeros((height, width))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for year in range(FIRST_YEAR, FIRST_YEAR + years):
        with netCDF4.Dataset(folder / f"ice_{year}.nc", "w") as file:
            for name, size in [("time", None), ("y", height), ("x", width)]:
                file.createDimension(name, size)
            time = file.createVariable("time", "f8", ("time",))
            time.setncatts({"units": "days since 1979-01-01", "calendar": "noleap", "standard_name": "time"})
            for name, values in [("y", y[:, 0]), ("x", x[0])]:
                axis = file.createVariable(name, "f4", (name,))
                axis.setncatts({"units": "km", "standard_name": f"projection_{name}_coordinate"})
                axis[:] = values * 100.0
            latitude = file.createVariable("latitude", "f4", ("y", "x"))
            latitude.setncatts({"units": "degrees_north", "standard_name": "latitude"})
            latitude[:] = 90 - 30 * distance
            ice = file.createVariable("ice", "i2", ("time", "y", "x"), fill_value=-999, zlib=True)
            ice.setncatts({
                "long_name": "sea-ice concentration", "standard_name": "sea_ice_area_fraction", "units": "1",
                "scale_factor": 1e-4, "add_offset": 0.0, "coordinates": "latitude",
            })
            for month in range(12):
                time[month] = (year - FIRST_YEAR) * 365 + month * 365 / 12 + 15
                season = np.cos(2 * np.pi * (month - 2) / 12)
                edge = 0.75 + 0.25 * season - 0.004 * (year - FIRST_YEAR)
                drift = np.roll(anomaly, (0, 1), (0, 1))
                anomaly = 0.85 * drift + 0.6 * smooth(random.normal(size=anomaly.shape), 4)
                concentration = np.clip(1 / (1 + np.exp((distance - edge) * 8)) + 0.25 * anomaly, 0, 1)
                missing = land | (hole & (year < 1988))
                ice[month] = np.ma.masked_array(concentration, mask=missing)


if __name__ == "__main__":
    make(sys.argv[1], *map(int, sys.argv[2:]))
