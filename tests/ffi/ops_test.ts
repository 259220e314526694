import { assertAlmostEquals, assertEquals } from "@std/assert";
import { toNumbers } from "../../ffi/make.ts";
import * as ops from "../../ffi/ops.ts";
import { manualSeed } from "../../ffi/context.ts";
import { parseSchema, type Schema } from "../../ffi/schema.ts";
import { scope, Tensor } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";
import { python } from "../core/checkpoint/python.ts";
import { isInput, make } from "./inputs.ts";
import { elsewhere, rows, uninitialised } from "./ops_rows.ts";

const lib = useLibtorch();
const names = Object.keys(ops) as (keyof typeof ops)[];

/** The schema text of each export, from the source itself. */
function schemasOfSource(): Map<string, string> {
  const source = Deno.readTextFileSync(new URL("../../ffi/ops.ts", import.meta.url));
  const found = source.matchAll(/export const (\w+) = aten\(\s*(["'])(.*?)\2,?\s*\);/g);
  return new Map([...found].map(([, name, , schema]) => [name, schema]));
}
const texts = schemasOfSource();
const schemas = new Map([...texts].map(([name, text]) => [name, parseSchema(text)]));

/** Where our spelling and PyTorch's differ, but not in meaning: it prints 1e-5 in full, and a memory format's number. */
const normal = (schema: string) =>
  schema.replace("1.0000000000000001e-05", "1e-05").replace("contiguous_format", "0");

Deno.test("every op's schema is live PyTorch's own", () => {
  assertEquals(texts.size, names.length, "an op of ops.ts is written in a way that this test does not read");
  const asked = [...schemas.values()].map((s) => [s.name, s.overload || "default"]);
  const program = `
import json, sys, torch
for name, overload in json.loads(sys.argv[1]):
    print(str(getattr(getattr(torch.ops.aten, name), overload)._schema).removeprefix("aten::"))
`;
  const theirs = python(program, JSON.stringify(asked)).trimEnd().split("\n");
  const differ = [...texts.values()].map((ours, i) => [ours, theirs[i]])
    .filter(([ours, theirs]) => normal(ours) !== normal(theirs));
  assertEquals(differ, []);
});

Deno.test("every op has a row of calls, or says where else it is tested", () => {
  assertEquals(names.filter((name) => !(name in rows) && !(name in elsewhere)), []);
  assertEquals(Object.keys(rows).filter((name) => !(name in ops)), []);
});

/** What a call gave: its results, then its tensor arguments as the call left them. */
type Answer =
  | { dtype: string; shape: readonly number[]; strides: readonly number[]; values: number[] }
  | boolean;

function answer(value: Tensor | boolean): Answer {
  if (typeof value === "boolean") return value;
  const { dtype, shape, strides } = value;
  return { dtype, shape, strides, values: [...toNumbers(dtype === "c64" ? ops.viewAsReal(value) : value)] };
}

const build = (value: unknown): unknown =>
  isInput(value) ? make(value) : Array.isArray(value) ? value.map(build) : value;

function ours(name: keyof typeof ops, row: readonly unknown[]): Answer[] {
  return scope(() => {
    const args = row.map(build);
    manualSeed(7n);
    const result = (ops[name] as (...args: unknown[]) => Tensor | Tensor[] | boolean | void)(...args);
    const results = result === undefined ? [] : [result].flat() as (Tensor | boolean)[];
    return [...results, ...args.flat().filter((v) => v instanceof Tensor)].map(answer);
  });
}

/** A row as JSON that the Python side turns into arguments of its own. */
function encoded(row: readonly unknown[], schema: Schema): unknown[] {
  const one = (value: unknown, base: string): unknown => {
    if (isInput(value)) return { ...value, values: value.values.map(String) };
    if (Array.isArray(value)) return value.map((v) => one(v, base));
    return value !== null && (base === "ScalarType" || base === "MemoryFormat") ? { [base]: value } : value;
  };
  return row.map((value, i) => one(value, schema.args[i].base));
}

const peer = `
import json, os, sys, torch
types = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i32": "int32", "i64": "int64",
         "bool": "bool", "c64": "complex64"}
dtypes = {short: getattr(torch, name) for short, name in types.items()}
shorts = {dtype: short for short, dtype in dtypes.items()}
def decode(v):
    if isinstance(v, list): return [decode(i) for i in v]
    if not isinstance(v, dict): return v
    if "ScalarType" in v: return dtypes[v["ScalarType"]]
    if "MemoryFormat" in v: return getattr(torch, v["MemoryFormat"])
    values = torch.tensor([float(i) for i in v["values"]], dtype=torch.float64).reshape(v["shape"])
    return torch.view_as_complex(values.float()) if v["dtype"] == "c64" else values.to(dtypes[v["dtype"]])
def answer(v):
    if isinstance(v, bool): return v
    values = torch.view_as_real(v) if v.is_complex() else v
    return {"dtype": shorts[v.dtype], "shape": list(v.shape), "strides": list(v.stride()),
            "values": values.double().flatten().tolist()}
def flat(v): return [] if v is None else sum(map(flat, v), []) if isinstance(v, (list, tuple)) else [v]
def run(case):
    op = getattr(getattr(torch.ops.aten, case["name"]), case["overload"])
    args, schema = decode(case["args"]), op._schema.arguments
    plain = [a for a, s in zip(args, schema) if not s.kwarg_only]
    named = {s.name: a for a, s in zip(args, schema) if s.kwarg_only}
    torch.manual_seed(7)
    results = flat(op(*plain, **named))
    return [answer(v) for v in results + [a for a in flat(args) if isinstance(a, torch.Tensor)]]
cases = json.load(open(sys.argv[1]))
print(json.dumps({"version": torch.__version__.split("+")[0], "architecture": os.uname().machine,
                  "answers": [run(case) for case in cases]}))
`;

function theirs(): { version: string; architecture: string; answers: Map<string, Answer[][]> } {
  const cases = Object.entries(rows).flatMap(([name, calls]) => {
    const schema = schemas.get(name)!;
    return calls.map((row) => ({
      name: schema.name,
      overload: schema.overload || "default",
      args: encoded(row, schema),
    }));
  });
  const file = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(file, JSON.stringify(cases));
    const text = python(peer, file).replaceAll(/-?Infinity|NaN/g, '"$&"');
    const { version, architecture, answers } = JSON.parse(
      text,
      (key, v) => key === "values" ? v.map(Number) : v,
    );
    let next = 0;
    const take = (calls: readonly unknown[]) => calls.map(() => answers[next++]);
    return {
      version,
      architecture,
      answers: new Map(Object.entries(rows).map(([name, calls]) => [name, take(calls)])),
    };
  } finally {
    Deno.removeSync(file);
  }
}

/** Another version of libtorch may round differently, and so may another architecture; the same on the same may not. */
function compare(found: Answer, expected: Answer, same: boolean, what: string): void {
  if (same || typeof found === "boolean" || typeof expected === "boolean") {
    return assertEquals(found, expected, what);
  }
  assertEquals([found.dtype, found.shape], [expected.dtype, expected.shape], what);
  expected.values.forEach((value, i) => {
    if (Number.isFinite(value)) {
      assertAlmostEquals(found.values[i], value, 1e-5 * Math.max(1, Math.abs(value)), what);
    } else assertEquals(found.values[i], value, what);
  });
}

Deno.test("every op gives what Python PyTorch gives, to the bit when it is the same libtorch on the same architecture", async (t) => {
  const { version, architecture, answers } = theirs();
  const same = version === lib.version.join(".") && architecture === Deno.build.arch;
  for (const [name, calls] of Object.entries(rows)) {
    await t.step(name, () => {
      calls.forEach((row, i) => {
        const found = ours(name as keyof typeof ops, row);
        const expected = answers.get(name)![i];
        assertEquals(found.length, expected.length);
        const hide = (a: Answer) =>
          typeof a !== "boolean" && uninitialised.has(name) ? { ...a, values: [] } : a;
        found.forEach((a, j) => compare(hide(a), hide(expected[j]), same, `call ${i}, value ${j}`));
      });
    });
  }
});
