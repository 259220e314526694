// --compile=fast on the CUDA stand-in: groups and updates are CUDA C of the program's own, which the stand-in's NVRTC has
// g++ compile. They run at once, late, and within captured steps, and train as libtorch's own kernels do.
import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { BACKENDS } from "../../ffi/gpu/backends.ts";
import { eventsOf, inTemp, succeed } from "../integration/program.ts";
import { CONVNET, GPT, MLP, SHORT } from "./cases.ts";
import { type Ended, runAll, violations } from "./runs.ts";
import { KIND, onStandin, standin, standinEnv } from "./standin.ts";

interface Case {
  readonly flags: string;
  /** Losses and norms may be so far from each other, in parts of themselves. */
  readonly apart: number;
}

const FEW = "--train-samples 20 --val-samples 4 --batch-size 4 --epochs 1";
const CASES: Readonly<Record<string, Case>> = {
  mlp: { flags: `${MLP} --clip-norm 0.1 --ema 0.9`, apart: 2e-5 },
  gpt: { flags: `${GPT} ${FEW}`, apart: 2e-5 },
  convnet: { flags: `${CONVNET} ${FEW} --optimizer sgd --momentum 0.9 --nesterov`, apart: 2e-5 },
  accumulation: {
    flags: `${MLP} --grad-accum 3 --train-samples 250 --optimizer adam --weight-decay 0.01`,
    apart: 2e-5,
  },
  half: { flags: `${MLP} --amp bf16`, apart: 5e-3 },
};
const WAYS = { fused: "--compile=fast", captured: "--compile" };

const stepsOf = (cwd: string, name: string) => eventsOf(cwd, name).filter(({ kind }) => kind === "step");

/** What the stand-in queues for one captured step. */
const perStep = ({ counts }: Ended): number =>
  counts["graph:launched"].bytes / counts["graph:launched"].count;

onStandin(
  "fused groups in captured steps train as libtorch's kernels do, with fewer of them, at once and late",
  () =>
    inTemp(async (cwd) => {
      const runs = Object.entries(CASES).flatMap(([name, { flags }]) =>
        Object.entries(WAYS).map(([way, compile]) => ({
          args: `${SHORT} ${flags} --device cuda ${compile} --run-name ${name}-${way}`.split(" "),
          late: way === "fused" && name !== "gpt",
        }))
      );
      const ends = await runAll(cwd, runs);
      for (const end of ends) assertEquals([end.code, end.error, ...violations(end)], [0, null]);
      Object.entries(CASES).forEach(([name, { apart }], i) => {
        const [fused, captured] = ends.slice(2 * i, 2 * i + 2);
        const [ours, theirs] = [`${name}-fused`, `${name}-captured`].map((run) => stepsOf(cwd, run));
        assert(ours.length > 3 && ours.length === theirs.length, name);
        ours.forEach(({ loss, grad_norm }, k) => {
          const near = (a: unknown, b: unknown) =>
            Math.abs(Number(a) - Number(b)) <= apart * Math.abs(Number(b));
          assert(near(loss, theirs[k].loss), `${name}, step ${k}: ${loss} and ${theirs[k].loss}`);
          assert(near(grad_norm, theirs[k].grad_norm), `${name}, step ${k}: the gradient's norm`);
        });
        assertEquals(eventsOf(cwd, `${name}-fused`).filter(({ kind }) => kind === "warning"), []);
        assert(fused.counts["operator:group0"].count > 0, name);
        assert(perStep(fused) < perStep(captured), `${name}: ${perStep(fused)} of ${perStep(captured)}`);
      });
    }),
);

onStandin(
  "a text that was compiled before comes from the cache, and a run without NVRTC goes op by op and says so",
  () =>
    inTemp(async (cwd) => {
      const folder = await standin(), cache = join(cwd, "cache");
      const env = { ...standinEnv(folder), HPCTRAIN_CACHE: cache };
      const flags = `${SHORT} ${MLP} --epochs 1 --max-steps 2 --device cuda --compile=fast`;
      const run = async (name: string, more = {}) =>
        (await succeed(`${flags} --run-name ${name}`.split(" "), { cwd, env: { ...env, ...more } })).stdout;
      const kept = () => [...Deno.readDirSync(join(cache, "kernels"))].map(({ name }) => name).sort();
      assert((await run("first")).includes("Steps are compiled: "));
      const before = kept();
      assertEquals(before.map((name) => /^[0-9a-f]{64}\.cubin$/.test(name)), [true, true]);
      // The cache alone: this g++ can't be started.
      const again = await run("again", { PATH: "/nowhere" });
      assert(again.includes("Steps are compiled: "), again);
      assertEquals(kept(), before);
      await run("refused", { PATH: "/nowhere", HPCTRAIN_CACHE: join(cwd, "empty") });
      assertEquals(
        eventsOf(cwd, "refused").filter(({ kind }) => kind === "warning").map(({ message }) => message),
        [
          `Steps are not compiled: ${
            BACKENDS[KIND].words.compiler
          } could not compile CUDA C. They run op by op.`,
        ],
      );
    }),
);
