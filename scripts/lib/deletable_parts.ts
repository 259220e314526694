// The parts of the program that can be taken away, and what goes with each: its files, its line, and the tests, benches and
// scripts that import one of them.
import { dirname, join } from "node:path";
import { importsOf } from "../lint_floors.ts";

export interface Edit {
  readonly path: string;
  /** These lines of the file go, from 0. */
  readonly lines: readonly number[];
}

export interface Part {
  readonly name: string;
  readonly kind:
    | "extension"
    | "kind of data"
    | "output"
    | "model"
    | "command"
    | "engine"
    | "scheduler"
    | "floor";
  /** Files and folders. */
  readonly takes: readonly string[];
  readonly edits: readonly Edit[];
  /** Files whose behaviour the edits change: those that read the list. */
  readonly seam: readonly string[];
}

const LIST = "core/parts.ts", COMMANDS = "commands/mod.ts";
/** The program is not one without these, presets name these models, and data without a path is synthetic. */
const STAYS = ["train", "help", "config", "presets", "mlp", "convnets", "synthetic"];

const read = (path: string): string => Deno.readTextFileSync(path);

/** `files` are those of the repository; paths are from its root, which is the working folder. */
export function partsOf(files: readonly string[]): Part[] {
  const program = files.filter(isOfProgram);
  return [...listed(program), ...commands(program), ...floors(program)]
    .filter(({ name }) => !STAYS.includes(name));
}

export const isOfProgram = (path: string): boolean =>
  /^(main|mod)\.ts$|^(core|ffi|commands|extensions|deps)\//.test(path) && /\.ts$/.test(path) &&
  !/\/(tests|templates)\//.test(path);

interface Line {
  readonly seam: string;
  readonly name: string;
  readonly loads: string;
  readonly edit: Edit;
}

/** The lines of core/parts.ts. */
function linesOfList(): Line[] {
  const found: Line[] = [];
  let seam = "";
  for (const [i, line] of read(LIST).split("\n").entries()) {
    seam = /^ {2}(\w+): \{$/.exec(line)?.[1] ?? seam;
    const entry = /^ {4}"?([\w-]+)"?: \{.* import\("(.+?)"\).* \},$/.exec(line);
    if (!entry) continue;
    const [, name, to] = entry;
    found.push({ seam, name, loads: join("core", to), edit: { path: LIST, lines: [i] } });
  }
  return found;
}

const KINDS: Readonly<Record<string, Part["kind"]>> = {
  outputs: "output",
  formats: "kind of data",
  models: "model",
  gpuEngines: "engine",
  cpuEngines: "engine",
  schedulers: "scheduler",
};
/** Only these parts call this of the native layer. */
const OF_FFI: Readonly<Record<string, readonly string[]>> = { nccl: ["ffi/nccl"], mpi: ["ffi/mpi"] };

function listed(program: readonly string[]): Part[] {
  const lines = linesOfList().filter(({ seam }) => seam !== "compilers"), // a floor, below
    isTwice = (name: string) => lines.filter((line) => line.name === name).length > 1;
  return lines.map(({ seam, name, loads, edit }) => {
    const folder = /^extensions\/[^/]+/.exec(loads)?.[0];
    const own = folder ?? (/^core\/(outputs|data\/formats|ranks)\//.test(loads) ? dirname(loads) : loads);
    const isShared = lines.some((line) => line.name !== name && line.loads === loads);
    const files = isShared ? [] : [own, ...OF_FFI[name] ?? []];
    return {
      name: isTwice(name) ? `${seam}/${name}` : name,
      kind: folder ? "extension" : KINDS[seam],
      takes: files.flatMap((path) => [path, join("tests", path)]),
      edits: [edit],
      seam: readersOf(seam, program),
    };
  });
}

const readersOf = (seam: string, program: readonly string[]): string[] =>
  program.filter((path) => path !== LIST && read(path).includes(`PARTS.${seam}`));

/** An entry of the table of commands, its file, and what of commands/run nobody else imports. */
function commands(program: readonly string[]): Part[] {
  const lines = read(COMMANDS).split("\n");
  const starts = lines.flatMap((line, i) => line === "  {" && /^ {4}name: /.test(lines[i + 1]) ? [i] : []);
  const entries = starts.map((start) => {
    const end = lines.indexOf("  },", start), text = lines.slice(start, end + 1).join("\n");
    return {
      name: /name: "(.+?)"/.exec(text)![1],
      file: join("commands", /import\("(.+?)"\)/.exec(text)![1]),
      edit: { path: COMMANDS, lines: Array.from({ length: end + 1 - start }, (_, i) => start + i) },
    };
  });
  return entries.map(({ name, file, edit }) => {
    const shared = entries.some((other) => other.name !== name && other.file === file);
    const takes = shared ? [] : withOrphans(file, program.filter((path) => path.startsWith("commands/")));
    return { name, kind: "command", takes, edits: [edit], seam: [COMMANDS] };
  });
}

/** With the files of `among` that only it and they import; nothing where others need it. */
function withOrphans(file: string, among: readonly string[]): string[] {
  const gone = new Set([file]);
  const importers = Map.groupBy(among.flatMap(allImports), ({ to }) => to);
  for (let before = 0; before < gone.size;) {
    before = gone.size;
    for (const path of among) {
      const by = importers.get(path) ?? [];
      if (by.length > 0 && by.every(({ from }) => gone.has(from))) gone.add(path);
    }
  }
  const isNeeded = (importers.get(file) ?? []).some(({ from }) => from !== COMMANDS && !gone.has(from));
  return isNeeded ? [] : [...gone];
}

export function allImports(path: string): { from: string; to: string }[] {
  const { atLoad, later } = importsOf(path, read(path));
  const addresses = [...read(path).matchAll(/new URL\("(\.[^"]+\.ts)", import\.meta\.url\)/g)]
    .map(([, to]) => ({ from: path, to: join(dirname(path), to) }));
  return [...atLoad, ...later, ...addresses];
}

/** Whole folders that a seam should carry. */
function floors(program: readonly string[]): Part[] {
  const command = commands(program).find(({ name }) => name === "export")!;
  const programs = linesOfList().filter(({ seam }) => seam === "programs");
  const list = programs.map(({ edit }) => edit);
  const folders = programs.map(({ loads }) => dirname(loads));
  const compiler = linesOfList().find(({ seam }) => seam === "compilers")!;
  const compiled = withOrphans(compiler.loads, program.filter((path) => path.startsWith("core/train/")));
  const readers = readersOf("compilers", program);
  const users = program.filter((path) => allImports(path).some(({ to }) => readers.includes(to)));
  const floor = (name: string, takes: string[], edits: Edit[] = [], seam: string[] = []): Part => ({
    name,
    kind: "floor",
    takes: [...takes, ...takes.map((path) => join("tests", path))],
    edits,
    seam: [...edits.map(({ path }) => path), ...seam],
  });
  return [
    floor("core/export", ["core/export", ...folders, ...command.takes], [...command.edits, ...list]),
    floor("core/compile", ["core/compile", ...compiled], [compiler.edit], [...readers, ...users]),
  ];
}
