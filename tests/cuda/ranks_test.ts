// Two ranks on two GPUs of the CUDA stand-in, by its NCCL, train to the losses of one process on the CPU.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { eventsOf, inTemp, run } from "../integration/program.ts";
import { type Case, GPT, MLP, SHORT, UNET } from "./cases.ts";
import { runAll } from "./runs.ts";
import { onStandin, standin, standinEnv } from "./standin.ts";
import { assertSentence } from "../sentences.ts";

const TICK_MS = 2; // a rank's queue goes on by itself: another rank waits for its part

/** `batch`: of both ranks together. */
const CASES: readonly (Case & { readonly batch: number })[] = [
  { name: "steps as they come, compiled and captured", flags: `${MLP} --train-samples 192`, batch: 32 },
  {
    name: "ranks with unlike numbers of samples",
    flags: `${MLP} --train-samples 45 --val-samples 21 --eval-batch-size 5`,
    batch: 32,
  },
  { name: "ZeRO-1", flags: `${GPT} --zero 1 --train-samples 96 --epochs 1`, batch: 32 },
  {
    name: "synchronised batch norm",
    flags: `${UNET} --sync-bn --train-samples 32 --epochs 1 --lr 1e-5`,
    batch: 8,
  },
  {
    name: "fp16, an average and accumulation",
    flags: `${MLP} --ema 0.9 --grad-accum 2 --train-samples 192 --clip-norm 0.3`,
    gpu: "--amp fp16 --set training.loss_scale_init=1024",
    batch: 32,
    apart: 1e-2,
  },
];

function numbers(cwd: string, name: string, fields: readonly string[]): number[] {
  return eventsOf(cwd, name).filter(({ kind }) => ["step", "eval", "epoch"].includes(kind))
    .flatMap((event) => fields.map((field) => event[field]))
    .filter((value): value is number => typeof value === "number");
}

async function train(
  cwd: string,
  name: string,
  flags: string,
  env: Record<string, string>,
): Promise<string> {
  const words = `launch -n 2 -- ${SHORT} ${flags} --run-name ${name}`.split(" ").filter((word) =>
    word !== ""
  );
  const { code, stdout, stderr } = await run(words, { cwd, env, timeout: 120 });
  assertEquals(code, 0, stdout + stderr);
  assert(!/VIOLATION/.test(stdout + stderr), stdout + stderr);
  return stdout;
}

/** Two ranks' batch norm adds up in another order, and processors differ in theirs: without AVX-512 a norm is 1.5e-5 away. */
const ROUNDING = 3e-5;

onStandin(
  "two ranks on the CUDA stand-in have the losses of one process on the CPU",
  () =>
    inTemp(async (cwd) => {
      const env = standinEnv(await standin(), { lateMs: TICK_MS, more: { CUDA_STANDIN_DEVICES: "2" } });
      const onCpu = runAll(
        cwd,
        CASES.map(({ flags, batch }, i) => ({
          args: `${SHORT} ${flags} --batch-size ${batch} --device cpu --run-name whole${i}`.split(" "),
        })),
      );
      for (const [i, { flags, gpu = "" }] of CASES.entries()) {
        await train(cwd, `ranks${i}`, `${flags} ${gpu} --device cuda`, env);
      }
      await onCpu;
      for (const [i, { name, apart }] of CASES.entries()) {
        const fields = ["loss", "val_loss", ...(apart === undefined ? ["grad_norm"] : [])];
        const there = numbers(cwd, `ranks${i}`, fields), here = numbers(cwd, `whole${i}`, fields);
        assert(there.length >= 3 && there.length === here.length, `${name}: ${there} and ${here}`);
        const most = Math.max(
          ...here.map((value, k) => Math.abs(value - there[k]) / Math.max(1, Math.abs(value))),
        );
        assert(most <= (apart ?? ROUNDING), `${name}: ${most} apart: ${there} and ${here}`);
      }
    }),
);

onStandin(
  "a step that two ranks captured with its collectives has the bits of the step op by op",
  () =>
    inTemp(async (cwd) => {
      const flags =
        `${GPT} --dropout 0.1 --zero 1 --amp fp16 --set training.loss_scale_init=1024 --epochs 1 ` +
        "--train-samples 224 --compile=exact --device cuda";
      const env = standinEnv(await standin(), { lateMs: TICK_MS, more: { CUDA_STANDIN_DEVICES: "2" } });
      const [captured] = await Promise.all([
        train(cwd, "captured", flags, env),
        train(cwd, "plain", `${flags} --no-compile`, env),
      ]);
      assertMatch(captured, /Steps are replayed as a CUDA graph/);
      const fields = ["loss", "val_loss", "grad_norm", "loss_scale"];
      const [a, b] = ["captured", "plain"].map((name) => numbers(cwd, name, fields));
      assert(a.length > 20, String(a));
      assertEquals(a, b);
    }),
);

onStandin(
  "two ranks that share a GPU train to the losses of one process, and a node's GPUs have room for no more",
  () =>
    inTemp(async (cwd) => {
      const env = standinEnv(await standin(), { lateMs: TICK_MS, more: { CUDA_VISIBLE_DEVICES: "0" } });
      const flags = `${SHORT} ${MLP} --train-samples 192 --device cuda --run-name`;
      const ranks = (words: string) => run(`launch ${words} shared`.split(" "), { cwd, env, timeout: 120 });
      const [shared] = await Promise.all([
        ranks(`--ranks-per-gpu 2 -- --batch-size 16 ${flags}`),
        runAll(cwd, [{
          args: `${SHORT} ${MLP} --train-samples 192 --batch-size 32 --run-name whole`.split(" "),
        }]),
      ]);
      assertEquals(shared.code, 0, shared.stdout + shared.stderr);
      assertMatch(shared.stdout, /Starting distributed training on 2 GPUs/);
      const [own, theirs] = ["shared", "whole"].map((name) => numbers(cwd, name, ["loss", "val_loss"]));
      assertEquals(own.length, theirs.length);
      own.forEach((loss, i) => assert(Math.abs(loss - theirs[i]) < 2e-5 * theirs[i], `${own} and ${theirs}`));
      const refused = await ranks(`-n 3 --ranks-per-gpu 2 -- ${flags}`);
      assertEquals(refused.code, 2);
      assertSentence("cuda/ranks: ranks-per-gpu node shows", refused.stderr);
    }),
);
