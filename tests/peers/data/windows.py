"""Maps and tables in time, and the windows that numpy's slices make of them. The folder comes as JSON on stdin."""

import csv
import json
import sys

import cftime
import netCDF4
import numpy as np

folder = json.load(sys.stdin)
r = np.random.default_rng(3)
STEPS, LAT, LON = 48, 5, 6
GAP = 29  # after this step two months are missing

dates = [cftime.DatetimeNoLeap(2000 + m // 12, m % 12 + 1, 16) for m in range(STEPS + 2) if m not in (GAP + 1, GAP + 2)]
units = "days since 1979-01-01"
ice = r.normal(size=(STEPS, LAT, LON)).astype("f4")
wind = r.normal(size=(STEPS, LAT, LON)).astype("f4")


def write(path, kind, times, **more):
    with netCDF4.Dataset(f"{folder}/{path}", "w", format=kind) as d:
        for name, size in (("time", len(times)), ("lat", LAT), ("lon", LON)):
            d.createDimension(name, size)
        time = d.createVariable("time", "f8", ("time",))
        time.units, time.calendar = more.pop("units", units), more.pop("calendar", "noleap")
        time[:] = times
        d.createVariable("lat", "f4", ("lat",))[:] = np.linspace(60, 80, LAT)
        for name, values in (("wind", wind), ("ice", ice)):
            packed = dict(zlib=True, chunksizes=(4, LAT, LON)) if kind == "NETCDF4" else {}
            d.createVariable(name, "f4", ("time", "lat", "lon"), **packed)[:] = values[: len(times)]


days = cftime.date2num(dates, units, calendar="noleap")
write("maps.nc", "NETCDF4", days)
write("classic.nc", "NETCDF3_CLASSIC", days)
write("backwards.nc", "NETCDF4", np.concatenate([days[:20], days[10:20]]))
write("months.nc", "NETCDF4", np.arange(STEPS), units="months since 2000-01-01", calendar="standard")
np.savez(f"{folder}/arrays.npz", wind=wind, ice=ice)

with open(f"{folder}/stations.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["date", "station", "region", "a", "b", "kind"])
    for i in range(240):
        date = f"{2000 + i // 24}-{i // 2 % 12 + 1:02}-01"
        rows.writerow([date, i % 8, "north" if i % 8 < 3 else "south", r.normal(), i / 7, 0 if i % 10 else 1])

runs = [range(0, GAP + 1), range(GAP + 1, STEPS)]
answers = []
for history, leads in ((1, [1]), (3, [0]), (3, [1, 2, 3]), (4, [2]), (2, [1, 3])):
    joined = np.stack([wind, ice], axis=1)  # as the model sees them: two channels a step
    bases = [t for run in runs for t in run if t - history + 1 in run and t + max(leads) in run]
    inputs = np.stack([joined[t - history + 1 : t + 1].reshape(-1, LAT, LON) for t in bases])
    targets = np.stack([np.stack([ice[t + lead] for lead in leads]) for t in bases])
    answers.append(
        {
            "history": history,
            "leads": leads,
            "bases": bases,
            "inputs": inputs.astype("f8").ravel().tolist(),
            "targets": targets.astype("f8").ravel().tolist(),
        }
    )
print(json.dumps(answers))
