// Where an upload begins, from what the server has and what lies beside the file.
import { assertEquals } from "@std/assert";
import type { RunRecord } from "../../../../../core/outputs/wandb/records.ts";
import type { ServerStatus } from "../../../../../core/outputs/wandb/sync/api.ts";
import { parseJson, type Tree } from "../../../../../core/outputs/wandb/sync/json_text.ts";
import { uploadPlanOf } from "../../../../../core/outputs/wandb/sync/sending.ts";

const RUN: RunRecord = { kind: "run", id: "r", startTime: 1000 };
const NONE = { history: 0, events: 0, output: 0, upToStep: null, upToTime: null };

const tree = (value: unknown) => parseJson(JSON.stringify(value)) as Tree;

function status(
  counts: [number, number, number],
  lastRow: unknown = null,
  lastEvents: unknown = null,
): ServerStatus {
  const [history, events, output] = counts;
  return {
    id: "i",
    ...{ history, events, output },
    lastRow: lastRow && tree(lastRow),
    lastEvents: lastEvents && tree(lastEvents),
    config: new Map(),
    summary: tree({ _wandb: { runtime: 9 } }),
    tags: [],
    notes: null,
  } as ServerStatus;
}

const known = (history: number, events: number, output: number) => ({
  to: "",
  base: { history, events, output },
  sent: { history: 0, events: 0, output: 0 },
  lastStep: 4,
  alerts: 0,
});

Deno.test("a run that the server does not know begins at its own first step", () => {
  const { start, at, skip } = uploadPlanOf({ ...RUN, startingStep: 3 }, null, null, null);
  assertEquals([start, at, skip], [{ step: 3, runtime: 0 }, { history: 0, events: 0, output: 0 }, NONE]);
});

Deno.test("what was noted beside the file tells which of the server's lines are this file's", () => {
  const plan = uploadPlanOf(
    { ...RUN, resume: true },
    status([12, 5, 3]),
    { step: 7, runtime: 1 },
    known(7, 5, 1),
  );
  assertEquals(plan.start, { step: 7, runtime: 1 });
  assertEquals(plan.skip, { ...NONE, history: 5, events: 0, output: 2 });
  assertEquals(plan.at, { history: 12, events: 5, output: 3 });
});

Deno.test("a server with fewer lines than before this file has made the run anew", () => {
  const plan = uploadPlanOf(RUN, status([2, 0, 0]), { step: 0, runtime: 0 }, known(7, 5, 1));
  assertEquals([plan.skip, plan.base], [NONE, { history: 2, events: 0, output: 0 }]);
});

Deno.test("a file that goes on with a run begins behind its last step and counts its time", () => {
  const plan = uploadPlanOf(
    { ...RUN, resume: true },
    status([6, 2, 4], { _step: 10, _runtime: 12.7 }),
    null,
    null,
  );
  assertEquals([plan.start, plan.skip, plan.continues], [{ step: 11, runtime: 12_000 }, NONE, true]);
});

Deno.test("without a note, rows that were logged since the file began are its own", () => {
  const begun = status([4, 2, 3], { _step: 3, _timestamp: 1005 }, { _timestamp: 1004 });
  assertEquals(uploadPlanOf(RUN, begun, null, null).skip, {
    ...NONE,
    output: 3,
    upToStep: 3,
    upToTime: 1004,
  });
  assertEquals(uploadPlanOf(RUN, begun, { step: 0, runtime: 0 }, null).skip.upToStep, 3);
  const earlier = status([4, 2, 3], { _step: 3, _timestamp: 900 }, { _timestamp: 904 });
  assertEquals(uploadPlanOf(RUN, earlier, null, null).skip, { ...NONE, upToTime: 904 }, "another file's");
});

Deno.test("a part that goes on, of which nothing has come through, is all sent", () => {
  const before = status([4, 0, 0], { _step: 3, _timestamp: 1005 });
  assertEquals(
    uploadPlanOf({ ...RUN, resume: true }, before, { step: 4, runtime: 0 }, null).skip.upToStep,
    null,
  );
});
