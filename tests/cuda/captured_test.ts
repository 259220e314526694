// Steps that can't be captured as a CUDA graph run op by op, and the run says why.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { eventsOf, inTemp } from "../integration/program.ts";
import { MLP, SHORT } from "./cases.ts";
import { runAll } from "./runs.ts";
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
