// Tells whether a published result belongs to the code beside it. Results carry the commit and a fingerprint of what they
// measure; a section of the page whose code has changed since says so in its first line, which `./scripts/bench age` writes.
import { createHash } from "node:crypto";
import { join } from "@std/path";

const root = new URL("..", import.meta.url).pathname;
const page = join(root, "docs/benchmarks.md"), results = join(root, "bench/results");

/** A change of these makes the results of a section old. */
export const MEASURED: Readonly<Record<string, readonly string[]>> = {
  step: ["ffi", "core/models", "core/train"],
  loader: ["ffi", "core/data"],
  maps: ["ffi", "core/data"],
  save: ["ffi", "core/checkpoint", "core/train"],
  shards: ["ffi", "core/models", "core/train"],
  files: ["main.ts", "commands", "core", "extensions", "ffi"],
  ddp: ["ffi", "core/ranks", "core/models", "core/train"],
  allreduce: ["ffi", "core/ranks"],
  track: ["core/run", "core/outputs", "core/train"],
  exported: ["ffi", "core/models/exported", "core/train"],
  overlap: ["ffi", "core/ranks", "core/train"],
  generate: ["ffi", "core/predict/decoder.ts", "core/predict/generate.ts", "core/predict/sampling.ts"],
  predict: ["ffi", "core/outputs/prediction.ts", "core/ranks", "core/models", "core/train"],
  meeting: ["core/ranks", "core/checkpoint"],
  compile: ["ffi", "core/compile", "core/models", "core/train"],
  cpusteps: ["ffi", "core/compile", "core/models", "core/train", "core/run"],
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

/** Null for a result of the code that is here. */
export function older({ section, date, code }: Result): string | null {
  if (code?.fingerprint === fingerprint(MEASURED[section])) return null;
  const at = code?.commit ? `commit ${code.commit}, ${date}` : date;
  return `_Older than the code: measured at ${at}; ${list(MEASURED[section])} changed since._`;
}

const list = (code: readonly string[]) =>
  `what it measures (${code.map((path) => `\`${path}\``).join(", ")}) has`;

/** The page with that line in the sections of old results, and without it in the others. */
export function marked(text: string, found: readonly Result[] = publishedResults()): string {
  return text.replaceAll(
    /(<!-- ([\w-]+): written by [^>]+ -->\s+## [^\n]+\n)(\s*_Older than the code: [^_]+_\n)?/g,
    (all, head: string, name: string) => {
      const lines = found.filter(({ section }) => section === name).map(older);
      if (lines.length === 0) return all;
      const line = lines.find((each) => each !== null);
      return line ? `${head}\n${line}\n` : head;
    },
  );
}

/** `./scripts/bench age`: brings those lines up to date; a benchmark that is run again takes its own away. */
export function markPage(): void {
  Deno.writeTextFileSync(page, marked(Deno.readTextFileSync(page)));
  new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", page], cwd: root }).outputSync();
}
