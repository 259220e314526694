// Disks, quotas and file servers that fail under a run, alone and on two ranks: training goes on, and what is there is whole.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { COMPILER } from "../native/double.ts";
import { faultStorm } from "./file_faults.ts";
import { inTemp } from "./program.ts";

const ignore = COMPILER === null && Deno.env.get("CI") !== "true";

Deno.test({
  name:
    "file calls of a run fail, each kind on each of its files: it trains on, and stops with all of it saved",
  ignore,
  fn: () =>
    inTemp(async (cwd) => {
      const { code, stderr, faults, missed, saved, ended } = await faultStorm(cwd, { ranks: 1 });
      assertEquals([code, missed], [75, []], stderr);
      assertEquals(saved, ended, "the last save has the last step");
      assert(faults >= 72, `${faults} calls were made to fail`); // 18 kinds, two errnos, once and for a while
    }),
});

Deno.test({
  name:
    "the same of two ranks that save together; where the last save is refused they end, and the one before is whole",
  ignore,
  fn: () =>
    inTemp(async (cwd) => {
      const { code, stderr, faults, missed, saved, ended } = await faultStorm(cwd, {
        ranks: 2,
        refused: true,
      });
      // mpirun's own code is that of the rank that ended first: 5 where that one heard of the other's failure.
      assert(code === 8 || code === 5, `${code}: ${stderr}`);
      assertEquals(missed, []);
      assertMatch(stderr, /^hpctrain: .*r_latest\.ckpt.*your disk quota is used up.*--save-dir/m);
      assert(saved > 0 && saved < ended, `step ${saved} is saved, and the run ended at ${ended}`);
      assert(faults >= 72, `${faults} calls were made to fail`);
    }),
});
