// Packed shards that are damaged, disks without room for them, and two who pack to one place.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { goodFiles, lay } from "./formats.ts";
import {
  eventsOf,
  filesIn,
  finish,
  inTemp,
  onDisk,
  ROOT_USER,
  run,
  start,
  succeed,
  TINY,
} from "./program.ts";
import { assertSentence } from "../sentences.ts";

const TRAIN = [...TINY, "--model=mlp", "--hidden-size=8", "--run-name=r", "--log-interval=1"];
const PACK = ["pack", "images", "packed", "--samples-per-shard=20"];

async function packed(body: (folder: string) => Promise<void>, args: string[] = []): Promise<void> {
  const good = await goodFiles("images");
  await inTemp(async (cwd) => {
    lay(good, cwd);
    await succeed([...PACK, ...args], { cwd });
    await body(cwd);
  });
}

function flip(file: string, at: number): void {
  const bytes = Deno.readFileSync(file);
  bytes[at < 0 ? bytes.length + at : at] ^= 1;
  Deno.writeFileSync(file, bytes);
}

for (const memory of ["yes", "no"]) {
  Deno.test(`a shard that lost one bit is named and not trained on (--in-memory ${memory})`, () =>
    packed(async (cwd) => {
      const train = [...TRAIN, "--data-path=packed", `--in-memory=${memory}`];
      await succeed(train, { cwd });
      Deno.removeSync(join(cwd, "logs"), { recursive: true });
      flip(join(cwd, "packed/shard-00001.bin"), -1000);
      const { code, stderr } = await run(train, { cwd });
      const last = stderr.trimEnd().split("\n").at(-1)!;
      const [first] = eventsOf(cwd, "r").filter(({ kind }) => kind === "exit" || kind === "epoch");
      assertEquals(first?.kind === "epoch", false, "an epoch went to its end with it");
      assertMatch(last, /^hpctrain: .*packed\/shard-00001\.bin.*\.$/);
      assertEquals(code, 3, stderr);
    }));
}

Deno.test("a shard that ends too soon, or is gone, is named", () =>
  packed(async (cwd) => {
    const shard = join(cwd, "packed/shard-00002.bin");
    Deno.truncateSync(shard, 30000);
    const short = await run([...TRAIN, "--data-path=packed"], { cwd });
    assertMatch(short.stderr, /^hpctrain: .*packed\/shard-00002\.bin.*\.\n$/);
    Deno.removeSync(shard);
    const gone = await run([...TRAIN, "--data-path=packed"], { cwd });
    assertMatch(gone.stderr, /^hpctrain: .*packed\/shard-00002\.bin.*\.\n$/);
    assertEquals([short.code, gone.code], [3, 3], short.stderr + gone.stderr);
    // What the sentence says to do helps.
    await succeed(PACK, { cwd });
    await succeed([...TRAIN, "--data-path=packed"], { cwd });
  }));

Deno.test("an image that can't be read ends packing with its path, and nothing is taken for packed", async () => {
  const good = await goodFiles("images");
  await inTemp(async (cwd) => {
    lay(good, cwd);
    Deno.truncateSync(join(cwd, "images/dog/17.jpg"), 400);
    const { code, stderr } = await run(PACK, { cwd });
    assertMatch(stderr, /hpctrain: .*images\/dog\/17\.jpg.* cut off .*--bad-samples skip/);
    assertEquals([code, filesIn(cwd).includes("packed/index.json")], [3, false], stderr);
  });
});

Deno.test("two who pack to one place: one packs, the other is refused or finds it done, and it is whole", async () => {
  const good = await goodFiles("images");
  await inTemp(async (cwd) => {
    lay(good, cwd);
    const both = await Promise.all([1, 2].map(() => finish(start(PACK, { cwd }))));
    const codes = both.map(({ code }) => code);
    const said = both.map(({ stderr }) => stderr).join("");
    assert(codes.includes(0), said);
    const refusal = both.find(({ code }) => code !== 0);
    if (refusal) assertMatch(refusal.stderr, /^hpctrain: .*packed.*\.\n$/);
    await succeed([...TRAIN, "--data-path=packed"], { cwd });
  });
});

Deno.test("another data set is not packed into a place that is taken", () =>
  packed(async (cwd) => {
    const before = filesIn(join(cwd, "packed"));
    const { code, stderr } = await run([...PACK, "--resize=16"], { cwd });
    assertSentence("integration/bad_packed: hpctrain packed holds", stderr);
    assertEquals([code === 0, filesIn(join(cwd, "packed"))], [false, before]);
  }));

const needsRoot = ROOT_USER ? "" : " (needs root, to mount a small disk)";

Deno.test({
  name: `a disk without room for the shards is refused before anything is written${needsRoot}`,
  ignore: !ROOT_USER,
  fn: () =>
    packed(async (cwd) => {
      await onDisk(1, async (disk) => {
        const { code, stderr } = await run(["pack", "images", join(disk, "packed"), "--resize=256"], { cwd });
        assertMatch(stderr, /^hpctrain: Packing into .* takes 15\.0 MiB, and .* free in .*\.\n$/);
        assertEquals([code, filesIn(disk)], [2, []], stderr);
      });
    }),
});

Deno.test({
  name: `a disk without room for what is to be staged is refused before training${needsRoot}`,
  ignore: !ROOT_USER,
  fn: () =>
    packed(async (cwd) => {
      await onDisk(1, async (disk) => {
        const { code, stderr } = await run([...TRAIN, "--data-path=packed", `--stage=${disk}`], { cwd });
        assertMatch(stderr, /^hpctrain: Staging .* takes 3\.8 MiB, and .* free in .*--stage.*\.$/m);
        assertEquals([code, filesIn(disk)], [2, []], stderr);
      });
    }, ["--resize=128"]),
});
