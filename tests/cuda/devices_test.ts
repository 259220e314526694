// GPUs that can't be used, or not as they are: each is told in a sentence with what to do, on the CUDA stand-in.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import type { RunGpuFacts } from "../../core/run/events.ts";
import { eventsOf, filesIn, inTemp, type Result, run } from "../integration/program.ts";
import { launch } from "../integration/launches.ts";
import { EXIT } from "../../core/base/errors.ts";
import { runAll } from "./runs.ts";
import { onStandin, standin, standinEnv } from "./standin.ts";
import { assertSentence } from "../sentences.ts";

const SMALL =
  "--epochs 1 --max-steps 2 --train-samples 32 --val-samples 8 --batch-size 8 --threads 1 --num-workers 1 " +
  "--no-wandb --device cuda";

const MIG = "NVIDIA A100-SXM4-40GB MIG 1g.5gb";

interface Case {
  readonly what: string;
  /** What the stand-in is told. */
  readonly more: Record<string, string>;
  readonly args?: string;
  readonly code: number;
  readonly said: RegExp;
}

const DRY = `train ${SMALL} --dry-run`, RUN = `train ${SMALL} --model mlp --no-compile`;
/** As the stand-in names its second device. */
const SECOND = "GPU-d1d2d3d4";

const CASES: readonly Case[] = [
  {
    what: "no driver",
    more: { CUDA_STANDIN_DRIVER: "0" },
    code: EXIT.environment,
    said:
      /--device cuda, but there is no NVIDIA driver on this machine\. Take a node with GPUs .*--device cpu\./,
  },
  {
    what: "a driver that is too old",
    more: { CUDA_STANDIN_DRIVER: "12040" },
    code: EXIT.environment,
    said:
      /the NVIDIA driver is too old: it serves CUDA 12\.4, and .* CUDA 13\.\d\. .*libtorch install --cuda/,
  },
  {
    what: "a driver that is too old, of a GPU that nobody asked for",
    more: { CUDA_STANDIN_DRIVER: "12040", CUDA_VISIBLE_DEVICES: "0" },
    args: `${DRY} --device auto`,
    code: EXIT.done,
    said: /The GPUs of this machine are not used: the NVIDIA driver is too old/,
  },
  {
    what: "an older one, whose --amp auto is fp16, with an optimizer that refuses it",
    more: { CUDA_STANDIN_CAPABILITY: "70" },
    args: `${RUN} --amp auto --optimizer lbfgs --scheduler constant`,
    code: EXIT.usage,
    said: /--optimizer lbfgs does not go together with --amp fp16: .* take bf16 or off/,
  },
  {
    what: "a driver without a device, as with MIG on and no MIG device",
    more: { CUDA_STANDIN_DEVICES: "0" },
    code: EXIT.environment,
    said: /the NVIDIA driver sees no device\. .*MIG on, ask for a MIG device/,
  },
  {
    what: "a name that the driver does not know",
    more: { CUDA_VISIBLE_DEVICES: "GPU-8f6f" },
    code: EXIT.environment,
    said:
      /CUDA_VISIBLE_DEVICES is "GPU-8f6f", and the NVIDIA driver knows no device GPU-8f6f\. .*nvidia-smi -L/,
  },
  {
    what: "a GPU that another process has for itself",
    more: { CUDA_STANDIN_FAIL: "cudaSetDevice:1:46" },
    code: EXIT.environment,
    said: /CUDA could not use device 0: .*busy or unavailable\. Another process has this GPU for itself/,
  },
  {
    what: "a GPU whose memory is faulty",
    more: { CUDA_STANDIN_FAIL: "cudaLaunchKernel:60:214" },
    args: RUN,
    code: EXIT.environment,
    said: /The GPU failed in .*ECC error.*memory is faulty .*--exclude/,
  },
  {
    what: "memory that other processes hold",
    more: { CUDA_STANDIN_TAKEN_MIB: "6144" },
    code: EXIT.done,
    said: /Other processes hold 6\.\d+ GiB of this GPU's 8\.0+ GiB: nvidia-smi names them/,
  },
  {
    what: "so much memory held that nothing is left",
    more: { CUDA_STANDIN_TAKEN_MIB: "8191" },
    code: EXIT.memory,
    said:
      /Out of memory before the first step .*Other processes held 8\.0+ GiB of this GPU when the run began/,
  },
  {
    what: "a driver that names its threads and asks for a server, in a sandbox",
    more: {},
    args: `${RUN} --sandbox`,
    code: EXIT.done,
    said: /^Reached --max-steps 2 /m,
  },
  {
    what: "a GPU by its name",
    more: { CUDA_STANDIN_DEVICES: "2", CUDA_VISIBLE_DEVICES: SECOND, CUDA_STANDIN_CAPABILITY: "70,80" },
    code: EXIT.done,
    said: /GPU: CUDA stand-in .*, capability 8\.0;/,
  },
];

async function on(more: Record<string, string>, args: string, cwd: string): Promise<Result> {
  const env = standinEnv(await standin(), { numbers: false, more });
  return await run(args.split(" "), { cwd, env });
}

