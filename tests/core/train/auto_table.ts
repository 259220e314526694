// The table of `./scripts/compile-quality auto [MODELS]` or `auto FOLDER/ [NAMES]`: runs with --compile=auto beside runs with
// --compile=off, of the zoo's models or of the exported programs in a folder of `./scripts/exported compiled FOLDER/`. No clock
// decides: steps are compiled from the fourth one on, both ways take turns, and the compiled one is kept.
import { join } from "paths";
import { table } from "../../../bench/report.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { PARTS } from "../../../core/parts.ts";
import { latestPath } from "../../../core/train/run_folder.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { FLAGS, startOf } from "../../real_models/trial.ts";
import { contents, eventsIn, started } from "./started.ts";

/** More than a run has that is too short for a plan. */
const STEPS = 40, ORDINARY = 3;

const SYNTHETIC = [
  "--data-type=synthetic",
  "--batch-size=2",
  `--train-samples=${2 * STEPS}`,
  "--val-samples=2",
];
const LAST = ["--epochs=40", `--max-steps=${STEPS}`, "--memory-check=off"];
const SMALL: Readonly<Record<string, readonly string[]>> = {
  mlp: ["--hidden-size=32"],
  gpt: ["--layers=2", "--embed=32", "--heads=2", "--context=24"],
};

/** Nothing is made up for steps of time. */
const NO_DATA = "convlstm";

interface Ran {
  readonly way: string;
  /** Losses, and what is in the last checkpoint but for settings and times. */
  readonly losses: string;
  readonly state: string;
}

/** Whichever is faster: the compiled way is taken for it. */
function withoutClock({ choice }: Trainer): void {
  const inTurn = choice?.whileTraining;
  if (!inTurn) return;
  const took = inTurn.took.bind(inTurn);
  inTurn.pays = (alike) => alike > ORDINARY;
  inTurn.took = () => took(inTurn.next === "compiled" ? 1 : 2);
}

const ran = (folder: string, flags: readonly string[]): Promise<Ran> =>
  started(folder, flags, async (run) => {
    withoutClock(run);
    await trainLoop(run);
    const events = await eventsIn(run),
      text = [...run.compiling, ...events.map(({ message }) => String(message))];
    const losses = events.flatMap(({ kind, loss, val_loss }) =>
      kind === "step" || kind === "epoch" ? [loss, val_loss] : []
    );
    const state = [...contents(latestPath(run.paths))].filter(([at]) =>
      !/config|seconds|wandb|\/run$/.test(at)
    );
    return { way: wayOf(text), losses: JSON.stringify(losses), state: JSON.stringify(state) };
  });

function wayOf(told: readonly string[]): string {
  const against = told.find((line) => /^Steps are not compiled|so steps run op by op/.test(line));
  if (against !== undefined) {
    return `op by op (${against.replace(/^Steps are not compiled: /, "").slice(0, 90)})`;
  }
  return told.some((line) => line.startsWith("Steps are compiled: ")) ? "compiled" : "op by op";
}

/** By their names: the flags of each. */
function asked([first, ...rest]: readonly string[]): [string, readonly string[]][] {
  if (!first?.endsWith("/")) {
    const all = Object.values(PARTS.models).flatMap(({ names }) => names).filter((name) => name !== NO_DATA);
    const names = first === undefined ? all : [first, ...rest];
    return names.map((
      name,
    ) => [name, [...SYNTHETIC, `--model=${name}`, ...SMALL[name] ?? ["--input-size=32"]]]);
  }
  const files = new Set([...Deno.readDirSync(first)].map(({ name }) => name));
  const all = [...files].filter((name) => name.endsWith(".pt2")).map((name) => name.slice(0, -4)).sort()
    .filter((name) => files.has(`${name}.json`));
  return (rest.length > 0 ? rest : all).map((name) => {
    const told = JSON.parse(Deno.readTextFileSync(join(first, `${name}.json`)));
    return [name, [...startOf(told, join(first, name)), ...FLAGS.split(" ")]];
  });
}

const rows: string[][] = [];
for (const [name, flags] of asked(Deno.args)) {
  const folder = Deno.makeTempDirSync();
  try {
    const own = await ran(`${folder}/auto`, [...flags, ...LAST, "--compile=auto"]);
    const plain = await ran(`${folder}/off`, [...flags, ...LAST, "--compile=off"]);
    const equal = own.losses === plain.losses && own.state === plain.state;
    rows.push([
      name,
      own.way,
      equal ? "equal" : own.losses === plain.losses ? "**another checkpoint**" : "**other losses**",
    ]);
  } catch (error) {
    rows.push([name, "-", `failed: ${String(error).slice(0, 80)}`]);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
  console.error(rows.at(-1)!.join(": "));
}
console.log(table(["Model", "--compile=auto", "losses and checkpoint beside --compile=off"], rows));
Deno.exit(rows.some(([, , outcome]) => outcome !== "equal") ? 1 : 0);
