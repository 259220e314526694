// When whole runs evaluate, and what they keep of it.
import { assert, assertEquals, assertNotEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { openCheckpoint } from "../../../core/checkpoint/open.ts";
import { UserError } from "../../../core/base/errors.ts";
import { readRun } from "../../../core/run/run_data.ts";
import { rowOf } from "../../../core/outputs/runs/row.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { latestPath } from "../../../core/train/run_folder.ts";
import { setThreads } from "../../../ffi/context.ts";
import { inFolder } from "../checkpoint/python.ts";
import { contents, started, type Trained, trained } from "./started.ts";

setThreads(1);

const flags = (text: string) => text.trim().split(/\s+/);
/** Ten steps an epoch. */
const SMALL =
  "--train-samples 80 --val-samples 40 --batch-size 8 --scheduler constant --lr 0.01 --num-workers 0 ";
const MLP = SMALL + "--data-type synthetic --model mlp --hidden-size 16 --dropout 0.2 --epochs 3 ";

const steps = ({ events }: Trained, kind = "eval") =>
  events.filter((e) => e.kind === kind).map(({ step }) => step);
const losses = ({ events }: Trained) =>
  events.filter(({ kind }) => kind === "step").map(({ step, loss }) => [step, loss]);

Deno.test(
  "evaluations come every 4 steps, every 2 epochs, or at the end alone, where each run ends with one",
  inFolder(async (folder) => {
    const at = async (interval: string, more = "") =>
      steps(await trained(`${folder}/${interval}`, flags(`${MLP} --eval-interval ${interval} ${more}`)));
    assertEquals(await at("4steps"), [4, 8, 12, 16, 20, 24, 28, 30]);
    assertEquals(await at("2"), [20, 30]);
    assertEquals(await at("0.5ep"), [5, 10, 15, 20, 25, 30]);
    assertEquals(await at("1h"), [30]);
    assertEquals((await at("0.000001s")).length, 30);
    assertEquals(await at("7steps", "--max-steps 16"), [7, 14, 16]);
  }),
);

Deno.test(
  "an epoch that is not evaluated says nothing of validation, and others do",
  inFolder(async (folder) => {
    const { events } = await trained(folder, flags(MLP + "--eval-interval 2epochs --epochs 4"));
    const told = events.filter(({ kind }) => kind === "epoch").map(({ val_loss }) => val_loss !== undefined);
    assertEquals(told, [false, true, false, true]);
  }),
);

for (
  const [title, more] of [
    ["dropout", ""],
    ["averages", "--ema 0.9"],
    ["averages of epochs", "--swa-start 1"],
    ["schedule-free AdamW", "--optimizer schedule_free"],
    ["accumulated micro-batches", "--batch-size 4 --grad-accum 2"],
    ["loader threads", "--num-workers 2"],
  ]
) {
  Deno.test(
    `with ${title}, evaluations within epochs leave the bits of training as they are without`,
    inFolder(async (folder) => {
      const one = (name: string, interval: string) =>
        trained(`${folder}/${name}`, flags(`${MLP} ${more} --eval-interval ${interval}`));
      const plain = await one("plain", "1ep"), often = await one("often", "3steps");
      assert(steps(often).length > 3 * steps(plain).length - 1);
      assertEquals(losses(often), losses(plain));
      const state = (path: string) =>
        [...contents(path)].filter(([place]) =>
          !/^\/(config|val_loss)|cursor\/(best|judged|valLoss)/.test(place)
        );
      assertEquals(state(often.path), state(plain.path));
    }),
  );
}

const IMAGES = SMALL +
  "--data-type synthetic --model cosmo-cnn --set model.width=4 --set model.image_size=16 --epochs 2 --train-samples 32 ";

Deno.test(
  "batch norms' statistics are those of training after an evaluation within an epoch",
  inFolder(async (folder) => {
    const one = (name: string, interval: string) =>
      trained(`${folder}/${name}`, flags(`${IMAGES} --eval-interval ${interval}`));
    const plain = await one("plain", "1ep"), often = await one("often", "1steps");
    assertEquals(losses(often), losses(plain));
    const state = (path: string) =>
      [...contents(path)].filter(([place]) => place.startsWith("/model_state_dict"));
    assert(state(plain.path).some(([place]) => place.endsWith("running_mean")));
    assertEquals(state(often.path), state(plain.path));
  }),
);

Deno.test(
  "--eval-batches takes the first batches of the validation data, the same ones each time",
  inFolder(async (folder) => {
    const some = await trained(folder, flags(MLP + "--eval-batches 2 --eval-interval 5steps --lr 0"));
    const evaluations = some.events.filter(({ kind }) => kind === "eval");
    assertEquals(new Set(evaluations.map(({ samples }) => samples)), new Set([16]));
    assertEquals(new Set(evaluations.map(({ val_loss }) => val_loss)).size, 1);
    const all = await trained(`${folder}/all`, flags(MLP + "--eval-batches 99 --lr 0"));
    const whole = all.events.find(({ kind }) => kind === "eval")!;
    assertEquals(whole.samples, 40);
    assertNotEquals(whole.val_loss, evaluations[0].val_loss);
  }),
);

const bestFiles = (folder: string) =>
  [...Deno.readDirSync(`${folder}/checkpoints`)].map(({ name }) => name).filter((name) =>
    name.includes("_best")
  ).sort();

function stepIn(path: string): number {
  using file = openCheckpoint(path);
  file.verify();
  const own = (file.root as Map<string, Map<string, Map<string, number>>>).get("hpctrain")!;
  return own.get("cursor")!.get("step")!;
}

/** The steps of the evaluations with the best values, the best first, and of the files that are kept of them. */
function bestSteps({ events }: Trained, count: number, value: (event: Trained["events"][number]) => number) {
  const evaluations = events.filter(({ kind }) => kind === "eval");
  return evaluations.toSorted((a, b) => value(a) - value(b) || a.step - b.step).slice(0, count).map((
    { step },
  ) => step);
}

for (const format of ["pt", "sharded"]) {
  Deno.test(
    `--keep-best 3 keeps those of the three best of six evaluations as ${format}, the best under the plain name`,
    inFolder(async (folder) => {
      Deno.mkdirSync(`${folder}/checkpoints`);
      const others = ["other_best.pt", "run_best_x_best_1.pt", "mlp_best_1_latest.pt"];
      for (const name of others) Deno.writeTextFileSync(`${folder}/checkpoints/${name}`, "another's");
      const run = await trained(
        folder,
        flags(`${MLP} --lr 0.3 --epochs 6 --keep-best 3 --run-name mine --checkpoint-format ${format}`),
      );
      const ending = format === "pt" ? "pt" : "ckpt", wanted = bestSteps(run, 3, ({ val_loss }) => val_loss);
      const names = wanted.map((step, i) =>
        i === 0 ? `mine_best.${ending}` : `mine_best_${step / 10}.${ending}`
      );
      assertEquals(bestFiles(folder), [...names, ...others].sort());
      assertEquals(names.map((name) => stepIn(`${folder}/checkpoints/${name}`)), wanted);
    }),
  );
}

Deno.test(
  "a run that goes on in the middle keeps its list of the best and its patience, as if it had never stopped",
  inFolder(async (folder) => {
    const all = MLP + "--lr 0.3 --epochs 6 --keep-best 3 --eval-interval 4steps ";
    const whole = await trained(`${folder}/whole`, flags(all));
    const first = await trained(`${folder}/parts`, flags(all + "--save-interval 13steps --max-steps 26"));
    const rest = await trained(`${folder}/parts`, flags(all), first.path);
    const judged = ({ path }: Trained) =>
      [...contents(path)].filter(([place]) => place.includes("cursor/judged/kept"));
    // The end of the first part was evaluated, too, and may be among the best.
    const extra = (place: Trained) => judged(place).some(([, value]) => value === "26");
    if (!extra(rest)) assertEquals(judged(rest), judged(whole));
    assertEquals(losses(rest).at(-1), losses(whole).at(-1));
    const wanted = bestSteps(
      { ...whole, events: [...first.events, ...rest.events] },
      3,
      ({ val_loss }) => val_loss,
    );
    const steps = judged(rest).filter(([place]) => place.endsWith("/step")).map(([, value]) => Number(value));
    assertEquals(steps, wanted);
  }),
);

Deno.test(
  "early stopping and the best go by r2, the more the better, and so do events, report and rows",
  inFolder(async (folder) => {
    const run = await trained(
      folder,
      flags(
        MLP + "--lr 0.3 --epochs 40 --monitor r2 --early-stopping-patience 3 --run-name mine --keep-best 2",
      ),
    );
    const evaluations = run.events.filter(({ kind }) => kind === "eval");
    const wanted = bestSteps(run, 2, ({ metrics }) => -metrics.r2);
    assert(
      evaluations.length < 40 && evaluations.length - wanted[0] / 10 === 3,
      `${evaluations.length}, ${wanted}`,
    );
    assertStringIncludes(run.ending.outcome, "no better r2 for 3 epochs");
    assertEquals(stepIn(`${folder}/checkpoints/mine_best.pt`), wanted[0]);
    assertEquals(stepIn(`${folder}/checkpoints/mine_best_${wanted[1] / 10}.pt`), wanted[1]);
    const value = evaluations.find(({ step }) => step === wanted[0])!.metrics.r2;
    assertEquals(evaluations.every(({ monitor }) => monitor.name === "r2" && monitor.mode === "max"), true);
    const { best } = readRun(`${folder}/logs/mine`);
    assertEquals([best?.step, best?.monitor], [wanted[0], { name: "r2", mode: "max", value }]);
    const row = rowOf(`${folder}/logs/mine`, Date.now() / 1000);
    assertEquals([row.best, row.metric, row.bestStep, row.mode], [value, "r2", wanted[0], "max"]);
  }),
);

Deno.test(
  "--save-interval 3ep saves at those ends alone, besides for a new best and at the end",
  inFolder(async (folder) => {
    const saves = async (more: string) => {
      const { events } = await trained(`${folder}/${more.length}`, flags(MLP + more));
      const saves = events.filter(({ kind, reason }) => kind === "save" && reason !== "interval");
      return saves.map(({ step, reason }) => `${step} ${reason}`);
    };
    // Without a rate nothing gets better than the first evaluation.
    assertEquals(await saves("--epochs 7 --lr 0 --save-interval 3ep"), [
      "10 best",
      "30 epoch",
      "60 epoch",
      "70 epoch",
    ]);
    assertEquals(await saves("--epochs 2 --lr 0 --save-interval 5steps"), ["10 best", "20 epoch"]);
  }),
);

Deno.test(
  "a monitor that evaluations of the data can't have is refused before the first step, with the names that they have",
  inFolder(async (folder) => {
    const refused = (more: string) =>
      assertRejects(() => started(folder, flags(MLP + more), () => {}), UserError);
    const unknown = await refused("--monitor r3");
    assertEquals(unknown.kind, "usage");
    assertStringIncludes(unknown.message, 'Did you mean "r2"?');
    assertStringIncludes(unknown.message, "val_loss");
    assertEquals((await refused("--monitor r2 --val-samples 0")).kind, "usage");
    await started(`${folder}/good`, flags(MLP + "--monitor rmse"), () => {});
  }),
);

Deno.test(
  "a run that goes on with another monitor says so, and begins a new list of the best",
  inFolder(async (folder) => {
    const first = await trained(folder, flags(MLP + "--lr 0.3 --keep-best 2"));
    const goesOn = flags(MLP + "--lr 0.3 --keep-best 2 --epochs 5 --monitor r2");
    const rest = await started(folder, goesOn, async (run) => {
      await trainLoop(run);
      return { path: latestPath(run.paths), notes: run.notes };
    }, first.path);
    assertEquals(rest.notes.filter((note) => note.includes("r2 (max)")).length, 1);
    const kept = [...contents(rest.path)].filter(([place]) =>
      /cursor\/judged\/kept\/\d+\/epoch$/.test(place)
    );
    assertEquals(kept.map(([, epoch]) => epoch).sort(), ["4", "5"]);
  }),
);