onStandin("each way in which a GPU can't be used is a sentence with what to do", () =>
  inTemp(async (cwd) => {
    await standin();
    const faults = await Promise.all(CASES.map(async ({ what, more, args = DRY, code, said }) => {
      const result = await on(more, args, cwd), all = result.stdout + result.stderr;
      return result.code === code && said.test(all) ? [] : `${what}: code ${result.code}: ${all}`;
    }));
    assertEquals(faults.flat(), []);
  }));

onStandin("doctor names GPUs of two kinds, held memory, and a MIG device", () =>
  inTemp(async (cwd) => {
    const { stdout } = await on(
      {
        ...{ CUDA_STANDIN_DEVICES: "2", CUDA_STANDIN_CAPABILITY: "80,70" },
        ...{ CUDA_STANDIN_TAKEN_MIB: "6144", CUDA_STANDIN_NAME: MIG },
      },
      "doctor --device cuda",
      cwd,
    );
    assertMatch(
      stdout,
      /good +GPU libraries +cuDNN 9\.26\.0, \/.*NVRTC \d+\.\d+, \/.*; attention in bf16 by flash$/m,
    );
    assertMatch(stdout, /warn +GPU kinds +there are 2 kinds/);
    assertMatch(stdout, /warn +GPU memory +other processes hold 6\.\d GiB of the 8\.0 GiB of GPU 0/);
    assertMatch(stdout, /good +GPU +this is a MIG device/);
  }));

onStandin(
  "two ranks on GPUs of two kinds compute in a precision that both have",
  () =>
    inTemp(async (cwd) => {
      const more = { CUDA_STANDIN_DEVICES: "2", CUDA_STANDIN_CAPABILITY: "80,70" };
      const env = standinEnv(await standin(), { lateMs: 2, numbers: false, more });
      const flags = `-n 2 -- ${SMALL} --model mlp --amp auto --run-name two`.split(" ");
      const { code, stdout, stderr } = await launch(cwd, null, flags, env).result;
      assertEquals(code, EXIT.done, stdout + stderr);
      assertMatch(stdout, /GPUs of 2 kinds: .*8\), .*7\).*--amp auto is fp16/);
      assertMatch(stdout, /Mixed precision: fp16/);
    }),
);

onStandin(
  "a run on a GPU says which kernels it gets: TF32, cuDNN, channels last, attention",
  () =>
    inTemp(async (cwd) => {
      const line = async (args: string, more = {}) =>
        /^GPU: .*$/m.exec((await on(more, `${DRY} ${args}`, cwd)).stdout)?.[0];
      const [long, convnet, gpt, plain, dropping, old] = await Promise.all([
        line("--model simple-convnet --max-steps 1000 --epochs 250"),
        line("--model simple-convnet"),
        line("--model gpt --layers 1"),
        line("--model vit --layers 1 --no-tf32 --amp off --deterministic"),
        line("--model gpt --layers 1 --amp off"),
        line("--model mlp", { CUDA_STANDIN_CAPABILITY: "70" }),
      ]);
      const name = "GPU: CUDA stand-in (no GPU), capability";
      assertSentence("cuda/devices: products cudnn searching", long, { name });
      assertEquals(convnet, `${name} 8.0; TF32 products, cuDNN 9.26.0, channels last`);
      assertEquals(gpt, `${name} 8.0; TF32 products, flash attention`);
      assertEquals(plain, `${name} 8.0; fp32 products, memory-efficient attention`);
      assertEquals(dropping, `${name} 8.0; TF32 products, memory-efficient attention`);
      assertEquals(old, `${name} 7.0; fp32 products`);
    }),
);

onStandin(
  "a run's events say what its GPU is, and a MIG device is watched by its own name",
  () =>
    inTemp(async (cwd) => {
      const more = { CUDA_STANDIN_NAME: MIG, CUDA_STANDIN_COUNTS: join(cwd, "counts") };
      const { code, stderr } = await on(more, `${RUN} --model gpt --layers 1 --run-name said`, cwd);
      const [begun] = eventsOf(cwd, "said").filter(({ kind }) => kind === "run");
      const { name, attention, capability } = begun.gpu as RunGpuFacts;
      assertEquals([code, name, attention, capability], [0, MIG, ["flash"], "8.0"], stderr);
      const counts = filesIn(cwd).filter((file) => file.startsWith("counts."));
      assertMatch(counts.map((file) => Deno.readTextFileSync(join(cwd, file))).join(), /nvml:MIG-d0d1d2d3-/);
    }),
);

onStandin(
  "a long run searches cuDNN's kernels for whole training batches, and for no smaller batch and no evaluation",
  () =>
    inTemp(async (cwd) => {
      const args = `${RUN} --model simple-convnet --train-samples 4001 --val-samples 12 --batch-size 4`
        .replace("--max-steps 2 ", "").split(" ");
      const [{ counts }] = await runAll(cwd, [{ args }], { numbers: false });
      // Two convolutions forward, and three gradients of theirs; and three batches that are judged.
      const tried = counts["launch:cudnnBackendExecute"].count - (1001 * 5 + 3 * 2);
      assert(tried > 0 && tried <= 5 * 8, `${tried} kernels were tried for 5 shapes`);
    }),
);
