// What stretches come to: plateaus, epochs, momentum and weight decay, lengths, and what is refused.
import { assertAlmostEquals, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import {
  type Cursor,
  type Plateau,
  type StateParts,
  toTree,
} from "../../../../core/checkpoint/training_state.ts";
import { refuseCourse } from "../../../../core/train/checks.ts";
import { noteUserFile, openUserFile } from "../../../../core/models/user/file.ts";
import { checkScheduler, type Course, openCourse } from "../../../../core/train/schedules/course.ts";
import { stretchesOf } from "../../../../core/train/schedules/stretches.ts";
import { learningRate, scheduleOf } from "../../../../core/train/schedule.ts";
import { writePt } from "../../../../core/checkpoint/pt.ts";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import { torchState } from "../../../../core/train/torch_scheduler.ts";
import { assertSentence } from "../../../sentences.ts";
import { peer } from "../peer.ts";
import { open, rig, rows, settings } from "../rig.ts";

open();
const plan = { micro: 1, accumulation: 1, global: 1, stepsPerEpoch: 50, note: "" };
const config = (scheduler: string, ...flags: string[]) =>
  settings("--scheduler", scheduler, "--epochs", "20", "--optimizer", "sgd", ...flags);
const course = (scheduler: string, ...flags: string[]): Course =>
  openCourse(config(scheduler, ...flags), 0.3, plan, rows);
const rates = (c: Course, ...steps: number[]) => steps.map((step) => Number(c.rate({ step }).toPrecision(4)));

const METRICS = [
  5,
  4,
  4.0001,
  4,
  3.9999,
  3.9998,
  4,
  4.1,
  3,
  NaN,
  3,
  3.1,
  2.99999,
  3,
  3,
  3.2,
  3,
  2,
  2,
  2,
  2,
  2,
  2,
];

Deno.test("a plateau has torch's rates, and torch goes on from its state", async () => {
  const cases: readonly (readonly [string, string, ...string[]])[] = [
    ["plateau(patience=1, factor=0.5)", "ReduceLROnPlateau(o, patience=1, factor=0.5)"],
    [
      "plateau(patience=0, cooldown=2, min_lr=0.01)",
      "ReduceLROnPlateau(o, patience=0, cooldown=2, min_lr=0.01)",
    ],
    [
      "ReduceLROnPlateau(mode=max, threshold=0.5, threshold_mode=abs, patience=2, eps=1e-3)",
      "ReduceLROnPlateau(o, 'max', threshold=0.5, threshold_mode='abs', patience=2, eps=1e-3)",
    ],
    [
      "plateau(threshold=0.01, patience=2)",
      "ReduceLROnPlateau(o, 'max', threshold=0.01, patience=2)",
      ...["--monitor", "r2"],
    ],
  ];
  const asJson = (values: readonly number[]) => values.map((one) => Number.isNaN(one) ? "nan" : one);
  const folder = Deno.makeTempDirSync();
  try {
    const places = cases.flatMap(([written, torch, ...flags], i) =>
      [0, 7].map((from) => {
        const path = join(folder, `${i}-${from}.pt`), one = course(written, ...flags);
        const cursor: Cursor = follow(one, from).cursor;
        save(path, one, cursor);
        const metrics = asJson(METRICS.slice(from));
        return { from, written, flags, case: { torch, lr: 0.3, count: metrics.length, metrics, path } };
      })
    );
    const theirs = await peer<[number, number][][]>("torch_schedules.py", [
      ...places.map((one) => one.case),
      ...cases.map(([, torch]) => ({ torch, lr: 0.3, count: METRICS.length, metrics: asJson(METRICS) })),
    ]);
    [...places, ...cases.map(([written, , ...flags]) => ({ from: 0, written, flags }))].forEach((one, i) => {
      const ours = follow(course(one.written, ...one.flags), METRICS.length).rates.slice(one.from);
      assertEquals(ours, theirs[i].map(([rate]) => rate), `${one.written} from evaluation ${one.from}`);
    });
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

/** An evaluation after each epoch. */
function follow(c: Course, evaluations: number): { rates: number[]; cursor: Cursor } {
  const found: number[] = [];
  let plateau: Plateau | undefined, step = 0;
  for (const value of METRICS.slice(0, evaluations)) {
    found.push(c.rate({ step, plateau }));
    step += 50;
    plateau = c.judged({ step, plateau }, value);
  }
  const cursor: Cursor = {
    ...{ epoch: step / 50, step, stepInEpoch: 0, samples: 0, sums: [], best: null, valLoss: null },
    ...(plateau && { plateau }),
  };
  return { rates: found, cursor };
}

function save(path: string, c: Course, cursor: Cursor): void {
  const model = mlp({ inputs: 7, hidden: 8, layers: 1, outputs: 1 });
  const { arena, step: { optimizer } } = rig(model, rows, { flags: ["--optimizer", "sgd"] });
  const parts: StateParts = {
    ...{ names: arena.names, stateDict: model.root.stateDict(), scaler: null, ema: null },
    optimizer: { ...optimizer, slots: new Map() },
  };
  const scheduler = torchState(c, cursor, { factors: [1], stepSize: 30, usesBeta: false });
  const about = { version: "1", run: "r", seed: 0, config: {}, learningRate: c.rate(cursor), scheduler };
  writePt(path, toTree(parts, cursor, about));
}

Deno.test("what evaluations came to goes to other ranks as text, also where none was a number", () => {
  const c = course("plateau(patience=0)", "--monitor", "r2");
  for (const values of [[NaN], [NaN, 0.5], [0.5, NaN]]) {
    let plateau: Plateau | undefined;
    for (const value of values) plateau = c.judged({ step: 50, plateau }, value);
    const sent: Plateau = JSON.parse(JSON.stringify(plateau));
    assertEquals(sent, plateau);
    assertEquals(c.judged({ step: 50, plateau: sent }, 0.6)?.best, 0.6);
  }
});

Deno.test("no evaluation within the warm-up counts for a plateau", () => {
  const c = course("plateau(patience=0)", "--warmup", "2ep");
  assertEquals([50, 100].map((step) => c.judged({ step }, 1)), [undefined, undefined]);
  assertEquals(c.judged({ step: 101 }, 1)?.evaluations, 1);
  assertEquals(rates(c, 0, 99, 100, 500), [0.003, 0.3, 0.3, 0.3]);
});

Deno.test("a run that goes on with another --lr has fallen by the same share", () => {
  const plateau: Plateau = {
    mode: "min",
    best: 1,
    bad: 0,
    cooldown: 0,
    evaluations: 3,
    rate: 0.03,
    base: 0.3,
  };
  const higher = openCourse(config("plateau"), 0.6, plan, rows);
  assertAlmostEquals(higher.rate({ step: 70, plateau }), 0.06, 1e-15);
});

Deno.test("the six names of before are what they were, to the bit", () => {
  for (const type of ["cosine", "linear", "step", "constant", "onecycle", "sgdr"]) {
    for (const warmup of ["0", "30steps", "1ep"]) {
      const given = config(type, "--warmup", warmup, "--min-lr", "1e-3"),
        c = openCourse(given, 0.3, plan, rows);
      const before = scheduleOf(given.training, 0.3, plan, rows);
      for (let step = 0; step < 1000; step++) assertEquals(c.rate({ step }), learningRate(before, step));
      assertEquals([c.notes, c.moves, c.stretches], [[], null, []]);
    }
  }
});

Deno.test("with --schedule-per epoch a rate stays for an epoch, and counts are epochs", () => {
  const per = ["--schedule-per", "epoch"];
  const cosine = course("cosine", ...per), halves = course("step(step_size=2, gamma=0.5)", ...per);
  assertEquals(rates(cosine, 0, 49, 500, 549), [0.3, 0.3, 0.15, 0.15]);
  assertEquals(rates(halves, 0, 99, 100, 199, 200), [0.3, 0.3, 0.15, 0.15, 0.075]);
  const warmed = course("exponential(gamma=0.5)", ...per, "--warmup", "2ep");
  assertEquals(rates(warmed, 0, 49, 50, 100, 150), [0.15, 0.15, 0.3, 0.3, 0.15]);
  assertEquals(rates(course("step", ...per, "--set", "training.scheduler.step_size=3"), 149, 150), [
    0.3,
    0.03,
  ]);
  const error = assertThrows(() => course("linear 75steps > cosine", ...per), UserError);
  assertSentence("core/train/schedules/course: no whole epochs", error.message);
});

Deno.test("a linear stretch rises where it is the first, and falls behind another", () => {
  assertEquals(rates(course("linear 100steps > constant"), 0, 99, 100), [0.1, 0.298, 0.3]);
  assertEquals(rates(course("constant 500steps > linear", "--min-lr", "0.03"), 499, 750, 999), [
    0.3,
    0.165,
    0.03054,
  ]);
});

Deno.test("constant stays where the stretch before it has led, and a last length is followed by it", () => {
  const held = "cosine(eta_min=0.01) 10ep > constant";
  assertEquals(rates(course(held), 250, 500, 501, 999), [0.155, 0.01, 0.01, 0.01]);
  const last = course("exponential(gamma=0.99) 100steps");
  assertEquals(
    rates(last, 99, 100, 700),
    rates(course("exponential(gamma=0.99) 100steps > constant"), 99, 100, 700),
  );
  assertEquals(last.stretches.length, 2);
});

Deno.test("a run says what its stretches are, and which of them it never reaches", () => {
  assertEquals(course("linear 500steps > cosine").notes, ["Schedule: linear to step 500, cosine to 1000"]);
  const [, never, ...more] = course("linear 500steps > cosine 15ep > constant").notes;
  assertEquals(more, []);
  assertSentence("core/train/schedules/course: never reached", never);
  assertMatch(course("onecycle()").notes[0], /momentum goes the other way/);
});

Deno.test("a rate that grows beyond all numbers is refused before the first step", () => {
  const { message } = assertThrows(() => course("exponential(gamma=9)"), UserError);
  assertSentence("core/train/schedules/course: no finite rate", message);
});

Deno.test("momentum that no stretch moves is left as each group has it", () => {
  const c = course("linear 100steps > onecycle");
  assertEquals([c.moved(99), c.momentum], [{}, 0.9]);
  assertAlmostEquals(c.moved(100)!.momentum!, 0.95, 1e-12);
});

Deno.test("weight decay goes to its end by a cosine", () => {
  const c = course("cosine", "--weight-decay", "0.04", "--set", "training.scheduler.weight_decay_end=0.4");
  const decay = (step: number) => 0.04 * c.moved(step)!.decay!;
  assertAlmostEquals(decay(0), 0.04, 1e-15);
  assertAlmostEquals(decay(500), 0.22, 1e-15);
  assertAlmostEquals(decay(1000), 0.4, 1e-15);
  const none = ["--weight-decay", "0", "--set", "training.scheduler.weight_decay_end=0.4"];
  const error = assertThrows(() => course("cosine", ...none), UserError);
  assertSentence("core/train/schedules/course: no decay to begin with", error.message);
});

Deno.test("averages of weights are led to their own rate from any schedule", () => {
  const swa = "--swa-start 11 --swa-lr 0.05 --set training.swa_anneal_epochs=2".split(" ");
  const c = course("exponential(gamma=0.999)", ...swa, "--lr", "0.3");
  assertEquals(rates(c, 600, 999), [0.05, 0.05]);
  assertEquals(rates(c, 499), rates(course("exponential(gamma=0.999)"), 499));
});

async function withFiles(files: Record<string, string>, act: (path: (name: string) => string) => unknown) {
  const folder = Deno.makeTempDirSync(), path = (name: string) => join(folder, name);
  try {
    for (const [name, text] of Object.entries(files)) Deno.writeTextFileSync(path(name), text);
    await act(path);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

const opened = async (path: string) => noteUserFile(await openUserFile(path, "schedule", {}, ""));

Deno.test("a function in TypeScript gives factors of the rate, or of the rate before", () =>
  withFiles({
    "half.ts": "export default (step: number, { total }: { total: number }): number => 1 - step / total / 2;",
    "fall.ts": "export default (step: number): number => step % 100 === 0 ? 0.5 : 1;",
    "nan.ts": "export default (step: number) => step === 2 ? NaN : 1;",
    "text.ts": "export default () => 'much';",
  }, async (path) => {
    for (const name of ["half.ts", "fall.ts", "nan.ts", "text.ts"]) await opened(path(name));
    assertEquals(rates(course(path("half.ts")), 0, 500, 1000), [0.3, 0.225, 0.15]);
    assertEquals(rates(course(`multiplicative('${path("fall.ts")}')`), 0, 99, 100, 250), [
      0.3,
      0.3,
      0.15,
      0.075,
    ]);
    const chained = course(`linear 100steps > lambda('${path("half.ts")}')`);
    assertEquals(rates(chained, 100, 600), [0.3, 0.225]);
    const wrong = (name: string) =>
      assertThrows(() => course(path(name)), UserError).message.replace(path(""), "");
    assertSentence("core/train/schedules/course: a factor that is NaN", wrong("nan.ts"));
    assertSentence("core/train/schedules/course: a factor that is a text", wrong("text.ts"));
  }));

Deno.test("a table of rates is followed from row to row, or held", () =>
  withFiles({
    "steps.csv": "step,rate\n0,0.1\n100,0.2\n300,0.0\n",
    "epochs.csv": "# mine\nepochs\trate\n1\t0.5\n3\t0.1\n",
    "falls.csv": "0,0.1\n20,0.2\n20,0.3\n",
    "none.csv": "step,rate\n",
    "words.csv": "step,rate\n0,fast\n",
    "below.csv": "0,0.1\n5,-1\n",
    "column.csv": "minute,rate\n0,1\n",
  }, (path) => {
    const table = (name: string, more = "") => course(`table('${path(name)}'${more})`);
    assertEquals(rates(table("steps.csv"), 0, 50, 100, 200, 900), [0.1, 0.15, 0.2, 0.1, 0]);
    assertEquals(rates(table("steps.csv", ", between=held"), 99, 100, 299, 300), [0.1, 0.2, 0.2, 0]);
    assertEquals(rates(table("epochs.csv"), 0, 50, 100, 150, 999), [0.5, 0.5, 0.3, 0.1, 0.1]);
    const refusal = (name: string) =>
      assertThrows(() => table(name), UserError).message.replaceAll(path(""), "");
    assertSentence("core/train/schedules/course: table falls", refusal("falls.csv"));
    assertSentence("core/train/schedules/course: table none", refusal("none.csv"));
    assertSentence("core/train/schedules/course: table words", refusal("words.csv"));
    assertSentence("core/train/schedules/course: table below", refusal("below.csv"));
    assertSentence("core/train/schedules/course: table column", refusal("column.csv"));
    assertSentence("core/train/schedules/course: table nowhere", refusal("nowhere.csv"));
  }));

Deno.test("a mistake in a schedule is found before the data is opened, with what was meant", () => {
  const refusal = (text: string): string =>
    assertThrows(() => checkScheduler(config(text)), UserError, undefined, text).message;
  assertSentence("core/train/schedules/course: no such schedule", refusal("linear 500steps > cosinus"));
  assertSentence("core/train/schedules/course: no length", refusal("linear > cosine"));
  assertSentence("core/train/schedules/course: no stretch", refusal("linear 5steps > "));
  assertSentence("core/train/schedules/course: plateau in the middle", refusal("plateau 5ep > constant"));
  assertSentence("core/train/schedules/course: no such argument", refusal("cosine(eta_mn=1e-6)"));
  assertSentence("core/train/schedules/course: out of range", refusal("exponential(gamma=-1)"));
  assertSentence("core/train/schedules/course: needed", refusal("exponential"));
  assertSentence("core/train/schedules/course: not rising", refusal("multistep(milestones=[80, 30])"));
  assertSentence("core/train/schedules/course: given twice", refusal("step(30, step_size=20)"));
  assertSentence("core/train/schedules/course: too many", refusal("exponential(0.9, 3)"));
  assertSentence("core/train/schedules/course: no file", refusal("lambda"));
  assertSentence("core/train/schedules/course: time", refusal("linear 10min > cosine"));
  assertSentence(
    "core/train/schedules/course: none of the words",
    refusal("cyclic(base_lr=1e-4, mode=square)"),
  );
  assertSentence("core/train/schedules/course: not closed", refusal("cosine(eta_min=1e-6"));
  const types = [
    "polynomial",
    "plateau",
    "wsd",
    "step(30ep)",
    "linear 5ep > cosine(T_max=20%)",
    "inverse_sqrt",
  ];
  for (const type of types) checkScheduler(config(type));
  const rise = ["--warmup", "5steps", "--set", "training.scheduler.warmup_start=0"];
  const { message } = assertThrows(() => course("onecycle", ...rise), UserError);
  assertSentence("core/train/schedules/course: onecycle rises by itself", message);
});

Deno.test("what a run can't follow is refused: no evaluations, and no momentum to move", () => {
  const refused = (type: string, about: { evaluates?: boolean; moving?: boolean }, ...flags: string[]) => {
    const given = config(type, ...flags),
      all = { evaluates: true, moving: true, ...about };
    return assertThrows(() => refuseCourse(openCourse(given, 0.3, plan, rows), given, all), UserError)
      .message;
  };
  assertSentence("core/train/schedules/course: no evaluation", refused("plateau", { evaluates: false }));
  assertSentence(
    "core/train/schedules/course: only the last",
    refused("plateau", {}, "--eval-interval", "0"),
  );
  assertSentence(
    "core/train/schedules/course: no momentum",
    refused("onecycle()", { moving: false }, "--optimizer", "adagrad"),
  );
  assertSentence("core/train/schedules/course: momentum 0", refused("onecycle()", {}, "--momentum", "0"));
});

Deno.test("names of PyTorch, Lightning and transformers are known, in any capitals", () => {
  const names: Record<string, string> = {
    CosineAnnealingLR: "cosine",
    ReduceLROnPlateau: "plateau",
    reduce_lr_on_plateau: "plateau",
    cosine_with_restarts: "sgdr",
    warmup_stable_decay: "wsd",
    Inverse_Sqrt: "inverse_sqrt",
    constant_with_warmup: "constant",
    OneCycleLR: "onecycle",
  };
  for (const [name, ours] of Object.entries(names)) {
    assertEquals(settings("--scheduler", name).training.scheduler.type as string, ours, name);
    assertEquals(stretchesOf(`${name}(2)`)[0].name as string, ours, name);
  }
});
