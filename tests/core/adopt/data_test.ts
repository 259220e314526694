// Data that is taken for a kind of ours is read here by its settings where its samples have the script's bits, and by Python else.
import { assertEquals, assertStringIncludes } from "@std/assert";
import { assertSentence } from "../../sentences.ts";
import { useLibtorch } from "../../libtorch.ts";
import { join } from "paths";
import { adoptedData } from "../../../core/adopt/data.ts";
import { firstOtherRate } from "../../../core/adopt/course.ts";
import { verdictText } from "../../../core/adopt/proof.ts";
import { adoptedSchedule } from "../../../core/adopt/settings.ts";
import { epochLine } from "../../../core/adopt/times.ts";
import type { Seen, SeenData } from "../../../core/adopt/seen.ts";

useLibtorch();

const PIXELS = 28 * 28, COUNT = 5;

function idx(folder: string): Uint8Array {
  const pixels = Uint8Array.from({ length: COUNT * PIXELS }, (_, i) => (i * 7919) % 256);
  const header = (mark: number, ...sides: number[]) => {
    const view = new DataView(new ArrayBuffer(4 * (1 + sides.length)));
    [mark, ...sides].forEach((value, i) => view.setUint32(4 * i, value));
    return new Uint8Array(view.buffer);
  };
  Deno.writeFileSync(
    join(folder, "train-images-idx3-ubyte"),
    new Uint8Array([...header(0x803, COUNT, 28, 28), ...pixels]),
  );
  Deno.writeFileSync(
    join(folder, "train-labels-idx1-ubyte"),
    new Uint8Array([...header(0x801, COUNT), 3, 1, 4, 1, 5]),
  );
  return pixels;
}

const text = (bytes: ArrayBufferView) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)));

function seenOf(folder: string, pixels: Uint8Array): Seen {
  const ids = [0, 1, COUNT - 1];
  const x = Float32Array.from(
    ids.flatMap((id) => [...pixels.subarray(id * PIXELS, (id + 1) * PIXELS)]),
    (v) => v / 255,
  );
  const data: SeenData = {
    known: { name: "MNIST", settings: { type: "mnist", data_path: folder, augment: "ToTensor()" } },
    ...{
      why: "",
      shuffle: false,
      samples: COUNT,
      random: false,
      validation: null,
      around: "data_adopted.py",
    },
    ends: {
      ids,
      fields: {
        x: { shape: [3, 1, 28, 28], dtype: "float32", bytes: text(x) },
        target: { shape: [3], dtype: "int64", bytes: text(BigInt64Array.of(3n, 1n, 5n)) },
      },
    },
  };
  const inputs = [{ name: "x", shape: [4, 1, 28, 28], dtype: "torch.float32" }, {
    name: "target",
    shape: [4],
    dtype: "torch.int64",
  }];
  return { inputs, turns: [], fixed: [], data, where: { loader: "train.py:7" } } as unknown as Seen;
}

