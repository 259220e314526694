// The CUDA stand-in under HIP's names: the program finds AMD's libraries by the table's row, trains to the numbers that it has
// under CUDA's names, and tells what an AMD GPU tells. ./scripts/test-hip runs the rest of tests/cuda so.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl, join } from "paths";
import { EXIT } from "../../core/base/errors.ts";
import { BACKENDS, type GpuKind } from "../../ffi/gpu/backends.ts";
import { ROCM_SMI_FUNCTIONS } from "../../ffi/gpu/monitor.ts";
import { eventsOf, filesIn, inTemp, ROOT, run, succeed } from "../integration/program.ts";
import { GPT, MLP, SHORT } from "./cases.ts";
import { HIP, HIPRTC, RCCL, ROCM_SMI } from "./hip_names.ts";
import { runAll, violations } from "./runs.ts";
import { onStandin, standin, standinEnv } from "./standin.ts";
import { assertSentence } from "../sentences.ts";

const FFI = fromFileUrl(new URL("../../ffi/", import.meta.url));

/** The functions that ffi/ declares, under CUDA's names, by the library that has them; cuDNN and cuBLAS are libraries. */
function declared(): Record<string, string[]> {
  const text = [".", "gpu", "nccl"].flatMap((folder) =>
    [...Deno.readDirSync(join(FFI, folder))].filter(({ name }) => name.endsWith(".ts"))
      .map(({ name }) => Deno.readTextFileSync(join(FFI, folder, name)))
  ).join("\n");
  const of = (beginning: string) => {
    const pattern = new RegExp(`(?:name: "|^ +)(${beginning}[A-Z][a-z]\\w+)(?:"|: \\{)`, "gm");
    return [...new Set([...text.matchAll(pattern)].map(([, name]) => name))];
  };
  const graphs = [...text.matchAll(/name: "(_ZN2at4cuda9CUDAGraph\w+)"/g)].map(([, name]) => name);
  return {
    runtime: of("cuda"),
    driver: of("cu"),
    compiler: of("nvrtc"),
    collectives: of("nccl"),
    torch: [...new Set(graphs), "aoti_torch_get_current_cuda_stream", "torch_set_current_cuda_stream"],
  };
}

Deno.test("each function that the program asks of AMD's libraries is in their public headers", () => {
  const { runtime, driver, compiler, collectives } = declared(), { symbol } = BACKENDS.hip;
  assert(runtime.length > 20 && driver.length > 8 && compiler.length > 7 && collectives.length > 14);
  const asked = [
    ...[...runtime, ...driver].map((name) => ["libamdhip64", symbol(name), HIP] as const),
    ["libamdhip64", "hipGetDevicePropertiesR0600", HIP] as const,
    ...compiler.map((name) => ["libhiprtc", symbol(name), HIPRTC] as const),
    ...collectives.map((name) => ["librccl", symbol(name), RCCL] as const),
    ...ROCM_SMI_FUNCTIONS.map((name) => ["librocm_smi64", name, ROCM_SMI] as const),
  ];
  const unknown = asked.filter(([, name, list]) => !list.includes(name)).map(([library, name]) =>
    `${library}: ${name}`
  );
  assertEquals(unknown, []);
});

interface Opened {
  readonly path: string;
  readonly found: number;
  readonly missing: readonly string[];
}

async function rowOf(kind: GpuKind): Promise<Record<string, Opened | null>> {
  const folder = await standin(kind);
  const functions = { ...declared(), management: kind === "hip" ? ROCM_SMI_FUNCTIONS : ["nvmlInit_v2"] };
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "--allow-all", "--no-check", "--config", join(ROOT, "deno.json")],
      ...[fromFileUrl(new URL("rows.ts", import.meta.url)), kind, folder, JSON.stringify(functions)],
    ],
    env: { LD_LIBRARY_PATH: folder },
  });
  const { success, stdout, stderr } = await child.output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  assert(success, text(stderr));
  return JSON.parse(text(stdout));
}

onStandin("each library of both rows of the table opens under its own name, with all functions", async () => {
  for (const kind of ["cuda", "hip"] as const) {
    const row = await rowOf(kind);
    assertEquals(Object.values(row).map((one) => one?.missing), Array(6).fill([]), JSON.stringify(row));
    assert(Object.values(row).every((one) => one!.found > 0), JSON.stringify(row));
    const files = Object.values(row).map((one) => one!.path.split("/").at(-1)!.replace(/\.so.*/, ""));
    assertEquals(
      files,
      kind === "hip"
        ? ["libamdhip64", "libhiprtc", "libamdhip64", "librccl", "librocm_smi64", "libtorch_hip"]
        : ["libcudart", "libnvrtc", "libcuda", "libnccl", "libnvidia-ml", "libtorch_cuda"],
    );
  }
});

const numbersOf = (cwd: string, name: string): unknown[] =>
  eventsOf(cwd, name).filter(({ kind }) => ["step", "eval", "epoch"].includes(kind))
    .map(({ loss, val_loss, grad_norm }) => [loss, val_loss, grad_norm]);

