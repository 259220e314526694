import { assertEquals } from "@std/assert";
import { peakOf } from "../../../core/train/throughput.ts";

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
  ["AMD Instinct MI300X", 1307.4, 653.7, 163.4],
];

Deno.test("what a GPU can do at most is known by the name that its driver tells", () => {
  for (const [name, half, tf32, fp32] of KNOWN) {
    assertEquals(
      [peakOf(name, "half"), peakOf(name, "tf32"), peakOf(name, "fp32")],
      [half, tf32, fp32],
      name,
    );
  }
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
  for (const name of others) assertEquals(peakOf(name, "half"), null, name);
  assertEquals(peakOf(null, "half"), null);
});
