// Signs with two sides, as instructions.
import { type Instructions, known, type Plain } from "./instructions.ts";
import {
  bytesOf,
  commonType,
  isFloating,
  isPointer,
  isScalar,
  isSigned,
  kindOf,
  type Pointer,
  REGISTERS,
  type Scalar,
  wrapped,
} from "./types.ts";

const COMPARED: Readonly<Record<string, string>> = {
  ...{ "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge" },
};
/** T is the type of the numbers, B that of their bits. */
const OF_FLOATING: Readonly<Record<string, string>> = {
  ...{ "+": "add.rn.T", "-": "sub.rn.T", "*": "mul.rn.T", "/": "div.rn.T" },
};
const OF_WHOLE: Readonly<Record<string, string>> = {
  ...{ "+": "add.T", "-": "sub.T", "*": "mul.lo.T", "/": "div.T", "%": "rem.T" },
  ...{ "&": "and.B", "|": "or.B", "^": "xor.B", "<<": "shl.B", ">>": "shr.T" },
};

/** With the conversions of C. */
export function computed(code: Instructions, sign: string, a: Plain, b: Plain): Plain {
  if (isPointer(a.type) && isScalar(b.type) && sign === "+") return moved(code, a, a.type, b);
  if (!isScalar(a.type) || !isScalar(b.type)) code.wrong();
  const shifts = sign === "<<" || sign === ">>";
  const type = shifts ? commonType(a.type, a.type) : commonType(a.type, b.type);
  const left = code.as(a, type), right = code.as(b, shifts ? "unsigned" : type);
  const result = folded(sign, type, left, right);
  if (result) return result;
  if ((sign === "/" || sign === "%") && typeof right.known === "bigint" && right.known > 0n) {
    const whole = quotient(code, left, type, right.known);
    if (whole) return sign === "/" ? whole : computed(code, "-", left, computed(code, "*", whole, right));
  }
  const { name, register } = kindOf(type), bits = REGISTERS[register];
  if (sign in COMPARED) {
    const how = sign === "!=" && isFloating(type) ? "neu" : COMPARED[sign];
    return code.made("bool", `setp.${how}.${name}`, left.text, right.text);
  }
  const instruction = (isFloating(type) ? OF_FLOATING : OF_WHOLE)[sign] ?? code.wrong();
  return code.made(type, instruction.replace("T", name).replace("B", bits), left.text, right.text);
}

/** A pointer so many elements on. */
function moved(code: Instructions, { text }: Plain, type: Pointer, by: Plain): Plain {
  const bytes = bytesOf(type.to);
  if (by.known !== undefined) {
    const offset = BigInt(by.known) * BigInt(bytes);
    return offset === 0n ? { type, text } : code.made(type, "add.s64", text, String(offset));
  }
  if (kindOf(by.type).register === "r") {
    return code.made(type, `mad.wide.${kindOf(by.type).name}`, by.text, String(bytes), text);
  }
  return code.made(type, "mad.lo.s64", by.text, String(bytes), text);
}

function folded(sign: string, type: Scalar, { known: a }: Plain, { known: b }: Plain): Plain | null {
  if (typeof a !== "bigint" || typeof b !== "bigint" || b === 0n && "/%".includes(sign)) return null;
  if (sign in COMPARED) {
    const order = a < b ? "<" : a > b ? ">" : "==";
    const truth = sign === "!="
      ? order !== "=="
      : sign.startsWith(order) || sign.endsWith("=") && order === "==";
    return known(truth, "bool");
  }
  const results: Record<string, () => bigint> = {
    ...{ "+": () => a + b, "-": () => a - b, "*": () => a * b, "<<": () => a << b, ">>": () => a >> b },
    ...{ "/": () => a / b, "%": () => a % b, "&": () => a & b, "|": () => a | b, "^": () => a ^ b },
  };
  return known(wrapped(results[sign](), type), type);
}

/**
 * A quotient by a known number as shifts, or as a product: the driver's compiler would compute with a reciprocal, even of a
 * power of 2. Null for 64 bits and no such power.
 */
function quotient(code: Instructions, a: Plain, type: Scalar, by: bigint): Plain | null {
  const bits = 8 * bytesOf(type), power = by.toString(2).length - 1;
  const shifted = (of: Plain, count: number): Plain =>
    count === 0 ? of : computed(code, ">>", of, known(BigInt(count), "int"));
  const bare = (of: Plain): Plain => ({
    type: bits === 32 ? "unsigned" : "unsigned long long",
    text: of.text,
  });
  const high = (name: string, factor: bigint): Plain =>
    code.made(type, `mul.hi.${name}`, a.text, String(BigInt.asIntN(32, factor)));
  if (by === 1n) return a;
  if (by === 1n << BigInt(power)) {
    if (!isSigned(type)) return shifted(a, power);
    const up = shifted(bare(shifted(a, bits - 1)), bits - power); // by - 1 where a is negative
    return shifted(computed(code, "+", a, { type, text: up.text }), power);
  }
  if (bits !== 32) return null;
  if (!isSigned(type)) {
    const part = high("u32", ((1n << 32n) * ((2n << BigInt(power)) - by)) / by + 1n);
    return shifted(computed(code, "+", part, shifted(computed(code, "-", a, part), 1)), power);
  }
  const { factor, shift } = reciprocal(by), product = high("s32", factor);
  const whole = shifted(factor < 1n << 31n ? product : computed(code, "+", product, a), shift);
  return computed(code, "+", whole, { type, text: shifted(bare(a), 31).text });
}

/** a / by is a * factor / 2^(32 + shift), and 1 more where a is negative, for all a of 32 bits. */
function reciprocal(by: bigint): { readonly factor: bigint; readonly shift: number } {
  const most = (1n << 31n) - 1n - (1n << 31n) % by;
  let shift = 0;
  const rest = (): bigint => by - (1n << BigInt(32 + shift)) % by;
  while (1n << BigInt(32 + shift) <= most * rest()) shift++;
  return { factor: ((1n << BigInt(32 + shift)) + rest()) / by, shift };
}
