// --compile=fast on the CUDA stand-in: groups and updates are CUDA C of the program's own, which the stand-in's NVRTC has
// g++ compile. They run at once, late, and within captured steps, and train as libtorch's own kernels do.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { BACKENDS } from "../../ffi/gpu/backends.ts";
import { eventsOf, inTemp, succeed } from "../integration/program.ts";
import { CONVNET, GPT, MLP, SHORT, UNET } from "./cases.ts";
import { type Ended, runAll, violations } from "./runs.ts";
import { KIND, onStandin, standin, standinEnv } from "./standin.ts";
import { sentenceNamed } from "../sentences.ts";

interface Case {
  readonly flags: string;
  /** Losses and norms may be so far from each other, in parts of themselves. */
  readonly apart: number;
}

const FEW = "--train-samples 20 --val-samples 4 --batch-size 4 --epochs 1";
const PARTS = "--train-samples 80 --val-samples 16 --batch-size 16 --epochs 1 --set model.vocab_size=4096 " +
  "--set training.logits_mib=1";
const CASES: Readonly<Record<string, Case>> = {
  mlp: { flags: `${MLP} --clip-norm 0.1 --ema 0.9`, apart: 2e-5 },
  gpt: { flags: `${GPT} ${FEW}`, apart: 2e-5 },
  // Its head makes logits in parts, which are whole in a plan.
  "gpt in parts": { flags: `${GPT} ${PARTS}`, apart: 2e-5 },
  "gpt in parts-bf16": { flags: `${GPT} ${PARTS} --amp bf16`, apart: 5e-3 },
  convnet: { flags: `${CONVNET} ${FEW} --optimizer sgd --momentum 0.9 --nesterov`, apart: 2e-5 },
  accumulation: {
    flags: `${MLP} --grad-accum 3 --train-samples 250 --optimizer adam --weight-decay 0.01`,
    apart: 2e-5,
  },
  half: { flags: `${MLP} --amp bf16`, apart: 5e-3 },
  "gpt-bf16": { flags: `${GPT} ${FEW} --amp bf16`, apart: 5e-3 },
  "unet-bf16": { flags: `${UNET} --amp bf16`, apart: 1e-2 },
  // A scale that lets no step be skipped; weights' gradients are f32 with fast, and overflow later.
  fp16: {
    flags: `${GPT} ${FEW} --amp fp16 --clip-norm 0.5 --set training.loss_scale_init=1024`,
    apart: 5e-3,
  },
};
const WAYS = { fused: "--compile=fast", captured: "--compile=exact" };

const runOf = (name: string, way: string) => `${name}-${way}`.replaceAll(" ", "-");

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
          args: `${SHORT} ${flags} --device cuda ${compile} --run-name ${runOf(name, way)}`.split(" "),
          late: way === "fused" && name !== "gpt",
        }))
      );
      const ends = await runAll(cwd, runs);
      for (const end of ends) assertEquals([end.code, end.error, ...violations(end)], [0, null]);
      Object.entries(CASES).forEach(([name, { apart }], i) => {
        const [fused, captured] = ends.slice(2 * i, 2 * i + 2);
        const [ours, theirs] = ["fused", "captured"].map((way) => stepsOf(cwd, runOf(name, way)));
        assert(ours.length > 3 && ours.length === theirs.length, name);
        ours.forEach(({ loss, grad_norm }, k) => {
          const near = (a: unknown, b: unknown) =>
            Math.abs(Number(a) - Number(b)) <= apart * Math.abs(Number(b));
          assert(near(loss, theirs[k].loss), `${name}, step ${k}: ${loss} and ${theirs[k].loss}`);
          assert(near(grad_norm, theirs[k].grad_norm), `${name}, step ${k}: the gradient's norm`);
        });
        assertEquals(eventsOf(cwd, runOf(name, "fused")).filter(({ kind }) => kind === "warning"), []);
        assert(fused.counts["operator:group0"].count > 0, name);
        assert(perStep(fused) < perStep(captured), `${name}: ${perStep(fused)} of ${perStep(captured)}`);
      });
    }),
);

