// Training speed, the time left, and the operations of a sample; the peak rates of known GPUs (for MFU), by the names that
// drivers tell; and the memory and architecture of AMD's.
import { countFlops } from "../../ffi/profile.ts";
import type { Device } from "../../ffi/tensor.ts";
import { cudaName, gpuBackend } from "../../ffi/cuda.ts";
import type { Cursor } from "../checkpoint/training_state.ts";
import { openAccount, openTimes } from "../run/account.ts";
import { UserError } from "../base/errors.ts";
import type { Built } from "./build.ts";
import type { Launch } from "./launch.ts";
import type { Feed } from "./feed.ts";
import type { Amp } from "./precision.ts";

/** A power of two; a step leaves the window after 30 s. */
const STEPS = 128, MASK = STEPS - 1;

const MAX_AGE_MS = 30_000;

/**
 * A plain quotient of sums, never a median: a stall every twenty steps is part of it. The first step warms
 * up, and is not in the window.
 */
export function openThroughput(now: () => number = () => performance.now()) {
  // A rate is one subtraction, since it may be read at each of a thousand steps a second.
  const ended = new Float64Array(STEPS);
  const msBefore = new Float64Array(STEPS);
  const samplesBefore = new Float64Array(STEPS);
  let ms = 0, samples = 0;
  let next = 0, count = 0, warm = false;
  let last = now();
  let epochSamples = 0, epochMs = 0;

  function rate(): number | null {
    while (count > 1 && last - ended[(next - count) & MASK] > MAX_AGE_MS) count--;
    const oldest = (next - count) & MASK;
    const took = count > 0 ? ms - msBefore[oldest] : 0;
    return took > 0 ? (samples - samplesBefore[oldest]) * 1000 / took : null;
  }

  return {
    /** So many samples of the global batch. It allocates nothing. */
    step(n: number): void {
      const time = now();
      const took = time - last;
      last = time;
      epochSamples += n;
      epochMs += took;
      if (!warm) {
        warm = true;
        return;
      }
      ended[next] = time;
      msBefore[next] = ms;
      samplesBefore[next] = samples;
      ms += took;
      samples += n;
      next = (next + 1) & MASK;
      if (count < STEPS) count++;
    },
    /** An evaluation or a save is not training time. */
    pause(): void {
      // This time belongs to the epoch, though not to a step of the window.
      epochMs += now() - last;
      last = now();
    },
    resume(): void {
      last = now();
    },
    /** Over the window; null until two steps were seen. */
    rate,
    startEpoch(): void {
      epochSamples = 0;
      epochMs = 0;
      last = now();
    },
    /** Training time alone counts; null before the first step. */
    epochRate: (): number | null => epochMs > 0 && epochSamples > 0 ? epochSamples * 1000 / epochMs : null,
    /** For so many samples; null while the rate is unknown. */
    secondsLeft(n: number): number | null {
      const perSecond = rate();
      return perSecond === null ? null : Math.max(0, n) / perSecond;
    },
  };
}

/** Backward computes two products for one of forward. */
const WITH_BACKWARD = 3;

function openFlops() {
  let perSample: number | null = null, begun = false;
  return {
    /** Null before the first forward pass has counted them. */
    get perSample(): number | null {
      return perSample;
    },
    /** Called before each step, with the rows of its first batch. */
    before(rows: number): void {
      if (begun || rows === 0) return;
      begun = true;
      countFlops((operations) => perSample = WITH_BACKWARD * operations / rows);
    },
  };
}

/** The clocks of a run: whose time it was, how many operations a sample takes, and how much of the device's peak. */
export function openInstruments(
  { config: { training }, device, team }: Launch,
  { data, amp }: Built,
  feed: Feed,
  cursor: Cursor,
) {
  const waits = { data: feed.waited, communication: team?.collectives.waited ?? (() => 0) };
  const account = openAccount(waits), flops = openFlops(), { facts } = data.train;
  const times = openTimes({
    account,
    done: { step: cursor.step, samples: cursor.samples },
    tokens: facts.task === "language" ? facts.input.shape[0] : 0,
    perSample: () => flops.perSample,
    peak: 1e12 * (team?.world ?? 1) * (training.peak_tflops || knownPeak(training.tf32, device, amp)),
  });
  return { account, flops, times };
}

/** 1e12 operations a second; 0 where it is not known. */
function knownPeak(tf32: boolean, device: Device, amp: Amp): number {
  if (device === "cpu" || amp === "fp64") return 0; // what a card makes of doubles is not in the table
  const kind = amp !== "off" ? amp : tf32 && gpuBackend().tf32Since !== null ? "tf32" : "fp32";
  return peakOf(cudaName(Number(device.slice("cuda:".length))), kind) ?? 0;
}

type MatrixPrecision = "bf16" | "fp16" | "tf32" | "fp32";

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

interface AmdGpu {
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
