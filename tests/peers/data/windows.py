"""Maps and tables in time, and the windows that numpy's slices make of them. The folder comes as JSON on stdin."""

import csv
import datetime
import json
import os
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


def write(path, kind, times, steps=slice(None), ice=ice, **more):
    with netCDF4.Dataset(f"{folder}/{path}", "w", format=kind) as d:
        for name, size in (("time", len(times)), ("lat", LAT), ("lon", LON)):
            d.createDimension(name, size)
        time = d.createVariable("time", "f8", ("time",))
        time.units, time.calendar = more.pop("units", units), more.pop("calendar", "noleap")
        time[:] = times
        d.createVariable("lat", "f4", ("lat",))[:] = np.linspace(60, 80, LAT)
        for name, values in (("wind", wind), ("ice", ice)):
            packed = dict(zlib=True, chunksizes=(min(4, len(times)), LAT, LON)) if kind == "NETCDF4" else {}
            d.createVariable(name, "f4", ("time", "lat", "lon"), **packed)[:] = values[steps][: len(times)]


days = cftime.date2num(dates, units, calendar="noleap")
write("maps.nc", "NETCDF4", days)
write("classic.nc", "NETCDF3_CLASSIC", days)
write("backwards.nc", "NETCDF4", np.concatenate([days[:20], days[10:20]]))
write("months.nc", "NETCDF4", np.arange(STEPS), units="months since 2000-01-01", calendar="standard")
np.savez(f"{folder}/arrays.npz", wind=wind, ice=ice)

os.mkdir(f"{folder}/years")
for year in sorted({date.year for date in dates}):
    own = [i for i, date in enumerate(dates) if date.year == year]
    since = f"days since {year}-01-01"
    write(f"years/{year}.nc", "NETCDF4", cftime.date2num([dates[i] for i in own], since, calendar="noleap"), own, units=since)

holes = ice.copy()
holes[:, :2, :3] = np.nan  # land
holes[17] = np.nan  # a satellite that failed
write("holes.nc", "NETCDF4", days, ice=holes)

daily = [cftime.DatetimeGregorian(2000, 1, 1) + datetime.timedelta(days=i) for i in range(4 * 365 + 1)]
with netCDF4.Dataset(f"{folder}/daily.nc", "w") as d:
    d.createDimension("time", len(daily))
    d.createDimension("x", 3)
    time = d.createVariable("time", "i4", ("time",))
    time.units = "hours since 1990-01-01"
    time[:] = cftime.date2num(daily, time.units)
    heat = r.normal(size=(len(daily), 3)).astype("f4")
    d.createVariable("heat", "f4", ("time", "x"))[:] = heat


def baselines(values, dates, season, history, leads, train_years, test_years):
    """Errors of persistence and of the mean by season over the other years, over the windows that lie in the test years.

    A mean by day is over the days from 15 before to 15 after, of a year whose months have 31 days.
    """
    years = np.array([date.year for date in dates])
    seasons = np.array([season(date) for date in dates])
    turn, around = (372, 15) if season is by_day else (12, 0)
    gaps = {GAP} if len(dates) == STEPS else set()

    def bases(part):
        whole = lambda t: all(years[i] in part for i in range(t - history + 1, t + max(leads) + 1))
        apart = lambda t: any(t - history + 1 <= gap < t + max(leads) for gap in gaps)
        return [t for t in range(history - 1, len(dates) - max(leads)) if whole(t) and not apart(t)]

    seen = sorted({t + lead for t in bases(train_years) for lead in leads})

    def missed(lead):
        for t in test:
            apart = (seasons[seen] - seasons[t + lead]) % turn
            near = np.minimum(apart, turn - apart) <= around
            rows = np.array(seen)[near & (years[seen] != years[t + lead])]
            if len(rows):
                yield values[rows].astype("f8").mean(0) - values[t + lead]

    root = lambda errors: float(np.sqrt(np.mean(np.square(np.concatenate([np.ravel(e) for e in errors])))))
    test = bases(test_years)
    return {
        "persistence": [root([values[t].astype("f8") - values[t + lead] for t in test]) for lead in leads],
        "climatology": [root(list(missed(lead))) for lead in leads],
    }


by_month = lambda date: date.month
by_day = lambda date: (date.month - 1) * 31 + date.day - 1
expected = {
    "maps": baselines(ice, dates, by_month, 3, [1, 2, 3], range(2000, 2002), range(2003, 2005)),
    "daily": baselines(heat, daily, by_day, 2, [1, 5], range(2001, 2003), [2000, 2003]),
    "trained": baselines(heat, daily, by_day, 2, [1, 5], range(2001, 2003), range(2001, 2003)),
    "maps trained": baselines(ice, dates, by_month, 3, [1, 2, 3], range(2000, 2002), range(2000, 2002)),
}

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
def slices(values):
    """Targets of the windows with history 3 and leads 1 to 3; null where they are missing."""
    bases = answers[2]["bases"]
    found = np.stack([np.stack([values[t + lead] for lead in (1, 2, 3)]) for t in bases]).astype("f8").ravel()
    return [None if np.isnan(value) else value for value in found.tolist()]


print(json.dumps({"windows": answers, "baselines": expected, "holes": slices(holes), "ice": ice.reshape(STEPS, -1).tolist()}))
