// Tells whether a published result belongs to the code beside it. Results carry the commit and a fingerprint of what they
// measure; a page whose code has changed since says so below its title, in a line which `./scripts/bench age` writes.
import { createHash } from "node:crypto";
import { join } from "paths";
import { existsSync } from "node:fs";

const root = new URL("..", import.meta.url).pathname;
const results = join(root, "bench/results");

/** A change of these makes the results of a page old. */
export const MEASURED: Readonly<Record<string, readonly string[]>> = {
  step: ["ffi", "core/compile", "core/models", "core/run", "core/train"],
  loader: ["ffi", "core/data"],
  maps: ["ffi", "core/data"],
  curves: ["ffi", "core/data", "core/models", "core/train", "presets"],
  save: ["ffi", "core/checkpoint", "core/train"],
  shards: ["ffi", "core/models", "core/train"],
  jobs: ["main.ts", "commands", "core", "extensions", "ffi"],
  files: ["main.ts", "commands", "core", "extensions", "ffi"],
  ddp: ["ffi", "core/ranks", "core/models", "core/train"],
  allreduce: ["ffi", "core/ranks"],
  track: ["core/run", "core/outputs", "core/train"],
  exported: ["ffi", "core/models/exported", "core/train"],
  overlap: ["ffi", "core/ranks", "core/train"],
  generate: ["ffi", "core/predict/decoder.ts", "core/predict/generate.ts"],
  predict: ["ffi", "core/outputs/prediction.ts", "core/ranks", "core/models", "core/train"],
  meeting: ["core/ranks", "core/checkpoint"],
  compile: ["ffi", "core/compile", "core/models", "core/train"],
  gpusteps: ["ffi", "core/compile", "core/models", "core/train"],
};

/** A result's mark of the code that it measured. */
export interface Code {
  /** For people; null where there is no git. */
  readonly commit: string | null;
  /** A hash of the files' names and texts. */
  readonly fingerprint: string;
}

/** "loader-amd-epyc" belongs to "loader". */
const sectionOf = (file: string): string | undefined =>
  Object.keys(MEASURED).find((section) => file === section || file.startsWith(`${section}-`));

/** For a results file of this name; null where nobody has said what it measures. */
export function codeOf(file: string): Code | null {
  const section = sectionOf(file);
  return section === undefined ? null : { commit: commitNow(), fingerprint: fingerprint(MEASURED[section]) };
}

export function fingerprint(code: readonly string[]): string {
  const hash = createHash("sha256");
  for (const path of code.flatMap(sourcesIn).sort()) {
    hash.update(`${path}\n${Deno.readTextFileSync(join(root, path))}\n`);
  }
  return hash.digest("hex").slice(0, 16);
}

function sourcesIn(path: string): string[] {
  if (path.endsWith(".ts")) return [path];
  return [...Deno.readDirSync(join(root, path))].flatMap(({ name, isDirectory }) =>
    isDirectory || name.endsWith(".ts") ? sourcesIn(`${path}/${name}`) : []
  );
}

function commitNow(): string | null {
  try {
    const { success, stdout } = new Deno.Command("git", { args: ["rev-parse", "--short", "HEAD"], cwd: root })
      .outputSync();
    return success ? new TextDecoder().decode(stdout).trim() : null;
  } catch {
    return null;
  }
}

interface Result {
  readonly section: string;
  readonly date: string;
  readonly code?: Code;
}

export function publishedResults(): Result[] {
  return [...Deno.readDirSync(results)].flatMap(({ name }) => {
    const section = sectionOf(name.replace(/\.json$/, ""));
    if (!name.endsWith(".json") || section === undefined) return [];
    const { date, code } = JSON.parse(Deno.readTextFileSync(join(results, name)));
    return [{ section, date, code }];
  });
}

export const isOfThisCode = (section: string, code: Code | null | undefined): boolean =>
  code?.fingerprint === fingerprint(MEASURED[section]);

/** Null for a result of the code that is here. */
export function older({ section, date, code }: Result): string | null {
  if (isOfThisCode(section, code)) return null;
  const at = code?.commit ? `commit ${code.commit}, ${date}` : date;
  return `_Older than the code: measured at ${at}; ${list(MEASURED[section])} changed since._`;
}

const list = (code: readonly string[]) =>
  `what it measures (${code.map((path) => `\`${path}\``).join(", ")}) has`;

/** The pages of bench/results that have an age, by the name of the benchmark. */
export function agingPages(): Record<string, string> {
  const names = Object.keys(MEASURED).map((name) => [name, join(results, `${name}.md`)]);
  return Object.fromEntries(
    names.filter(([, path]) => existsSync(path)).map(([name, path]) => [name, Deno.readTextFileSync(path)]),
  );
}

/** The page of these results with that line below its title if one of them is old, and without it otherwise. */
export function marked(page: string, found: readonly Result[]): string {
  const bare = page.replace(/^(# [^\n]+\n)\s*_Older than the code: [^_]+_\n/, "$1");
  const line = found.map(older).find((each) => each !== null);
  return line ? bare.replace("\n", `\n\n${line}\n`) : bare;
}

/** The names of the pages that say another age than they have, each with what it has to say. */
export function wrongAges(
  pages: Readonly<Record<string, string>> = agingPages(),
  found: readonly Result[] = publishedResults(),
): Record<string, string> {
  const right = Object.entries(pages).map(([name, page]) =>
    [name, marked(page, found.filter(({ section }) => section === name))] as const
  );
  return Object.fromEntries(right.filter(([name, page]) => page !== pages[name]));
}

/** `./scripts/bench age`: brings those lines up to date, or with --check says which are wrong and ends with code 1. */
export function runAge(check: boolean): number {
  const wrong = wrongAges();
  if (check && Object.keys(wrong).length > 0) {
    console.error(
      `These pages of bench/results do not say how old they are: ${Object.keys(wrong).join(", ")}. ` +
        "Measure again, or run ./scripts/bench age.",
    );
    return 1;
  }
  for (const [name, page] of Object.entries(wrong)) Deno.writeTextFileSync(join(results, `${name}.md`), page);
  return 0;
}
