import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { nearestFolder, probe } from "../../../../core/cluster/doctor/storage.ts";
import { filesIn, inTemp, onDisk, ROOT_USER } from "../../../integration/program.ts";

Deno.test("a folder is written, measured and left as it was", () =>
  inTemp((folder) => {
    const { refused, bytes, writeSeconds, skew } = probe(folder, 3 * 2 ** 20, 5);
    assertEquals([refused, bytes], [null, 3 * 2 ** 20]);
    assert(writeSeconds > 0 && Math.abs(skew) < 60);
    assertEquals(filesIn(folder), []);
  }));

Deno.test("a slow disk is written for as long as was said, and not more", () =>
  inTemp((folder) => {
    const { bytes } = probe(folder, 2 ** 40, 0.05);
    assert(bytes >= 2 ** 20 && bytes < 2 ** 38);
  }));

Deno.test({
  name: "a disk that is full is refused with its code, and nothing stays behind (needs root)",
  ignore: !ROOT_USER,
  fn: () =>
    onDisk(4, (disk) => {
      const { refused, at } = probe(disk, 16 * 2 ** 20, 5);
      assertEquals([refused, at], ["ENOSPC", "write"]);
      assertEquals(filesIn(disk), []);
      return Promise.resolve();
    }),
});

Deno.test("the nearest folder above a path that is not there is what a run would begin at", () =>
  inTemp((folder) => assertEquals(nearestFolder(join(folder, "a/b/c")), folder)));
