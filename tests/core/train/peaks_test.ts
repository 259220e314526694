import { assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { AMD, memoryNamed, peakOf } from "../../../core/train/throughput.ts";
import { assertRefusal } from "../../sentences.ts";

/** Names as drivers tell them, and what the data sheets say of dense products in bf16 or fp16, TF32 and fp32. */
const KNOWN: [name: string, half: number, tf32: number, fp32: number][] = [
  ["Tesla V100-SXM2-32GB", 125, 15.7, 15.7], // it has no TF32
  ["Tesla V100-PCIE-16GB", 112, 14, 14],
  ["A100-SXM4-40GB", 312, 156, 19.5],
  ["NVIDIA A100-SXM4-80GB", 312, 156, 19.5],
  ["NVIDIA A100 80GB PCIe", 312, 156, 19.5],
  ["NVIDIA A40", 149.7, 74.8, 37.4],
  ["NVIDIA L40S", 362, 183, 91.6],
  ["NVIDIA H100 80GB HBM3", 989, 494.5, 67],
  ["NVIDIA H100 PCIe", 756, 378, 51],
  ["NVIDIA H100 NVL", 835.5, 417.5, 60],
  ["NVIDIA H200", 989, 494.5, 67],
  ["NVIDIA GeForce RTX 3090", 71, 35.6, 35.6],
  ["NVIDIA GeForce RTX 4090", 165.2, 82.6, 82.6],
  ["AMD Instinct MI250X", 191.5, 47.9, 47.9],
  ["AMD Instinct MI210", 181, 45.3, 45.3],
  ["AMD Instinct MI300A", 980.6, 490.3, 122.6],
  ["AMD Instinct MI300X", 1307.4, 653.7, 163.4],
  ["AMD Instinct MI325X", 1307.4, 653.7, 163.4],
  ["AMD Instinct MI355X", 2516.6, 157.3, 157.3], // it has no TF32
];

Deno.test("what a GPU can do at most is known by the name that its driver tells", () => {
  for (const [name, half, tf32, fp32] of KNOWN) {
    assertEquals(
      (["bf16", "fp16", "tf32", "fp32"] as const).map((kind) => peakOf(name, kind)),
      [half, half, tf32, fp32],
      name,
    );
  }
});

Deno.test("an MI100 computes bf16 at half the rate of fp16, and an MI250X is two devices with 64 GB each", () => {
  assertEquals([peakOf("AMD Instinct MI100", "bf16"), peakOf("AMD Instinct MI100", "fp16")], [92.3, 184.6]);
  const of = (product: string) => AMD.find((gpu) => gpu.product === product)!;
  assertEquals([of("MI250X").architecture, of("MI250X").memory], ["gfx90a", 64 * 2 ** 30]);
  assertEquals([of("MI300A").architecture, of("MI355X").architecture], ["gfx942", "gfx950"]);
});

Deno.test("--gpu takes AMD's products and architectures, and asks where one name has several", () => {
  const memories = ["MI250X", "AMD Instinct MI300A", "mi325x", "gfx90a", "gfx950"].map(memoryNamed);
  assertEquals(memories, [64, 128, 256, 64, 288].map((gigabytes) => gigabytes * 2 ** 30));
  assertEquals(["80GB", "24 GiB", "H100"].map(memoryNamed), [null, null, null]);
  assertRefusal(
    "usage",
    "core/train/peaks: gpu gfx several",
    assertThrows(() => memoryNamed("gfx942"), UserError),
  );
  assertRefusal(
    "usage",
    "core/train/peaks: gpu known amd",
    assertThrows(() => memoryNamed("MI999X"), UserError),
  );
});

Deno.test("a part of a GPU, a product with a like name, and a driver that tells nothing are not guessed at", () => {
  const others = [
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    "NVIDIA A100-SXM-64GB", // a supercomputer's own, with more cores
    "NVIDIA GeForce RTX 3090 Ti",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA H100",
    "NVIDIA H200 MIG 1g.18gb",
    "",
  ];
  for (const name of others) assertEquals(peakOf(name, "fp16"), null, name);
  assertEquals(peakOf(null, "fp16"), null);
});
