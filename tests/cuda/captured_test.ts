// Steps that can't be captured as a CUDA graph run op by op, and the run says why.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { eventsOf, inTemp, succeed } from "../integration/program.ts";
import { CONVNET, MLP, SHORT, SPIKES } from "./cases.ts";
import { runAll, violations } from "./runs.ts";
import { onStandin, standin, standinEnv } from "./standin.ts";
import { assertSentence } from "../sentences.ts";

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
      const flags = `${SHORT} --model ./reads.ts --train-samples 128 --device cuda --compile=exact`;
      const ends = await runAll(cwd, [
        { args: `${flags} --run-name captured`.split(" ") },
        { args: `${flags} --run-name plain --no-compile`.split(" ") },
      ]);
      assertEquals(ends.map(({ code, error }) => [code, error]), [[0, null], [0, null]]);
      const [warning, ...more] = eventsOf(cwd, "captured").filter(({ kind }) => kind === "warning");
      assertSentence("cuda/captured: training step captured", String(warning.message));
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
      const flags = `${SHORT} ${MLP} --dropout 0.3 ` +
        "--train-samples 128 --epochs 1 --device cuda --compile=exact " +
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
  "a run whose schedule moves the momentum says that its steps are not captured, and has the rates of one that is",
  () =>
    inTemp(async (cwd) => {
      const flags = `${SHORT} ${MLP} --train-samples 64 --epochs 1 --device cuda --compile=exact`.split(" ");
      const run = (momentum: boolean) => [...flags, `--scheduler=onecycle(cycle_momentum=${momentum})`];
      const ends = await runAll(cwd, [
        { args: [...run(true), "--run-name=moved"] },
        { args: [...run(false), "--run-name=still"] },
      ]);
      assertEquals(ends.map(({ code, error }) => [code, error]), Array(2).fill([0, null]));
      assertEquals(ends.map(({ counts }) => (counts["graph:captured"]?.count ?? 0) > 1), [false, true]);
      const steps = (name: string) => eventsOf(cwd, name).filter(({ kind }) => kind === "step");
      assertEquals(steps("moved").map(({ lr }) => lr), steps("still").map(({ lr }) => lr));
      const log = Deno.readTextFileSync(join(cwd, "logs/moved/rank-0.log"));
      assertSentence("cuda/captured: momentum moves", /Steps are not captured.*/.exec(log)?.[0]);
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
          args: `${SHORT} ${MLP} --device cuda --compile=exact ${flags} --run-name ${name}-${way}`.split(" "),
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

const WIDE =
  `${SHORT} ${CONVNET} --batch-size 64 --train-samples 640 --val-samples 16 --epochs 1 --device cuda --compile=exact`;

onStandin(
  "graphs of several kinds of steps share their memory",
  () =>
    inTemp(async (cwd) => {
      // Every second step wants the norm of its gradient: a kind of its own.
      const runs = [1, 1, 2].map((every, i) => `${WIDE} --log-interval ${every} --run-name r${i}`.split(" "));
      const ends = await runAll(cwd, runs.map((args) => ({ args })), { numbers: false });
      assertEquals(ends.map(({ code, error }) => [code, error]), Array(3).fill([0, null]));
      // A kind has two graphs, one for each memory of the feed; in the last run each kind meets one memory alone.
      assertEquals(ends.map((end) => end.counts["graph:captured"].count), [4, 4, 4]); // one of nothing comes before each
      const [before, one, two] = ends.map((end) => end.counts["live:device bytes"].count);
      assert(one - before > 100 << 20, `a graph holds ${one - before} bytes`);
      assert(
        two - one < one - before + (8 << 20),
        `two graphs hold ${two - one} bytes, and one ${one - before}`,
      );
    }),
);

onStandin(
  "a run says how much of the GPU's memory its captured steps hold",
  () =>
    inTemp(async (cwd) => {
      const env = standinEnv(await standin(), { numbers: false });
      const { stdout } = await succeed(`${WIDE} --run-name told`.split(" "), { cwd, env });
      const held = /captured in \d+ ms, with (\d+\.\d MiB) more of the GPU's memory\./.exec(stdout)?.[1];
      const end = /GPU memory in use at the end: [\d.]+ \w+, (\d+\.\d MiB) of it for captured steps/.exec(
        stdout,
      )?.[1];
      assert(held !== undefined && parseFloat(held) > 30, stdout);
      assertEquals(end, held);
    }),
);
