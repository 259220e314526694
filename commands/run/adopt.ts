// `hpctrain adopt -- python train.py`: a script of PyTorch's moves over. Its own Python runs its first steps, watched; what trains
// is written, and trained here beside it.
import { join } from "../../deps/path.ts";
import {
  adoptedInputs,
  adoptedLength,
  adoptedOptimizer,
  adoptedRates,
  adoptedSchedule,
  adoptedTraining,
  movesMomentum,
  settingsYaml,
} from "../../core/adopt/settings.ts";
import { lossesOf, type Proof, prove, verdictText } from "../../core/adopt/proof.ts";
import { firstOtherRate } from "../../core/adopt/course.ts";
import { adoptedData } from "../../core/adopt/data.ts";
import { checkSeen, readSeen, type Seen } from "../../core/adopt/seen.ts";
import { epochLine } from "../../core/adopt/times.ts";
import { watch } from "../../core/adopt/watch.ts";
import { parseOptions } from "../../core/settings/options.ts";
import { programAsCalled, shellLine } from "../../core/base/shell.ts";
import { commandWithoutSecrets } from "../../core/base/secrets.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatPlural, formatWhole } from "../../core/base/format.ts";
import { makeFolder } from "../../core/base/new_file.ts";
import { pathExists } from "../../core/base/files.ts";
import { OPTIONS, USAGE } from "../adopt.ts";

/** No one waits for more. */
const MOST_STEPS = 10_000;

export async function adopt(argv: string[]): Promise<number> {
  const { options, positionals: words } = parseOptions(argv, OPTIONS, USAGE);
  if (words.length < 2) throw new UserError("usage", `Which script? Usage: ${USAGE}`);
  const steps = stepsIn(options.steps ?? "20"), out = options.out ?? "adopted";
  makeNew(out);
  await watch(words, { out, steps, copy: !options["no-copy"] });
  const seen = readSeen(out);
  if (seen === null) {
    throw new UserError(
      "usage",
      `${
        shellLine(commandWithoutSecrets(words))
      } ended before a step of an optimizer of torch's was seen: let it train on this machine for ${
        formatPlural(steps, "step")
      }, with the arguments that it wants.`,
    );
  }
  checkSeen(seen, out);
  const optimizer = adoptedOptimizer(seen);
  if (optimizer === null) {
    throw new UserError(
      "usage",
      `The optimizer ${seen.optimizer} (${seen.where.optimizer}) is not here; the model with its loss is in ${
        join(out, "model.pt2")
      }: train it with another one, --optimizer adamw.`,
    );
  }
  const named = adoptedSchedule(seen), rates = adoptedRates(seen, join(out, "rates.csv"));
  if (rates.table !== null) Deno.writeTextFileSync(join(out, "rates.csv"), rates.table);
  const common = [...adoptedTraining(seen), ...optimizer];
  const parts = named && firstOtherRate(seen, [...common, ...adoptedLength(seen), ...named]),
    schedule = parts === null ? named : null;
  const data = await adoptedData(out, seen, words[0]);
  const read = data.settings.length > 0 ? data.settings : adoptedInputs(seen);
  Deno.writeTextFileSync(
    join(out, "run.yaml"),
    settingsYaml([...common, ...adoptedLength(seen), ...schedule ?? [], ...read]),
  );
  console.log(describe(seen, words, data.said));
  for (const { what, where } of seen.odd) {
    console.log(`Not read: ${what}${where === "" ? "" : ` (${where})`}`);
  }
  if (schedule === null) {
    console.log(
      `Not read: how the learning rate goes on${
        parts === null ? "" : ` (${named![0].value} has another rate at step ${parts})`
      }; its first ${formatPlural(seen.steps, "step")} are in ${join(out, "rates.csv")}`,
    );
  }
  const fromData = data.repeats && !seen.data.shuffle && !seen.inputs.some(({ drawn }) => drawn);
  const course = schedule !== null && movesMomentum(seen) ? schedule : rates.settings;
  const proof = await prove(out, seen, [...common, ...course], fromData ? data.settings : null);
  for (const line of tableOf(proof, seen)) console.log(line);
  console.log(`Made: ${["model.pt2", "run.yaml", "steps.npz"].map((name) => join(out, name)).join(", ")}`);
  const epoch = epochLine(seen, proof, fromData);
  if (epoch !== null) console.log(epoch);
  for (const line of nextLines(out, data.settings.length > 0)) console.log(line);
  return typeof proof.verdict === "string" ? EXIT.done : EXIT.numerics;
}

