// The table "Where the next thing goes" of docs/architecture.md, followed by the letter: a copy of the sources gets a
// made-up thing of each kind in the places that the table names, and the program runs from there.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { basename, dirname, fromFileUrl, join } from "paths";
import { existsSync } from "node:fs";
import { environment, filesIn, finish, inTemp } from "./integration/program.ts";
import { tensors } from "./integration/ranks.ts";

const ROOT = fromFileUrl(new URL("../", import.meta.url));
/** What the program is made of, and what makes the ops that users see. */
const SOURCES = [
  "core",
  "extensions",
  "ffi",
  "commands",
  "deps",
  "presets",
  "main.ts",
  "mod.ts",
  "deno.json",
  "deno.lock",
];
const MAKERS = ["scripts/user_ops.ts", "scripts/op_sentences.ts"];
/** What the program is not made of: other tests prove that these have a row for each op, model and so on. */
const BESIDE = /^(tests|docs|examples)\//;

/** The pages about the code, which name its files. */
const DESIGN = [...Deno.readDirSync(join(ROOT, "docs/design"))].map(({ name }) => `docs/design/${name}`);
const PAGES = ["docs/architecture.md", "docs/glossary.md", "docs/dependencies.md", ...DESIGN];

/** The paths that each row of the table names. */
function table(): Map<string, string[]> {
  const [, page] = Deno.readTextFileSync(join(ROOT, "docs/architecture.md")).split(
    "## Where the next thing goes",
  );
  const rows = page.split("\n").filter((line) => line.startsWith("| ")).slice(2);
  return new Map(rows.map((row) => {
    const [, kind, places] = row.split("|").map((cell) => cell.trim());
    return [kind, [...places.matchAll(/`([\w./]+\/[\w./]+)`/g)].map(([, path]) => path)];
  }));
}

interface Place {
  readonly path: string;
  /** The text of a new file, or what is put into the one that is there: at its end, or behind the text `after`. */
  readonly text: string;
  readonly after?: string;
}