Deno.test("a kind of ours is believed where each bit of the script's samples is here, and read by Python else", async () => {
  const folder = Deno.makeTempDirSync();
  try {
    const seen = seenOf(folder, idx(folder)), { data } = seen;
    const known = await adoptedData("out", seen, "python3");
    assertEquals(known.settings.map(({ path, value, from }) => `${path}=${value} ${from}`), [
      "data.type=mnist train.py:7",
      `data.data_path=${folder} train.py:7`,
      "data.augment=ToTensor() train.py:7",
      "data.normalise=none train.py:7",
      "data.shuffle=false train.py:7",
      "data.validation_split=0 train.py:7",
    ]);
    assertEquals(known.repeats, true);
    const others: readonly (readonly [Partial<SeenData>, string])[] = [
      [{ ends: withBit(data) }, "its x has other values"],
      [{ samples: COUNT + 1 }, "5 samples in place of 6"],
      [{ known: { ...data.known!, settings: { ...data.known!.settings, augment: "Lambda()" } } }, "Lambda"],
    ];
    for (const [change, why] of others) {
      const other = await adoptedData("out", { ...seen, data: { ...data, ...change } }, "python3");
      assertStringIncludes(other.said, why);
      assertEquals(other.settings[0].value, "data_adopted.py");
      assertEquals(other.repeats, false);
    }
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

function withBit({ ends }: SeenData): SeenData["ends"] {
  const { x } = ends!.fields, bytes = Uint8Array.from(atob(x.bytes), (letter) => letter.charCodeAt(0));
  bytes[PIXELS * 4] ^= 1;
  return { ...ends!, fields: { ...ends!.fields, x: { ...x, bytes: text(bytes) } } };
}

Deno.test("a schedule's name is kept where it gives the rates that were seen", () => {
  const rates = Array.from({ length: 6 }, (_, step) => [0.1 * 0.9 ** (step >> 1)]);
  const seen = {
    ...{ rates, groups: [{ lr: 0.1, params: ["w"] }], micro: 1, batch: 4, steps: 6 },
    data: { per_epoch: 2 },
  } as unknown as Seen;
  const settings = (type: string, per = "step") =>
    Object.entries({
      "training.optimizer.type": "sgd",
      "training.optimizer.learning_rate": 0.1,
      "training.batch_size": 4,
      "training.scheduler.type": type,
      "training.scheduler.per": per,
    }).map(([path, value]) => ({ path, value, from: "" }));
  assertEquals(firstOtherRate(seen, settings("exponential(gamma=0.9)", "epoch")), null);
  assertEquals(firstOtherRate(seen, settings("exponential(gamma=0.9)")), 2);
  assertEquals(firstOtherRate(seen, settings("step(step_size=2, gamma=0.9)")), null);
  assertEquals(firstOtherRate(seen, settings("exponential(gamma=0.8)", "epoch")), 3);
});

const STEPS = 40, WARMUP = 5;

/** A script's, as it was seen at its last step. */
const withSchedule = (scheduler: Seen["schedulers"][number], rates: readonly number[]) =>
  ({
    ...{
      schedulers: [{ last_epoch: STEPS, ...scheduler }],
      rates: rates.map((rate) => [rate]),
      steps: STEPS,
    },
    ...{
      groups: [{ lr: 0.1, params: ["w"] }],
      micro: 1,
      batch: 4,
      length: { steps: STEPS },
      data: {},
      where: {},
    },
  }) as unknown as Seen;

const named = (scheduler: Seen["schedulers"][number]) =>
  adoptedSchedule(withSchedule(scheduler, [0.1, 0.2]))?.map((
    { path, value },
  ) => [path.split(".").at(-1), value]);

Deno.test("schedules that keep their arguments in other forms have their names here", () => {
  const type = "multistep(milestones=[30, 60], gamma=0.1)";
  assertEquals(named({ type: "MultiStepLR", milestones: [30, 60], gamma: 0.1 }), [["type", type]]);
  const cycle = { max_lr: 0.1, total_steps: 40, cycle_momentum: false, three_phase: false };
  assertEquals(named({ type: "OneCycleLR", ...cycle }), [
    ["type", "onecycle(max_lr=0.1, total_steps=40, cycle_momentum=false, three_phase=false)"],
  ]);
  assertEquals(named({ type: "LambdaLR" }), undefined);
  const other = "_get_cosine_schedule_with_warmup_lr_lambda";
  assertEquals(named({ type: "LambdaLR", function: other, num_warmup_steps: 5, num_cycles: 2 }), undefined);
});

Deno.test("transformers' schedules have their rates here, with a warm-up and without", () => {
  const share = (step: number, warmup: number) => (step - warmup) / (STEPS - warmup);
  const falls = {
    linear: (step: number, warmup: number) => 1 - share(step, warmup),
    cosine: (step: number, warmup: number) => 0.5 * (1 + Math.cos(Math.PI * share(step, warmup))),
    constant: () => 1,
  };
  for (const [name, fall] of Object.entries(falls)) {
    for (const warmup of name === "constant" ? [WARMUP] : [0, 1, WARMUP]) {
      const rates = Array.from(
        { length: STEPS },
        (_, step) => 0.1 * (step < warmup ? step / warmup : fall(step, warmup)),
      );
      const of = `_get_${name}_schedule_with_warmup_lr_lambda`;
      const seen = withSchedule({ type: "LambdaLR", function: of, num_warmup_steps: warmup }, rates);
      const settings = [
        { path: "training.optimizer.learning_rate", value: 0.1, from: "" },
        { path: "training.max_steps", value: STEPS, from: "" },
        ...adoptedSchedule(seen)!,
      ];
      assertEquals(firstOtherRate(seen, settings), null, `${name} with ${warmup}`);
    }
  }
});

Deno.test("where losses part behind the first, it is said whether gradients do so before", () => {
  const steps = [[1, 1], [0.9, 0.9], [0.8, 0.7]] as const, verdict = { from: 3 };
  const norms = (...ours: number[]) => ours.map((norm) => [1e-3, norm] as const);
  const told = verdictText({ steps, verdict, norms: norms(1e-3, 1.0001e-3, 5) }, "Adam");
  assertSentence("core/adopt/data: gradients part", told);
  const update = verdictText({ steps, verdict, norms: norms(1e-3, 1e-3, 5) }, "Adam");
  assertSentence("core/adopt/data: update parts", update);
  assertEquals(verdictText({ steps, verdict, norms: [] }, "Adam"), update);
});

Deno.test("an epoch's time is told of five steps and more, and says what it leaves out", () => {
  const seen = {
    ...{ micro: 2, device: "cpu", times: [0.02, 0.03, 0.02, 0.02, 9], threads: 1, where: {} },
    data: { per_epoch: 400 },
  } as unknown as Seen;
  const proof = (seconds: number[]) => ({ steps: [], norms: [], verdict: "bits" as const, seconds });
  const ours = [9, 0.01, 0.01, 0.01, 0.01, 0.01];
  assertSentence("core/adopt/data: epoch steps take", epochLine(seen, proof(ours), true)!);
  const compiled = { ...seen, where: { compile: "train.py:3" } };
  assertSentence("core/adopt/data: without compile reading", epochLine(compiled, proof(ours), false)!);
  assertEquals(epochLine(seen, proof(ours.slice(1)), true), null);
  assertEquals(epochLine({ ...seen, times: [1, 1, 1, 1] }, proof(ours), true), null);
  assertEquals(epochLine({ ...seen, device: "cuda" }, proof(ours), true), null);
  assertEquals(epochLine(seen, proof(ours.map((value) => value / 10)), true), null);
});
