// Figures to a file of results, and a text to a part of a page.
import { join } from "paths";
import { codeOf } from "./age.ts";

const root = new URL("..", import.meta.url).pathname;
/** The folder of all results and their pages. */
export const RESULTS = join(root, "bench/results");

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The keys of a record, with the type that its declaration gives them. */
export const keysOf = <K extends string>(record: Readonly<Record<K, unknown>>): K[] =>
  Object.keys(record) as K[];

/** A description of the machine without its names. */
export function machine() {
  const find = (path: string, pattern: RegExp) => pattern.exec(Deno.readTextFileSync(path))?.[1] ?? "unknown";
  return {
    cpu: find("/proc/cpuinfo", /model name\s*:\s*(.+)/),
    cores: navigator.hardwareConcurrency,
    memoryGiB: Math.round(Number(find("/proc/meminfo", /MemTotal:\s*(\d+)/)) / 2 ** 20),
    load: Number(Deno.loadavg()[0].toFixed(2)),
  };
}

export function versionsOf({ python, libtorch }: { python: string; libtorch: string }) {
  const program = "import json, platform, torch; " +
    "print(json.dumps({'python': platform.python_version(), 'torch': torch.__version__}))";
  const { stdout } = new Deno.Command(python, { args: ["-c", program] }).outputSync();
  const own = Deno.readTextFileSync(join(libtorch, "version.py"));
  return {
    ...JSON.parse(new TextDecoder().decode(stdout)) as { python: string; torch: string },
    libtorch: /__version__ = '([^']+)'/.exec(own)?.[1] ?? "unknown",
    deno: Deno.version.deno,
  };
}

export function writeResults(name: string, found: object, code = codeOf(name)): void {
  const results = { ...found, code };
  Deno.mkdirSync(RESULTS, { recursive: true });
  Deno.writeTextFileSync(join(RESULTS, `${name}.json`), JSON.stringify(results, null, 2) + "\n");
}

/** The page with `text` between the marks of `name`, which come at its end if it lacks them. `by` writes it. */
export function withSection(page: string, name: string, text: string, by: string): string {
  const [from, to] = [`<!-- ${name}: written by ${by} -->`, `<!-- end of ${name} -->`];
  const section = `${from}\n\n${text.trim()}\n\n${to}`;
  const start = page.indexOf(from), end = page.indexOf(to);
  if (start < 0 || end < start) return `${page.trimEnd()}\n\n${section}\n`;
  return page.slice(0, start) + section + page.slice(end + to.length);
}

export function writeSection(name: string, text: string, file: string, by: string): void {
  const path = join(root, file);
  Deno.writeTextFileSync(path, withSection(Deno.readTextFileSync(path), name, text, by));
  new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", path], cwd: root }).outputSync();
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map((_, i) => i === 0 ? "---" : "---:")), ...rows.map(line)].join("\n");
}
