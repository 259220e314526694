// Measured numbers as short JSON. Imports nothing.

/** Nine digits are every bit of a float of 32 bits, and half the bytes of a double. */
const DIGITS = 9;

/** What is no finite number is a bare word, as W&B writes it. */
export function shortNumber(x: number): string {
  const text = String(x);
  if (text.length <= DIGITS + 1 || Number.isInteger(x)) return text;
  const short = String(Number(x.toPrecision(DIGITS)));
  return short.length < text.length ? short : text;
}

/** Seconds to the millisecond. */
export const shortSeconds = (seconds: number): string => String(Math.round(seconds * 1000) / 1000);
