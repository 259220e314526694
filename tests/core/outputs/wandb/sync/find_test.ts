// Which offline runs there are.
import { assertEquals, assertThrows } from "@std/assert";
import { basename, dirname, join } from "paths";
import { UserError } from "../../../../../core/base/errors.ts";
import {
  findOfflineRuns,
  inOrder,
  mayGrow,
  offlineRunOf,
} from "../../../../../core/outputs/wandb/sync/offline_runs.ts";
import { inTemp } from "../../../../integration/program.ts";
import { writeRun } from "./rig.ts";

Deno.test("runs are found below a folder, in a run's folder, and by their file, each once", () =>
  inTemp((folder) => {
    const one = writeRun(join(folder, "logs/wandb"), { id: "one" });
    const two = writeRun(join(folder, "wandb"), { id: "two" });
    Deno.symlinkSync(dirname(two), join(folder, "wandb/latest-run"));
    writeRun(join(dirname(one), "files"), { id: "inside" }); // a file of the run, not one to upload
    assertEquals(findOfflineRuns([folder]).paths, [one, two].sort());
    assertEquals(findOfflineRuns([dirname(one)]).paths, [one]);
    assertEquals(findOfflineRuns([one, folder, join(folder, "wandb/latest-run")]).paths.length, 2);
    assertThrows(() => findOfflineRuns([join(folder, "none")]), UserError, "There is no");
  }));

Deno.test("runs of W&B's online mode are counted, and looked at only when their file is named", () =>
  inTemp((folder) => {
    const path = writeRun(folder, { id: "on" });
    const online = join(folder, "run-20260102_030405-on");
    Deno.renameSync(dirname(path), online);
    assertEquals(findOfflineRuns([folder]), { paths: [], online: 1 });
    assertEquals(findOfflineRuns([join(online, basename(path))]).paths.length, 1);
  }));

Deno.test("files of one run come in the order of their begin, other runs on their own", () =>
  inTemp((folder) => {
    const later = writeRun(folder, { id: "a", start: 2000 });
    const earlier = writeRun(folder, { id: "a", start: 1000 });
    const other = writeRun(folder, { id: "b", start: 500 });
    const groups = inOrder([later, earlier, other].map(offlineRunOf)).map((group) =>
      group.map(({ path }) => path)
    );
    assertEquals(
      groups.sort(([a], [b]) => a < b ? -1 : 1),
      [[other], [earlier, later]].sort(([a], [b]) => a < b ? -1 : 1),
    );
  }));

Deno.test("a file that was written to lately may grow", () =>
  inTemp((folder) => {
    const path = writeRun(folder);
    assertEquals([mayGrow(path), mayGrow(path, 0)], [true, false]);
    Deno.utimeSync(path, new Date(), new Date(Date.now() - 11 * 60_000));
    assertEquals(mayGrow(path), false);
  }));
