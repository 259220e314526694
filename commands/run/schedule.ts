// `hpctrain schedule`: draws and lists the learning rates that a run of these flags would have, and trains nothing.
import { EXIT } from "../../core/base/errors.ts";
import { formatLearningRate, formatPlural } from "../../core/base/format.ts";
import { styleOf } from "../../core/base/terminal_text.ts";
import { loadDataReader, openData } from "../../core/data/open/open.ts";
import type { Facts } from "../../core/models/model.ts";
import { plot, type PlotLine } from "../../core/outputs/watch/plot.ts";
import { Curve } from "../../core/run/curve.ts";
import { placeFlags, rankContext } from "../../core/ranks/context.ts";
import { type Resolved, resolveSettings } from "../../core/settings/resolve.ts";
import { isTyped } from "../../core/settings/values.ts";
import { type BatchPlan, planBatches, stepsInAll } from "../../core/train/batches.ts";
import { refuseOptimizer } from "../../core/train/checks.ts";
import { asUserError, openDevice } from "../../core/train/device.ts";
import { rateLine, scaledLearningRate } from "../../core/train/schedule.ts";
import { type Course, openCourse } from "../../core/train/schedules/course.ts";
import { USAGE } from "../schedule.ts";
import { withTrainingCode } from "../user_code.ts";

/** A longer run has so many rows, at equal distances. */
const MOST_ROWS = 10_000;
const WIDEST = 110, TALL = 14, LOW = 9;

export async function schedule(argv: string[]): Promise<number> {
  try {
    const env = Deno.env.toObject(),
      resolved = await withTrainingCode(resolveSettings({ argv, env, usage: USAGE }));
    const { config } = resolved, { training } = config;
    refuseOptimizer(config);
    const { samples, facts } = await sizeOf(resolved);
    const { world } = rankContext(env, placeFlags(config.distributed));
    const plan = planBatches(training, samples, world), steps = stepsInAll(training, plan);
    const course = openCourse(config, scaledLearningRate(training, plan.global), plan, facts);
    const rows = rowsOf(course, plan, steps, training.optimizer.weight_decay);
    if (config.output.json) {
      console.log(JSON.stringify({ steps, steps_per_epoch: plan.stepsPerEpoch, rows }));
      return EXIT.done;
    }
    const lines = [
      `${plan.note}. ${rateLine(training, plan.global, resolved.originText)}`,
      ...course.notes,
      ...(course.plateau ? [OF_EVALUATIONS] : []),
      "",
      ...charts(rows, course),
      ...tableOf(rows, course, steps),
    ];
    for (const line of lines) console.log(line.trimEnd());
    return EXIT.done;
  } catch (error) {
    throw asUserError(error);
  }
}

const OF_EVALUATIONS = "The rate is drawn as it is until an evaluation lets it fall";

/** From the settings where they say how many samples there are, and else from the data. */
async function sizeOf({ config, origin }: Resolved): Promise<{ samples: number; facts: Facts }> {
  const { data, training } = config, { type, warmup } = training.scheduler;
  const inTokens = /\d\s*tok/.test(`${type} ${warmup}`);
  if (isTyped(origin("data.train_samples")) && !inTokens) {
    const facts: Facts = { task: "regression", input: { shape: [1], dtype: "f32" }, outputs: 1 };
    return { samples: data.train_samples, facts };
  }
  openDevice(config);
  await loadDataReader(data);
  const { train } = openData(data, { ...training, plain: false, learns: true }, config.model, true);
  return { samples: train.length, facts: train.facts };
}

interface Row {
  /** From 1. */
  readonly step: number;
  /** Epochs that are done with it. */
  readonly epoch: number;
  readonly lr: number;
  readonly momentum?: number;
  readonly weight_decay?: number;
}

function rowsOf(course: Course, { stepsPerEpoch }: BatchPlan, steps: number, decay: number): Row[] {
  const count = Math.min(steps, MOST_ROWS);
  return Array.from({ length: count }, (_, i) => {
    const step = count < 2 ? 0 : Math.round(i * (steps - 1) / (count - 1)), moved = course.moved(step);
    return {
      step: step + 1,
      epoch: (step + 1) / stepsPerEpoch,
      lr: course.rate({ step }),
      ...(course.moves?.momentum && { momentum: moved?.momentum ?? course.momentum }),
      ...(moved?.decay !== undefined && { weight_decay: decay * moved.decay }),
    };
  });
}

function charts(rows: readonly Row[], { moves }: Course): string[] {
  const isTerminal = Deno.stdout.isTerminal(), style = styleOf(isTerminal);
  const width = Math.min(isTerminal ? Deno.consoleSize().columns || 80 : 80, WIDEST) - 1;
  const chart = (title: string, field: "lr" | "momentum" | "weight_decay", height: number): string[] => {
    const curve = new Curve();
    for (const row of rows) curve.add(row.step, row[field]!);
    const lines: PlotLine[] = [{ name: "at the end", curve, colour: "cyan" }];
    return [
      ...plot(
        {
          title,
          lines,
          format: field === "lr" ? shown : (value) => value.toPrecision(3),
          fromZero: field === "lr",
        },
        width,
        height,
        style,
      ),
      "",
    ];
  };
  return [
    ...chart("learning rate", "lr", TALL),
    ...(moves?.momentum ? chart("momentum", "momentum", LOW) : []),
    ...(moves?.decay ? chart("weight decay", "weight_decay", LOW) : []),
  ];
}

const shown = (value: number): string => value === 0 ? "0" : formatLearningRate(value);

/** The first step, the last one, those on which a stretch begins, and the tenths of the run. */
function tableOf(rows: readonly Row[], { stretches, clock }: Course, steps: number): string[] {
  const begins = stretches.map(({ from }) => rows.findIndex(({ step }) => clock.at(step - 1) >= from));
  const tenths = Array.from({ length: 11 }, (_, i) => Math.round(i * (rows.length - 1) / 10));
  const places = [...new Set([...begins, ...tenths])].filter((at) => at >= 0).sort((a, b) => a - b);
  const row = (...cells: string[]) => cells.map((cell) => cell.padStart(14)).join("");
  const [first] = rows, fields = ["momentum", "weight_decay"] as const;
  const moved = fields.filter((field) => first[field] !== undefined);
  return [
    row("step", "epoch", "rate", ...moved.map((field) => field.replace("_", " "))),
    ...places.map((at) => {
      const { step, epoch, lr, ...rest } = rows[at];
      return row(
        String(step),
        epoch.toFixed(2),
        lr.toExponential(3),
        ...moved.map((field) => rest[field]!.toPrecision(4)),
      );
    }),
    `${formatPlural(steps, "step")} in all`,
  ];
}
