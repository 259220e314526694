// Which sweep the words of a command make, or go on with.
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "paths";
import { planSweep } from "../../commands/run/sweep_plan.ts";
import { UserError } from "../../core/base/errors.ts";
import { inFolder } from "../core/checkpoint/python.ts";

type Options = Parameters<typeof planSweep>[1];

const planned = (folder: string, words: readonly string[], options: Partial<Options> = {}) =>
  planSweep([...words, `--save-dir=${folder}`], options as Options, ["hpctrain", "sweep"], "hpctrain sweep");

Deno.test(
  "runs of an earlier sweep are not taken for those of a new one, whose names are the same",
  inFolder((folder) => {
    const words = ["--lr=1e-3,1e-2", "--epochs=3"];
    Deno.mkdirSync(join(folder, "logs/sweep-lr1e-2"), { recursive: true });
    Deno.writeTextFileSync(join(folder, "logs/sweep-lr1e-2/events.jsonl"), "");
    const { sweep, remaining } = planned(folder, words);
    assertEquals([sweep.name, sweep.runs.map(({ run }) => run), remaining], [
      "sweep-2",
      ["sweep-2-lr1e-3", "sweep-2-lr1e-2"],
      [0, 1],
    ]);
    assertMatch(
      assertThrows(() => planned(folder, words, { name: "sweep" }), UserError).message,
      /sweep-lr1e-2 is of another sweep/,
    );
  }),
);

Deno.test(
  "a sweep ranks by what its runs are told is better, unless it is told itself",
  inFolder((folder) => {
    const words = ["--lr=1e-3,1e-2", "--monitor=val_gain", "--monitor-mode=max"];
    const goal = (options: Partial<Options>, more: string[] = []) =>
      planned(folder, [...words, ...more], options).sweep.goal;
    assertEquals(goal({ metric: "gain" }), "maximize");
    assertEquals(goal({ metric: "val_gain", search: "grid" }), "maximize");
    assertEquals(goal({ metric: "gain", goal: "minimize" }), "minimize");
    assertEquals([goal({}), goal({ metric: "gain" }, ["--monitor-mode=auto"])], [undefined, undefined]);
  }),
);