function stepsIn(text: string): number {
  const steps = Number(text);
  if (Number.isInteger(steps) && steps > 0 && steps <= MOST_STEPS) return steps;
  throw new UserError("usage", `--steps takes a whole number from 1 to ${MOST_STEPS}, but got "${text}".`);
}

function makeNew(out: string): void {
  if (pathExists(out)) {
    throw new UserError(
      "usage",
      `${out} exists already: name another folder with --out, or delete it first.`,
    );
  }
  makeFolder(out);
}

const at = (where: string | undefined): string => where ? ` (${where})` : "";

/** Tells what was read, with its lines. */
function describe(seen: Seen, words: readonly string[], said: string): string {
  const { where, model, parameters, loss_of, optimizer, groups, micro, loader, turns, follows } = seen;
  const data = loader
    ? `${loader.dataset}${loader.samples === null ? "" : ` of ${loader.samples} samples`}${at(where.loader)}`
    : "";
  const lines = [
    `Watched ${shellLine(commandWithoutSecrets(words))} for ${formatPlural(seen.steps, "step")}:`,
    `  model      ${model}, ${formatWhole(parameters)} parameters${at(where.model)}`,
    `  loss       ${loss_of.join(", ")}${at(where.loss)}`,
    `  optimizer  ${optimizer}, ${formatPlural(groups.length, "group")}${at(where.optimizer)}`,
    ...(turns.length > 0
      ? [`  turns      ${turns.map(({ name }) => name).join(", ")}: each has a loss and an optimizer`]
      : []),
    ...(follows.length > 0
      ? [`  after      weights that no optimizer trains follow the others behind each step`]
      : []),
    ...(micro > 1 ? [`  batches    ${micro} for each step`] : []),
    `  data       ${data === "" ? "" : `${data}; `}${said}`,
    ...(seen.draws
      ? [
        `  dropout    off while the steps were watched${
          at(where.dropout)
        }, and random functions gave one number`,
      ]
      : []),
  ];
  return lines.join("\n");
}

/** The first steps are shown, and those where they part. */
const SHOWN = 5;

function tableOf(proof: Proof, seen: Seen): string[] {
  const { steps, verdict } = proof, each = lossesOf(seen), last = steps.length / each;
  const from = typeof verdict === "string" ? last : Math.ceil(verdict.from / each);
  const shown = steps.map((pair, i) => [1 + Math.floor(i / each), ...pair] as const)
    .filter(([step]) => step <= SHOWN || step === last || Math.abs(step - from) <= 1);
  const rows = shown.map(([step, theirs, ours]) =>
    `${String(step).padStart(4)}  ${theirs.toPrecision(9).padEnd(14)}${ours.toPrecision(9)}`
  );
  return ["step  the script    here", ...rows, verdictText(proof, seen.optimizer)];
}

/** Here, on a cluster, and what was learnt back into the script. */
function nextLines(out: string, hasData: boolean): string[] {
  const program = programAsCalled();
  const run = `--config ${join(out, "run.yaml")} --model ${join(out, "model.pt2")}${
    hasData ? "" : " --data-path YOUR_DATA"
  }`;
  return [
    "Next:",
    `  train here    ${program} ${run}`,
    `  on a cluster  ${program} sbatch ${run}`,
    `  and back      ${program} export checkpoints/RUN_best.pt weights.safetensors`,
  ];
}
