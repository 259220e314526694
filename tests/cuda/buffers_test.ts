// --compile=fast on the CUDA stand-in: buffers are those of ordinary steps, whether the plan is used or refused.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { readPt } from "../../core/checkpoint/pt.ts";
import type { TensorData } from "../../core/checkpoint/value.ts";
import { eventsOf, inTemp } from "../integration/program.ts";
import { SHORT } from "./cases.ts";
import { copyOfSources, runAll, violations } from "./runs.ts";
import { onStandin } from "./standin.ts";

/** A norm whose result nobody needs, one that is used, and statistics that forward reads behind their norm. */
const NET = `export default ({ nn, ops, facts, outputs }) => {
  class Net extends nn.Module {
    first = this.child("first", new nn.Linear(facts.input.shape[0], 24));
    seen = this.child("seen", new nn.BatchNorm(24));
    norm = this.child("norm", new nn.BatchNorm(24));
    last = this.child("last", new nn.Linear(24, outputs));
    mean = this.buffer("mean", ops.zeros([24]));
    variance = this.buffer("variance", ops.ones([24]));
    forward(x) {
      const z = this.first.forward(x);
      this.seen.forward(z);
      ops.batchNorm(z, null, null, this.mean, this.variance, true, 0.1, 1e-5, true);
      return this.last.forward(ops.relu(ops.sub(this.norm.forward(z), this.mean)));
    }
  }
  return new Net();
};
`;

const BUFFERS = ["seen", "norm"].flatMap((name) =>
  ["running_mean", "running_var", "num_batches_tracked"].map((buffer) => `${name}.${buffer}`)
).concat("mean", "variance");

function buffersOf(cwd: string, run: string): Map<string, readonly number[]> {
  using file = readPt(join(cwd, "checkpoints", `${run}_latest.pt`));
  const state = (file.root as Map<string, unknown>).get("model_state_dict") as Map<string, TensorData>;
  return new Map(BUFFERS.map((name) => {
    const { dtype, storage, byteLength } = state.get(name)!, { buffer } = storage.read(0, byteLength).slice();
    return [
      name,
      dtype === "i64" ? [...new BigInt64Array(buffer)].map(Number) : [...new Float32Array(buffer)],
    ];
  }));
}

onStandin(
  "a plan that is used or refused leaves the buffers that ordinary steps leave",
  () =>
    inTemp(async (cwd) => {
      Deno.writeTextFileSync(join(cwd, "net.ts"), NET);
      const flags = `${SHORT} --model ./net.ts --train-samples 96 --optimizer sgd --device cuda`;
      const args = (more: string, name: string) => `${flags} ${more} --run-name ${name}`.split(" ");
      const ends = await runAll(cwd, [
        { args: args("--no-compile", "plain") },
        { args: args("--compile=fast", "used") },
        { args: args("--compile=fast", "late"), late: true },
      ]);
      const sources = await copyOfSources(), path = join(sources, "core/compile/lower/losses.ts");
      try {
        const text = Deno.readTextFileSync(path),
          wrong = text.replace("g.mul(miss, miss)", "g.mul(g.add(miss, num(1)), miss)");
        assert(wrong !== text);
        Deno.writeTextFileSync(path, wrong);
        ends.push(...await runAll(cwd, [{ args: args("--compile=fast", "refused") }], { sources }));
      } finally {
        Deno.removeSync(sources, { recursive: true });
      }
      for (const end of ends) assertEquals([end.code, end.error, ...violations(end)], [0, null]);
      const warnings = (run: string) =>
        eventsOf(cwd, run).filter(({ kind }) => kind === "warning").map(({ message }) => message);
      assertEquals([warnings("used"), warnings("late")], [[], []]);
      assertMatch(warnings("refused").join("\n"), /^Compiled steps give other gradients than /);
      assert(ends[1].counts["operator:group0"].count > 0);
      const plain = buffersOf(cwd, "plain");
      for (const run of ["used", "late", "refused"]) {
        for (const [name, values] of buffersOf(cwd, run)) {
          const theirs = plain.get(name)!, far = values.map((value, i) => Math.abs(value - theirs[i]));
          assert(
            Math.max(...far) <= 2e-5 * Math.max(...theirs.map(Math.abs)),
            `${run}, ${name}: ${values} and ${theirs}`,
          );
        }
      }
    }),
);
