"""What cftime makes of times: dates of numbers, and numbers of dates. Cases come as JSON on stdin."""

import json
import sys
import warnings

import cftime
import numpy

warnings.simplefilter("ignore")  # years before 1 are none of CF's


def parts(date):
    return [date.year, date.month, date.day, date.hour, date.minute, date.second, date.microsecond]


def answer(case):
    units, calendar = case["units"], case["calendar"]
    try:
        dates = cftime.num2date(numpy.array(case["values"], "f8"), units, calendar=calendar)
    except ValueError as error:
        return {"refused": str(error)}
    return {
        "dates": [parts(date) for date in dates],
        "numbers": cftime.date2num(dates, units, calendar=calendar).astype("f8").tolist(),
    }


print(json.dumps([answer(case) for case in json.load(sys.stdin)]))
