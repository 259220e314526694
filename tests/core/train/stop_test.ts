// What makes a run stop or save from outside. Signals: tests/integration/interrupts_test.ts.
import { assertEquals } from "@std/assert";
import { trainLoop } from "../../../core/train/loop.ts";
import { watchRequests } from "../../../core/train/stop.ts";
import { inFolder } from "../checkpoint/python.ts";
import { started } from "./started.ts";

Deno.test(
  "the files STOP and SAVE are used up, and the first reason to stop stands",
  inFolder((folder) => {
    const requests = watchRequests(folder, () => {});
    try {
      for (const name of ["STOP", "SAVE"]) Deno.writeTextFileSync(`${folder}/${name}`, "");
      requests.watchTime(() => "late");
      assertEquals([requests.takeSave(), requests.takeSave()], [true, false]);
      assertEquals(requests.stop(), "the file STOP");
      assertEquals([...Deno.readDirSync(folder)], []);
    } finally {
      requests.close();
    }
  }),
);

Deno.test(
  "a run whose time is nearly over saves and stops, with the reason in its last words",
  inFolder((folder) =>
    started(
      folder,
      ["--data-type", "synthetic", "--train-samples", "640", "--val-samples", "0"],
      async ({ run }) => {
        run.requests.watchTime(() => "90 s of the job's time are left");
        const { stopped, outcome } = await trainLoop(run);
        assertEquals([stopped, outcome], [true, "Stopped on request (90 s of the job's time are left)"]);
        assertEquals([run.cursor.step, run.saver.told.saves], [1, 1]);
      },
    )
  ),
);
