// The results of a GPU check: a file that is written after each check, so that a run which was cut off goes on, and the
// page that is made from it.
import { join } from "paths";
import { table } from "../report.ts";
import { gibOf, type SideName, SIDES, type StepTime } from "./speed.ts";

export interface Row {
  readonly name: string;
  /** Null: told, not judged. */
  readonly ok: boolean | null;
  readonly figure: string;
  readonly detail?: unknown;
  readonly seconds: number;
}

/** Results of other ones are not gone on with. */
interface Subject {
  readonly command: string;
  readonly device: string;
  readonly hpctrain: string;
  readonly libtorch: string;
}

export interface Results extends Subject {
  /** The day of the last check. */
  readonly date: string;
  readonly machine: unknown;
  readonly rows: readonly Row[];
  /** The checks that have yet to run. */
  readonly left: readonly string[];
  /** The check that has begun, and how often: it may be what cut the run off. */
  readonly begun?: { readonly name: string; readonly times: number } | null;
}

/** A check that cut so many runs off is not tried again. */
export const TRIES = 2;

export const slugOf = (device: string): string =>
  device.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-").replace(/-$/, "");

const pathOf = (folder: string, device: string) => join(folder, `gpu-check-${slugOf(device)}`);

/** Null where there is nothing to go on with. */
export function unfinished(folder: string, subject: Subject): Results | null {
  let known: Results;
  try {
    known = JSON.parse(Deno.readTextFileSync(`${pathOf(folder, subject.device)}.json`));
  } catch {
    return null; // no file, or one that was cut off
  }
  const same = (["command", "device", "hpctrain", "libtorch"] as const).every((key) =>
    known[key] === subject[key]
  );
  return same && (known.left?.length ?? 0) > 0 ? known : null;
}

export function writeFound(folder: string, found: Results): void {
  Deno.mkdirSync(folder, { recursive: true });
  const path = pathOf(folder, found.device);
  const place = (ending: string, text: string) => {
    Deno.writeTextFileSync(`${path}${ending}.new`, text);
    Deno.renameSync(`${path}${ending}.new`, `${path}${ending}`);
  };
  place(".json", JSON.stringify(found, null, 2) + "\n");
  place(".md", pageOf(found));
}

function pageOf(found: Results): string {
  const { device, command, date, hpctrain, libtorch, left, rows } = found;
  return [
    `# GPU check: ${device}`,
    `\`${command}\` on ${date}, hpctrain ${hpctrain}, libtorch ${libtorch}: ${
      rows.filter(({ ok }) => ok).length
    } of ` +
    `${rows.length} checks passed.`,
    ...(left.length > 0 ? [`${left.length} checks are left: the same command goes on.`] : []),
    ...speedOf(rows),
    "## All checks",
    `${tableOf(rows)}\n`,
  ].join("\n\n");
}

const words = (ok: boolean | null) => ok === null ? "not judged" : ok ? "yes" : "NO";

export const tableOf = (rows: readonly Row[]): string =>
  table(
    ["check", "figure", "ok"],
    rows.map(({ name, figure, ok }) => [name, figure.replaceAll("|", "/"), words(ok)]),
  );

export function summaryOf(rows: readonly Row[], device: string): string {
  const count = (ok: boolean | null) => rows.filter((row) => row.ok === ok).length;
  return `${count(true)} passed, ${count(false)} failed, ${count(null)} not judged on ${device}`;
}

/** These rows' figures stand beside the step times. */
const FIGURES = [
  "images from memory, normalised, to the device",
  "saves beside training",
  "two ranks by NCCL: all-reduce",
  "two ranks by NCCL train to the losses of one",
];

/** The step times, and what else was timed; nothing before a step was. */
export function speedOf(rows: readonly Row[]): string[] {
  const steps = rows.filter(({ name, detail }) =>
    name.startsWith("step time: ") && (detail as Partial<StepTime> | undefined)?.spec
  )
    .map(({ detail }) => detail as StepTime);
  if (steps.length === 0) return [];
  const sides = Object.keys(SIDES) as SideName[];
  const head = sides.map((side) => SIDES[side]);
  const times = steps.map(({ spec, medians, beginnings }) => [
    spec.title,
    ...sides.map((side) => {
      const ms = medians[side];
      if (ms === undefined) return "";
      const ratio = medians.eager === undefined ? "" : ` (${(medians.eager / ms).toFixed(2)}x)`;
      return [`${ms.toFixed(3)} ms${ratio}`, ...gibOf(beginnings[side]!.memory)].join(", ");
    }),
  ]);
  const apart = steps.filter(({ beginnings }) =>
    Object.values(beginnings).some(({ memory }) => memory !== null)
  );
  const starts = apart.map(({ spec, beginnings }) => [
    spec.title,
    ...sides.map((side) => {
      const began = beginnings[side];
      return began === undefined || began.memory === null
        ? ""
        : `${began.first.toFixed(1)} s, ${began.warm.toFixed(1)} s`;
    }),
  ]);
  const gpt = steps.find(({ tokensPerSecond }) => tokensPerSecond !== undefined);
  const speed = gpt === undefined ? [] : [
    `${gpt.spec.title}: ${(gpt.tokensPerSecond! / 1e3).toFixed(0)} thousand tokens a second` +
    `${gpt.mfu === undefined ? "" : `, ${(100 * gpt.mfu).toFixed(1)}% of the device's peak (MFU)`}.`,
  ];
  const figures = rows.filter(({ name, ok }) => FIGURES.includes(name) && ok !== null).map((
    { name, figure },
  ) => [name, figure]);
  return [
    "## Step times",
    `Beside PyTorch on the same machine, in rounds that take turns; in brackets the speed against eager${
      starts.length > 0 ? ", then the memory that the process took" : ""
    }.`,
    table(["Training step", ...head], times),
    ...speed,
    ...(starts.length === 0 ? [] : [
      "From the start of the process until its first step was done, and until it was warm (five steps: captured, compiled):",
      table(["Training step", ...head], starts),
    ]),
    ...(figures.length > 0 ? [table(["Beside the step", "Found"], figures)] : []),
  ];
}
