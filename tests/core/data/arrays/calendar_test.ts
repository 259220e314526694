// Dates are those of Python's cftime, over calendars, units and reference dates.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import {
  compareDates,
  type DateTime,
  formatDate,
  isInPeriod,
  isTimeUnits,
  parsePeriod,
  timeCoding,
} from "../../../../core/data/arrays/calendar.ts";
import { key, uniform } from "../../../../core/base/random.ts";
import { askPeer } from "../../../peer.ts";

const CALENDARS = [
  ...["standard", "gregorian", "proleptic_gregorian", "julian"],
  ...["noleap", "365_day", "all_leap", "366_day", "360_day"],
];

/** Days in each, and how far from the reference. */
const UNITS: [string, number][] = [
  ["days", 1e6],
  ["hours", 2e7],
  ["Minutes", 1e9],
  ["seconds", 5e10],
  ["milliseconds", 1e13],
];
const REFERENCES = [
  "1979-01-01",
  "1-1-1 00:00:0.0",
  "1582-10-04 12:00",
  "1582-10-15",
  "1900-1-1 06:30:15.25",
  "1970-01-01T00:00:00Z",
  "2000-02-28 18:00:00 -6:00",
  "2000-01-01 00:00:00 +05:30",
  "-0044-03-15 12:00",
];

const draw = uniform(key(1, "times"));
let drawn = 0;
const parts = ({ year, month, day, hour, minute, second, microsecond }: DateTime) => [
  ...[year, month, day, hour, minute],
  ...[second, microsecond],
];

function numbers(range: number): number[] {
  const some = Array.from({ length: 12 }, () => (2 * draw(drawn++) - 1) * range);
  return [
    0,
    1,
    -1,
    0.5,
    59,
    60,
    365,
    366,
    1e-5,
    ...some,
    ...some.map(Math.round),
    ...some.map((x) => x / 1e4),
  ];
}

/** Beyond 2^53 microseconds cftime rounds twice, so that a date may be beside the nearest microsecond. */
const isTie = (ours: readonly number[], theirs: readonly number[]): boolean =>
  ours.slice(0, 6).join() === theirs.slice(0, 6).join() && Math.abs(ours[6] - theirs[6]) === 1;

Deno.test("numbers become cftime's dates and dates its numbers, in every calendar", async () => {
  const cases = CALENDARS.flatMap((calendar) =>
    REFERENCES.flatMap((reference) =>
      UNITS.map(([unit, range]) => ({
        calendar,
        units: `${unit} since ${reference}`,
        values: numbers(range),
      }))
    )
  );
  cases.push({ calendar: "360_day", units: "months since 1979-01-01", values: [0, 1, 2.5, 12, -7, 1199] });
  cases.push({ calendar: "noleap", units: "common_years since 1979-01-01", values: [0, 1, 2.5, 12, -7] });
  const theirs = await askPeer<{ dates?: number[][]; numbers: number[]; refused?: string }[]>(
    "data/calendar.py",
    // cftime wants two digits of a zone's hours
    cases.map((one) => ({ ...one, units: one.units.replace("-6:00", "-06:00") })),
  );
  let compared = 0, ties = 0;
  cases.forEach(({ units, calendar, values }, i) => {
    const coding = timeCoding(units, calendar), { dates, numbers, refused } = theirs[i];
    assert(typeof coding !== "string" && dates, `${units} (${calendar}): ${refused ?? coding}`);
    values.forEach((value, k) => {
      const date = coding.decode(value)!;
      if (!isTie(parts(date), dates[k])) {
        assertEquals(parts(date), dates[k], `${value} ${units} (${calendar})`);
      } else ties++;
      assertAlmostEquals(coding.encode(date), numbers[k], Math.max(1e-9, Math.abs(numbers[k]) * 1e-14));
      compared++;
    });
  });
  assert(compared > 15_000 && ties < compared / 1000, `${compared} dates, ${ties} ties`);
});

Deno.test("units and calendars that mean no fixed time are refused as cftime refuses them, with the remedy", async () => {
  const cases = [
    ["months since 1979-01-01", "standard", /360_day: write the times in days/],
    ["common_years since 1979-01-01", "standard", /noleap: write the times in days/],
    ["years since 1979-01-01", "noleap", /years are not of one length/],
    ["fortnights since 1979-01-01", "standard", /no unit of time: use seconds/],
    ["days since 1979-02-30", "standard", /none of the calendar standard/],
    ["days since 2000-02-29", "noleap", /none of the calendar noleap/],
    ["days since 1979-01-31", "360_day", /none of the calendar 360_day/],
    ["days since 0000-01-01", "standard", /none of the calendar standard/],
    ["days since 1979-13-01", "standard", /none of the calendar/],
    ["days since 1979-01-01", "mayan", /calendar "mayan".*noleap/],
  ] as const;
  const theirs = await askPeer<{ refused?: string }[]>(
    "data/calendar.py",
    cases.map(([units, calendar]) => ({ units, calendar, values: [0] })),
  );
  cases.forEach(([units, calendar, sentence], i) => {
    const coding = timeCoding(units, calendar);
    assert(typeof coding === "string", units);
    assertMatch(coding, sentence);
    assert(theirs[i].refused !== undefined, `cftime takes ${units} (${calendar})`);
  });
  assertEquals([isTimeUnits("days since 2000"), isTimeUnits("days"), isTimeUnits(undefined)], [
    true,
    false,
    false,
  ]);
});

Deno.test("a typed year or month is the whole of it, and both ends of a range belong to it", () => {
  const coding = timeCoding("hours since 2009-12-31 23:00", "standard");
  assert(typeof coding !== "string");
  const dates = Array.from({ length: 24 * 800 }, (_, i) => coding.decode(i)!);
  const inside = (text: string) => {
    const period = parsePeriod(text)!;
    const found = dates.filter((date) => isInPeriod(date, period)).map(formatDate);
    return [found.length, found[0], found.at(-1)];
  };
  assertEquals(inside("2010"), [8760, "2010-01-01", "2010-12-31T23:00:00"]);
  assertEquals(inside("2010-02"), [28 * 24, "2010-02-01", "2010-02-28T23:00:00"]);
  assertEquals(inside("2010-02-03..2010-02-04T06"), [31, "2010-02-03", "2010-02-04T06:00:00"]);
  assertEquals(inside("2010-02-03T06:00"), [1, "2010-02-03T06:00:00", "2010-02-03T06:00:00"]);
  assertEquals(inside("..2009"), [1, "2009-12-31T23:00:00", "2009-12-31T23:00:00"]);
  assertEquals(inside("2012..")[1], "2012-01-01");
  assertEquals(
    ["..", "", "May", "2010-13", "2010-05-32", "1..2..3", "2010/05"].map(parsePeriod),
    Array(7).fill(null),
  );
  assertEquals(dates.toSorted(compareDates), dates);
});
