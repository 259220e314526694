import { assertEquals, assertMatch } from "@std/assert";
import { type MachineGpus } from "../../../core/base/gpus.ts";
import { absenceOf, NO_DEVICE, type RuntimeAnswer } from "../../../ffi/gpu/absence.ts";
import { BACKENDS } from "../../../ffi/gpu/backends.ts";
import { assertSentence, sentenceNamed } from "../../sentences.ts";

const NOTHING: MachineGpus = { nvidia: 0, amd: 0, amdOpen: 0, amdDriver: "none", denied: null };
const AMD: MachineGpus = { ...NOTHING, amd: 8, amdOpen: 8, amdDriver: "open" };
const answer = (kind: "cuda" | "hip", code = NO_DEVICE): RuntimeAnswer => ({
  backend: BACKENDS[kind],
  libtorch: "/opt/torch/lib",
  code,
  message: "no ROCm-capable device is detected",
  driver: null,
  runtime: "7.2",
});
const ofHip = (machine: MachineGpus, env = {}, code = NO_DEVICE) =>
  absenceOf(answer("hip", code), machine, env);

Deno.test("HIP says no device whatever is missing, and Linux shows which: a driver, a permission, or a device", () => {
  assertEquals(ofHip(NOTHING), {
    kind: "no driver",
    why: sentenceNamed("ffi/gpu/absence: amd driver machine"),
  });
  const kfd = ofHip({ ...AMD, amdDriver: "denied" });
  assertEquals(kfd.kind, "no permission");
  assertMatch(kfd.why, /^this user may not open \/dev\/kfd,/);
  const render = ofHip({ ...AMD, amdOpen: 0, denied: "/dev/dri/renderD128" });
  assertMatch(render.why, /^this user may not open \/dev\/dri\/renderD128,/);
  assertEquals(ofHip(AMD), { kind: "no device", why: "the AMD driver sees no device" });
  assertEquals(ofHip(AMD, {}, 999).kind, "failed");
});

Deno.test("devices that variables hide are said with the variables, and what to write where they contradict", () => {
  assertEquals(ofHip(AMD, { ROCR_VISIBLE_DEVICES: "" }), {
    kind: "hidden",
    why: sentenceNamed("ffi/gpu/absence: hides devices 2"),
  });
  assertMatch(ofHip(AMD, { ROCR_VISIBLE_DEVICES: "9" }).why, /^ROCR_VISIBLE_DEVICES=9 names no device/);
  const { kind, fix } = ofHip(AMD, { ROCR_VISIBLE_DEVICES: "4,5", CUDA_VISIBLE_DEVICES: "4,5" });
  assertEquals([kind, fix], [
    "hidden",
    sentenceNamed("ffi/gpu/absence: write unset job"),
  ]);
});

Deno.test("a libtorch for the other vendor's GPUs is told from one without a driver", () => {
  const hip = ofHip({ ...NOTHING, nvidia: 4 });
  assertEquals(hip.kind, "other vendor");
  assertSentence("ffi/gpu/absence: libtorch opt torch", hip.why);
  const cuda = absenceOf(answer("cuda", 35), AMD, {});
  assertSentence("ffi/gpu/absence: built cuda gpus", cuda.why);
  assertEquals(absenceOf(answer("cuda", 35), { ...AMD, nvidia: 1 }, {}).kind, "no driver"); // it has both
});
