// Takes parts of the program away, each in a copy: types are checked, and the tests whose imports changed are run. Started by
// scripts/deletable: without names it goes on with those that this commit has no result of.
import { dirname, join } from "node:path";
import { allImports, isOfProgram, type Part, partsOf } from "./deletable_parts.ts";

/** A place of its own, so that what Deno knows of the files' types serves the next part. */
const TREE = "dist/deletable/tree", RESULTS = "dist/deletable/results.json";
const CHECKED = [
  "main.ts",
  "mod.ts",
  "commands",
  "core",
  "examples",
  "extensions",
  "ffi",
  "scripts",
  "bench",
  "tests",
];

interface Result {
  readonly kind: Part["kind"];
  /** Lines of the program that went. */
  readonly lines: number;
  /** Tests, benches and scripts that went, as they import what is gone. */
  readonly tests: number;
  /** Lines that were taken out of other files; entries of several lines count as one. */
  readonly edits: number;
  /** These files of the rest import it: a seam is missing. */
  readonly heldBy: readonly string[];
  readonly types: "good" | "bad" | "not checked";
  readonly ran: string;
}

const git = (...args: string[]): string =>
  new TextDecoder().decode(new Deno.Command("git", { args, stderr: "null" }).outputSync().stdout);

const tracked = (): string[] => git("ls-files").split("\n").filter((path) => path !== "" && exists(path));

function exists(path: string): boolean {
  try {
    return Deno.lstatSync(path) !== null;
  } catch {
    return false;
  }
}

const isBelow = (path: string, places: readonly string[]): boolean =>
  places.some((place) => path === place || path.startsWith(`${place}/`));

interface Plan {
  readonly gone: ReadonlySet<string>;
  readonly heldBy: readonly string[];
  readonly tests: readonly string[];
  /** They import what was changed. */
  readonly run: readonly string[];
}

function planOf(part: Part, files: readonly string[], imports: ReadonlyMap<string, readonly string[]>): Plan {
  const gone = new Set(files.filter((path) => isBelow(path, part.takes)));
  const holds = (path: string) => !gone.has(path) && (imports.get(path) ?? []).some((to) => gone.has(to));
  const heldBy = files.filter((path) => isOfProgram(path) && path !== "core/parts.ts" && holds(path))
    .filter((path) => !part.edits.some((edit) => edit.path === path));
  const others = files.filter((path) => !isOfProgram(path));
  for (let before = 0; before < gone.size;) {
    before = gone.size;
    others.filter(holds).forEach((path) => gone.add(path));
  }
  const changed = new Set(
    [...part.seam, ...part.edits.map(({ path }) => path)].filter((path) => path !== "core/parts.ts"),
  );
  const touched = new Set<string>();
  for (let before = -1; before < touched.size;) {
    before = touched.size;
    for (const path of others) {
      if (!gone.has(path) && (imports.get(path) ?? []).some((to) => changed.has(to) || touched.has(to))) {
        touched.add(path);
      }
    }
  }
  const run = [...touched].filter((path) =>
    /_test\.ts$/.test(path) && !/^tests\/((integration|cuda|bench)\/|scripts\/deletable_test)/.test(path)
  );
  return { gone, heldBy, tests: [...gone].filter((path) => !isOfProgram(path)), run };
}

function lay(part: Part, files: readonly string[], gone: ReadonlySet<string>): void {
  if (exists(TREE)) Deno.removeSync(TREE, { recursive: true });
  for (const path of files.filter((path) => !gone.has(path))) {
    const to = join(TREE, path);
    Deno.mkdirSync(dirname(to), { recursive: true });
    Deno.copyFileSync(path, to);
  }
  for (const path of new Set(part.edits.map(({ path }) => path))) {
    const lines = new Set(part.edits.filter((edit) => edit.path === path).flatMap((edit) => edit.lines));
    const left = Deno.readTextFileSync(path).split("\n").filter((_, i) => !lines.has(i));
    Deno.writeTextFileSync(join(TREE, path), left.join("\n"));
  }
}

function deno(...args: string[]): { success: boolean; said: string } {
  const env = { NO_COLOR: "1" };
  const { success, stdout, stderr } = new Deno.Command(Deno.execPath(), {
    args,
    cwd: TREE,
    env,
    stdin: "null",
  })
    .outputSync();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { success, said: text(stdout) + text(stderr) };
}

