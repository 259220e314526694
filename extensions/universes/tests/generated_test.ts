// Made universes in training: generated once where they fit, made on the fly where they do not, the same samples always.
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { join } from "paths";
import type { Config } from "../../../core/settings/settings.ts";
import { openData, type Opened } from "../../../core/data/open/open.ts";
import { loadAllReaders } from "../../../core/data/open/readers.ts";
import { generateMissing } from "../../../core/data/open/generated.ts";
import { batchOf, plainPart } from "../../../core/data/source/source.ts";
import { UserError } from "../../../core/base/errors.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { threads } from "../../../ffi/context.ts";
import { scope } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../../tests/libtorch.ts";
import { settings } from "../../../tests/core/data/tables/help.ts";
import { contents } from "../../../tests/core/data/shards/make.ts";
import { sentenceNamed } from "../../../tests/sentences.ts";

const libtorch = useLibtorch();
await loadAllReaders();

function config(folder: string, data: Partial<Config["data"]> = {}): Config {
  const made = settings({
    data: { type: "2lpt", train_samples: 12, val_samples: 4, ...data },
    model: { image_size: 16 },
  });
  made.output.save_dir = folder;
  made.output.quiet = true;
  return made;
}

const open = ({ data, training, model }: Config): Opened => openData(data, training, model);

const rowsOf = ({ train, val }: Opened) =>
  [train, val!].map((source) =>
    scope(() => {
      const { input, target } = batchOf(
        source,
        plainPart(Array.from({ length: source.length }, (_, i) => i)),
      );
      return [toNumbers(input), toNumbers(target)];
    })
  );

async function inFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

for (const type of ["2lpt", "des"] as const) {
  Deno.test(`${type}: what is generated first and what is made on the fly are the same samples`, () =>
    inFolder(async (folder) => {
      const before = threads();
      const { config: ready, notes } = await generateMissing(config(folder, { type }), libtorch);
      assertEquals(threads(), before);
      assertEquals(
        ready.data.data_path,
        join(folder, "data", [...Deno.readDirSync(join(folder, "data"))][0].name),
      );
      assert(/^Generated 16 samples in /.test(notes[0]), notes[0]);
      assertEquals((await generateMissing(config(folder, { type }), libtorch)).notes, [
        `Generated before: ${ready.data.data_path}`,
      ]);
      assertEquals(rowsOf(open(ready)), rowsOf(open(config(folder, { type }))));
    }));
}

Deno.test("where they would fill the disk, they are not kept but made on the fly, and that is told", () =>
  inFolder(async (folder) => {
    const { config: ready, notes } = await generateMissing(config(folder), libtorch, undefined, {
      freeIn: () => 20_000,
    });
    assertEquals(ready.data.data_path, "");
    assertEquals(notes, [sentenceNamed("extensions/universes/tests/generated: kept disk samples")]);
    assertEquals([...Deno.readDirSync(folder)], []);
    assert(open(ready).notes.includes("Each sample is made again whenever it is wanted"));
  }));

Deno.test("ranks share the work: each goes on when all is there, and the bytes are those of one rank", () =>
  inFolder(async (folder) => {
    const shared = config(folder, { train_samples: 60, val_samples: 20 });
    const alone = config(join(folder, "alone"), { train_samples: 60, val_samples: 20 });
    const ranks = await Promise.all(
      [0, 1, 2, 3].map((rank) => generateMissing(shared, libtorch, { rank, world: 4, localWorld: 4 })),
    );
    const path = ranks[0].config.data.data_path;
    const made = ranks.map(({ config, notes }) => {
      assertEquals(config.data.data_path, path);
      return Number(/^Generated (\d+) samples/.exec(notes[0])![1]);
    });
    assertEquals(made, [16 + 16, 16 + 4, 16, 12], "every fourth of the six shards");
    const { config: one } = await generateMissing(alone, libtorch);
    assertEquals(contents(path), contents(one.data.data_path));
  }));

Deno.test("a rank whose neighbours are gone says so when the time-out is over, and what it made is kept", () =>
  inFolder(async (folder) => {
    const shared = config(folder, { train_samples: 60, val_samples: 20 });
    shared.distributed.timeout = "1s";
    const error = await assertRejects(
      () => generateMissing(shared, libtorch, { rank: 1, world: 2, localWorld: 2 }),
      UserError,
    );
    assertEquals(error.kind, "communication");
    assertMatch(
      error.message,
      /^Rank 1 of 2 has generated its share of \S+, and for 1\.?0? s \(distributed\.timeout\)/,
    );
    // The disk is fuller by what was made before; that is no reason to begin otherwise now.
    const { notes } = await generateMissing(shared, libtorch, undefined, { freeIn: () => 1 });
    assertMatch(notes[0], /^Generated 48 samples in /);
  }));

Deno.test("other data is left alone, and so is a path that the user names", () =>
  inFolder(async (folder) => {
    for (const data of [{ type: "synthetic" }, { type: "2lpt", data_path: "maps" }] as const) {
      const given = config(folder, data);
      assertEquals(await generateMissing(given, libtorch), { config: given, notes: [] });
    }
  }));

Deno.test("targets are chosen by name, in the order they are named", () =>
  inFolder(async (folder) => {
    const { config: ready } = await generateMissing(config(folder), libtorch);
    const all = rowsOf(open(ready))[0][1];
    const two = { ...ready, data: { ...ready.data, targets: ["sigma_8", "omega_m"] } };
    const { train } = open(two);
    assertEquals([train.target.shape, train.facts.outputs], [[2], 2]);
    const order = toNumbers(batchOf(train, plainPart([3])).target);
    // The rows are taken in ascending order, so that row 3 is sample 3.
    assertEquals([...order], [all[3 * 5 + 4], all[3 * 5]]);
    const fewer = { ...config(folder), data: { ...config(folder).data, targets: ["sigma_8"] } };
    assertEquals(open(fewer).train.target.shape, [1]);
    const wrong = { ...two, data: { ...two.data, targets: ["omega"] } };
    assert(
      assertThrows(() => open(wrong), UserError).message.includes(
        'has no target "omega". Did you mean "omega_m"?',
      ),
    );
  }));
