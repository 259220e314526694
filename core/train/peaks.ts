// The peak rates of known GPUs (for MFU), by the names that drivers tell; and the memory and architecture of AMD's.

import { UserError } from "../base/errors.ts";

export type MatrixPrecision = "bf16" | "fp16" | "tf32" | "fp32";

/**
 * 1e12 operations a second of dense matrices, at the boost clock: bf16 and fp16 (adding up in fp32), TensorFloat-32, fp32.
 * From NVIDIA's data sheets "V100", "T4", "A100", "A30", "A10", "A40", "RTX A6000", "L4", "L40", "L40S", "H100" (SXM5 and PCIe),
 * "H100 NVL", "H200", "GH200", "HGX B200" (halved where they count sparse ones), and its white papers "NVIDIA Ampere GA102 GPU
 * Architecture" and "NVIDIA Ada GPU Architecture" (RTX cards). A name that is not here word for word is another product.
 */
const NVIDIA: readonly (readonly [name: RegExp, half: number, tf32: number | null, fp32: number])[] = [
  [/^Tesla V100-SXM2-(16|32)GB$/, 125, null, 15.7],
  [/^Tesla V100-PCIE-(16|32)GB$/, 112, null, 14],
  [/^Tesla V100S-PCIE-32GB$/, 130, null, 16.4],
  [/^(Tesla|NVIDIA) T4$|^T4$/, 65, null, 8.1],
  [/^(NVIDIA )?A100-(SXM4?|PCIE?)-(40|80)GB$|^NVIDIA A100 80GB PCIe$/, 312, 156, 19.5],
  [/^NVIDIA A30$/, 165, 82, 10.3],
  [/^NVIDIA A10$/, 125, 62.5, 31.2],
  [/^NVIDIA A40$/, 149.7, 74.8, 37.4],
  [/^(NVIDIA )?RTX A6000$/, 154.8, 77.4, 38.7],
  [/^NVIDIA L4$/, 121, 60, 30.3],
  [/^NVIDIA L40$/, 181, 90.5, 90.5],
  [/^NVIDIA L40S$/, 362, 183, 91.6],
  [/^NVIDIA H100 80GB HBM3$/, 989, 494.5, 67], // SXM5
  [/^NVIDIA H100 PCIe$/, 756, 378, 51],
  [/^NVIDIA H(100|200) NVL$/, 835.5, 417.5, 60],
  [/^NVIDIA H200$/, 989, 494.5, 67],
  [/^NVIDIA GH200 (120|480)GB$/, 989, 494.5, 67],
  [/^NVIDIA B200$/, 2250, 1125, 75],
  [/^NVIDIA GeForce RTX 3090$/, 71, 35.6, 35.6],
  [/^NVIDIA GeForce RTX 4090$/, 165.2, 82.6, 82.6],
];

export interface AmdGpu {
  /** As users say it. */
  readonly product: string;
  /** As the driver tells it. */
  readonly name: RegExp;
  /** As compilers have it. */
  readonly architecture: string;
  /** Bytes of one device. */
  readonly memory: number;
  readonly bf16: number;
  readonly fp16: number;
  /** Null where matrix cores have none, and fp32 is computed. */
  readonly tf32: number | null;
  readonly fp32: number;
}

const GB = 2 ** 30; // AMD's sheets mean these by GB

/**
 * The same of AMD's, by matrix cores, from its data sheets "Instinct MI100", "MI210", "MI250", "MI250X", "MI300A", "MI300X", "MI325X",
 * "MI350X" and "MI355X". An MI250 or MI250X is two devices (GCDs) to HIP: each line is of one, with half of what the sheet says.
 * None was measured here.
 */
export const AMD: readonly AmdGpu[] = [
  amd("MI100", "gfx908", 32, { bf16: 92.3, fp16: 184.6, tf32: null, fp32: 46.1 }),
  amd("MI210", "gfx90a", 64, { bf16: 181, fp16: 181, tf32: null, fp32: 45.3 }),
  amd("MI250", "gfx90a", 64, { bf16: 181, fp16: 181, tf32: null, fp32: 45.3 }),
  amd("MI250X", "gfx90a", 64, { bf16: 191.5, fp16: 191.5, tf32: null, fp32: 47.9 }),
  amd("MI300A", "gfx942", 128, { bf16: 980.6, fp16: 980.6, tf32: 490.3, fp32: 122.6 }),
  amd("MI300X", "gfx942", 192, { bf16: 1307.4, fp16: 1307.4, tf32: 653.7, fp32: 163.4 }),
  amd("MI325X", "gfx942", 256, { bf16: 1307.4, fp16: 1307.4, tf32: 653.7, fp32: 163.4 }),
  amd("MI350X", "gfx950", 288, { bf16: 2306.9, fp16: 2306.9, tf32: null, fp32: 144.2 }),
  amd("MI355X", "gfx950", 288, { bf16: 2516.6, fp16: 2516.6, tf32: null, fp32: 157.3 }),
];

function amd(
  product: string,
  architecture: string,
  gigabytes: number,
  peaks: Pick<AmdGpu, MatrixPrecision>,
): AmdGpu {
  const name = new RegExp(`^AMD Instinct ${product}( OAM)?$`);
  return { product, name, architecture, memory: gigabytes * GB, ...peaks };
}

/** Bytes of the GPU that is named so: "MI250X", "AMD Instinct MI300A", "gfx90a"; null for what is no such name. */
export function memoryNamed(text: string): number | null {
  const word = text.trim().toLowerCase();
  const product = /^(?:amd )?(?:instinct )?(mi\d+[ax]?)$/.exec(word)?.[1];
  const found = AMD.filter((gpu) => gpu.product.toLowerCase() === product || gpu.architecture === word);
  const memories = [...new Set(found.map(({ memory }) => memory))];
  if (memories.length === 1) return memories[0];
  if (memories.length > 1) {
    const each = found.map(({ product, memory }) => `${product} (${memory / GB} GB)`).join(", ");
    throw new UserError(
      "usage",
      `--gpu ${text} is one of several: ${each}. Name the product, or its memory.`,
    );
  }
  if (product === undefined && !/^gfx[0-9a-f]+$/.test(word)) return null;
  const known = AMD.map(({ product, architecture }) => `${product} (${architecture})`).join(", ");
  throw new UserError(
    "usage",
    `--gpu ${text} is not known; AMD's that are: ${known}. Or give its memory, such as 64GB.`,
  );
}

/** 1e12 operations a second; null for an unknown name, such as a part of a GPU (MIG). */
export function peakOf(name: string | null, kind: MatrixPrecision): number | null {
  const ofAmd = AMD.find((gpu) => gpu.name.test(name ?? ""));
  if (ofAmd) return ofAmd[kind] ?? ofAmd.fp32;
  const found = NVIDIA.find(([pattern]) => pattern.test(name ?? ""));
  if (!found) return null;
  const [, half, tf32, fp32] = found;
  return kind === "tf32" ? tf32 ?? fp32 : kind === "fp32" ? fp32 : half;
}
