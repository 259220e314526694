// Runs to write and to hand to W&B's own program.
import { join } from "paths";
import type { Event, StepEvent } from "../../../../core/run/events.ts";
import { type ReadAt, readAtOf, readFrames } from "../../../../core/outputs/wandb/file.ts";
import { decodeRecord, type WandbRecord, type WandbSetup } from "../../../../core/outputs/wandb/records.ts";
import type { WandbServer } from "../../../integration/wandb_server.ts";

/** Reads a .wandb file that is in memory. */
export const readAtOfBytes = (bytes: Uint8Array): ReadAt => (into, at) => {
  const found = bytes.subarray(Math.min(at, bytes.length), at + into.length);
  into.set(found);
  return found.length;
};

/** The run "r1" in a folder, with ten steps an epoch. */
export function setupIn(folder: string, more: Partial<WandbSetup> = {}): WandbSetup {
  return {
    path: join(folder, "wandb/offline-run-20260102_030405-r1/run-r1.wandb"),
    run: {
      id: "r1",
      project: "maps",
      entity: "team",
      name: "first",
      group: "g",
      jobType: "train",
      notes: "n",
      tags: ["a", "b"],
      host: "node1",
      startTime: 1_700_000_000,
    },
    config: { training: { epochs: 3, optimizer: { learning_rate: 1e-3 } }, run: { name: "first" } },
    environment: {
      os: "Linux",
      python: "none",
      host: "node1",
      program: "hpctrain",
      args: ["--epochs", "3"],
      startedAt: "2023-11-14T22:13:20.000Z",
      cpu_count_logical: 4,
      memory: { total: "8000000000" },
      slurm: { job_id: "7" },
      git: { commit: "a".repeat(40), remote: "https://example.org/x.git" },
    },
    again: null,
    events: join(folder, "events.jsonl"),
    after: -1,
    uploaded: [],
    pace: { step: 0, stepInEpoch: 0, stepsPerEpoch: 10, maxSteps: 0 },
    files: [],
    ...more,
  };
}

/** A second each step. */
export const at = (step: number) => 1_700_000_000 + step;

export const step = (step: number, more: Partial<StepEvent> = {}): Event => ({
  t: at(step),
  kind: "step",
  step,
  epoch: Math.ceil(step / 10),
  loss: 1 / step,
  lr: 1e-3,
  grad_norm: 0.5,
  ...more,
});

/** What a run says at the end of an epoch of ten steps. */
export function epochEnd(epoch: number, loss = 1 / epoch): Event[] {
  const t = at(10 * epoch) + 0.5;
  return [
    {
      t,
      kind: "eval",
      step: 10 * epoch,
      epoch,
      val_loss: loss,
      metrics: { accuracy: epoch / 10 },
      samples: 5,
      seconds: 0.1,
    },
    {
      t,
      kind: "epoch",
      step: 10 * epoch,
      epoch,
      loss: 0.7,
      metrics: { accuracy: 0.5 },
      lr: 1e-3,
      seconds: 10,
    },
  ];
}

/** Steps, and the ends of epochs among them. */
export function* steps(from: number, to: number): Generator<Event, undefined> {
  for (let n = from; n <= to; n++) {
    yield step(n);
    if (n % 10 === 0) yield* epochEnd(n / 10);
  }
}

export const exit = (code: number, at_step: number): Event => ({
  t: at(at_step) + 1,
  kind: "exit",
  code,
  message: "Finished",
  step: at_step,
  epoch: Math.floor(at_step / 10),
  seconds: at_step,
});

export function recordsOf(path: string): WandbRecord[] {
  using file = Deno.openSync(path);
  return [...readFrames(readAtOf(file))].map(({ record }) => decodeRecord(record));
}

/** Rows as objects; NaN and infinities as numbers. */
export const rowsOf = (path: string): Record<string, unknown>[] =>
  recordsOf(path).filter((record) => record.kind === "history").map(({ items }) =>
    Object.fromEntries(items.map(({ key, json }) => [key[0], valueOf(json)]))
  );

export const stepsOf = (path: string): unknown[] => rowsOf(path).map((row) => row._step);

export function valueOf(json: string): unknown {
  return ["NaN", "Infinity", "-Infinity"].includes(json) ? Number(json) : JSON.parse(json);
}

/** A row as the server has it: bare words for what is no finite number. */
export const parsed = (line: string): Record<string, unknown> =>
  JSON.parse(line.replace(/(?<=[:,[] ?)(-?Infinity|NaN)(?=[,}\]])/g, '"$1"'));

/** W&B's own program: the newest and one of 2024. */
export const WANDBS = { new: "HPCTRAIN_WANDB_PYTHON", old: "HPCTRAIN_WANDB_PYTHON_OLD" } as const;

export function pythonOf(version: keyof typeof WANDBS): string {
  const python = Deno.env.get(WANDBS[version]);
  if (!python) throw new Error(`${WANDBS[version]} names no Python with wandb: ./scripts/test sets it`);
  return python;
}

export async function sync(
  version: keyof typeof WANDBS,
  server: WandbServer,
  cwd: string,
  folders: string[],
): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(pythonOf(version), {
    args: ["-m", "wandb", "sync", ...folders],
    cwd, // it leaves a folder of its own where it is called
    env: { ...server.env, HOME: cwd, WANDB_ERROR_REPORTING: "false" },
  }).output();
  const said = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  if (code !== 0) throw new Error(said);
  return said;
}
