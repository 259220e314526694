// The Python that has the libraries' models: one process that exports, trains and compares as it is asked.
import { linesOf } from "../../bench/contestant.ts";

/** A file of tests/peers/real for each library. */
export const MODULES = [
  "hugging_face",
  "timm_models",
  "diffusion",
  "segmentation",
  "graphs",
  "fourier",
  "audio",
];

/** A model's program and data. */
export interface Exported {
  readonly batch: number;
  /** What the outputs are compared with: "numbers", "classes", "maps" of them, "tokens", or "graph" for a loss of its own. */
  readonly judge: string;
  /** The sizes of batches that the program takes: "any", or the one. */
  readonly sizes: string;
  readonly features: readonly string[];
  readonly target: string | null;
}

/** What PyTorch made of one model. */
export interface Told extends Exported {
  /** The bits of each step's loss, in f32 and under bf16 autocast. */
  readonly losses: readonly string[];
  readonly halves: readonly string[];
  readonly parameters: number;
}

/** How far off, in units of the largest number. */
export interface Distances {
  readonly weights: number;
  readonly predicted: number | null;
  /** Its predictions are random in PyTorch, too, so there is nothing to compare. */
  readonly drawn: boolean;
}

/** PyTorch's own refusal, or ours. */
export interface Refused {
  readonly error: string;
}

export interface RealPython extends AsyncDisposable {
  names(): Promise<[name: string, library: string][]>;
  export(name: string, folder: string, steps: number): Promise<Exported | Refused>;
  train(name: string, folder: string, seeds: readonly bigint[]): Promise<Told | Refused>;
  compare(
    name: string,
    folder: string,
    steps: number,
    weights: string,
    file: string | null,
  ): Promise<Distances | Refused>;
}

/** `modules` are files of tests/peers/real; `site` is the folder of the libraries they import. */
export function startPython(modules: readonly string[], site: string | null): RealPython {
  const python = Deno.env.get("HPCTRAIN_PYTHON");
  if (!python) throw new Error("HPCTRAIN_PYTHON is not set: it names a Python with torch.");
  const env = {
    HF_HUB_OFFLINE: "1",
    CUDA_VISIBLE_DEVICES: "",
    OMP_NUM_THREADS: "1",
    ...(site !== null && { PYTHONPATH: site }),
  };
  const program = new URL("../peers/real/run.py", import.meta.url).pathname;
  const child = new Deno.Command(python, {
    args: ["-B", program, ...modules],
    env,
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const writer = child.stdin.getWriter();
  const lines = linesOf(child.stdout)[Symbol.asyncIterator]();
  let before: Promise<unknown> = Promise.resolve();
  const answer = async <T>(asked: Record<string, unknown>): Promise<T> => {
    await writer.write(new TextEncoder().encode(JSON.stringify(asked) + "\n"));
    const { value, done } = await lines.next();
    if (done) throw new Error(`Python ended while it was asked to ${asked.what} ${asked.name ?? ""}.`);
    return JSON.parse(value);
  };
  /** It answers in the order in which it is asked. */
  const ask = <T>(asked: Record<string, unknown>): Promise<T> => {
    const answered = before.then(() => answer<T>(asked));
    before = answered.catch(() => {});
    return answered;
  };
  return {
    async names() {
      const { names, error } = await ask<{ names: [string, string][]; error?: string }>({ what: "names" });
      if (error) throw new Error(`The models could not be imported: ${error}`);
      return names;
    },
    export: (name, folder, steps) => ask({ what: "export", name, folder, steps }),
    train: (name, folder, seeds) =>
      ask({ what: "train", name, folder, steps: seeds.length, seeds: seeds.map(String) }),
    compare: (name, folder, steps, weights, file) =>
      ask({ what: "predicted", name, folder, steps, weights, file }),
    async [Symbol.asyncDispose]() {
      await writer.close();
      await child.status;
    },
  };
}
