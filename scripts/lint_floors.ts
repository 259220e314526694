// The linter of floors: a file imports its own floor and those below it, and values never go round in a circle. Where a
// floor has floors of its own, types don't go round either. An extension knows no other one, and is loaded by the list of
// core/parts.ts alone. docs/architecture.md draws the floors in this order.
import { dirname, join } from "node:path";
import { sourceFiles } from "./lib/source_files.ts";

/** From the ground up. A folder that stands further down in this list is on a higher floor. */
export const FLOORS: readonly (readonly string[])[] = [
  ["deps"],
  ["core/base", "core/parts.ts"],
  ["ffi"],
  ["core/compile"],
  ["core/settings"],
  ["core/checkpoint"],
  ["core/run"],
  ["core/models"],
  ["core/data/codecs"],
  ["core/data/arrays"],
  ["core/data/augment"],
  ["core/data/source"],
  ["core/data/loader"],
  ["core/data/transforms"],
  ["core/data/images"],
  ["core/data/preview"],
  ["core/data/format.ts"],
  ["core/data/tables"],
  ["core/data/text"],
  ["core/data/shards"],
  ["core/data/writers"],
  ["core/data/formats", "core/data/synthetic", "core/data/user"],
  ["core/data/open"],
  ["core/ranks"],
  ["core/train"],
  ["core/outputs"],
  ["core/cluster"],
  ["core/predict", "core/export", "core/adopt"],
  ["extensions"],
  ["commands", "main.ts", "mod.ts"],
];

/**
 * The floors of training, from its ground, which has all that is not named here. Types count: none of these is known to
 * what stands below it.
 */
const TRAINING: readonly (readonly string[])[] = [
  ["gradients", "step.ts", "captured_step.ts", "user_step.ts"],
  [
    "finders",
    "weight_update.ts",
    "evaluate.ts",
    "monitor.ts",
    "media.ts",
    "examples.ts",
    "diagnostics.ts",
    "held_diagnostics.ts",
  ],
  ["rank_group.ts", "record.ts", "pauses.ts", "deferred_metrics.ts"],
  ["setup", "trainer.ts"],
  ["epoch.ts", "epoch_end.ts", "loop.ts"],
  ["summary.ts", "run.ts"],
];

const trainingFloorOf = (file: string): number =>
  TRAINING.findLastIndex((names) => names.some((name) => `${file}/`.startsWith(`core/train/${name}/`)));

/** Rooms of one floor that know nothing of each other: what both need stands beside them. */
const APART: readonly (readonly [string, string])[] = [
  ["core/compile/x86", "core/compile/cuda"],
];

/** No import in one of these leads back to its file, be it of a value or of a type. */
const WITHOUT_CIRCLES: readonly string[] = ["core/compile", "core/data", "core/train"];

export interface Import {
  readonly from: string;
  readonly to: string;
  /** True of `import type`, and where all names are types: it is gone when the program runs. */
  readonly typeOnly: boolean;
}

const IMPORT =
  /\b(?:import|export)\s+(type\s+)?(\{[^}]*\}|\*(?:\s+as\s+\w+)?|\w+)?\s*(?:from\s*)?"(\.[^"]+)"/g;
const LAZY = /\bimport\(\s*"(\.[^"]+)"/g;

/** The imports of one file, when it is loaded and later; paths from the root of the repository. */
export function importsOf(file: string, source: string): { atLoad: Import[]; later: Import[] } {
  const code = source.replace(/^[ \t]*(\/\/|\*|\/\*).*$/gm, "");
  const to = (path: string) => join(dirname(file), path);
  const atLoad = [...code.matchAll(IMPORT)].map(([, type, names, path]) => ({
    from: file,
    to: to(path),
    typeOnly: type !== undefined || (names?.startsWith("{") === true && namesAreTypes(names)),
  }));
  const later = [...code.matchAll(LAZY)].map(([, path]) => ({ from: file, to: to(path), typeOnly: false }));
  return { atLoad, later };
}