/** By the rows of the table. The op is made in the model, and the file of the data has the format's ending. */
const MADE_UP: Readonly<Record<string, readonly Place[]>> = {
  "an op": [
    { path: "ffi/ops.ts", text: `export const madeUp = aten("deg2rad(Tensor self) -> Tensor");\n` },
    {
      path: "scripts/op_sentences.ts",
      after: "export const SENTENCES: Readonly<Record<string, string>> = {\n",
      text: `  madeUp: "Degrees as radians.",\n`,
    },
  ],
  "a model": [
    {
      path: "core/models/zoo/NAME.ts",
      text: `import { block, type Model, model } from "../model.ts";
import type { Build } from "../builder.ts";
import { Linear } from "../nn/linear.ts";
import * as ops from "../user/ops.ts";
function madeUp(inputs: number, outputs: number): Model {
  const layer = new Linear(inputs, outputs);
  return model("made-up", layer, [block("all", layer, (x) => layer.forward(ops.madeUp(x)))], {});
}
export const models: Readonly<Record<string, Build>> = {
  "made-up": (_, { input }, outputs) => madeUp(input.shape.reduce((a, b) => a * b, 1), outputs),
};
`,
    },
    {
      path: "core/parts.ts",
      after: "  models: {\n",
      text: `    madeUp: { names: ["made-up"], load: () => import("./models/zoo/made_up.ts") },\n`,
    },
  ],
  "an optimizer": [
    {
      path: "core/train/optimizers.ts",
      after: 'const OPTIMIZERS: { readonly [T in OptimizerSettings["type"]]: OptimizerKind<T> } = {\n',
      text: `  "made-up": madeUp,\n`,
    },
    { path: "core/train/optimizers.ts", text: `import { madeUp } from "./optimizers/made_up.ts";\n` },
    {
      path: "core/train/optimizers/NAME.ts",
      text: `import { add, sub } from "../../../ffi/make.ts";
import { copy_, sign, square } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { type OptimizerKind, slotsOf, type Traits, zerosAs } from "./optimizer.ts";
const traits: Traits = {
  slots: ["made_up"],
  wholeGradient: false,
  perElement: true,
  shardable: true,
  bytesPerWeight: () => 4,
  compiled: null,
};
export const madeUp: OptimizerKind = {
  traits,
  open(_, arena) {
    const { gradients, flat } = arena;
    const weights = arena.viewsOf(flat), seen = arena.viewsOf(zerosAs(arena));
    return {
      type: "made-up",
      steps: 0,
      slots: slotsOf(traits, seen),
      options: {},
      step(lr) {
        this.steps++;
        scope(() =>
          weights.forEach((p, i) => {
            const direction = sign(gradients[i]);
            copy_(seen[i], add(seen[i], square(direction)));
            copy_(p, sub(p, direction, lr));
          })
        );
      },
    };
  },
};
`,
    },
    {
      path: "core/settings/sections/optimizer.ts",
      after: "export const OPTIMIZER_READS = {\n",
      text: `  "made-up": ["weight_decay"],\n`,
    },
  ],
  "a kind of data": [
    {
      path: "core/data/formats/NAME/format.ts",
      text: `import { fromColumns } from "../../tables/columns.ts";
import type { DataReader, Format, TableFile } from "../../format.ts";
const table = <R>(path: string, use: (table: TableFile) => R): R => {
  const rows = Deno.readTextFileSync(path).trim().split("\\n").map((line) => line.split("!").map(Number));
  const columns = rows[0].map((_, i) => ({
    name: String(i),
    shape: [rows.length],
    dtype: "f32" as const,
    read: () => Float32Array.from(rows, (row) => row[i]),
  }));
  return use({ path, kind: "made-up table", noun: "column", columns });
};
const reader: DataReader = {
  open: (request) => table(request.data.data_path, (columns) => fromColumns(columns, request)),
  table,
};
export const madeUp: Format = {
  endings: [".made-up"],
  path: "the file to read",
  isTable: true,
  load: () => Promise.resolve(reader),
};
`,
    },
    {
      path: "core/parts.ts",
      after: "  formats: {\n",
      text:
        `    madeUp: { kinds: { "made-up": "numbers between exclamation marks" }, load: () => import("./data/formats/made_up/format.ts").then(({ madeUp }) => ({ "made-up": madeUp })) },\n`,
    },
  ],
  "a command": [
    {
      path: "commands/NAME.ts",
      text: `import type { Command } from "./mod.ts";
export const command: Command = {
  usage: "hpctrain made-up WORD",
  examples: ["hpctrain made-up hello"],
  run: ([word]) => Promise.resolve(console.log(\`made up: \${word}\`)).then(() => 0),
};
`,
    },
    {
      path: "commands/mod.ts",
      after: "export const COMMANDS: readonly CommandEntry[] = [\n",
      text: `  {
    name: "made-up",
    summary: "a command that somebody made up",
    load: async () => (await import("./made_up.ts")).command,
  },
`,
    },
    { path: "commands/help.ts", after: `  "data": [`, text: `"made-up", ` },
  ],
  "an extension": [
    {
      path: "extensions/NAME/output.ts",
      text: `import { join } from "../../deps/path.ts";
import type { TrackedOutput } from "../../core/outputs/tracked.ts";
import type { TrackedRun } from "../../core/outputs/tracked.ts";
import type { Sink } from "../../core/run/output.ts";
export const output: TrackedOutput = {
  title: "made-up list",
  module: import.meta.url,
  pathOf: ({ logs }) => join(logs, "kinds.txt"),
};
export function openSink(run: unknown): Sink {
  const kinds = new Set<string>();
  return {
    write: ({ kind }) => void kinds.add(kind),
    close: () => Deno.writeTextFileSync((run as TrackedRun).path, [...kinds].join()),
  };
}
`,
    },
    {
      path: "core/parts.ts",
      after: "  outputs: {\n",
      text: `    "made-up": { about: "", load: () => import("../extensions/made_up/output.ts") },\n`,
    },
  ],
  "an output": [
    {
      path: "core/outputs/NAME/setup.ts",
      text: `import { join } from "../../../deps/path.ts";
import type { Output, RunFacts } from "../../run/output.ts";
export function madeUp({ logs }: RunFacts): Output {
  const path = join(logs, "counted.json");
  return {
    name: "made-up count",
    module: import.meta.resolve("./sink.ts"),
    setup: path,
    wants: { histograms: 0, pictures: 0, confusion: 0 },
    id: null,
    path,
    next: null,
  };
}
`,
    },
    {
      path: "core/outputs/NAME/sink.ts",
      text: `import type { Sink } from "../../run/output.ts";
export function openSink(path: unknown): Sink {
  const counted: Record<string, number> = {};
  return {
    write: ({ kind }) => void (counted[kind] = (counted[kind] ?? 0) + 1),
    close: () => Deno.writeTextFileSync(String(path), JSON.stringify(counted)),
  };
}
`,
    },
    { path: "core/outputs/outputs.ts", text: `import { madeUp } from "./made_up/setup.ts";\n` },
    { path: "core/outputs/outputs.ts", after: "export const OUTPUTS: OpenOutput[] = [", text: "madeUp, " },
  ],
};
/** The file that a script of the table makes. */
const GENERATED = { path: "core/models/user/ops.ts", by: "scripts/user_ops.ts" };

function copy(from: string, to: string): void {
  if (!Deno.statSync(from).isDirectory) return Deno.copyFileSync(from, to);
  Deno.mkdirSync(to, { recursive: true });
  for (const { name } of Deno.readDirSync(from)) copy(join(from, name), join(to, name));
}

