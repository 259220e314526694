// `scripts/bench gpu`: steps on this machine's GPU by command line, beside a PyTorch script; gpu/measure.py times them. Where
// there is no GPU, the sections are written from the results that are there.
import { join } from "paths";
import { writePage } from "./page.ts";
import { table, writeResults } from "./report.ts";

const root = new URL("..", import.meta.url).pathname, RESULTS = join(root, "bench/results");

interface Measured {
  readonly command: string;
  readonly failed?: string;
  readonly ms?: number;
  readonly first_steps_s?: number;
  readonly memory_mib?: number;
  readonly compiled?: boolean;
}

interface Row {
  readonly title: string;
  readonly items: number;
  readonly unit: string;
  readonly ways: Readonly<Record<string, Measured>>;
}

interface Results {
  readonly device: string;
  readonly torch: string;
  /** Where the figures are of one commit, and how they came about. */
  readonly note?: string;
  readonly rows: Readonly<Record<string, Row>>;
}

export async function gpuBenchmark(
  { exe, python }: { exe: string; python: string },
  rows: readonly string[],
) {
  if ([...Deno.readDirSync("/dev")].some(({ name }) => /^nvidia\d+$/.test(name))) {
    const args = [join(root, "bench/gpu/measure.py"), exe, ...rows];
    const { success } = await new Deno.Command(python, { args, stdout: "inherit", stderr: "inherit" }).spawn()
      .status;
    if (!success) throw new Error("bench/gpu/measure.py failed; the reason is above.");
    // The marks of the code that is here: what was measured before is measured again by its name.
    const name = newest(), results = JSON.parse(Deno.readTextFileSync(join(RESULTS, `${name}.json`)));
    writeResults(name, results);
  }
  const found = [...Deno.readDirSync(RESULTS)].map(({ name }) => name).filter((name) =>
    /^gpusteps-.+\.json$/.test(name)
  );
  const texts = found.toSorted().map((name) =>
    sectionOf(JSON.parse(Deno.readTextFileSync(join(RESULTS, name))))
  );
  writePage("gpusteps", ["# Steps on a GPU by command line", ...texts].join("\n\n"));
}

/** The results that were written last, without the ending. */
function newest(): string {
  const files = [...Deno.readDirSync(RESULTS)].map(({ name }) => name).filter((name) =>
    /^gpusteps-.+\.json$/.test(name)
  );
  const time = (name: string) => Deno.statSync(join(RESULTS, name)).mtime!.getTime();
  return files.toSorted((a, b) => time(b) - time(a))[0].replace(/\.json$/, "");
}

export function sectionOf({ device, torch, note, rows }: Results): string {
  const lines = Object.values(rows).flatMap(({ title, items, unit, ways }) =>
    Object.entries(ways).map(([way, one]) => [title, way, ...figuresOf(one, items, unit)])
  );
  const commands = Object.values(rows).flatMap(({ ways }) =>
    Object.values(ways).map(({ command }) => `    ${command}`)
  );
  return [
    `## ${device}`,
    `\`./scripts/bench gpu\`, libtorch ${torch}: whole processes with the command lines below, their own events as the ` +
    `clock; PyTorch's script has its batch on the GPU. ${note ?? ""}`.trim(),
    table(["Training step", "How", "A step", "A second", "First ten steps done after", "GPU memory"], lines),
    commands.join("\n"),
  ].join("\n\n");
}

function figuresOf(
  { ms, first_steps_s, memory_mib, failed }: Measured,
  items: number,
  unit: string,
): string[] {
  if (ms === undefined) return [failed ?? "", "", "", ""];
  const rate = Math.round(items / ms * 1000),
    many = rate >= 10_000 ? `${Math.round(rate / 1000)}k` : String(rate);
  return [
    `${ms.toPrecision(3)} ms`,
    `${many} ${unit}`,
    first_steps_s === undefined ? "" : `${first_steps_s} s`,
    memory_mib === undefined ? "" : `${(memory_mib / 1024).toFixed(1)} GiB`,
  ];
}