onStandin(
  "a compiled run with dropout that goes on has the bits of one that was never stopped, captured or op by op, and its steps drop",
  () =>
    inTemp(async (cwd) => {
      const flags =
        `${SHORT} ${CONVNET} --dropout 0.3 --amp bf16 --train-samples 128 --epochs 1 --device cuda ` +
        "--compile=fast --set training.scheduler.type=constant";
      const runs = {
        whole: "",
        // Late, and with steps of two micro-batches, which draw other numbers.
        stopped: "--max-steps 5",
        on: "--resume checkpoints/stopped_latest.pt --max-steps 8",
        "without dropout": "--dropout 0",
        accumulated: "--grad-accum 2 --batch-size 8",
      };
      const ends = await runAll(
        cwd,
        Object.entries(runs).map(([name, more]) => ({
          args: [...`${flags} ${more}`.trim().split(" "), "--run-name", name.replaceAll(" ", "-")],
          late: name === "on",
        })),
      );
      for (const end of ends) assertEquals([end.code, end.error, ...violations(end)], [0, null]);
      const losses = (name: string) => stepsOf(cwd, name).map(({ loss }) => loss);
      assertEquals(losses("whole").length, 8);
      assertEquals([...losses("stopped"), ...losses("on")], losses("whole"));
      for (const other of ["without-dropout", "accumulated"]) {
        assert(losses(other).every((loss, i) => loss !== losses("whole")[i]), other);
      }
      for (const name of Object.keys(runs)) {
        assertEquals(
          eventsOf(cwd, name.replaceAll(" ", "-")).filter(({ kind }) => kind === "warning"),
          [],
          name,
        );
      }
    }),
);

onStandin(
  "in fp16 the update leaves steps out on the device whose gradients overflow, and a compiled run finds its scale",
  () =>
    inTemp(async (cwd) => {
      const flags =
        `${SHORT} ${MLP} --epochs 4 --amp fp16 --set training.loss_scale_init=1048576 --device cuda`;
      const ways = { fused: "--compile=fast", plain: "--no-compile" };
      const ends = await runAll(
        cwd,
        Object.entries(ways).map(([name, compile]) => ({
          args: `${flags} ${compile} --run-name ${name}`.split(" "),
          late: name === "fused",
        })),
      );
      for (const end of ends) assertEquals([end.code, end.error, ...violations(end)], [0, null]);
      const [fused, plain] = Object.keys(ways).map((name) => stepsOf(cwd, name));
      const skipped = (steps: typeof fused) =>
        steps.filter(({ grad_norm }) => !Number.isFinite(grad_norm)).length;
      assert(
        skipped(fused) > 2 && skipped(fused) < fused.length - 4,
        `${skipped(fused)} of ${fused.length} steps`,
      );
      assertEquals(skipped(fused), skipped(plain));
      fused.forEach(({ loss }, i) => {
        assert(
          Math.abs(Number(loss) - Number(plain[i].loss)) < 2e-3 * Number(plain[i].loss),
          `step ${i}: ${loss}`,
        );
      });
      const scales = Object.keys(ways).map((name) =>
        eventsOf(cwd, name).filter(({ kind }) => kind === "warning").map(({ message }) => message)
      );
      assertEquals(scales[0], scales[1]);
    }),
);

onStandin(
  "where there is no compiler of CUDA C a line says so, and steps go op by op",
  () =>
    inTemp(async (cwd) => {
      const args = `${SHORT} ${MLP} --epochs 1 --max-steps 2 --device cuda --compile=fast --run-name none`;
      const env = { ...standinEnv(await standin()), HPCTRAIN_NVRTC: "/nowhere/libnvrtc.so" };
      await succeed(args.split(" "), { cwd, env });
      assertEquals(
        eventsOf(cwd, "none").filter(({ kind }) => kind === "warning").map(({ message }) => message),
        [
          sentenceNamed("cuda/compiled: steps compiled beside", { compiler: BACKENDS[KIND].words.compiler }),
        ],
      );
      assertEquals(stepsOf(cwd, "none").length, 2);
    }),
);

onStandin(
  "a text that was compiled before comes from the cache, and a run whose text no compiler takes goes op by op and says so",
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
      assert(
        before.length >= 2 && before.every((name) => /^[0-9a-f]{64}\.cubin$/.test(name)),
        String(before),
      );
      // The cache alone: this g++ can't be started.
      const again = await run("again", { PATH: "/nowhere" });
      assert(again.includes("Steps are compiled: "), again);
      assertEquals(kept(), before);
      await run("refused", { PATH: "/nowhere", HPCTRAIN_CACHE: join(cwd, "empty") });
      assertEquals(
        eventsOf(cwd, "refused").filter(({ kind }) => kind === "warning").map(({ message }) => message),
        [
          sentenceNamed("cuda/compiled: steps compiled could", { compiler: BACKENDS[KIND].words.compiler }),
        ],
      );
    }),
);
