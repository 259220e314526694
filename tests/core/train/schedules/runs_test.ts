// Whole runs with schedules that have a state or move more than the rate: stopped and going on, and what they say.
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import { trainLoop } from "../../../../core/train/loop.ts";
import { setThreads } from "../../../../ffi/context.ts";
import { assertSentence } from "../../../sentences.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { contents, eventsIn, started, type Trained, trained } from "../started.ts";

setThreads(1);

/** Twelve steps an epoch. */
const SMALL = ["--train-samples=72", "--val-samples=8", "--batch-size=6", "--epochs=5", "--lr=0.1"];
const PLATEAU = "plateau(patience=0, threshold=0.9, factor=0.5)";

const ratesOf = ({ events }: Trained) => events.filter(({ kind }) => kind === "step").map(({ lr }) => lr);

for (
  const [title, flags, at] of [
    ["a plateau", [`--scheduler=${PLATEAU}`, "--eval-interval=5steps"], 30],
    ["a plateau by epochs, behind a warm-up", [`--scheduler=${PLATEAU}`, "--warmup=1ep"], 24],
    ["one cycle with momentum", ["--scheduler=onecycle()", "--optimizer=sgd"], 17],
    ["one cycle of groups with rates of their own", ["--scheduler=onecycle()", "--lr-for=0.*=0.05"], 17],
    ["weight decay that moves", ["--set=training.scheduler.weight_decay_end=0.3"], 29],
    ["stretches", ["--scheduler=linear 10steps > exponential(gamma=0.9) 2ep > cosine"], 22],
  ] as const
) {
  Deno.test(
    `${title}: a run that was stopped goes on with the rates of one that was not`,
    inFolder(async (folder) => {
      const all = [...SMALL, ...flags], whole = await trained(join(folder, "whole"), all);
      const half = await trained(join(folder, "half"), [...all, `--max-steps=${at}`, "--run-name=r"]);
      const rest = await trained(join(folder, "half"), all, half.path);
      // A schedule ends with --max-steps, but for a plateau's.
      if (title.startsWith("a plateau")) {
        assertEquals([...ratesOf(half), ...ratesOf(rest)], ratesOf(whole));
        assert(new Set(ratesOf(whole)).size > 2, `${ratesOf(whole)}`);
        const weights = (path: string) =>
          [...contents(path)].filter(([at]) => /model_state|cursor\/plateau|scheduler_state/.test(at));
        assertEquals(weights(rest.path), weights(whole.path));
      } else assertEquals(ratesOf(rest), ratesOf(whole).slice(at));
    }),
  );
}

Deno.test(
  "a checkpoint has the momentum of its next step, where a schedule moves it",
  inFolder(async (folder) => {
    const flags = ["--scheduler=onecycle()", "--optimizer=adamw", "--max-steps=20"];
    const { path } = await trained(folder, [...SMALL, ...flags]), saved = contents(path);
    const group = (name: string) => Number(saved.get(`/optimizer_state_dict/param_groups/0/${name}`));
    assertEquals([group("max_momentum"), group("base_momentum"), group("betas/1")], [0.95, 0.85, 0.999]);
    assertEquals(group("betas/0"), 0.95);
    assertEquals(saved.get("/scheduler_state_dict/use_beta1"), "true");
  }),
);

Deno.test(
  "a compiled run says that an update with moving momentum runs op by op",
  inFolder((folder) =>
    started(folder, [...SMALL, "--scheduler=onecycle()", "--compile=fast"], async (run) => {
      await trainLoop(run);
      const [line] = run.compiling.filter((line) => line.includes("adamw"));
      assertSentence("core/train/schedules/runs: an update op by op", line);
      assertEquals((await eventsIn(run)).filter(({ kind }) => kind === "warning"), []);
    })
  ),
);

Deno.test(
  "before its first step a run refuses a plateau without evaluations, and momentum that is not there",
  inFolder(async (folder) => {
    for (
      const flags of [["--scheduler=plateau", "--eval-interval=0"], [
        "--scheduler=onecycle()",
        "--optimizer=adagrad",
      ]]
    ) {
      await assertRejects(() => started(folder, [...SMALL, ...flags], () => {}), UserError);
    }
    const left = (at: string): string[] =>
      [...Deno.readDirSync(at)].flatMap(({ name, isDirectory }) =>
        isDirectory ? left(join(at, name)) : [name]
      );
    assertEquals(left(folder), []);
  }),
);
