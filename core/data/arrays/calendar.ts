// CF's time coordinates: numbers of "days since 1979-01-01" in a calendar are dates, and dates are such numbers.
// The rules are those of Python's cftime, to the microsecond.

export interface DateTime {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
  readonly microsecond: number;
}

type Calendar =
  | "standard"
  | "proleptic_gregorian"
  | "julian"
  | "noleap"
  | "all_leap"
  | "360_day";

export interface TimeCoding {
  readonly units: string;
  readonly calendar: Calendar;
  /** Null where the number is not finite: a missing time. */
  decode(value: number): DateTime | null;
  encode(date: DateTime): number;
}

// Days of a calendar are counted from a day of its own.

type Civil = readonly [year: number, month: number, day: number];

interface Days {
  toDay(year: number, month: number, day: number): number;
  fromDay(day: number): Civil;
  /** Year 1 follows year -1. */
  readonly noYearZero?: boolean;
}

/** Years begin in March, so that the leap day comes last. */
const dayOfMarchYear = (month: number, day: number): number =>
  Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;

function fromMarchYear(year: number, dayOfYear: number): Civil {
  const m = Math.floor((5 * dayOfYear + 2) / 153), month = m < 10 ? m + 3 : m - 9;
  return [month <= 2 ? year + 1 : year, month, dayOfYear - Math.floor((153 * m + 2) / 5) + 1];
}

const gregorian: Days = {
  toDay(year, month, day) {
    const y = month <= 2 ? year - 1 : year, era = Math.floor(y / 400), of = y - era * 400;
    return era * 146_097 + of * 365 + Math.floor(of / 4) - Math.floor(of / 100) + dayOfMarchYear(month, day);
  },
  fromDay(day) {
    const era = Math.floor(day / 146_097), at = day - era * 146_097;
    const of = Math.floor(
      (at - Math.floor(at / 1460) + Math.floor(at / 36_524) - Math.floor(at / 146_096)) / 365,
    );
    return fromMarchYear(era * 400 + of, at - (365 * of + Math.floor(of / 4) - Math.floor(of / 100)));
  },
};

/** In the year 0 this calendar is two days ahead of the Gregorian one. */
const JULIAN_AHEAD = 2;

const julian: Days = {
  toDay(year, month, day) {
    const y = month <= 2 ? year - 1 : year, era = Math.floor(y / 4);
    return era * 1461 + (y - era * 4) * 365 + dayOfMarchYear(month, day) - JULIAN_AHEAD;
  },
  fromDay(day) {
    const era = Math.floor((day + JULIAN_AHEAD) / 1461), at = day + JULIAN_AHEAD - era * 1461;
    const of = Math.min(3, Math.floor(at / 365));
    return fromMarchYear(era * 4 + of, at - 365 * of);
  },
  noYearZero: true,
};

/** The first day of the Gregorian calendar; the day before was the 4th of October. */
const REFORM = gregorian.toDay(1582, 10, 15);

const standard: Days = {
  toDay(year, month, day) {
    const found = gregorian.toDay(year, month, day);
    return found >= REFORM ? found : julian.toDay(year, month, day);
  },
  fromDay: (day) => day >= REFORM ? gregorian.fromDay(day) : julian.fromDay(day),
  noYearZero: true,
};

/** All years are alike. */
function even(months: readonly number[]): Days {
  const before = months.map((_, i) => months.slice(0, i).reduce((sum, days) => sum + days, 0));
  const year = before[11] + months[11];
  return {
    toDay: (y, month, day) => y * year + before[month - 1] + day - 1,
    fromDay(day) {
      const y = Math.floor(day / year), at = day - y * year, m = before.findLastIndex((days) => days <= at);
      return [y, m + 1, at - before[m] + 1];
    },
  };
}

const MONTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const CALENDARS: Readonly<Record<Calendar, Days>> = {
  standard,
  proleptic_gregorian: gregorian,
  julian,
  noleap: even(MONTHS),
  all_leap: even(MONTHS.with(1, 29)),
  "360_day": even(MONTHS.map(() => 30)),
};

const NAMES: Readonly<Record<string, Calendar>> = {
  gregorian: "standard",
  "365_day": "noleap",
  "366_day": "all_leap",
  ...Object.fromEntries((Object.keys(CALENDARS) as Calendar[]).map((name) => [name, name])),
};