function put(root: string, { path, text, after }: Place): void {
  const file = join(root, path.replaceAll("NAME", "made_up"));
  if (path.includes("NAME")) {
    Deno.mkdirSync(dirname(file), { recursive: true });
    return Deno.writeTextFileSync(file, text);
  }
  const source = Deno.readTextFileSync(file);
  const at = after === undefined ? source.length : source.indexOf(after) + after.length;
  assert(after === undefined || source.includes(after), `${path} has no ${after}`);
  Deno.writeTextFileSync(file, source.slice(0, at) + text + source.slice(at));
}

Deno.test("the pages of the architecture name files and folders that are there", async () => {
  assert(table().size >= 10, [...table().keys()].join());
  const folders = [
    "core",
    "ffi",
    "commands",
    "deps",
    "scripts",
    "tests",
    "bench",
    "examples",
    "presets",
    "extensions",
  ];
  const inside = await Promise.all(folders.map((folder) => filesIn(join(ROOT, folder))));
  const names = new Set([...inside.flat().map((path) => basename(path)), "main.ts", "mod.ts", "NAME.ts"]);
  const wrong = PAGES.flatMap((page) => {
    const text = Deno.readTextFileSync(join(ROOT, page));
    const paths = [...text.matchAll(new RegExp(`(?<![\\w./-])(${folders.join("|")})/[\\w./*-]*\\w`, "g"))]
      .map(([path]) => path.replace(/\/(NAME|\*).*/, ""))
      .filter((path) => !existsSync(join(ROOT, path)));
    const files = [...text.matchAll(/(?<![\w.])\w+\.(ts|wasm)\b/g)].map(([name]) => name).filter((name) =>
      !names.has(name)
    );
    return [...paths, ...files].map((name) => `${page}: ${name}`);
  });
  assertEquals(wrong, []);
});

Deno.test("what is made up needs just the files that the table names", () => {
  const rows = table();
  for (const [kind, places] of Object.entries(MADE_UP)) {
    const named = rows.get(kind)?.filter((path) => !BESIDE.test(path)) ?? [];
    const used = places.map(({ path }) => path);
    if (kind === "an op") used.push(GENERATED.path, GENERATED.by);
    assertEquals([...new Set(used)].sort(), named.sort(), kind);
  }
});

Deno.test("a made-up op, model, optimizer, format, command, extension and output work from those places alone", () =>
  inTemp(async (folder) => {
    const root = join(folder, "sources");
    Deno.mkdirSync(join(root, "scripts"), { recursive: true });
    for (const source of [...SOURCES, ...MAKERS]) copy(join(ROOT, source), join(root, source));
    for (const place of Object.values(MADE_UP).flat()) put(root, place);
    const env = environment({ OMP_NUM_THREADS: "1" });
    const deno = async (file: string, ...args: string[]): Promise<string> => {
      const child = new Deno.Command(Deno.execPath(), {
        args: ["run", "--quiet", "--allow-all", "--no-check", "--no-lock", join(root, file), ...args],
        cwd: folder,
        env,
        clearEnv: true,
        stdin: "null",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      const { code, stdout, stderr } = await finish(child);
      assertEquals(code, 0, stdout + stderr);
      return stdout;
    };
    try {
      await deno(GENERATED.by);
      const lines = Array.from({ length: 64 }, (_, i) => `${i % 7}!${i % 5}!${(i % 7) / 2 + i % 5}`);
      Deno.writeTextFileSync(join(folder, "rows.made-up"), lines.join("\n"));
      const printed = await deno(
        "main.ts",
        ...["--data-path=rows.made-up", "--model=made-up", "--optimizer=made-up", "--run-name=all"],
        ...["--loss=mse", "--epochs=2", "--batch-size=16", "--device=cpu", "--threads=1", "--no-wandb"],
        "--track=made-up",
      );
      assertStringIncludes(printed, "made-up: ");
      assertStringIncludes(printed, "logs/all/counted.json");
      const counted = JSON.parse(Deno.readTextFileSync(join(folder, "logs/all/counted.json")));
      assertEquals([counted.epoch, counted.exit], [2, 1]);
      assertStringIncludes(printed, "made-up list");
      assertMatch(Deno.readTextFileSync(join(folder, "logs/all/kinds.txt")), /^run,.*step,.*epoch,.*exit$/);
      const seen = [...tensors(folder, "all")].filter(([at]) => at.endsWith("/made_up"));
      assertEquals(seen.map(([, values]) => values.length), [2, 1]); // the weight and the bias
      assert(seen.every(([, values]) => values.every((steps) => steps > 0)), "no step moved a weight");

      assertMatch(await deno("main.ts", "inspect", "rows.made-up"), /made-up table.* 64 samples/);
      assertMatch(await deno("main.ts", "help"), /data +made-up, generate-data/);
      assertEquals(await deno("main.ts", "made-up", "hello"), "made up: hello\n");
    } finally {
      // Deno keeps what it made of each source under its path, which nobody will ask for again.
      const kept = join(env.DENO_DIR, "gen", "file", root);
      await Deno.remove(kept, { recursive: true }).catch((error) => {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      });
    }
  }));
