import { assert, assertEquals, assertThrows } from "@std/assert";
import { BACKENDS } from "../../../../ffi/gpu/backends.ts";
import { openNvrtc } from "../../../../ffi/nvrtc.ts";
import { printCuda } from "../../../../core/compile/cuda/code.ts";
import type { GroupKernel } from "../../../../core/compile/kernel.ts";
import { readBytes, tensor } from "../../../../ffi/make.ts";
import { toCopy } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { strided } from "../x86/harness.ts";
import { wrongOps } from "../x86/each_op.ts";
import { groupRuns } from "../x86/fuzz.ts";
import { fuzzOnHost, onHost, runOnHost, wholeText } from "./harness.ts";
import { nvrtcOfPeer } from "./compilers_of_peer.ts";

useLibtorch();

onHost("random groups compute what libtorch computes and touch nothing else", () => {
  assertEquals(fuzzOnHost(0, 40), []);
});

onHost(
  "each op is libtorch's, or nearer to the true value than its bound, with NaN and infinities",
  () => {
    const wrong = wrongOps((runs) => {
      const cases = runs.map(({ group, slots }) => ({ kernels: [group], slots, atEnd: true }));
      const run = runOnHost(cases);
      return cases.map((one) => run(one).at(-1) as Float32Array);
    });
    assertEquals(wrong, []);
  },
);

/** Rows that are normalised, and sums of their columns and of everything. */
function normalised(rows: number, columns: number): GroupKernel {
  const x = { op: "load" as const, from: strided(0, [columns, 1]) };
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
        stores: [{ value: 4, to: strided(1, [columns, 1]) }],
        reductions: [
          { op: "sum", over: "column", value: 4, to: strided(2, [0, 1]) },
          { op: "amax", over: "all", value: 4, to: strided(3, [0, 0]) },
        ],
      },
    ],
  };
}

/** The same without its other sums. */
const ofRows = (kernel: GroupKernel): GroupKernel => ({
  ...kernel,
  stages: kernel.stages.map((stage, i) => i === 0 ? stage : { ...stage, reductions: [] }),
});