const CASES: Readonly<Record<string, string>> = {
  plain: `${MLP} --no-compile`,
  captured: `${MLP} --train-samples 128`,
  bf16: `${GPT} --amp bf16 --train-samples 96 --epochs 1`,
  fp16: `${GPT} --amp fp16 --set training.loss_scale_init=1024 --train-samples 96 --epochs 1`,
};

onStandin(
  "a run has the same numbers under HIP's names as under CUDA's, op by op and captured, on one GPU and on two by RCCL",
  () =>
    inTemp(async (cwd) => {
      for (const kind of ["cuda", "hip"] as const) {
        const runs = Object.entries(CASES).map(([name, flags]) => ({
          args: `${SHORT} ${flags} --device cuda --compile=exact --run-name ${kind}-${name}`.split(" "),
        }));
        for (const end of await runAll(cwd, runs, { kind })) {
          assertEquals([end.code, end.error, ...violations(end)], [EXIT.done, null]);
        }
        const env = standinEnv(await standin(kind), { lateMs: 2, more: { CUDA_STANDIN_DEVICES: "2" } });
        const two = `launch -n 2 -- ${SHORT} ${MLP} --device cuda --compile=exact --run-name ${kind}-two`
          .split(" ");
        await succeed(two, { cwd, env });
      }
      for (const name of [...Object.keys(CASES), "two"]) {
        const [cuda, hip] = ["cuda", "hip"].map((kind) => numbersOf(cwd, `${kind}-${name}`));
        assert(cuda.length >= 3, name);
        assertEquals(hip, cuda, name);
      }
    }),
);

const SMALL = `${SHORT} ${MLP} --epochs 1 --max-steps 2 --device cuda`;

async function onHip(cwd: string, args: string, more: Record<string, string> = {}, folder?: string) {
  const env = standinEnv(folder ?? await standin("hip"), { numbers: false, more });
  const { code, stdout, stderr } = await run(args.split(" "), { cwd, env });
  return { code, said: stdout + stderr };
}

onStandin(
  "ROCm SMI's figures are in a run's events and in doctor, with errors of memory and what holds a GPU back",
  () =>
    inTemp(async (cwd) => {
      const more = {
        CUDA_STANDIN_DEVICES: "2",
        CUDA_STANDIN_MEMORY_ERRORS: "3",
        CUDA_STANDIN_THROTTLE: String(2 ** 36),
        CUDA_STANDIN_NAME: "AMD Instinct MI250X",
      };
      const often = "--max-steps 0 --epochs 60 --set output.system_interval=0.05s";
      // A counter of MI300 goes on from one reading to the next.
      const trained = await onHip(cwd, `${SMALL} ${often} --run-name told`, {
        ...more,
        CUDA_STANDIN_HELD_BACK: "1",
      });
      assertEquals(trained.code, EXIT.done, trained.said);
      assertMatch(trained.said, /^GPU: AMD Instinct MI250X, capability 9\.0; fp32 products$/m);
      const mfu = eventsOf(cwd, "told").flatMap(({ mfu }) => typeof mfu === "number" ? [mfu] : []);
      assert(mfu.length > 0 && mfu.every((share) => share > 0), "the peak of an MI250X is known");
      const [event, ...later] = eventsOf(cwd, "told").filter(({ kind }) => kind === "system");
      assertEquals(later.at(-1)?.gpu_throttle, ["hardware thermal slowdown", "power cap"]);
      const told = Object.fromEntries(Object.entries(event).filter(([name]) => name.startsWith("gpu_")));
      const { gpu_memory_bytes: used, gpu_memory_total_bytes: all, ...rest } = told;
      assert(Number(used) >= 0 && all === 8 * 2 ** 30, `${used} of ${all}`);
      assertEquals(rest, {
        gpu_percent: 50,
        gpu_memory_percent: 25,
        gpu_power_w: 312.5,
        gpu_temperature_c: 61,
        gpu_clock_mhz: 1700,
        gpu_memory_clock_mhz: 1600,
        gpu_memory_errors: 3,
        gpu_throttle: ["hardware thermal slowdown"],
      });
      const { said } = await onHip(cwd, "doctor --device cuda", { ...more, ROCR_VISIBLE_DEVICES: "1" });
      assertMatch(said, /good +libtorch +2\.15\.0\S* with ROCm/);
      assertMatch(
        said,
        /good +GPU +1 GPU: 1 x AMD Instinct MI250X .*libtorch for ROCm 7\.2; ROCR_VISIBLE_DEVICES=1$/m,
      );
      assertMatch(said, /good +GPU now +GPU 0 50% busy, .* 313 W, 61 °C$/m);
      assertMatch(said, /warn +GPU errors +the memory of GPU 0 has had 3 errors .*--exclude/);
      assertMatch(
        said,
        /warn +GPU speed +GPU 0 is held back \(hardware thermal slowdown\)\. `rocm-smi`/,
      );
      assertMatch(said, /good +RCCL +2\.31\.7 as NCCL counts, .*librccl\.so\.1/);
    }),
);

