// Ops that are known only at run time, by their name in a graph: the schema comes from the libtorch that is loaded, so a
// call can never put more or fewer arguments on the stack than this library takes off.
import { compile } from "./aten.ts";
import { schemaText } from "./registry.ts";
import { parseSchema, type Schema } from "./schema.ts";
import { formsOf } from "./scalar_ops.ts";

/** An op of the loaded libtorch, as its schema says it. */
export interface Operator {
  readonly schema: Schema;
  /** Takes all arguments in the schema's order; undefined stands for the default. Null where this program has no way to call it. */
  readonly call: ((...args: unknown[]) => unknown) | null;
  /** The same with a number (Num) in place of a tensor; null where a 0-dim tensor must stand for it. */
  readonly numbers: ((...args: unknown[]) => unknown) | null;
  /** Why `call` is null. */
  readonly reason: string;
}

const known = new Map<string, Operator | null>();

/** The op "aten::add" "Tensor", or null where libtorch has none. */
export function operator(name: string, overload: string): Operator | null {
  const key = `${name}.${overload}`;
  let found = known.get(key);
  if (found === undefined) known.set(key, found = find(name, overload));
  return found;
}

function find(name: string, overload: string): Operator | null {
  const text = schemaText(name, overload);
  if (text === null) return null;
  const [namespace] = name.split("::");
  const plain = text.slice(text.indexOf("::") + 2);
  let schema: Schema;
  try {
    schema = parseSchema(plain);
  } catch {
    const empty = { text: plain, name, overload, args: [], returns: [] };
    return { schema: empty, call: null, numbers: null, reason: `its schema is not understood: ${plain}` };
  }
  const { call, numbers } = namespace === "aten" ? formsOf(schema) : { call: null, numbers: null };
  if (call) return { schema, call, numbers, reason: "" };
  try {
    return { schema, call: compile(schema, namespace), numbers, reason: "" };
  } catch {
    return { schema, call: null, numbers: null, reason: `its arguments can't be passed: ${plain}` };
  }
}