function take(part: Part, files: readonly string[], imports: ReadonlyMap<string, readonly string[]>): Result {
  const { gone, heldBy, tests, run } = planOf(part, files, imports);
  const lines = [...gone].filter(isOfProgram)
    .reduce((sum, path) => sum + Deno.readTextFileSync(path).split("\n").length - 1, 0);
  const about = { kind: part.kind, lines, tests: tests.length, edits: part.edits.length, heldBy };
  if (heldBy.length > 0) return { ...about, types: "not checked", ran: "-" };
  lay(part, files, gone);
  const checked = deno("check", "--quiet", "--no-lock", ...CHECKED);
  if (!checked.success) {
    console.error(checked.said);
    return { ...about, types: "bad", ran: "-" };
  }
  if (run.length === 0) return { ...about, types: "good", ran: "none" };
  const ran = deno("test", "--allow-all", "--no-check", "--quiet", ...run);
  const [, passed = "0", failed = "1"] = /(\d+) passed(?: \([^)]*\))? \| (\d+) failed/.exec(ran.said) ?? [];
  if (!ran.success) console.error(ran.said);
  return {
    ...about,
    types: "good",
    ran: `${passed} passed, ${ran.success ? failed : Math.max(1, Number(failed))} failed`,
  };
}

const isGood = ({ types, ran }: Result): boolean =>
  types === "good" && (ran === "none" || / 0 failed$/.test(ran));

function table(results: ReadonlyMap<string, Result>): string {
  const rows = [["part", "kind", "lines", "tests", "places", "types", "tests run", "held by"]];
  for (const [name, { kind, lines, tests, edits, types, ran, heldBy }] of results) {
    const holders = heldBy.slice(0, 3).join(", ") +
      (heldBy.length > 3 ? ` and ${heldBy.length - 3} more` : "");
    rows.push([name, kind, String(lines), String(tests), String(edits), types, ran, holders]);
  }
  const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => row[i].length)));
  return rows.map((row) => row.map((cell, i) => cell.padEnd(widths[i])).join("  ").trimEnd()).join("\n");
}

/** Three of them, by the digits of a commit's hash; a floor's tests take minutes. */
function chosen(parts: Iterable<Part>, commit: string): string[] {
  const left = [...parts].filter(({ kind }) => kind !== "floor").map(({ name }) => name);
  return [0, 1, 2].map((i) => left.splice(parseInt(commit.slice(8 * i, 8 * i + 8), 16) % left.length, 1)[0]);
}

if (import.meta.main) {
  const files = tracked(), parts = new Map(partsOf(files).map((part) => [part.name, part]));
  const commit = git("rev-parse", "HEAD").trim() || "0".repeat(40);
  const clean = git("status", "--porcelain", "--untracked-files=no") === "";
  const names = Deno.args.includes("--three") ? chosen(parts.values(), commit) : Deno.args;
  const unknown = names.find((name) => !parts.has(name));
  if (unknown !== undefined) {
    console.error(`There is no part "${unknown}". They are ${[...parts.keys()].join(", ")}.`);
    Deno.exit(2);
  }
  const imports = new Map(
    files.filter((path) => /\.ts$/.test(path)).map((path) => [path, allImports(path).map(({ to }) => to)]),
  );
  const saved = exists(RESULTS) ? JSON.parse(Deno.readTextFileSync(RESULTS)) : {};
  const known: Record<string, Result> = saved.commit === commit && clean ? saved.results : {};
  const wanted = names.length > 0 ? names : [...parts.keys()];
  for (const name of wanted) {
    if (names.length === 0 && known[name]) continue;
    console.error(`Taking away ${name}`);
    known[name] = take(parts.get(name)!, files, imports);
    Deno.mkdirSync(dirname(RESULTS), { recursive: true });
    Deno.writeTextFileSync(RESULTS, JSON.stringify({ commit, results: known }, null, 1) + "\n");
  }
  const results = new Map(wanted.map((name) => [name, known[name]]));
  console.log(table(results));
  const bad = [...results].filter(([, result]) => !isGood(result)).map(([name]) => name);
  console.log(`${results.size - bad.length} of ${results.size} parts can be taken away`);
  Deno.exit(bad.length > 0 ? 1 : 0);
}