/** Without a year zero, -1 is the year before 1. */
const counted = (year: number, { noYearZero }: Days) => noYearZero && year < 0 ? year + 1 : year;
const named = (year: number, { noYearZero }: Days) => noYearZero && year < 1 ? year - 1 : year;

// Units, in microseconds.

const DAY = 86_400e6;

const UNITS: readonly (readonly [RegExp, number])[] = [
  [/^(microseconds?|microsecs?)$/, 1],
  [/^(milliseconds?|millisecs?|msecs?|ms)$/, 1e3],
  [/^(seconds?|secs?|s)$/, 1e6],
  [/^(minutes?|mins?)$/, 60e6],
  [/^(hours?|hrs?|h)$/, 3600e6],
  [/^(days?|d)$/, DAY],
];
const MONTH = /^months?$/, COMMON_YEAR = /^common_years?$/, YEAR = /^(years?|yrs?)$/;

const SINCE = /^\s*(\S+)\s+since\s+(\S.*?)\s*$/i;
const REFERENCE =
  /^([+-]?\d{1,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ]+(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?)?)?)?\s*(Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?$/i;

export const isTimeUnits = (units: string | undefined): boolean => units !== undefined && SINCE.test(units);

/** A string says why these are no times, and follows the variable's name. */
export function timeCoding(units: string, calendar = "standard"): TimeCoding | string {
  const own = NAMES[calendar.trim().toLowerCase()];
  if (own === undefined) {
    return `has the calendar "${calendar}", which is none of CF's: ${Object.keys(NAMES).sort().join(", ")}`;
  }
  const since = SINCE.exec(units);
  if (!since) return `has the units "${units}", and times have units such as "days since 1979-01-01"`;
  const days = CALENDARS[own], unit = since[1].toLowerCase();
  const factor = factorOf(unit, own);
  if (typeof factor === "string") return `has the units "${units}", and ${factor}`;
  const from = reference(since[2], days);
  if (from === null) {
    return `has the units "${units}", whose date is none of the calendar ${own}: write it as 1979-01-01 00:00:00`;
  }
  const snaps = factor > 1e3;
  return {
    units,
    calendar: own,
    decode(value) {
      if (!Number.isFinite(value)) return null;
      const [day, rest] = split(value, factor);
      const at = from.at + (snaps ? snapped(rest) : nearest(rest));
      return dateOf(from.day + day + Math.floor(at / DAY), at - Math.floor(at / DAY) * DAY, days);
    },
    encode(date) {
      const day = dayOf(date, days) - from.day, at = microsecondsOf(date) - from.at;
      return (factor > DAY ? day / (factor / DAY) : day * (DAY / factor)) + at / factor;
    },
  };
}

function factorOf(unit: string, calendar: Calendar): number | string {
  if (MONTH.test(unit)) {
    return calendar === "360_day"
      ? 30 * DAY
      : "months are of one length only in the calendar 360_day: write " +
        'the times in days, as xarray does: ds["time"] = dates; ds.to_netcdf(...)';
  }
  if (COMMON_YEAR.test(unit)) {
    return calendar === "noleap" ? 365 * DAY : "common years are all years only in the calendar noleap: " +
      "write the times in days";
  }
  if (YEAR.test(unit)) {
    return "years are not of one length: write the times in days, as xarray does: " +
      'ds["time"] = dates; ds.to_netcdf(...)';
  }
  return UNITS.find(([names]) => names.test(unit))?.[1] ??
    `"${unit}" is no unit of time: use seconds, minutes, hours or days`;
}

function reference(text: string, days: Days): { readonly day: number; readonly at: number } | null {
  const found = REFERENCE.exec(text);
  if (!found) return null;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map((part, i) =>
    part === undefined ? (i === 1 || i === 2 ? 1 : 0) : Number(part)
  );
  const microsecond = Math.round(Number(`0.${found[7] || 0}`) * 1e6);
  const date = { year, month, day, hour, minute, second, microsecond };
  if (!isDate(date, days)) return null;
  const [, sign, h, m = "0"] = /^([+-])(\d{1,2}):?(\d{2})?$/.exec(found[8] ?? "") ?? ["", "+", "0"];
  const zone = (Number(h) * 60 + Number(m)) * (sign === "-" ? -60e6 : 60e6);
  const at = microsecondsOf(date) - zone;
  return { day: dayOf(date, days) + Math.floor(at / DAY), at: at - Math.floor(at / DAY) * DAY };
}

/** Whole days, and microseconds that doubles hold to a millionth. */
function split(value: number, factor: number): [days: number, rest: number] {
  const perDay = DAY / factor;
  if (perDay < 1) {
    const inDays = value * (factor / DAY), day = Math.floor(inDays);
    return [day, (inDays - day) * DAY];
  }
  const day = Math.floor(value / perDay);
  return [day, (value - day * perDay) * factor];
}

/** To the nearest, and halves to the even one. */
function nearest(x: number): number {
  const low = Math.floor(x), rest = x - low;
  return rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1;
}

/** A microsecond beside a whole second is rounding of the number. */
function snapped(x: number): number {
  const near = nearest(x), beside = near % 1e6;
  return beside === 1 ? Math.floor(x) : beside === 999_999 ? Math.ceil(x) : near;
}

const dayOf = ({ year, month, day }: DateTime, days: Days) => days.toDay(counted(year, days), month, day);

const microsecondsOf = ({ hour, minute, second, microsecond }: DateTime): number =>
  ((hour * 60 + minute) * 60 + second) * 1e6 + microsecond;

function dateOf(count: number, microseconds: number, days: Days): DateTime {
  const [year, month, day] = days.fromDay(count), seconds = Math.floor(microseconds / 1e6);
  return {
    year: named(year, days),
    month,
    day,
    hour: Math.floor(seconds / 3600),
    minute: Math.floor(seconds / 60) % 60,
    second: seconds % 60,
    microsecond: microseconds - seconds * 1e6,
  };
}

function isDate(date: DateTime, days: Days): boolean {
  const { year, month, day, hour, minute, second } = date;
  if (month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59) return false;
  if (days.noYearZero && year === 0) return false;
  const [y, m, d] = days.fromDay(dayOf(date, days));
  return y === counted(year, days) && m === month && d === day;
}

export const compareDates = (a: DateTime, b: DateTime): number => compareParts(partsOf(a), partsOf(b));

const partsOf = ({ year, month, day, hour, minute, second, microsecond }: DateTime): readonly number[] => [
  ...[year, month, day, hour, minute],
  ...[second, microsecond],
];

/** The shorter one decides how many parts are compared. */
function compareParts(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] - b[i];
  return 0;
}

