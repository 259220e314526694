import { assertEquals, assertMatch } from "@std/assert";
import {
  filesystemOf,
  type FolderFacts,
  judgeStorage,
  quotasIn,
} from "../../../../core/cluster/doctor/storage.ts";
import { assertSentence } from "../../../sentences.ts";

const GIB = 2 ** 30;
const PROBE = {
  refused: null,
  at: null,
  bytes: 8 * 2 ** 20,
  writeSeconds: 0.01,
  syncSeconds: 0.02,
  renameSeconds: 0.001,
  skew: 0,
};
const PLACE: FolderFacts = {
  what: "checkpoints and logs",
  flag: "--save-dir",
  path: "/scratch/me",
  folder: "/scratch/me",
  kind: "lustre",
  free: 100 * GIB,
  used: 100 * GIB,
  filesFree: 5e6,
  files: 6e6,
  probe: PROBE,
  readable: true,
};
const judged = (more: Partial<FolderFacts>) =>
  judgeStorage({ places: [{ ...PLACE, ...more }], quotas: [] })[0];

Deno.test("a folder with room is good, with its file system and speed", () => {
  const { state, said } = judged({});
  assertEquals(state, "good");
  assertSentence("core/cluster/doctor/storage: checkpoints logs scratch", said);
});

Deno.test("90% full is a warning with the share, 89% is not, and a large file system with room is not", () => {
  const at = (used: number, free: number) => judged({ used: used * GIB, free: free * GIB });
  assertEquals([at(89, 11).state, at(90, 10).state, at(20_000, 2000).state], ["good", "warn", "good"]);
  assertMatch(at(92, 8).said, /the disk is 92% full, with 8\.0 GiB free/);
  assertMatch(at(92, 8).fix!, /--save-dir/);
});

Deno.test("doctor judges storage with 1 MiB free as bad", () =>
  assertEquals(judged({ free: 2 ** 20 }).state, "bad"));

Deno.test("files that run out are told whatever the space", () => {
  assertEquals(judged({ filesFree: 1000 }).state, "warn");
  assertEquals(judged({ filesFree: 0 }).state, "bad");
  assertMatch(judged({ filesFree: 1000 }).said, /1000 more files fit.*df -i/);
});

Deno.test("each way in which a folder refuses has its own words", () => {
  const says = (refused: string) => judged({ probe: { ...PROBE, refused, at: "write" } });
  assertMatch(says("EROFS").said, /read-only/);
  assertMatch(says("EACCES").said, /may not write/);
  assertMatch(says("EDQUOT").said, /quota is used up/);
  assertMatch(says("EIO").fix!, /Ask the site/);
  assertEquals(["EROFS", "EACCES", "EDQUOT", "EIO"].map((code) => says(code).state), Array(4).fill("bad"));
});

Deno.test("a slow disk is told by how long a checkpoint takes", () => {
  const line = judged({ probe: { ...PROBE, syncSeconds: 0.8 } });
  assertEquals(line.state, "warn");
  assertMatch(line.said, /a checkpoint of 1 GiB takes 1m 4\ds/);
});

Deno.test("data that can't be read is bad", () => {
  const data = { what: "data", flag: "--data-path", probe: null };
  assertEquals([true, false].map((readable) => judged({ ...data, readable }).state), ["good", "bad"]);
});

Deno.test("quotas are read as quota and lfs print them, and told from 90% on", () => {
  const text = [
    "Disk quotas for user me (uid 1000):",
    "Filesystem blocks quota limit grace files quota limit grace",
    "/dev/sda1 950000 900000 1000000 6days 10 0 0 0",
    "nas:/home 2000000* 1000000 1500000 none 5 0 0 none",
    "/lustre 100 0 0 - 12 0 0 -",
  ].join("\n");
  const quotas = quotasIn(text);
  assertEquals(quotas.filter(({ of }) => of === "space").map(({ fileSystem }) => fileSystem), [
    "/dev/sda1",
    "nas:/home",
    "/lustre",
  ]);
  const lines = judgeStorage({ places: [], quotas });
  assertEquals(lines.map(({ state }) => state), ["warn", "bad"]);
  assertMatch(lines[0].said, /quota of space on \/dev\/sda1 is 95% used/);
});

Deno.test("the file system is that of the nearest mount", () => {
  const mounts = [
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw",
    "30 22 0:40 / /scratch rw - lustre mds:/fs rw",
    "31 30 0:41 / /scratch/my\\040disk rw - nfs4 nas:/x rw",
  ].join("\n");
  const kinds = ["/home", "/scratch/me", "/scratchy", "/scratch/my disk/a"].map((at) =>
    filesystemOf(at, mounts)
  );
  assertEquals(kinds, ["ext4", "lustre", "ext4", "nfs4"]);
});
