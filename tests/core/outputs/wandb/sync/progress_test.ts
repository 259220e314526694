// How far a file's lines are at the server. With a server: upload_test.ts, grows_test.ts.
import { assertEquals } from "@std/assert";
import type { Contents } from "../../../../../core/outputs/wandb/sync/contents.ts";
import { openUploadProgress, type UploadPlan } from "../../../../../core/outputs/wandb/sync/sending.ts";

const counts = (history: number, events: number, output: number) => ({ history, events, output });
const NOTHING = { ...counts(0, 0, 0), upToStep: null, upToTime: null };

function planOf(more: Partial<UploadPlan>): UploadPlan {
  const start = { step: 0, runtime: 0 };
  return { start, at: counts(0, 0, 0), skip: NOTHING, base: null, lastStep: null, continues: false, ...more };
}

/** Rows of these steps, system metrics of these times, so many lines of output. */
function waiting(steps: readonly number[], times: readonly number[], output: number) {
  return {
    history: { first: 0, rows: steps.map((step) => ({ step, text: `{"_step":${step}}` })) },
    events: { first: 0, texts: times.map((t) => `{"_timestamp":${t},"system.cpu":1}`) },
    output: { first: 0, texts: Array.from({ length: output }, (_, i) => `line ${i}`) },
  } as unknown as Contents;
}

const left = ({ history, events, output }: Contents) => [
  history.rows.map(({ step }) => step),
  events.texts.length,
  output.texts.length,
];

Deno.test("lines that the server has are left out by their number, over several readings", () => {
  const progress = openUploadProgress(planOf({
    at: counts(13, 4, 6),
    base: counts(10, 2, 5),
    skip: { ...NOTHING, ...counts(3, 2, 1) },
    lastStep: 2,
  }));
  const first = waiting([0, 1], [5], 0);
  progress.admit(first);
  assertEquals(left(first), [[], 0, 0]);
  const second = waiting([2, 3, 4], [6, 7], 2);
  progress.admit(second);
  assertEquals(left(second), [[3, 4], 1, 1]);
  const third = waiting([5], [8], 1);
  progress.admit(third);
  assertEquals(left(third), [[5], 1, 1]);
  assertEquals(progress.rows, { sent: 0, had: 3 });
  assertEquals(progress.uploaded, { base: counts(10, 2, 5), sent: counts(3, 2, 1), lastStep: 2 });
});

Deno.test("where only the server's last step and time are known, the file's begin there shows with what it lacks", () => {
  const progress = openUploadProgress(planOf({
    at: counts(12, 3, 0),
    skip: { ...NOTHING, upToStep: 1, upToTime: 6.5 },
  }));
  progress.admit(waiting([0, 1], [5, 6], 0));
  assertEquals(progress.uploaded, null, "more may come that the server has");
  const sent = { history: [{ step: 2, text: "" }], events: [], output: ["a", "b"] };
  progress.pass(sent, counts(1, 0, 2));
  const next = waiting([3], [7], 0);
  progress.admit(next);
  assertEquals(left(next), [[3], 1, 0]);
  assertEquals(progress.uploaded, { base: counts(10, 1, 0), sent: counts(3, 2, 2), lastStep: 2 });
});

Deno.test("what has passed leaves the batch from its begin, and the next lines come behind it", () => {
  const progress = openUploadProgress(planOf({ at: counts(4, 0, 0), base: counts(4, 0, 0) }));
  const row = (step: number) => ({ step, text: "" });
  const batch = { history: [row(7), row(8), row(9)], events: ["a"], output: ["b", "c"] };
  progress.pass(batch, counts(2, 0, 1));
  assertEquals(batch, { history: [row(9)], events: ["a"], output: ["c"] });
  assertEquals(progress.at, counts(6, 0, 1));
  assertEquals(progress.uploaded, { base: counts(4, 0, 0), sent: counts(2, 0, 1), lastStep: 8 });
  assertEquals(progress.rows, { sent: 2, had: 0 });
});
