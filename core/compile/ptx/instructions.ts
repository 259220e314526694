// The instructions of one kernel while they are written, and the values in their registers.
import {
  immediate,
  isFloating,
  isPointer,
  isScalar,
  isSigned,
  isStruct,
  kindOf,
  type Pointer,
  type Register,
  REGISTERS,
  type Scalar,
  type Space,
  type Struct,
  type Type,
  wrapped,
} from "./types.ts";

/** In a register, or known. */
export interface Plain {
  readonly type: Scalar | Pointer;
  readonly text: string;
  readonly known?: number | bigint | boolean;
}
export interface Fields {
  readonly type: Struct;
  readonly fields: readonly Value[];
}
export type Value = Plain | Fields;
export interface Memory {
  readonly type: Type;
  readonly address: string;
  readonly space: Space;
}
/** A value and the lines that make it. */
export interface Side {
  readonly lines: readonly string[];
  readonly result: Plain;
}

/** These instructions may not happen where C does not do what they do. */
const EFFECT = /\b(ld|st|bar|shfl|bra)\b/;
export const hasEffect = (lines: readonly string[]): boolean => lines.some((line) => EFFECT.test(line));

export const known = (value: number | bigint | boolean, type: Scalar): Plain => ({
  ...{ type, known: value },
  text: type === "bool" ? String(value) : immediate(value, type),
});

/** A known number in another type. */
export function knownAs(value: number | bigint | boolean, to: Scalar): Plain {
  if (to === "bool") return known(Boolean(value), to);
  if (isFloating(to)) return known(Number(value), to);
  return known(wrapped(BigInt(typeof value === "number" ? Math.trunc(value) : value), to), to);
}

export class Instructions {
  lines: string[] = [];
  readonly counts: Record<Register, number> = { p: 0, r: 0, l: 0, f: 0, d: 0, h: 0 };
  labels = 0;

  /** `wrong` is called where values don't go together. */
  constructor(readonly wrong: () => never) {}

  emit(instruction: string): void {
    this.lines.push(`${instruction};`);
  }
  label = (): string => `L${this.labels++}`;
  register = (letter: Register): string => `%${letter}${this.counts[letter]++}`;
  fresh<T extends Scalar | Pointer>(type: T): Plain & { readonly type: T } {
    return { type, text: this.register(kindOf(type).register) };
  }
  made(type: Scalar | Pointer, instruction: string, ...operands: string[]): Plain {
    const result = this.fresh(type);
    this.emit(`${instruction} ${[result.text, ...operands].join(", ")}`);
    return result;
  }
  /** The lines that are written meanwhile. */
  apart<T>(write: () => T): { readonly lines: readonly string[]; readonly result: T } {
    const before = this.lines, lines: string[] = [];
    this.lines = lines;
    const result = write();
    this.lines = before;
    return { lines, result };
  }
  /** A label stands here. */
  bind(label: string): void {
    this.lines.push(`${label}:`);
  }
  /** With the registers before them. */
  text(): string[] {
    const registers = Object.entries(this.counts).filter(([, count]) => count > 0)
      .map(([letter, count]) => `.reg .${REGISTERS[letter as Register]} %${letter}<${count}>;`);
    return [...registers, ...this.lines, "ret;"].map((line) => line.endsWith(":") ? line : `  ${line}`);
  }

  // Memory.

  load({ type, address, space }: Memory): Value {
    if (isStruct(type)) {
      const fields = type.fields.map((field) => this.fresh(field.type as Scalar));
      const list = fields.map(({ text }) => text).join(", ");
      this.emit(`ld.${space}.v${fields.length}.${kindOf(fields[0].type).memory} {${list}}, [${address}]`);
      return { type, fields };
    }
    return this.made(type, `ld.${space}.${kindOf(type).memory}`, `[${address}]`);
  }
  store({ address, space }: Memory, value: Value): void {
    if ("fields" in value) {
      const fields = value.fields.map((field) => this.inRegister(field as Plain));
      const list = fields.map(({ text }) => text).join(", ");
      this.emit(`st.${space}.v${fields.length}.${kindOf(fields[0].type).memory} [${address}], {${list}}`);
    } else this.emit(`st.${space}.${kindOf(value.type).memory} [${address}], ${this.inRegister(value).text}`);
  }