interface Wrong {
  readonly what: string;
  readonly more: Record<string, string>;
  readonly args?: string;
  readonly code: number;
  readonly said: RegExp;
}

const DRY = `train ${SMALL} --dry-run`;
const WRONG: readonly Wrong[] = [
  {
    what: "a driver that has no list of products",
    more: { CUDA_STANDIN_NAME: "-" },
    code: EXIT.done,
    said: /^GPU: gfx90a:sramecc\+:xnack-, capability 9\.0; /m,
  },
  {
    what: "no driver",
    more: { CUDA_STANDIN_DRIVER: "0" },
    code: EXIT.environment,
    said:
      /there is no AMD driver on this machine \(amdgpu makes \/dev\/kfd\)\. Take a node with GPUs .*--rocm.*--device cpu\./,
  },
  {
    what: "all devices hidden",
    more: { ROCR_VISIBLE_DEVICES: "" },
    code: EXIT.environment,
    said: /ROCR_VISIBLE_DEVICES is "", which hides all devices\. Name one that `rocm-smi` lists/,
  },
  {
    what: "variables of which one numbers what the other leaves",
    more: { CUDA_STANDIN_DEVICES: "4", ROCR_VISIBLE_DEVICES: "2,3", CUDA_VISIBLE_DEVICES: "1,2" },
    args: "doctor --device cuda",
    code: EXIT.done,
    said:
      /warn +GPU variables +ROCR_VISIBLE_DEVICES is "2,3" and CUDA_VISIBLE_DEVICES is "1,2": .* finds only 1\. Write `unset/,
  },
  {
    what: "a GPU that another process has for itself",
    more: { CUDA_STANDIN_FAIL: "cudaSetDevice:1:46" },
    code: EXIT.environment,
    said: /HIP could not use device 0: .*which rocm-smi shows.*take another with ROCR_VISIBLE_DEVICES/,
  },
  {
    what: "memory that other processes hold",
    more: { CUDA_STANDIN_TAKEN_MIB: "6144" },
    code: EXIT.done,
    said: /Other processes hold 6\.\d+ GiB of this GPU's 8\.0+ GiB: rocm-smi names them/,
  },
];

onStandin(
  "each way in which an AMD GPU can't be used, or not as it is, is a sentence with what to do",
  () =>
    inTemp(async (cwd) => {
      await standin("hip");
      const faults = await Promise.all(WRONG.map(async ({ what, more, args = DRY, code, said }) => {
        const result = await onHip(cwd, args, more);
        return result.code === code && said.test(result.said)
          ? []
          : `${what}: code ${result.code}: ${result.said}`;
      }));
      assertEquals(faults.flat(), []);
    }),
);

onStandin(
  "a libtorch for ROCm that is older than 2.11 is told what it lacks, and trains on the CPU",
  () =>
    inTemp(async (cwd) => {
      const folder = await standin("hip"), old = join(cwd, "old");
      Deno.mkdirSync(old);
      for (const { name } of Deno.readDirSync(folder)) {
        if (name !== "version.py") Deno.symlinkSync(join(folder, name), join(old, name));
      }
      Deno.writeTextFileSync(join(old, "version.py"), "__version__ = '2.10.0+rocm7.1'\n");
      const asked = await onHip(cwd, DRY, {}, old);
      assertEquals(asked.code, EXIT.environment, asked.said);
      assertSentence("cuda/hip: rocm built rocm", asked.said);
      const doctor = await onHip(cwd, "doctor", {}, old);
      assertMatch(doctor.said, /warn +libtorch +its half for GPUs can't be used: .*2\.11 or newer/);
    }),
);

onStandin(
  "a node of eight GPUs (four MI250X) has eight tasks in a job's script, and each rank takes the GPU of its number",
  () =>
    inTemp(async (cwd) => {
      const env = standinEnv(await standin("hip"), {
        lateMs: 2,
        numbers: false,
        more: { CUDA_STANDIN_DEVICES: "8", CUDA_STANDIN_COUNTS: join(cwd, "counts") },
      });
      const script = await succeed(
        "sbatch --nodes 2 --gpus-per-node 8 --device cuda --model mlp".split(" "),
        { cwd, env },
      );
      assertMatch(script.stdout, /^#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8$/m);
      const often = "--set output.system_interval=0.05s --epochs 20 --batch-size 4";
      const { stdout } = await succeed(`launch -n 8 -- ${SHORT} ${MLP} ${often} --device cuda`.split(" "), {
        cwd,
        env,
      });
      assertMatch(stdout, /Starting distributed training on 8 GPUs/);
      const watched = filesIn(cwd).filter((file) => file.startsWith("counts.")).flatMap((file) => {
        const text = new TextDecoder("latin1").decode(Deno.readFileSync(join(cwd, file)));
        return text.match(/rocm_smi:busy of \d/g) ?? [];
      });
      assertEquals(watched.sort(), Array.from({ length: 8 }, (_, i) => `rocm_smi:busy of ${i}`));
    }),
);
