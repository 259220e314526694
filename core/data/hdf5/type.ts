// Datatype messages: numbers and texts in all detail, of others what they are called. May import bytes.
import { type Span, textOfName, unforeseen } from "./bytes.ts";

export const INTEGER = 0, FLOAT = 1, TEXT = 3, COMPOUND = 6, ENUM = 8, ROWS = 9;
const KINDS = 11, BITS = 4;

export interface Type {
  readonly kind: number;
  /** Of an element, in bytes. */
  readonly size: number;
  readonly signed: boolean;
  readonly bigEndian: boolean;
  /** Texts of any length, which stand in a heap. */
  readonly variable: boolean;
  readonly utf8: boolean;
  /** Floats as IEEE 754 has them, whole numbers that use all their bits. */
  readonly plain: boolean;
  /** Of an enumeration. */
  readonly names: ReadonlyMap<string, number> | null;
}

export function readType(span: Span, nested = false): Type {
  const head = span.u8(), low = span.u8(), middle = span.u8(), high = span.u8(), size = span.u32();
  const kind = head & 15, version = head >> 4;
  if (version < 1 || version > 5 || kind >= KINDS || size === 0) unforeseen("a version of datatypes");
  const other: Type = {
    ...{
      kind,
      size,
      signed: false,
      bigEndian: false,
      variable: false,
      utf8: false,
      plain: false,
      names: null,
    },
  };
  switch (kind) {
    case INTEGER: {
      const whole = span.u16() === 0 && span.u16() === 8 * size;
      return { ...other, signed: (low & 8) !== 0, bigEndian: (low & 1) !== 0, plain: whole };
    }
    case FLOAT:
      if (low & 0x40) unforeseen("the byte order of a VAX");
      return { ...other, signed: true, bigEndian: (low & 1) !== 0, plain: isIeee(span, size, low, middle) };
    case BITS:
      return { ...other, bigEndian: (low & 1) !== 0 };
    case TEXT:
      return { ...other, utf8: low >> 4 === 1 };
    case ROWS:
      return (low & 15) === 1 ? { ...other, kind: TEXT, variable: true, utf8: (middle & 15) === 1 } : other;
    case ENUM:
      if (nested) unforeseen("an enumeration of enumerations");
      return enumeration(span, other, version, low | middle << 8);
  }
  if (high !== 0 && kind !== COMPOUND) return { ...other, plain: false };
  return other;
}

/** [exponent's place, its bits, mantissa's bits, bias], by the bytes of a float. */
const IEEE: Readonly<Record<number, readonly number[]>> = {
  2: [10, 5, 10, 15],
  4: [23, 8, 23, 127],
  8: [52, 11, 52, 1023],
};

function isIeee(span: Span, size: number, low: number, sign: number): boolean {
  const offset = span.u16(), precision = span.u16();
  const [place, exponent, mantissaPlace, mantissa] = [span.u8(), span.u8(), span.u8(), span.u8()];
  const bias = span.u32(), expected = IEEE[size];
  if (!expected) return false;
  const found = [place, exponent, mantissa, bias];
  const impliedOne = (low >> 4 & 3) === 2;
  return offset === 0 && precision === 8 * size && sign === 8 * size - 1 && mantissaPlace === 0 &&
    impliedOne &&
    expected.every((value, i) => value === found[i]);
}

function enumeration(span: Span, other: Type, version: number, count: number): Type {
  const base = readType(span, true);
  if (base.kind !== INTEGER || base.size !== other.size || !base.plain || base.size > 8) {
    unforeseen("an enumeration");
  }
  const keys = Array.from({ length: count }, () => {
    const bytes = span.name();
    // With its zero it fills eights, but in newer versions.
    if (version < 3) span.skip((8 - (bytes.length + 1) % 8) % 8);
    return textOfName(bytes);
  });
  const names = new Map<string, number>();
  for (const key of keys) {
    const { bytes } = span.take(base.size);
    const [value] = base.size > 1 ? [NaN] : base.signed ? new Int8Array(bytes) : bytes; // longer ones are never asked for
    names.set(key, value);
  }
  if (names.size !== count) unforeseen("a name twice in an enumeration");
  return { ...other, signed: base.signed, bigEndian: base.bigEndian, plain: true, names };
}
