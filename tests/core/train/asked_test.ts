// What is due between two steps, alone and with other ranks.
import { assertEquals } from "@std/assert";
import { openBoundaryRequests, openEvaluations } from "../../../core/train/pauses.ts";
import { enough } from "../../../core/train/loop.ts";
import type { Agreed } from "../../../core/ranks/control/messages.ts";
import type { Trainer } from "../../../core/train/trainer.ts";

interface Case {
  readonly interval?: string;
  readonly stop?: string | null;
  readonly save?: boolean;
  /** Set with other ranks. */
  readonly rank?: number;
  readonly agreed?: Agreed | null;
  /** A save that was asked for within the step. */
  readonly within?: string | null;
  readonly evaluate?: string;
  /** So was an evaluation. */
  readonly evaluateWithin?: boolean;
}

/** What is due at each of these steps, and what happened meanwhile: wishes passed on, places passed; and where an evaluation is due. */
function due(c: Case, here: boolean, ...steps: readonly number[]) {
  const done: string[] = [], evaluated: number[] = [];
  const cursor = { step: 0, epoch: 0, stepInEpoch: 0 };
  const pauses = {
    takeSave: () => (done.push("within"), c.within ?? null),
    takeEvaluation: () => c.evaluateWithin ?? false,
  };
  const ranks = c.rank === undefined ? null : {
    team: { rank: c.rank },
    request: (_: unknown, save: boolean, evaluate: boolean) =>
      done.push(`wish ${save}${evaluate ? " and to evaluate" : ""}`),
    control: { agreed: () => (done.push("here"), c.agreed ?? null) },
  };
  const trainer = {
    config: { training: { save_interval: c.interval ?? "2steps", eval_interval: c.evaluate ?? "1ep" } },
    plan: { stepsPerEpoch: 10 },
    requests: { stop: () => c.stop ?? null, takeSave: () => c.save ?? false },
    cursor,
    ranks,
  } as unknown as Trainer;
  const places = pauses as unknown as Parameters<typeof openBoundaryRequests>[1];
  const asked = openBoundaryRequests(trainer, places, openEvaluations(trainer));
  for (const since = performance.now(); performance.now() === since;); // what goes by the clock is due
  const given = steps.map((step) => {
    Object.assign(cursor, { step, stepInEpoch: step });
    const { stop, save, evaluate } = asked(here);
    if (evaluate) evaluated.push(step);
    return stop === null ? save : `stop: ${stop}${save === null ? "" : ` and save: ${save}`}`;
  });
  return c.evaluate === undefined ? { given, done } : { given, done, evaluated };
}

Deno.test("alone: a request to save stands before the interval and does not wait for it; a stop is told beside either", () => {
  assertEquals(due({}, true, 1, 2, 3, 4).given, [null, "interval", null, "interval"]);
  assertEquals(due({ save: true }, true, 1, 2).given, ["request", "request"]);
  const both = Array(2).fill("stop: TERM and save: request");
  assertEquals(due({ stop: "TERM", save: true }, true, 1, 2).given, both);
});

Deno.test("while data is waited for nothing is due by steps, and no place of the ranks is passed", () => {
  assertEquals(due({}, false, 2).given, [null]);
  assertEquals(due({ stop: "TERM" }, false, 2).given, ["stop: TERM"]);
  const { given, done } = due(
    { rank: 0, stop: "TERM", agreed: { what: "stop", reason: "TERM", at: 1 } },
    false,
    2,
  );
  assertEquals([given, done], [[null], ["wish false"]]);
});

Deno.test("ranks wish first, then pass the place; what they agree on stands before what each knows by itself", () => {
  const ranks = { rank: 1, stop: "TERM", save: true } as const;
  assertEquals(due(ranks, true, 1), { given: [null], done: ["wish false", "here", "within"] });
  assertEquals(due(ranks, true, 2).given, ["interval"]);
  const agreed = (what: "stop" | "save") => ({ what, reason: `agreed ${what}`, at: 1 });
  assertEquals(due({ ...ranks, agreed: agreed("save") }, true, 1, 2).given, ["agreed save", "agreed save"]);
  assertEquals(due({ ...ranks, within: "request" }, true, 1, 2).given, ["request", "request"]);
  assertEquals(due({ ...ranks, within: "request", agreed: agreed("stop") }, true, 2).given, [
    "stop: agreed stop",
  ]);
});

Deno.test("of ranks, the first alone looks at the clock for a save, and makes it a wish", () => {
  const timed = { interval: "1e-9s" };
  assertEquals(due(timed, true, 1).given, ["interval"]);
  assertEquals(due({ ...timed, rank: 0 }, true, 1), { given: [null], done: ["wish true", "here", "within"] });
  assertEquals(due({ ...timed, rank: 1 }, true, 1), {
    given: [null],
    done: ["wish false", "here", "within"],
  });
});

Deno.test("an evaluation is due by steps on every rank, and by the clock where the first rank says so", () => {
  const evaluated = (c: Case, ...steps: number[]) => due(c, true, ...steps).evaluated;
  assertEquals(evaluated({ evaluate: "3steps" }, 1, 2, 3, 4, 6), [3, 6]);
  assertEquals(evaluated({ evaluate: "3steps", rank: 1 }, 1, 2, 3, 4, 6), [3, 6]);
  const timed = { evaluate: "1e-9s", interval: "0" };
  assertEquals(evaluated(timed, 1), [1]);
  assertEquals(due({ ...timed, rank: 0 }, true, 1).done[0], "wish false and to evaluate");
  assertEquals([evaluated({ ...timed, rank: 0 }, 1), evaluated({ ...timed, rank: 1 }, 1)], [[], []]);
  const agreed: Agreed = { what: "evaluate", reason: "interval", at: 1 };
  assertEquals(evaluated({ ...timed, rank: 1, agreed }, 1), [1]);
  assertEquals(due({ ...timed, rank: 1, agreed }, true, 1).given, [null], "it is no save");
  assertEquals(evaluated({ ...timed, rank: 1, evaluateWithin: true }, 1), [1]);
});

Deno.test("--max-steps are enough when they are done; 0 never is", () => {
  const at = (max_steps: number, step: number) =>
    enough({ config: { training: { max_steps } }, cursor: { step } } as unknown as Trainer);
  assertEquals([at(3, 2), at(3, 3), at(3, 4), at(0, 0), at(0, 9)], [false, true, true, false, false]);
});