const namesAreTypes = (names: string): boolean =>
  names.slice(1, -1).split(",").map((name) => name.trim()).filter(Boolean)
    .every((name) => name.startsWith("type "));

/** -1 for what is on no floor: data files beside the code. */
export const floorOf = (file: string): number =>
  FLOORS.findIndex((folders) => folders.some((folder) => file === folder || file.startsWith(`${folder}/`)));

export const goesUp = ({ from, to }: Import): boolean =>
  floorOf(to) > floorOf(from) || floorOf(to) === floorOf(from) && trainingFloorOf(to) > trainingFloorOf(from);

/** It loads extensions and imports nothing. */
const LIST = "core/parts.ts";

/** The folder of the extension that a file belongs to; undefined of others. */
const extensionOf = (file: string): string | undefined => /^extensions\/[^/]+/.exec(file)?.[0];

/** An extension is somebody else's business only through the list. */
const isFromOutside = ({ from, to }: Import): boolean =>
  extensionOf(to) !== undefined && extensionOf(to) !== extensionOf(from);

const joins = ({ from, to }: Import): boolean =>
  APART.some((rooms) => {
    const [own, other] = [from, to].map((file) => rooms.find((room) => file.startsWith(`${room}/`)));
    return own !== undefined && other !== undefined && own !== other;
  });

/** The files of each circle of these imports. */
export function circles(imports: readonly Import[]): string[][] {
  const next = Map.groupBy(imports, ({ from }) => from);
  const seen = new Map<string, "open" | "done">(), found: string[][] = [], path: string[] = [];
  const visit = (file: string): void => {
    if (seen.get(file) === "open") found.push([...path.slice(path.indexOf(file)), file]);
    if (seen.has(file)) return;
    seen.set(file, "open");
    path.push(file);
    for (const { to } of next.get(file) ?? []) visit(to);
    path.pop();
    seen.set(file, "done");
  };
  [...next.keys()].forEach(visit);
  return found;
}

/** Circles of values anywhere, and of types within the folders that have none. */
export const circlesIn = (imports: readonly Import[]): string[][] => [
  ...circles(imports.filter(({ typeOnly }) => !typeOnly)),
  ...WITHOUT_CIRCLES.flatMap((folder) => {
    const inside = imports.filter(({ from, to }) =>
      [from, to].every((file) => file.startsWith(`${folder}/`))
    );
    return inside.some(({ typeOnly }) => typeOnly) ? circles(inside) : [];
  }),
];

if (import.meta.main) {
  const files = FLOORS.flat().flatMap(sourceFiles).filter((file) => !/\/templates\//.test(file));
  const imports = files.map((file) => importsOf(file, Deno.readTextFileSync(file)));
  const atLoad = imports.flatMap(({ atLoad }) => atLoad),
    all = [...atLoad, ...imports.flatMap(({ later }) => later).filter(({ from }) => from !== LIST)];
  const strangers = all.filter(({ from, to }) =>
    floorOf(from) < 0 || (floorOf(to) < 0 && to.endsWith(".ts"))
  );
  for (const { from, to } of all.filter(goesUp)) {
    console.error(`${from} imports ${to}, which is on a higher floor.`);
  }
  for (const { from, to } of all.filter(isFromOutside)) {
    console.error(`${from} imports ${to}: an extension is loaded by ${LIST} alone.`);
  }
  for (const { from, to } of all.filter(joins)) {
    console.error(`${from} imports ${to}: these rooms know nothing of each other.`);
  }
  for (const { from, to } of strangers) console.error(`${from} imports ${to}, which is on no floor.`);
  const round = circlesIn(atLoad);
  for (const circle of round) console.error(`A circle of imports: ${circle.join(" -> ")}`);
  const found = [goesUp, isFromOutside, joins].reduce((n, wrong) => n + all.filter(wrong).length, 0) +
    strangers.length + round.length;
  Deno.exit(found > 0 ? 1 : 0);
}
