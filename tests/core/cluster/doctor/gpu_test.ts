import { assertEquals, assertMatch } from "@std/assert";
import { driverIn, type GpuFacts, judgeGpu } from "../../../../core/cluster/doctor/gpu.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

const H100 = { name: "NVIDIA H100", capability: "9.0", memory: 80 * 2 ** 30, taken: 0, state: null };
/** Four H100 with a driver of the 550 branch. */
const NODE: GpuFacts = {
  asked: "auto",
  kind: "cuda",
  files: 4,
  visible: {},
  contradiction: null,
  shown: 4,
  driver: "550.54.14",
  driverCuda: "12.4",
  libtorchCuda: true,
  builtFor: "12.8",
  compiler: "12.8",
  devices: [H100, H100, H100, H100],
  absence: null,
  why: null,
};
const NONE: GpuFacts = {
  ...NODE,
  files: 0,
  shown: 0,
  driver: null,
  driverCuda: null,
  builtFor: null,
  devices: [],
};
const judged = (more: Partial<GpuFacts>, base = NODE) => judgeGpu({ ...base, ...more });

Deno.test("four GPUs that libtorch can use are one good line", () => {
  const [line, ...more] = judged({});
  assertEquals([line.state, more.length], ["good", 0]);
  assertSentence("core/cluster/doctor/gpu: gpus nvidia gib", line.said);
});

Deno.test("a machine without GPUs is good, and bad where one was asked for", () => {
  assertEquals(judged({}, NONE).map(({ state }) => state), ["good"]);
  const [line] = judged({ asked: "cuda" }, NONE);
  assertEquals(line.state, "bad");
  assertMatch(line.fix!, /--gres=gpu:1.*--device cpu/);
});

Deno.test("a libtorch for CPUs on a machine with GPUs is a warning, and bad with --device cuda", () => {
  const cpu = {
    libtorchCuda: false,
    devices: [],
    builtFor: null,
    why: "libtorch in /x was built without CUDA",
  };
  const [line] = judged(cpu);
  assertEquals(line.state, "warn");
  assertMatch(line.said, /built for CPUs/);
  const fixFor = (driverCuda: string) => judged({ ...cpu, driverCuda })[0].fix!;
  assertSentence("core/cluster/doctor/gpu: libtorch install cuda", fixFor("12.4"));
  assertMatch(fixFor("13.2"), /which takes PyTorch 2\.15\.0 for this driver\.$/);
  assertMatch(fixFor("11.8"), /`hpctrain libtorch install --cuda`\.$/);
  assertEquals(judged({ ...cpu, asked: "cuda" })[0].state, "bad");
  assertEquals(judged({ ...cpu, asked: "cpu" })[0].state, "good");
});

Deno.test("a driver that is too old for libtorch says which CUDA it serves", () => {
  const why = "the NVIDIA driver is too old: it serves CUDA 12.4, and this libtorch was built for CUDA 13.2";
  const [line] = judged({ devices: [], builtFor: null, absence: "old driver", why });
  assertEquals(line.state, "warn");
  assertMatch(line.said, /serves CUDA 12\.4/);
  assertMatch(line.fix!, /built for CUDA 12\.4 or older/);
});

Deno.test("CUDA_VISIBLE_DEVICES that shows none is named", () => {
  const [line] = judged({
    visible: { CUDA_VISIBLE_DEVICES: "" },
    shown: 0,
    devices: [],
    why: "no CUDA-capable device is detected",
  });
  assertMatch(line.said, /CUDA_VISIBLE_DEVICES is ""/);
});

Deno.test("a name in CUDA_VISIBLE_DEVICES that the driver does not know is named, with where to look", () => {
  const gone = {
    visible: { CUDA_VISIBLE_DEVICES: "GPU-1234" },
    shown: 1,
    devices: [],
    absence: "hidden",
  } as const;
  const [line] = judged({ ...gone, asked: "cuda" });
  assertEquals(line.state, "bad");
  assertSentence("core/cluster/doctor/gpu: gpu shows none", line.said);
  assertMatch(line.fix!, /nvidia-smi -L/);
});

Deno.test("a driver that shows no device of a GPU with MIG on says how to ask for one", () => {
  const [line] = judged({ devices: [], absence: "no device", why: "the NVIDIA driver sees no device" });
  assertMatch(line.fix!, /MIG on, ask for a MIG device/);
});

Deno.test("GPUs of two kinds, memory that others hold and a MIG device have lines of their own", () => {
  const A100 = { ...H100, name: "NVIDIA A100", capability: "8.0" };
  const [, kinds] = judged({ devices: [H100, A100] });
  assertEquals([kinds.state, kinds.name], ["warn", "GPU kinds"]);
  assertMatch(kinds.said, /NVIDIA H100 \(9\.0\), NVIDIA A100 \(8\.0\).*slowest/);
  const [, held] = judged({ devices: [H100, { ...H100, taken: 60 * 2 ** 30 }] });
  assertEquals([held.state, held.said], [
    "warn",
    sentenceNamed("core/cluster/doctor/gpu: other processes hold"),
  ]);
  const [, mig] = judged({ devices: [{ ...H100, name: "NVIDIA A100-SXM4-40GB MIG 1g.5gb" }] });
  assertEquals(mig.state, "good");
  assertMatch(mig.said, /MIG device: a process sees one/);
});