  // Values.

  inRegister = (value: Plain): Plain => value.known === undefined ? value : this.copied(value) as Plain;
  copied(value: Value): Value {
    if ("fields" in value) return { ...value, fields: value.fields.map((field) => this.copied(field)) };
    const result = this.fresh(value.type);
    this.move(result, value);
    return result;
  }
  move(to: Value, from: Value): void {
    if ("fields" in to) {
      if (!("fields" in from)) this.wrong();
      to.fields.forEach((field, i) => this.move(field, from.fields[i]));
    } else if ("fields" in from) this.wrong();
    else if (from.type === "bool" && from.known !== undefined) {
      this.emit(`setp.${from.known ? "eq" : "ne"}.u32 ${to.text}, 0, 0`);
    } else {
      const { register } = kindOf(to.type);
      this.emit(`mov.${register === "p" ? "pred" : REGISTERS[register]} ${to.text}, ${from.text}`);
    }
  }
  converted(value: Value, to: Type): Value {
    if ("fields" in value) return value;
    const { type, known } = value;
    if (!isScalar(to)) return isPointer(to) && isPointer(type) && to.to === type.to ? value : this.wrong();
    if (!isScalar(type)) this.wrong();
    if (type === to) return value;
    if (known !== undefined) return knownAs(known, to);
    const a = kindOf(type), b = kindOf(to);
    if (to === "bool") {
      return this.made(
        "bool",
        `setp.${isFloating(type) ? "neu" : "ne"}.${a.name}`,
        value.text,
        immediate(0, type),
      );
    }
    if (type === "bool") {
      return this.made(to, `selp.${REGISTERS[b.register]}`, immediate(1, to), immediate(0, to), value.text);
    }
    if (b.register === a.register) {
      if (b.bytes < a.bytes) return this.made(to, "and.b32", value.text, String(2 ** (8 * b.bytes) - 1));
      return { type: to, text: value.text };
    }
    if (isFloating(to)) {
      return this.made(to, `cvt${type === "float" ? "" : ".rn"}.${b.name}.${a.name}`, value.text);
    }
    if (isFloating(type)) return this.made(to, `cvt.rzi.${b.name}.${a.name}`, value.text);
    return this.made(to, `cvt.${isSigned(type) ? "s" : "u"}${8 * b.bytes}.${a.name}`, value.text);
  }
  as = (value: Value, type: Scalar): Plain => this.converted(value, type) as Plain;
  not = (a: Plain): Plain =>
    a.known === undefined ? this.made("bool", "not.pred", a.text) : known(!a.known, "bool");
  logical(sign: "and" | "or", a: Plain, b: Plain): Plain {
    for (const [one, other] of [[a, b], [b, a]]) {
      if (one.known !== undefined) return Boolean(one.known) === (sign === "and") ? other : one;
    }
    return this.made("bool", `${sign}.pred`, a.text, b.text);
  }

  /** Both sides happen where that does no harm. */
  chosen(truth: Plain, type: Scalar, a: Side, b: Side): Plain {
    if (truth.known !== undefined) {
      const { lines, result } = truth.known ? a : b;
      this.lines.push(...lines);
      return this.converted(result, type) as Plain;
    }
    if (!hasEffect([...a.lines, ...b.lines])) {
      this.lines.push(...a.lines, ...b.lines);
      const [first, second] = [a, b].map(({ result }) => this.converted(result, type) as Plain);
      if (type !== "bool") {
        return this.made(
          type,
          `selp.${REGISTERS[kindOf(type).register]}`,
          first.text,
          second.text,
          truth.text,
        );
      }
      const not = this.not(truth), both = this.logical("and", truth, first);
      return this.logical("or", both, this.logical("and", not, second));
    }
    const result = this.fresh(type);
    const [other, end] = [this.label(), this.label()];
    const side = ({ lines, result: from }: Side) => {
      this.lines.push(...lines);
      this.move(result, this.converted(from, type));
    };
    this.emit(`@!${truth.text} bra ${other}`);
    side(a);
    this.emit(`bra ${end}`);
    this.bind(other);
    side(b);
    this.bind(end);
    return result;
  }
}
