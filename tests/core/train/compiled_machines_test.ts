// Compiled steps on machines that have less: narrower vectors, no memory for code, none for values.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { makePlan } from "../../../core/compile/plan.ts";
import type { PlanMemory } from "../../../core/compile/runner.ts";
import { Workspace } from "../../../core/compile/workspace.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { openCompiledPass } from "../../../core/train/compiled_pass.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { randn } from "../../../ffi/ops.ts";
import { open, rig, rows, run } from "./rig.ts";

open();
setThreads(1);
const isa = machineIsa(), ignore = isa === null;
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

/** As on a processor with these instructions and no more. */
function masked<R>(capability: string, body: () => R): R {
  const before = Deno.env.get("ATEN_CPU_CAPABILITY");
  Deno.env.set("ATEN_CPU_CAPABILITY", capability);
  try {
    return body();
  } finally {
    if (before === undefined) Deno.env.delete("ATEN_CPU_CAPABILITY");
    else Deno.env.set("ATEN_CPU_CAPABILITY", before);
  }
}

function losses(compiled: boolean): { losses: number[]; told: string } {
  manualSeed(0n);
  let told = "";
  const made = rig(mlp({ inputs: 7, hidden: 37, layers: 2, outputs: 3 }), { ...rows, outputs: 3 });
  const tell = { line: (text: string) => void (told += text), warn: (text: string) => void (told += text) };
  const step = { ...made.step, compiled: compiled ? openCompiledPass(made.arena, "fast", () => tell) : null };
  manualSeed(1n);
  const batch = { input: randn([13, 7]), target: randn([13, 3]) };
  const found = Array.from({ length: 6 }, (_, number) => run({ ...made, step }, [batch], { number }).loss);
  for (const t of Object.values(batch)) t.free();
  return { losses: found, told };
}

Deno.test({
  name: "a processor without AVX-512 takes AVX2, one without AVX2 takes no compiled steps",
  ignore,
  fn() {
    const plain = losses(false);
    const avx2 = masked("avx2", () => losses(true));
    assertMatch(avx2.told, /^Steps are compiled: /);
    avx2.losses.forEach((loss, i) => assert(Math.abs(loss - plain.losses[i]) < 1e-5 * plain.losses[i]));
    assertEquals(masked("default", machineIsa), null);
  },
});

Deno.test({
  name: "values that are more than the free memory are refused before they are asked for",
  ignore,
  fn() {
    const shape = [1 << 10, 1 << 10];
    const input = { op: "tensor", origin: { from: "input" }, shape, kind: "f32" } as const;
    const product = {
      op: "gemm",
      args: [0, 0],
      transposeA: false,
      transposeB: false,
      shape,
      kind: "f32",
    } as const;
    const again = { ...product, args: [1, 1] } as const;
    const loss = { op: "sum", args: [2], dims: [0, 1], shape: [1, 1], kind: "f32" } as const;
    const graph = { nodes: [input, product, again, loss], output: 2, loss: 3, gradients: [], effects: [] };
    const memory = { workspace: new Workspace("cpu", () => 4e6) } as unknown as PlanMemory;
    const made = makePlan(graph, memory, { exact: false, adds: false, isa: isa!, threads: 1 });
    assertEquals(made, { lacks: "room", name: "4.0 MiB" });
  },
});

const AS = 9;
const libc = Deno.dlopen("libc.so.6", {
  getrlimit: { parameters: ["i32", "buffer"], result: "i32" },
  setrlimit: { parameters: ["i32", "buffer"], result: "i32" },
}).symbols;

Deno.test({
  name: "a process that may take no more memory (ulimit -v) has none for code, and says so",
  ignore,
  fn() {
    const before = new BigUint64Array(2), code = printCode([], isa!, 1);
    assertEquals(libc.getrlimit(AS, new Uint8Array(before.buffer)), 0);
    const large = { ...code, bytes: new Uint8Array(64 << 20).fill(0xc3) };
    const inUse = /VmSize:\s+(\d+) kB/.exec(Deno.readTextFileSync("/proc/self/status"))!;
    const limits = BigUint64Array.of(BigInt(1024 * Number(inUse[1])) + (32n << 20n), before[1]);
    assertEquals(libc.setrlimit(AS, new Uint8Array(limits.buffer)), 0);
    try {
      assertEquals(loadCode(large), { refused: "memory", name: "mprotect" });
    } finally {
      assertEquals(libc.setrlimit(AS, new Uint8Array(before.buffer)), 0);
    }
    const loaded = loadCode(large);
    assert(!("refused" in loaded));
    loaded.free();
  },
});
