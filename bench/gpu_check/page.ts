// What docs/benchmarks.md says of a check of a GPU.
import { table } from "../report.ts";

interface Row {
  readonly name: string;
  readonly ok: boolean;
  readonly figure: string;
  readonly detail?: unknown;
}

export interface GpuResults {
  readonly command: string;
  readonly device: string;
  readonly libtorch: string;
  readonly date?: string;
  readonly rows: readonly Row[];
}

interface StepTime {
  readonly spec: { readonly title: string };
  readonly medians: Readonly<Record<string, number>>;
  readonly memory: Readonly<Record<string, number>>;
  readonly missing: Readonly<Record<string, string>>;
}

const SIDES = ["hpctrain", "eager", "compile"];

/** "nvidia-h100-80gb-hbm3": for files and marks. */
export const slugOf = (device: string): string => device.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");

export function gpuSection({ command, device, libtorch, date, rows }: GpuResults): string {
  const passed = rows.filter(({ ok }) => ok).length;
  const steps = rows.filter(({ name }) => name.startsWith("step time: ")).map(({ detail }) =>
    detail as StepTime
  );
  const lines = steps.map(({ spec, medians, memory }) => [
    spec.title,
    ...SIDES.map((side) =>
      medians[side] === undefined
        ? ""
        : `${medians[side].toFixed(3)} ms (${(medians.eager / medians[side]).toFixed(2)}x), ${
          (memory[side] / 2 ** 30).toFixed(2)
        } GiB`
    ),
  ]);
  return `## On a GPU: ${device}

\`${command}\`${
    date ? ` on ${date}` : ""
  }, libtorch ${libtorch}: ${passed} of ${rows.length} checks passed; all of them and ` +
    `their figures are in bench/results/gpu-check-${
      slugOf(device)
    }.md. Step times beside PyTorch on the same machine, in ` +
    "rounds that take turns; in brackets the speed against eager. Dispatching takes most of a small model's step, on every " +
    `side.

${table(["Training step", "hpctrain", "PyTorch eager", "PyTorch torch.compile"], lines)}`;
}