/** 2010-05-03, or 2010-05-03T12:30:00 where it is not midnight. */
export function formatDate({ year, month, day, hour, minute, second, microsecond }: DateTime): string {
  const pad = (value: number, width = 2) => String(value).padStart(width, "0");
  const date = `${year < 0 ? "-" : ""}${pad(Math.abs(year), 4)}-${pad(month)}-${pad(day)}`;
  if (hour + minute + second + microsecond === 0) return date;
  const rest = microsecond === 0 ? "" : `.${pad(microsecond, 6)}`;
  return `${date}T${pad(hour)}:${pad(minute)}:${pad(second)}${rest}`;
}

// Users type 2010 for the whole year and 2010-05 for the whole month, as in xarray's sel.

/** Both ends belong to it; null is open. */
interface Period {
  readonly from: readonly number[] | null;
  readonly to: readonly number[] | null;
}

const TYPED = /^(-?\d{1,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ](\d{1,2})(?::(\d{2})(?::(\d{2}))?)?Z?)?)?)?$/;
const LEAST = [-Infinity, 1, 1, 0, 0, 0], MOST = [Infinity, 12, 31, 23, 59, 59];

/** Null means that the text is no date. */
export function parseDate(text: string): readonly number[] | null {
  const found = TYPED.exec(text.trim());
  const parts = found?.slice(1).filter((part) => part !== undefined).map(Number);
  return parts?.every((part, i) => part >= LEAST[i] && part <= MOST[i]) ? parts : null;
}

/** It reads `2010`, `2010..2014`, `2015..` and `..1999-12`; null means that the text is no period. */
export function parsePeriod(text: string): Period | null {
  const [first, last, ...more] = text.split("..").map((end) => end.trim());
  if (more.length > 0 || (first === "" && !last)) return null;
  const from = first === "" ? null : parseDate(first);
  const to = last === undefined ? from : last === "" ? null : parseDate(last);
  return (first !== "" && from === null) || (last && to === null) ? null : { from, to };
}

export function isInPeriod(date: DateTime, { from, to }: Period): boolean {
  const parts = partsOf(date);
  return (from === null || compareParts(parts, from) >= 0) && (to === null || compareParts(parts, to) <= 0);
}
