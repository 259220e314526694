// Estimates the memory that a pickle or a JSON text will take, before it is read: one byte of pickle can make
// a dict of two hundred.
import { Tuple, type Value } from "./value.ts";

export const LEAST_MEMORY = 20 << 20;

/** These are bytes, as measured in V8 or a little more. Dropped memory counts too, because it goes slowly. */
export const COST_OF = {
  character: 2,
  item: 12,
  /** An array has room for 17 from its first item on. */
  firstItem: 160,
  entry: 72,
};

const VALUE = 20;

const CONTAINER = 240;

const TENSOR = 200;

/** Every operation costs something, so that no pickle is read for ever. */
export const COST = new Uint16Array(256).fill(VALUE);

const costs: [number, string | number[]][] = [
  [48, "G"],
  [64, "qr"],
  [64, [0x94]],
  [32, "("],
  [72, "XTUci]l"],
  [72, [0x8c, 0x8d, 0x93]],
  [96, ")t"],
  [120, [0x85, 0x86, 0x87, 0x8a, 0x8b]],
  [192, "BC"],
  [192, [0x8e, 0x96]],
  [CONTAINER, "}"],
  [CONTAINER, [0x8f, 0x91]],
  [TENSOR, "QR"],
  [TENSOR, [0x81]],
];

for (const [bytes, codes] of costs) {
  for (const code of codes) COST[typeof code === "string" ? code.charCodeAt(0) : code] = bytes;
}

/** A call may copy its arguments, and a pickle may repeat it. */
export function costOfCall(args: Value): number {
  return args instanceof Tuple ? args.items.reduce((sum: number, arg) => sum + costOfArgument(arg), 0) : 0;
}

function costOfArgument(arg: Value): number {
  if (typeof arg === "string") return COST_OF.character * arg.length;
  const items = arg instanceof Tuple ? arg.items : arg;
  if (!Array.isArray(items)) return 0;
  return (items.length > 16 ? COST_OF.entry : COST_OF.item) * items.length; // A shape is small, and may be read again and again.
}

const JSON_COST = new Uint8Array(256).fill(2);

JSON_COST["{".charCodeAt(0)] = 120;

JSON_COST["[".charCodeAt(0)] = 64;

JSON_COST[",".charCodeAt(0)] = 12;

JSON_COST[":".charCodeAt(0)] = 24;

/** Estimates from above, in bytes: two characters of JSON can be an array. */
export function costOfJson(json: Uint8Array): number {
  let cost = 0;
  for (let i = 0; i < json.length; i++) cost += JSON_COST[json[i]];
  return cost;
}
