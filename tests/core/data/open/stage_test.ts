// Staging: copied to the node once, checked on the way, and found again.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "paths";
import { stage } from "../../../../core/data/open/stage.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { filesIn, inTemp } from "../../../integration/program.ts";
import { settings } from "../tables/help.ts";
import { contents, pack } from "../shards/make.ts";
import { assertSentence } from "../../../sentences.ts";

function staged(from: string, to: string) {
  const said: string[] = [];
  const { path, notes } = stage(
    settings({ data: { data_path: from, stage: to } }).data,
    (line) => said.push(line),
  );
  return { path, notes, said };
}

function refusal(from: string, to: string, kind: string): string {
  const error = assertThrows(() => staged(from, to), UserError);
  assertEquals(error.kind, kind);
  assertMatch(error.message, /\.$/);
  return error.message;
}

/** Everything but the mark. */
const data = (folder: string) =>
  Object.fromEntries(Object.entries(contents(folder)).filter(([name]) => name !== ".staged"));

Deno.test("packed data is copied whole, and the second run copies nothing", () =>
  inTemp(async (folder) => {
    const from = join(folder, "packed"), to = join(folder, "node");
    await pack(from);
    const first = staged(from, to);
    assertMatch(first.notes[0], /^Staged to \S+node\/packed-[0-9a-f]{16} in [\d.]+ s \(13 files, .* KiB\)$/);
    assertEquals(first.said.length, 1);
    assertEquals(data(first.path), contents(from));
    const times = () =>
      filesIn(first.path).map((name) => Deno.statSync(join(first.path, name)).mtime!.getTime());
    const before = times();
    const second = staged(from, to);
    assertMatch(second.notes[0], /^Staged before: the data is read from/);
    assertEquals([second.path, second.said, times()], [first.path, [], before]);
    // What somebody tidied away is copied again.
    Deno.removeSync(join(first.path, "shard-00004.bin"));
    assertMatch(staged(from, to).notes[0], /^Staged to/);
    assertEquals(data(first.path), contents(from));
  }));

Deno.test("a damaged shard is named and not left on the node", () =>
  inTemp(async (folder) => {
    const from = join(folder, "packed"), to = join(folder, "node"), shard = join(from, "shard-00005.bin");
    await pack(from);
    const good = Deno.readFileSync(shard);
    Deno.writeFileSync(shard, good.map((byte, i) => i === 90 ? byte ^ 4 : byte));
    assertSentence("core/data/open/stage: packed shard bin", refusal(from, to, "data"));
    const left = filesIn(to).map((name) => name.split("/")[1]);
    assertEquals(left, [
      "shard-00000.bin",
      "shard-00001.bin",
      "shard-00002.bin",
      "shard-00003.bin",
      "shard-00004.bin",
    ]);
    Deno.writeFileSync(shard, good.subarray(0, 99));
    assertMatch(
      refusal(from, to, "data"),
      /shard-00005\.bin has 99 bytes, and \d+ belong to it\. Copy it again/,
    );
    Deno.writeFileSync(shard, good);
    assertEquals(data(staged(from, to).path), contents(from));
  }));

Deno.test("a file is staged by its name, and anew when it has changed", () =>
  inTemp((folder) => {
    const from = join(folder, "ice.nc"), to = join(folder, "node");
    Deno.writeTextFileSync(from, "CDF one");
    const first = staged(from, to);
    assertMatch(first.path, /node\/ice\.nc-[0-9a-f]{16}\/ice\.nc$/);
    assertEquals(Deno.readTextFileSync(first.path), "CDF one");
    Deno.writeTextFileSync(from, "CDF other");
    const second = staged(from, to);
    assert(second.path !== first.path);
    assertEquals(Deno.readTextFileSync(second.path), "CDF other");
  }));

Deno.test("a folder of files is staged as it is; one of very many is better packed first", () =>
  inTemp((folder) => {
    const from = join(folder, "digits"), to = join(folder, "node");
    Deno.mkdirSync(join(from, "raw"), { recursive: true });
    for (const name of ["a.npy", "raw/b.npy", ".hidden"]) Deno.writeTextFileSync(join(from, name), name);
    const { path } = staged(from, to);
    assertEquals(filesIn(path), [".staged", "a.npy", "raw/b.npy"]);
    for (let i = 0; i < 1001; i++) Deno.writeTextFileSync(join(from, `${i}.jpg`), "");
    assertSentence("core/data/open/stage: files pack first", refusal(from, to, "usage"));
  }));

Deno.test("folders that can't be staged to are refused", () =>
  inTemp(async (folder) => {
    const from = join(folder, "x.npz");
    assertMatch(refusal(from, folder, "data"), /There is no \S+x\.npz\. Check data\.data_path/);
    Deno.writeTextFileSync(from, "x");
    assertMatch(refusal(from, join(from, "node"), "usage"), /can't be written: a part of the path is a file/);
    assertSentence(
      "core/data/open/stage: data stage no_such_folder",
      refusal(from, "$NO_SUCH_FOLDER/node", "usage"),
    );
    Deno.env.set("NODE_DISK", join(folder, "disk"));
    assertMatch(staged(from, "${NODE_DISK}/me").path, /\/disk\/me\/x\.npz-/);
    Deno.env.delete("NODE_DISK");
    const sparse = join(folder, "huge.npz");
    using file = await Deno.create(sparse);
    file.truncateSync(2 ** 43);
    assertMatch(
      refusal(sparse, join(folder, "node"), "usage"),
      /Staging \S+ takes 8\.0 TiB, and .* are free in .*Name a folder on a larger disk/,
    );
  }));

const PROGRAM = `
import { stage } from "${new URL("../../../../core/data/open/stage.ts", import.meta.url)}";
import { defaultConfig } from "${new URL("../../../../core/settings/settings.ts", import.meta.url)}";
const { data } = defaultConfig();
Object.assign(data, { data_path: Deno.args[0], stage: Deno.args[1] });
console.log(stage(data, () => {}).notes[0]);
`;

Deno.test("of several processes one copies, and the others wait for it", () =>
  inTemp(async (folder) => {
    const from = join(folder, "big.npz"), to = join(folder, "node"), program = join(folder, "stage.ts");
    Deno.writeFileSync(from, new Uint8Array(24 << 20));
    Deno.writeTextFileSync(program, PROGRAM);
    const config = new URL("../../../../deno.json", import.meta.url).pathname;
    const ends = await Promise.all([0, 1, 2].map(async () => {
      const args = ["run", "-A", "--no-check", "--config", config, program, from, to];
      const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
      assertEquals(code, 0, new TextDecoder().decode(stderr));
      return new TextDecoder().decode(stdout).split(" ").slice(0, 2).join(" ");
    }));
    assertEquals(ends.filter((said) => said === "Staged to").length, 1, ends.join());
    assertEquals(ends.filter((said) => /^Staged (by|before)/.test(said)).length, 2, ends.join());
  }));
