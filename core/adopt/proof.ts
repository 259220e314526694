// The script's first batches trained here, and the losses of both side by side.
import { join } from "../../deps/path.ts";
import { thisProgram } from "../base/shell.ts";
import { UserError } from "../base/errors.ts";
import { readEvents } from "../run/event_log.ts";
import type { Adopted } from "./settings.ts";
import { type Seen, targetsOf } from "./seen.ts";

export interface Proof {
  /** Losses of each step: the script's and ours; those of turns one after the other. */
  readonly steps: readonly (readonly [theirs: number, ours: number])[];
  /** How close they are, or from which step on they are not. */
  readonly verdict: "bits" | "close" | { readonly from: number };
  /** Norms of each step's gradients, where the script computes them to clip. */
  readonly norms: Proof["steps"];
  /** How long each took here, from the second on, to a millisecond. */
  readonly seconds: readonly number[];
}

/** Rounding that other orders of sums bring. */
const CLOSE = 1e-6;

/** Losses that are compared of each step. */
export const lossesOf = ({ turns }: Pick<Seen, "turns">): number => Math.max(1, turns.length);

/** The flags of a run over the script's first batches: the kept ones, or those that the data begins with. */
export function proofFlags(
  out: string,
  seen: Seen,
  settings: readonly Adopted[],
  data: readonly Adopted[] | null,
): string[] {
  const targets = targetsOf(seen);
  const features = seen.inputs.map(({ name }) => name).filter((name) => !targets.includes(name));
  const set = [...settings, ...data ?? []].map(({ path, value }) =>
    `--set=${path}=${Array.isArray(value) ? value.join(";") : value}`
  );
  const kept = [
    ...[`--data-path=${join(out, "steps.npz")}`, "--no-shuffle", "--validation-split=0", "--normalise=off"],
    `--features=${features.join(",")}`,
    ...(targets.length > 0 ? [`--targets=${targets.join(",")}`] : []),
  ];
  return [
    `--model=${join(out, seen.draws ? "steps.pt2" : "model.pt2")}`,
    ...(data === null ? kept : ["--val-samples=0"]),
    ...["--loss=graph", "--epochs=1", "--log-interval=1"],
    ...["--device=cpu", "--no-wandb", "--no-compile", `--save-dir=${join(out, "proof")}`, "--run-name=proof"],
    ...[`--max-steps=${seen.compared}`, `--threads=${seen.threads}`],
    ...set,
  ];
}

export async function prove(
  out: string,
  seen: Seen,
  settings: readonly Adopted[],
  data: readonly Adopted[] | null,
): Promise<Proof> {
  if (seen.compared === 0) {
    throw new UserError(
      "usage",
      `The first step has batches of several sizes, so that none can be compared: give the script data that its batch size divides. ` +
        `The model with its loss is in ${join(out, "model.pt2")}.`,
    );
  }
  const [program, ...words] = thisProgram();
  const child = new Deno.Command(program, {
    args: [...words, "train", ...proofFlags(out, seen, settings, data)],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
  const { success, stderr } = await child.output();
  if (!success) {
    const text = new TextDecoder().decode(stderr);
    const why = /^hpctrain: (.*)/m.exec(text)?.[1] ?? text.trim().split("\n").at(-1) ?? "";
    throw new UserError(
      "usage",
      `The batches that were seen can't be trained here: ${why} The model with its loss is in ${
        join(out, "model.pt2")
      }, and what was read of the script in ${join(out, "run.yaml")}.`,
    );
  }
  const events = readEvents(join(out, "proof/logs/proof/events.jsonl")).flatMap((event) =>
    event.kind === "step" ? [event] : []
  );
  const ours = events.flatMap(({ loss, losses }) => losses ? Object.values(losses) : [loss]);
  const all = seen.losses.flat(), { micro } = seen;
  const theirs = ours.map((_, step) =>
    all.slice(step * micro, (step + 1) * micro).reduce((sum, loss) => sum + loss, 0) / micro
  );
  const seconds = events.slice(1).map(({ t }, i) => t - events[i].t);
  const steps = theirs.map((loss, i) => [loss, ours[i]] as const);
  const norms = events.flatMap(({ grad_norm }, i) =>
    grad_norm === undefined || seen.norms[i] === undefined ? [] : [[seen.norms[i], grad_norm] as const]
  );
  return { steps, norms, verdict: verdictOf(steps), seconds };
}

const isClose = ([theirs, ours]: Proof["steps"][number], least: number): boolean =>
  Math.abs(theirs - ours) <= CLOSE * Math.max(least, Math.abs(theirs));

function verdictOf(steps: Proof["steps"]): Proof["verdict"] {
  if (steps.every(([theirs, ours]) => Math.fround(theirs) === Math.fround(ours))) return "bits";
  const parts = steps.findIndex((pair) => !isClose(pair, 1));
  return parts < 0 ? "close" : { from: parts + 1 };
}

export function verdictText(
  { steps, norms, verdict }: Pick<Proof, "steps" | "norms" | "verdict">,
  optimizer: string,
): string {
  const all = `${steps.length} of ${steps.length} losses`;
  if (verdict === "bits") return `${all} have equal bits.`;
  if (verdict === "close") return `${all} are equal to 1e-6.`;
  const before = verdict.from - 1, parts = norms.slice(0, before).findIndex((pair) => !isClose(pair, 0));
  const cause = before === 0
    ? "the first parts already, so the model or its loss is computed otherwise here"
    : parts >= 0
    ? `they part after ${before}, and the gradients at step ${parts + 1}, whose norm is ${
      norms[parts][0]
    } in the script and ${norms[parts][1]} here`
    : `they part after ${before}, so the update of ${optimizer} or its rate is another one here`;
  return `Not equal: ${cause}. Other sums of many threads go away with OMP_NUM_THREADS=1 before both; what else differs is in what ` +
    "was not read.";
}
