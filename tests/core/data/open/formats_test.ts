// The seam of formats, followed for a made-up kind of data: one folder, and one line in core/parts.ts.
// The program with these knows the kind everywhere.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { environment, finish, ROOT } from "../../../integration/program.ts";
import { assertSentence } from "../../../sentences.ts";

const FORMAT = `
import type { Format } from "../../format.ts";

export const tiny: Format = {
  endings: [".tiny"],
  folder: { has: "lines.tiny", detect: () => false },
  path: "the file to read",
  load: () => import("./tiny.ts").then(({ tiny }) => tiny),
};
`;

/** Samples are lines of eight bytes: two features and a target, of two characters each and one. */
const TINY = `
import type { DataReader, DataRequest, Sources } from "../../format.ts";
import { heldOut, splitIndices } from "../../source/order.ts";
import type { Preview } from "../../preview/preview.ts";
import { loadReader, type Reader, type ReaderModule, type ReaderSpec } from "../../source/reader.ts";
import { type Source, threadedSource } from "../../source/source.ts";
import { LINE, tinyReader, type TinySpec } from "./reader.ts";

const samplesIn = (path: string) => Deno.statSync(path).size / LINE;

export const tiny: DataReader = {
  prepare: () => loadReader({ module: tinyReader }),
  open({ data, training }: DataRequest): Sources {
    const path = data.data_path, total = samplesIn(path), val = heldOut(total, data.validation_split);
    const chosen = splitIndices(total, { train: total - val, val }, training.seed);
    const reader: TinySpec = { module: tinyReader, path };
    const make = (indices: Int32Array): Source =>
      threadedSource({
        name: path,
        length: indices.length,
        indices,
        reader,
        stored: { name: "numbers", shape: [2], dtype: "f32" },
        target: { name: "answer", shape: [1], dtype: "f32" },
        bad: data.bad_samples,
        task: "regression",
        outputs: 1,
        description: path + ": tiny lines",
      });
    return { train: make(chosen.train), val: make(chosen.val), notes: [] };
  },
  preview<R>(path: string, use: (preview: Preview) => R): R {
    const read = (first: number, count: number) =>
      Deno.readTextFileSync(path).trim().split("\\n").slice(first, first + count).map((line) => Number(line.slice(6)));
    const samples = samplesIn(path);
    return use({
      ...{ path, kind: "tiny lines", bytes: samples * LINE, samples, noun: "column", facts: {} },
      ...{ classes: null, pictures: null, fields: [{ name: "answer", shape: [samples], dtype: "f32", read }] },
    });
  },
};
`;

const READER = `

export const LINE = 8;
export const tinyReader: string = import.meta.url;

export interface TinySpec extends ReaderSpec {
  readonly path: string;
}

function open({ path }: TinySpec): Reader {
  const isThread = "WorkerGlobalScope" in globalThis;
  if (isThread) Deno.writeTextFileSync(path + ".read_by_thread", "");
  const file = Deno.openSync(path), bytes = new Uint8Array(LINE), data = new Float32Array(2);
  return {
    path,
    read(index, target) {
      file.seekSync(index * LINE, 0);
      file.readSync(bytes);
      const [a, b, answer] = new TextDecoder().decode(bytes).trim().split(" ").map(Number);
      data.set([a, b]);
      target.set(new Uint8Array(Float32Array.of(answer).buffer));
      return { data, shape: [2] };
    },
    close: () => file.close(),
  };
}

export default { open } satisfies ReaderModule<TinySpec>;
`;

/** The program's sources with a kind of data more, at a place of its own. */
function addTo(folder: string): void {
  const entries = [
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
  const { success } = new Deno.Command("cp", {
    args: ["-r", ...entries.map((name) => join(ROOT, name)), folder],
  }).outputSync();
  assert(success, "the sources can't be copied");
  const tiny = join(folder, "core/data/formats/tiny");
  Deno.mkdirSync(tiny);
  Deno.writeTextFileSync(join(tiny, "format.ts"), FORMAT);
  Deno.writeTextFileSync(join(tiny, "tiny.ts"), TINY);
  Deno.writeTextFileSync(join(tiny, "reader.ts"), READER);
  insert(
    join(folder, "core/parts.ts"),
    "    universes: {",
    '    tiny: { kinds: { tiny: "tiny lines" }, load: () => import("./data/formats/tiny/format.ts").then(({ tiny }) => ({ tiny })) },\n',
  );
}

function insert(path: string, before: string, line: string): void {
  const text = Deno.readTextFileSync(path);
  const at = text.lastIndexOf(before);
  assert(at > 0, `${path} has no ${before}`);
  Deno.writeTextFileSync(path, text.slice(0, at) + line + text.slice(at));
}

Deno.test("a format that is added by the seam is found, trained with, shown, packed, listed and completed", async () => {
  const folder = Deno.makeTempDirSync();
  try {
    addTo(folder);
    const data = join(folder, "lines.tiny");
    const lines = Array.from({ length: 64 }, (_, i) => `${i % 10} ${i % 7}   ${i % 5}\n`);
    Deno.writeTextFileSync(data, lines.join(""));
    const all = async (...args: string[]) => {
      const command = new Deno.Command(Deno.execPath(), {
        args: ["run", "--quiet", "--allow-all", "--no-check", join(folder, "main.ts"), ...args],
        cwd: folder,
        env: environment(),
        clearEnv: true,
        stdin: "null",
        stdout: "piped",
        stderr: "piped",
      });
      return await finish(command.spawn());
    };
    const said = async (...args: string[]) => {
      const { code, stdout, stderr } = await all(...args);
      assertEquals(code, 0, stdout + stderr);
      return stdout;
    };
    const refused = async (...args: string[]) => (await all(...args)).stderr;

    const trained = await said(
      ...["train", "--data-path", data, "--num-workers", "2", "--epochs", "1", "--batch-size", "8"],
      ...["--model", "mlp", "--device", "cpu", "--save-dir", join(folder, "out"), "--no-wandb"],
    );
    assertMatch(trained, /lines\.tiny: tiny lines/);
    assertMatch(trained, /\[Epoch 1\/1\] Loss: \d/);
    assert(Deno.statSync(`${data}.read_by_thread`).isFile, "loader threads read the samples");

    const shown = JSON.parse(await said("inspect", data, "--json"));
    assertEquals([shown.kind, shown.samples, shown.fields[0].range.max], ["tiny lines", 64, 4]);

    assertMatch(await said("pack", data, join(folder, "packed")), /Packed 64 samples/);
    assertMatch(await said("inspect", join(folder, "packed")), /origin: tiny: /);

    assertMatch(await said("train", "--help"), /\|tiny/);
    assertMatch(await said("config", "--docs"), /\| `tiny` +\| tiny lines/);
    assertMatch(await said("config", "--schema"), /"tiny"/);
    assertMatch(await said("completions", "bash"), /--data-type\) .* fields tiny /);

    const odd = join(folder, "main.ts.odd");
    Deno.writeTextFileSync(odd, "");
    const endings = await refused("train", "--data-path", odd);
    assertSentence("core/data/open/formats: files end tiny", endings);
    assertMatch(
      await refused("inspect", data, "--data-type", "teny"),
      /Did you mean "tiny"\? It can into .*, tiny\./,
    );
    assertSentence("core/data/open/formats: data type tiny", await refused("train", "--data-type", "tiny"));
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
