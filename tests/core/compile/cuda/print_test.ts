import { assert, assertEquals, assertThrows } from "@std/assert";
import { BACKENDS } from "../../../../ffi/gpu/backends.ts";
import { openNvrtc } from "../../../../ffi/nvrtc.ts";
import { printCuda } from "../../../../core/compile/cuda/print.ts";
import type { GroupKernel } from "../../../../core/compile/kernel.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { walk } from "../x86/harness.ts";
import { groupRuns } from "../x86/fuzz.ts";
import { fuzzOnHost, onHost, runOnHost } from "./harness.ts";
import { nvrtcOfPeer } from "./nvrtc_of_peer.ts";

useLibtorch();

onHost("40 random groups as CUDA C compute what libtorch computes and touch nothing else", () => {
  assertEquals(fuzzOnHost(0, 40), []);
});

/** Rows that are normalised, and sums of their columns and of everything. */
function normalised(rows: number, columns: number): GroupKernel {
  const x = { op: "load" as const, from: walk(0, [columns, 1]) };
  const mean = { op: "number" as const, value: 1 / columns };
  return {
    ...{ kernel: "group", name: "normalised", sizes: [rows, columns] },
    stages: [
      { instructions: [x], stores: [], reductions: [{ op: "sum", over: "row", value: 0, to: null }] },
      {
        instructions: [
          x,
          { op: "reduced", reduction: 0 },
          mean,
          { op: "mul", args: [1, 2] },
          { op: "sub", args: [0, 3] },
        ],
        stores: [{ value: 4, to: walk(1, [columns, 1]) }],
        reductions: [
          { op: "sum", over: "column", value: 4, to: walk(2, [0, 1]) },
          { op: "greatest", over: "all", value: 4, to: walk(3, [0, 0]) },
        ],
      },
    ],
  };
}

onHost("rows of any length and number are summed by threads, warps or blocks, in one step or two", () => {
  const shapes = [[900, 5], [2000, 33], [70, 1024], [3, 1028], [40, 2100], [1, 5000]];
  const runs = shapes.map(([rows, columns]) => ({
    kernels: [normalised(rows, columns)],
    slots: [
      Float32Array.from({ length: rows * columns }, (_, i) => Math.sin(i * 0.37) + i % 7),
      new Float32Array(rows * columns),
      new Float32Array(columns),
      new Float32Array(1),
    ],
    atEnd: true,
  }));
  const run = runOnHost(runs);
  for (const one of runs) {
    const [rows, columns] = one.kernels[0].sizes, [x, y, sums, greatest] = run(one) as Float32Array[];
    const wanted = new Float64Array(columns);
    let worst = 0, most = -Infinity;
    for (let i = 0; i < rows; i++) {
      const row = x.subarray(i * columns, (i + 1) * columns);
      const mean = row.reduce((sum, value) => sum + value, 0) / columns;
      row.forEach((value, k) => {
        worst = Math.max(worst, Math.abs(y[i * columns + k] - (value - mean)));
        wanted[k] += y[i * columns + k];
        most = Math.max(most, y[i * columns + k]);
      });
    }
    const apart = sums.reduce((all, sum, k) => Math.max(all, Math.abs(sum - wanted[k])), 0);
    assert(worst < 1e-5 && apart < 1e-3, `${rows} x ${columns}: ${worst}, ${apart}`);
    assertEquals(greatest[0], most);
  }
});

Deno.test("equal groups of other memory are one function", () => {
  const moved = (group: GroupKernel, by: number): GroupKernel => ({
    ...group,
    stages: JSON.parse(JSON.stringify(group.stages), (key, value) => key === "offset" ? value + by : value),
  });
  const group = normalised(64, 256);
  const { functions, launches } = printCuda([group, moved(group, 4096)], () => true);
  assertEquals(functions, ["group0", "finish1"]);
  assertEquals(launches.flat().map((one) => [one.function, one.arguments[0].offset]), [
    ["group0", 0],
    ["finish1", 0],
    ["group0", 4096],
    ["finish1", 4096],
  ]);
});

const nvrtc = nvrtcOfPeer();

Deno.test({
  name: `NVRTC compiles the text for every kind of GPU that libtorch has kernels for${
    nvrtc === null ? " (skipped: the peer has none)" : ""
  }`,
  ignore: nvrtc === null,
  sanitizeResources: false, // the library stays open
  fn() {
    const { compile } = openNvrtc(BACKENDS.cuda, nvrtc!)!;
    const random = [0, 1].map((seed) => groupRuns(seed, seed === 0).full.kernel);
    const { text } = printCuda([normalised(900, 5), normalised(40, 2100), ...random], () => true);
    for (const architecture of ["sm_80", "sm_90"]) {
      const code = compile(text, architecture);
      assertEquals(new TextDecoder().decode(code.subarray(1, 4)), "ELF");
    }
    assertThrows(() => compile("extern void broken(", "sm_80"), Error, "expected");
  },
});
