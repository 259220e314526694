// Training speed, the time left, the operations of a sample, and the peak rate of known GPUs (for MFU).
import { countFlops } from "../../ffi/profile.ts";

/** A power of two; a step leaves the window after 30 s. */
const STEPS = 128, MASK = STEPS - 1;
const MAX_AGE_MS = 30_000;

export interface Throughput {
  /** `samples` are of the global batch. It allocates nothing. */
  step(samples: number): void;
  /** An evaluation or a save is not training time. */
  pause(): void;
  resume(): void;
  /** Over the window; null until two steps were seen. */
  rate(): number | null;
  startEpoch(): void;
  /** Training time alone counts; null before the first step. */
  epochRate(): number | null;
  /** Null while the rate is unknown. */
  secondsLeft(samples: number): number | null;
}

/**
 * A plain quotient of sums, never a median: a stall every twenty steps is part of it. The first step warms
 * up, and is not in the window.
 */
export function openThroughput(now: () => number = () => performance.now()): Throughput {
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
    step(n) {
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
    pause() {
      // This time belongs to the epoch, though not to a step of the window.
      epochMs += now() - last;
      last = now();
    },
    resume() {
      last = now();
    },
    rate,
    startEpoch() {
      epochSamples = 0;
      epochMs = 0;
      last = now();
    },
    epochRate: () => epochMs > 0 && epochSamples > 0 ? epochSamples * 1000 / epochMs : null,
    secondsLeft(n) {
      const perSecond = rate();
      return perSecond === null ? null : Math.max(0, n) / perSecond;
    },
  };
}

/** Backward computes two products for one of forward. */
const WITH_BACKWARD = 3;

export interface Flops {
  /** Null before the first forward pass has counted them. */
  readonly perSample: number | null;
  /** Called before each step, with the rows of its first batch. */
  before(rows: number): void;
}

export function openFlops(): Flops {
  let perSample: number | null = null, begun = false;
  return {
    get perSample() {
      return perSample;
    },
    before(rows) {
      if (begun || rows === 0) return;
      begun = true;
      countFlops((operations) => perSample = WITH_BACKWARD * operations / rows);
    },
  };
}

type MatrixPrecision = "half" | "tf32" | "fp32";

/**
 * 1e12 operations a second of dense matrices, at the boost clock: bf16 and fp16 (adding up in fp32), TensorFloat-32, fp32.
 * From NVIDIA's data sheets "V100", "T4", "A100", "A30", "A10", "A40", "RTX A6000", "L4", "L40", "L40S", "H100" (SXM5 and PCIe),
 * "H100 NVL", "H200", "GH200", "HGX B200" (halved where they count sparse ones), its white papers "NVIDIA Ampere GA102 GPU
 * Architecture" and "NVIDIA Ada GPU Architecture" (RTX cards), and AMD's data sheets "Instinct MI250X", "MI250", "MI300X",
 * "MI300A". One MI250 is two devices, each with half of it. A name that is not here word for word is another product.
 */
const PEAKS: readonly (readonly [name: RegExp, half: number, tf32: number | null, fp32: number])[] = [
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
  [/^AMD Instinct MI250X$/, 191.5, null, 47.9],
  [/^AMD Instinct MI250$/, 181, null, 45.3],
  [/^AMD Instinct MI300X$/, 1307.4, 653.7, 163.4],
  [/^AMD Instinct MI300A$/, 980.6, 490.3, 122.6],
];

/** 1e12 operations a second; null for an unknown name, such as a part of a GPU (MIG). */
export function peakOf(name: string | null, kind: MatrixPrecision): number | null {
  const found = PEAKS.find(([pattern]) => pattern.test(name ?? ""));
  if (!found) return null;
  const [, half, tf32, fp32] = found;
  return kind === "half" ? half : kind === "tf32" ? tf32 ?? fp32 : fp32;
}
