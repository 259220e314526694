// Steps that can't be captured as a CUDA graph run op by op, and the run says why.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { eventsOf, inTemp } from "../integration/program.ts";
import { MLP, SHORT, SPIKES } from "./cases.ts";
import { runAll, violations } from "./runs.ts";
import { onStandin } from "./standin.ts";

const READS_BACK = `export default ({ nn, ops, facts, outputs }) => {
  class Net extends nn.Module {
    first = this.child("first", new nn.Linear(facts.input.shape[0], 24));
    last = this.child("last", new nn.Linear(24, outputs));
    forward(x) {
      const y = this.first.forward(x);
      return this.last.forward(ops.sum(y).item() > 1e9 ? y : ops.relu(y));
    }
  }
  return new Net();
};
`;

onStandin(
  "a model that reads a value back is named in a warning, and trains to the same losses op by op",
  () =>
    inTemp(async (cwd) => {
      Deno.writeTextFileSync(join(cwd, "reads.ts"), READS_BACK);
      const flags = `${SHORT} --model ./reads.ts --train-samples 128 --device cuda`;
      const ends = await runAll(cwd, [
        { args: `${flags} --run-name captured`.split(" ") },
        { args: `${flags} --run-name plain --no-compile`.split(" ") },
      ]);
      assertEquals(ends.map(({ code, error }) => [code, error]), [[0, null], [0, null]]);
      const [warning, ...more] = eventsOf(cwd, "captured").filter(({ kind }) => kind === "warning");
      assertMatch(
        String(warning.message),
        /^The training step can't be captured as a CUDA graph, so it runs op by op: item\(f32\[\]@cuda:0\): .*--no-compile/,
      );
      assertEquals(more, []);
      const losses = (name: string) =>
        eventsOf(cwd, name).filter(({ kind }) => kind === "step").map(({ loss }) => loss);
      assertEquals(losses("captured").length, 16);
      assertEquals(losses("captured"), losses("plain"));
    }),
);

onStandin(
  "a run that goes on has the bits of one that was never stopped, captured or not",
  () =>
    inTemp(async (cwd) => {
      const flags = `${SHORT} ${MLP} --dropout 0.3 ` + "--train-samples 128 --epochs 1 --device cuda " +
        "--set training.scheduler.type=constant";
      const stopped = "--max-steps 5 --run-name stopped",
        on = "--resume checkpoints/stopped_latest.pt --run-name on";
      const ends = await runAll(cwd, [
        { args: `${flags} --run-name whole`.split(" ") },
        { args: `${flags} ${stopped}`.split(" ") },
        { args: `${flags} ${on} --max-steps 8`.split(" ") },
      ]);
      assertEquals(ends.map(({ code, error }) => [code, error]), Array(3).fill([0, null]));
      const losses = (name: string) =>
        eventsOf(cwd, name).filter(({ kind }) => kind === "step").map(({ loss }) => loss);
      assertEquals([...losses("stopped"), ...losses("on")], losses("whole"));
    }),
);

onStandin(
  "captured steps give the epochs' metrics and the averaged weights of steps that run op by op",
  () =>
    inTemp(async (cwd) => {
      const small = "--log-interval 7 --batch-size 4 --val-samples 8";
      const cases = {
        long: `${small} --train-samples 150`, // places are filled a second time, and the last batch is short
        several: `${small} --train-samples 430 --grad-accum 3 --epochs 1`, // no number of steps fills all places
        averaged: `${small} --train-samples 60 --ema 0.9`,
        half: `${small} --train-samples 60 --amp fp16`,
        rewound: "--train-samples 80 --epochs 1 --on-spike rewind " + SPIKES,
      };
      const runs = Object.entries(cases).flatMap(([name, flags]) =>
        ["captured", "plain --no-compile"].map((way) => ({
          args: `${SHORT} ${MLP} --device cuda ${flags} --run-name ${name}-${way}`.split(" "),
          late: way === "captured",
        }))
      );
      const ends = await runAll(cwd, runs);
      for (const end of ends) assertEquals([end.code, end.error, ...violations(end)], [0, null]);
      const told = (name: string) =>
        eventsOf(cwd, name).filter(({ kind }) => kind === "epoch" || kind === "eval")
          .map(({ loss, val_loss, metrics, val_metrics }) => ({ loss, val_loss, metrics, val_metrics }));
      for (const name of Object.keys(cases)) {
        assert(told(name + "-captured").length > 1, name);
        assertEquals(told(name + "-captured"), told(name + "-plain"), name);
      }
    }),
);