onHost(
  "rows of any length and number are summed by threads, warps or blocks, in one step or two",
  () => {
    const shapes = [[900, 5], [2000, 33], [70, 1024], [3, 1028], [40, 2100], [1, 5000], [5, 20_000]];
    const kernels = [
      ...shapes.map(([rows, columns]) => normalised(rows, columns)),
      ofRows(normalised(3, 9000)),
    ];
    const runs = kernels.map((kernel) => ({ kernel, rows: kernel.sizes[0], columns: kernel.sizes[1] })).map((
      { kernel, rows, columns },
    ) => ({
      kernels: [kernel],
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
      const withColumns = one.kernels[0].stages[1].reductions.length > 0;
      if (!withColumns) [wanted.fill(0), most = 0];
      const apart = sums.reduce((all, sum, k) => Math.max(all, Math.abs(sum - wanted[k])), 0);
      assert(worst < 1e-5 && apart < 1e-3, `${rows} x ${columns}: ${worst}, ${apart}`);
      assertEquals(greatest[0], most);
    }
  },
);

/** Philox of 4 words in 10 rounds, as its authors wrote it. */
function philox(counter: readonly number[], key: bigint): number[] {
  let [x, y, z, w] = counter.map(BigInt);
  let k = key & 0xffffffffn, l = key >> 32n;
  for (let round = 0; round < 10; round++) {
    const a = 0xd2511f53n * x, b = 0xcd9e8d57n * z;
    [x, y, z, w] = [(b >> 32n) ^ y ^ k, b & 0xffffffffn, (a >> 32n) ^ w ^ l, a & 0xffffffffn];
    k = k + 0x9e3779b9n & 0xffffffffn;
    l = l + 0xbb67ae85n & 0xffffffffn;
  }
  return [x, y, z, w].map(Number);
}

Deno.test("the reference of random numbers has the vectors that its authors publish", () => {
  assertEquals(philox([0, 0, 0, 0], 0n), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
  const ones = 2 ** 32 - 1;
  assertEquals(
    philox([ones, ones, ones, ones], 2n ** 64n - 1n),
    [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
  );
});

onHost(
  "random numbers of a group follow from key, draw, micro-batch and place, in whatever order it goes",
  () => {
    const [rows, columns] = [24, 256], key = 0x123456789abcdn, draw = 3n, micro = 2;
    const table = (micro: number) => BigInt64Array.of(key, BigInt(micro), 2n, draw);
    const drawing = (strides: readonly number[], offset: number): GroupKernel => ({
      ...{ kernel: "group", name: "drawn", sizes: [rows, columns] },
      stages: [{
        instructions: [{ op: "load", from: strided(0, strides, offset, "philox") }],
        stores: [{ value: 0, to: strided(1, [columns, 1]) }],
        reductions: [],
      }],
    });
    const ways = [[[columns, 1], 0], [[1, rows], 0], [[columns, 1], 3]] as const;
    const runs = ways.flatMap(([strides, offset]) =>
      [micro, -1].map((micro) => ({
        kernels: [drawing(strides, offset)],
        slots: [table(micro), new Float32Array(rows * columns)],
        begins: [3, 0],
        atEnd: true,
      }))
    );
    const run = runOnHost(runs);
    runs.forEach((one, i) => {
      const [[row, column], offset] = ways[Math.floor(i / 2)];
      const own = run(one)[1] as Float32Array;
      const wanted = own.map((_, at) => {
        const place = offset + Math.floor(at / columns) * row + at % columns * column;
        const words = philox([Math.floor(place / 4), 0, Number(draw), micro], key);
        return i % 2 === 1 ? 0 : (words[place % 4] >>> 8) / 2 ** 24;
      });
      assertEquals(own, wanted);
    });
  },
);

onHost(
  "numbers of half precision are read and rounded as libtorch does, in fours and one by one",
  () => {
    const given = Float32Array.of(
      ...[0, -0, 1, -1.5, 65504, 65519.9, 65520, 1e-8, 2 ** -24, 2 ** -25, 3 * 2 ** -25, 1e-5, 1 + 2 ** -11],
      ...[1 + 3 * 2 ** -11, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 3.4e38, -Infinity, NaN, 0.1, 1 / 3],
      ...Array.from({ length: 513 }, (_, i) => Math.sin(i) * 2 ** (i % 60 - 30)),
    );
    const n = given.length;
    const through = (kind: "bf16" | "f16"): GroupKernel[] => [
      {
        ...{ kernel: "group", name: "to", sizes: [n] },
        stages: [{
          instructions: [{ op: "load", from: strided(0, [1]) }],
          stores: [{ value: 0, to: strided(1, [1], 0, kind) }],
          reductions: [],
        }],
      },
      {
        ...{ kernel: "group", name: "back", sizes: [n] },
        stages: [{
          instructions: [{ op: "load", from: strided(1, [1], 0, kind) }],
          stores: [{ value: 0, to: strided(2, [1]) }],
          reductions: [],
        }],
      },
    ];
    const halves = ["bf16", "f16"] as const;
    const runs = halves.flatMap((kind) =>
      [true, false].map((atEnd) => ({
        kernels: through(kind),
        slots: [given, new Uint8Array(2 * n), new Float32Array(n)],
        atEnd,
      }))
    );
    const run = runOnHost(runs);
    runs.forEach((one, i) => {
      const wanted = scope(() => {
        const t = tensor(given);
        return new Float32Array(readBytes(toCopy(toCopy(t, halves[i >> 1]), "f32")).buffer);
      });
      assertEquals(run(one)[2], wanted);
    });
  },
);

/** Rows of half precision, of which each has a factor of its own; the sums of their columns, or rows alone. */
function scaledRows(rows: number, columns: number, sums: boolean): GroupKernel {
  return {
    ...{ kernel: "group", name: "scaled", sizes: [rows, columns] },
    stages: [{
      instructions: [
        { op: "load", from: strided(0, [columns, 1], 0, "bf16") },
        { op: "load", from: strided(1, [1, 0]) },
        { op: "mul", args: [0, 1] },
      ],
      stores: [{ value: 2, to: strided(2, [columns, 1], 0, "bf16") }],
      reductions: sums ? [{ op: "sum", over: "column", value: 2, to: strided(3, [0, 1]) }] : [],
    }],
  };
}

onHost(
  "rows of half precision are read eight at a time, and long ones by a block of their own",
  () => {
    const shapes = [[3, 128, false], [70, 264, true], [300, 8200, false], [40, 24, true], [
      5,
      132,
      false,
    ]] as const;
    const runs = shapes.map(([rows, columns, sums]) => ({
      kernels: [scaledRows(rows, columns, sums)],
      slots: [
        // 1, 2, 4 and 0.5, which lose nothing
        new Uint8Array(
          Uint16Array.from(
            { length: rows * columns },
            (_, i) => [0x3f80, 0x4000, 0x4080, 0x3f00][i * 7 % 11 % 4],
          )
            .buffer,
        ),
        Float32Array.from({ length: rows }, (_, i) => 2 ** (i % 5)),
        new Uint8Array(2 * rows * columns),
        new Float32Array(columns),
      ],
      atEnd: true,
    }));
    const texts = shapes.map(([rows, columns, sums]) =>
      printCuda([scaledRows(rows, columns, sums)], () => true)
    );
    assertEquals(texts.map((one) => wholeText(one).includes("uint4")), [true, true, false, false, false]);
    assertEquals(texts.map(({ launches }) => launches[0][0].threads), [256, 256, 1024, 256, 256]);
    const run = runOnHost(runs);
    runs.forEach((one, i) => {
      const [rows, columns, sums] = shapes[i], [given, factors, out, summed] = run(one);
      const [x, y] = [given, out].map((bytes) => new Uint16Array((bytes as Uint8Array).slice().buffer));
      const wanted = new Float32Array(columns);
      const number = (bits: number) => new Float32Array(Uint32Array.of(bits << 16).buffer)[0];
      for (let k = 0; k < rows * columns; k++) {
        const value = number(x[k]) * (factors as Float32Array)[Math.floor(k / columns)];
        if (number(y[k]) !== value) {
          throw new Error(`${rows} x ${columns}, ${k}: ${number(y[k])} not ${value}`);
        }
        if (sums) wanted[k % columns] += value;
      }
      assertEquals(summed, wanted);
    });
  },
);

Deno.test("equal groups of other memory are one function", () => {
  const moved = (group: GroupKernel, by: number): GroupKernel => ({
    ...group,
    stages: JSON.parse(JSON.stringify(group.stages), (key, value) => key === "offset" ? value + by : value),
  });
  const group = normalised(64, 256);
  const { functions, launches } = printCuda([group, moved(group, 4096)], () => true);
  assertEquals(functions.map(({ name }) => name), ["group0", "finish1"]);
  assertEquals(launches.flat().map((one) => [one.function, one.arguments[0].offset]), [
    ["group0", 0],
    ["finish1", 0],
    ["group0", 4096],
    ["finish1", 4096],
  ]);
});

/** What the random groups have not: numbers of half precision, and drawn ones. */
const DROPPED: GroupKernel = {
  ...{ kernel: "group", name: "dropped", sizes: [24, 256] },
  stages: [{
    instructions: [
      { op: "load", from: strided(0, [256, 1], 0, "bf16") },
      { op: "load", from: strided(1, [256, 1], 0, "f16") },
      { op: "load", from: strided(2, [256, 1], 0, "philox") },
      { op: "load", from: strided(2, [1, 24], 0, "philox") },
      { op: "mul", args: [0, 2] },
      { op: "mul", args: [1, 3] },
    ],
    stores: [{ value: 4, to: strided(3, [256, 1], 0, "f16") }, {
      value: 5,
      to: strided(4, [256, 1], 0, "bf16"),
    }],
    reductions: [],
  }],
};

const nvrtc = nvrtcOfPeer();
const printed = () => {
  const random = [0, 1].map((seed) => groupRuns(seed, seed === 0).full.kernel);
  return printCuda([normalised(900, 5), normalised(40, 2100), DROPPED, ...random], () => true);
};

Deno.test({
  name: `NVRTC compiles the text for every kind of GPU that libtorch has kernels for${
    nvrtc === null ? " (skipped: the peer has none)" : ""
  }`,
  ignore: nvrtc === null,
  sanitizeResources: false, // the library stays open
  fn() {
    const { compile } = openNvrtc(BACKENDS.cuda, nvrtc!)!, made = printed(), { prelude, functions } = made;
    const text = wholeText(made);
    for (const architecture of ["sm_80", "sm_90"]) {
      const [code] = compile([text], architecture);
      assertEquals(new TextDecoder().decode(code.subarray(1, 4)), "ELF");
    }
    // Several threads at once give each text its own code.
    const apart = functions.map(({ text }) => `${prelude}\n${text}`);
    const codes = compile(apart, "sm_90").map((code) => new TextDecoder("latin1").decode(code));
    assertEquals(codes.length, functions.length);
    codes.forEach((code, i) => {
      for (const { name } of functions) {
        assertEquals(code.includes(`.text.${name}\0`), name === functions[i].name);
      }
    });
    assertThrows(() => compile([text, "extern void broken(", text], "sm_80"), Error, "expected");
  },
});
