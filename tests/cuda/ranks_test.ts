// Two ranks on two GPUs of the CUDA stand-in, by its NCCL, train to the losses of two ranks on the CPU.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { eventsOf, inTemp, run } from "../integration/program.ts";
import { type Case, GPT, MLP, RESNET, SHORT } from "./cases.ts";
import { onStandin, standin, standinEnv } from "./standin.ts";

const TICK_MS = 2; // a rank's queue goes on by itself: another rank waits for its part

const CASES: readonly Case[] = [
  {
    name: "ranks with unlike numbers of samples",
    flags: `${MLP} --train-samples 45 --val-samples 21 --eval-batch-size 5`,
  },
  { name: "ZeRO-1", flags: `${GPT} --zero 1 --train-samples 32 --epochs 1` },
  { name: "synchronised batch norm", flags: `${RESNET} --sync-bn --max-steps 2 --lr 1e-5`, apart: 1e-4 },
  {
    name: "fp16, an average and accumulation",
    flags:
      `${MLP} --amp fp16 --set training.loss_scale_init=1024 --ema 0.9 --grad-accum 2 --train-samples 192 --clip-norm 0.3`,
    cpu: "--amp off",
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

for (const { name, flags, cpu = "", apart } of CASES) {
  onStandin(`${name}: two ranks on the CUDA stand-in have the CPU's losses`, () =>
    inTemp(async (cwd) => {
      const folder = await standin(), more = { CUDA_STANDIN_DEVICES: "2" };
      await Promise.all([
        train(cwd, "gpus", `${flags} --device cuda`, standinEnv(folder, { lateMs: TICK_MS, more })),
        train(cwd, "cpus", `${flags} ${cpu} --device cpu`, { OMP_NUM_THREADS: "1" }),
      ]);
      const fields = ["loss", "val_loss", ...(apart === undefined ? ["grad_norm"] : [])];
      const there = numbers(cwd, "gpus", fields), here = numbers(cwd, "cpus", fields);
      assert(there.length >= 3 && there.length === here.length, `${there} and ${here}`);
      const most = Math.max(
        ...here.map((value, i) => Math.abs(value - there[i]) / Math.max(1, Math.abs(value))),
      );
      assert(most <= (apart ?? 1e-5), `${most} apart: ${there} and ${here}`);
    }));
}

onStandin(
  "a step that two ranks captured with its collectives has the bits of the step op by op",
  () =>
    inTemp(async (cwd) => {
      const flags =
        `${GPT} --dropout 0.1 --zero 1 --amp fp16 --set training.loss_scale_init=1024 --epochs 1 ` +
        "--train-samples 224 --set distributed.capture=true --device cuda";
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
