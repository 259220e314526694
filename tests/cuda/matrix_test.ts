// Training on the CUDA stand-in gives the CPU's losses, op by op and captured, with work done at once and as late as
// possible, and does nothing that a GPU would punish.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { eventsOf, inTemp } from "../integration/program.ts";
import { trainedInPython } from "../core/models/exported/training.ts";
import { type Case, DATA, FEATURES, LARGE_MODELS, MLP, OTHER_MODELS, SHORT } from "./cases.ts";
import { type Ended, type Run, runAll, total, violations } from "./runs.ts";
import { onStandin } from "./standin.ts";

const NET = `export default ({ nn, ops, facts, outputs }) => {
  class Net extends nn.Module {
    first = this.child("first", new nn.Linear(facts.input.shape.reduce((a, b) => a * b, 1), 24));
    last = this.child("last", new nn.Linear(24, outputs));
    forward(x) { return this.last.forward(ops.relu(this.first.forward(ops.flatten(x, 1)))); }
  }
  return new Net();
};
`;
const ROWS = [
  "a,b,c",
  ...Array.from({ length: 48 }, (_, i) => `${Math.sin(i)},${Math.cos(3 * i)},${Math.sin(2 * i)}`),
];

async function prepare(cwd: string): Promise<void> {
  Deno.writeTextFileSync(join(cwd, "net.ts"), NET);
  Deno.writeTextFileSync(join(cwd, "data.ts"), DATA);
  Deno.writeTextFileSync(join(cwd, "rows.csv"), ROWS.join("\n") + "\n");
  const [{ path }] = await trainedInPython(["physics"], cwd);
  Deno.renameSync(path, join(cwd, "exported.pt2"));
}

/** libtorch knows no GPU if the CPU is used first. */
const WAYS = {
  now: "--device cuda --no-compile",
  late: "--device cuda --compile=exact",
  cpu: "--device cpu",
} as const;
type Way = keyof typeof WAYS;

/** What a case's runs are called: cases with the same flags on the CPU have one run there. */
interface Planned {
  readonly one: Case;
  readonly names: Readonly<Record<Way, string>>;
  readonly runs: readonly Run[];
}

function planOf(cases: readonly Case[], prefix: string): Planned[] {
  const onCpu = new Map<string, string>();
  return cases.map((one, k) => {
    const names = { now: `${prefix}${k}-now`, late: `${prefix}${k}-late`, cpu: `${prefix}${k}-cpu` };
    const runs = [...runsOf(one, "now", names.now), ...runsOf(one, "late", names.late)];
    const key = `${one.flags} ${one.resumed ?? false}`, known = onCpu.get(key);
    if (known !== undefined) return { one, names: { ...names, cpu: known }, runs };
    if (!one.alone) {
      onCpu.set(key, names.cpu);
      runs.push(...runsOf(one, "cpu", names.cpu));
    }
    return { one, names, runs };
  });
}

/** One run, or two. */
function runsOf({ flags, gpu = "", resumed }: Case, way: Way, name: string): Run[] {
  const late = way === "late";
  const words = [SHORT, flags, way === "cpu" ? "" : gpu, WAYS[way], `--run-name ${name}`];
  const args = words.join(" ").split(" ").filter((word) => word !== "");
  if (!resumed) return [{ args, late }];
  return [
    { args: [...args, "--epochs", "1"], late },
    { args: [...args, "--resume", `checkpoints/${name}_latest.pt`, "--run-name", `${name}-on`], late },
  ];
}

type Field = "loss" | "val_loss" | "grad_norm";

/** What the steps and epochs of a run came to. */
function numbers(
  cwd: string,
  name: string,
  fields: readonly Field[] = ["loss", "val_loss", "grad_norm"],
): number[] {
  const events = [...eventsOf(cwd, name), ...eventsOf(cwd, `${name}-on`)];
  return events.filter(({ kind }) => ["step", "eval", "epoch"].includes(kind))
    .flatMap((event) => fields.map((field) => event[field]))
    .filter((value): value is number => typeof value === "number");
}

/** Rates are f32 on a GPU. */
const ROUNDING = 1e-5;

/** Null where a case's runs agree. */
function fault(cwd: string, { one, names }: Planned, ends: readonly Ended[]): string | null {
  const { name, apart } = one;
  const wrong = ends.flatMap((end) => [
    ...(end.code === 0 ? [] : [`code ${end.code}: ${end.error}`]),
    ...violations(end),
  ]);
  if (wrong.length > 0) return `${name}: ${wrong.join("\n")}`;
  if (total(ends[0], "operator:") < 50) return `${name}: it did not compute on the stand-in`;
  const now = numbers(cwd, names.now), late = numbers(cwd, names.late);
  if (now.length < 4) return `${name}: only ${now}`;
  if (String(now) !== String(late)) return `${name}: late it is ${late}, and not ${now}`;
  if (one.alone) return null;
  const fields: Field[] = apart === undefined ? ["loss", "val_loss", "grad_norm"] : ["loss", "val_loss"];
  const here = numbers(cwd, names.cpu, fields), there = numbers(cwd, names.now, fields);
  if (here.length !== there.length) return `${name}: ${there}, and on the CPU ${here}`;
  const most = Math.max(...here.map((value, i) => Math.abs(value - there[i]) / Math.max(1, Math.abs(value))));
  return most <= (apart ?? ROUNDING)
    ? null
    : `${name}: it is ${most} from the CPU's: ${there}, and not ${here}`;
}

/** CUDA_CASES=resnet takes the cases whose names match. */
const WANTED = Deno.env.get("CUDA_CASES") ?? "";

/** In one process. */
async function faultsOf(cwd: string, all: readonly Case[], prefix: string): Promise<string[]> {
  const planned = planOf(all.filter(({ name }) => new RegExp(WANTED).test(name)), prefix);
  if (planned.length === 0) return [];
  const ends = await runAll(cwd, planned.flatMap(({ runs }) => runs));
  let at = 0;
  return planned.flatMap((one) => fault(cwd, one, ends.slice(at, at += one.runs.length)) ?? []);
}

onStandin(
  "each model and feature trains on the CUDA stand-in to the CPU's losses, with nothing that a GPU would punish",
  () =>
    inTemp(async (cwd) => {
      await prepare(cwd);
      const halves = await Promise.all([
        faultsOf(cwd, LARGE_MODELS, "model"),
        faultsOf(cwd, [...OTHER_MODELS, ...FEATURES], "feature"),
      ]);
      assertEquals(halves.flat(), []);
    }),
);

onStandin("TF32 rounds products on the CUDA stand-in", () =>
  inTemp(async (cwd) => {
    const args = `${SHORT} ${MLP} --device cuda --compile=exact --epochs 1`.split(" ");
    await runAll(cwd, [
      { args: [...args, "--tf32", "--run-name", "tf32"] },
      { args: [...args, "--run-name", "exact"] },
    ]);
    const rounded = numbers(cwd, "tf32"), exact = numbers(cwd, "exact");
    const apart = Math.abs(rounded[0] - exact[0]);
    assert(apart > 0 && apart < 1e-3, `${rounded[0]} and ${exact[0]}`);
  }));