Deno.test("drivers in a range with a known fault are warned of, and those beside it are not", () => {
  const states = ["555.42.06", "560.28.03", "560.35.05", "565.57.01", "570.86.15"].map((driver) =>
    judged({ driver }).map(({ state }) => state).join()
  );
  assertEquals(states, ["good", "good,warn", "good,warn", "good", "good"]);
});

Deno.test("a driver below NVIDIA's least for the CUDA of libtorch is warned of", () => {
  const [, line] = judged({ driver: "575.57.08", builtFor: "13.0" });
  assertMatch(line.said, /575\.57\.08 is older than 580/);
  assertEquals(judged({ driver: "580.65.06", builtFor: "13.0" }).length, 1);
});

Deno.test("a libtorch without a compiler for kernels of our own is warned of, with what brings one", () => {
  const [, line] = judged({ compiler: null });
  assertSentence("core/cluster/doctor/gpu: nvrtc beside libtorch", line.said);
  assertMatch(line.fix ?? "", /libtorch install --cuda/);
});

Deno.test("the driver's version is read from both kinds of its kernel module", () => {
  const closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024";
  const open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build";
  assertEquals([closed, open, ""].map(driverIn), ["550.54.14", "570.86.15", null]);
});

const MI250X = {
  name: "AMD Instinct MI250X",
  capability: "9.0",
  memory: 64 * 2 ** 30,
  taken: 0,
  state: null,
};
const LUMI: GpuFacts = {
  ...NODE,
  kind: "hip",
  files: 8,
  shown: 8,
  driver: "6.10.5",
  driverCuda: null,
  builtFor: "7.0",
  devices: Array(8).fill(MI250X),
};

Deno.test("a node of AMD's GPUs is one good line, with the variables that were set", () => {
  const [line, ...more] = judged({ visible: { ROCR_VISIBLE_DEVICES: "0,1,2,3,4,5,6,7" } }, LUMI);
  assertEquals([line.state, more.length], ["good", 0]);
  assertSentence("core/cluster/doctor/gpu: gpus amd instinct", line.said);
});

Deno.test("each reason for which AMD's GPUs can't be used has its own remedy", () => {
  const none = { devices: [], builtFor: null, asked: "cuda" } as const;
  const permission = "this user may not open /dev/kfd, through which programs reach AMD's GPUs";
  const [denied] = judged({ ...none, absence: "no permission", why: permission }, LUMI);
  assertEquals([denied.state, denied.said], ["bad", permission]);
  assertMatch(denied.fix!, /groups render and video/);
  const other = { absence: "other vendor", why: "libtorch in /x was built for CUDA, and ..." } as const;
  assertMatch(
    judged({ ...none, ...other }, LUMI)[0].fix!,
    /^Take a libtorch for ROCm, PyTorch 2\.11 or newer/,
  );
  assertMatch(judged({ ...none, ...other })[0].fix!, /^Take a libtorch for CUDA/);
  const [cpu] = judged({ ...none, libtorchCuda: false }, LUMI);
  assertMatch(`${cpu.said} ${cpu.fix}`, /8 AMD GPUs here .*built for CPUs.*ROCm, PyTorch 2\.11 or newer/);
  const contradiction = { what: "the first leaves none", fix: "Unset it" };
  const [both] = judged({ ...none, shown: 0, contradiction }, LUMI);
  assertSentence("core/cluster/doctor/gpu: amd gpus driver", `${both.said}. ${both.fix}`);
  const [some, variables] = judged({ contradiction }, LUMI);
  assertEquals([some.state, variables.state, variables.name], ["good", "warn", "GPU variables"]);
});

Deno.test("what a GPU tells of itself is a line, and errors of its memory and what holds it back are warnings", () => {
  const state = { gpu_percent: 3, gpu_memory_bytes: 2 ** 30, gpu_power_w: 95.4, gpu_temperature_c: 41 };
  const [, now, errors, speed] = judged({
    devices: [
      { ...MI250X, state },
      { ...MI250X, state: { ...state, gpu_memory_errors: 2, gpu_throttle: ["power cap"] } },
    ],
  }, LUMI);
  assertSentence("core/cluster/doctor/gpu: gpu busy gib", now.said);
  assertEquals([now.state, errors.state, speed.state], ["good", "warn", "warn"]);
  assertMatch(errors.said, /memory of GPU 1 has had 2 errors/);
  assertMatch(`${speed.said} ${speed.fix}`, /GPU 1 is held back \(power cap\).*`rocm-smi`/);
});
