// `hpctrain eval CHECKPOINT`: the model and data of a checkpoint, every validation sample once.
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { environmentLines } from "../../core/settings/environment.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { openEventLoopTurn } from "../../core/train/pauses.ts";
import { type EnsembleOptions, loadForEvaluation } from "../../core/predict/load.ts";
import { savedAnswers, withOwnStatistics } from "../../core/train/data_facts.ts";
import { numberedAs } from "../../core/data/open/own_files.ts";
import { asUserError, openDevice } from "../../core/train/device.ts";
import {
  evaluate as evaluateAll,
  type Evaluation,
  lessAtOnce,
  skillNote,
} from "../../core/train/evaluate.ts";
import { hasColumns } from "../../core/data/open/formats.ts";
import { formatPlural, formatValue } from "../../core/base/format.ts";
import { lossText } from "../../core/run/live_line.ts";
import { checkpointsIn, resolvedFor } from "./its_model.ts";
import { membersOf } from "./members.ts";
import {
  isUndivided,
  otherSplit,
  otherSplits,
  type PartName,
  partNamed,
  sourceOfPart,
  whole,
  withItsOwnParts,
} from "./parts.ts";
import { refuseMetrics } from "../../core/train/monitor.ts";
import { OPTIONS, SETTINGS, USAGE } from "../eval.ts";
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";

const LABELS: Record<string, string> = {
  accuracy: "Acc",
  top5: "Top-5",
  precision: "Precision",
  recall: "Recall",
  f1: "F1",
  auroc: "AUROC",
  ece: "Calibration error",
  r2: "R2",
  anomaly_r2: "R2 of anomalies",
  mae: "MAE",
  rmse: "RMSE",
  bias: "Bias",
  mean_iou: "Mean IoU",
  mae_in_units: "MAE in its units",
  rmse_in_units: "RMSE in its units",
  bias_in_units: "Bias in its units",
  iou: "IoU",
  perplexity: "Perplexity",
  bits_per_byte: "Bits per byte",
  skill_persistence: "Skill over persistence",
  skill_climatology: "Skill over climatology",
  within_1_sigma: "Within 1 sigma",
  within_2_sigma: "Within 2 sigma",
  spread: "Spread",
};

export async function evaluate(argv: string[]): Promise<number> {
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { options } = parseOptions(own, OPTIONS, USAGE);
  const env = Deno.env.toObject();
  const request = { argv: rest, env, positionals: Infinity, usage: USAGE };
  const wanted = options.on === undefined ? null : partNamed(options.on);
  const [path, ...others] = checkpointsIn(request, SETTINGS).positionals;
  if (path === undefined) {
    throw new UserError(
      "usage",
      `Which checkpoint? Usage: ${USAGE}, e.g. hpctrain eval checkpoints/quickstart_best.pt.`,
    );
  }
  const { resolved, saved } = await resolvedFor(path, request, SETTINGS);
  for (const line of environmentLines(resolved)) console.error(line);
  const undivided = wanted === null && isUndivided(resolved, saved);
  const part = wanted ?? (undivided ? "all" : "validation");
  const ensemble = await membersOf(others, { ...request, takes: SETTINGS }, options);
  const judged = part !== "train" && part !== "all";
  const splits = otherSplits([resolved.config, ...ensemble.others.map(({ config }) => config)]);
  for (const other of judged ? [otherSplit(resolved, saved), splits] : []) if (other) console.error(other);
  try {
    using file = openCheckpoint(path);
    const own = withOwnStatistics(withItsOwnParts(resolved, saved), file.root), unsplit = part === "all";
    if (unsplit && !hasColumns(own.data)) {
      throw new UserError("usage", "--on all is for tables and grids: other data has its own parts.");
    }
    const config = unsplit ? whole(own, resolved) : own;
    const answers = savedAnswers(file.root);
    const how = { config, resolved, ...openDevice(config), answers, unsplit, ensemble };
    const { data, pass, averaged, batchSize, openFeed } = await loadForEvaluation(file, how);
    const chosen = sourceOfPart(data, part);
    const val = answers ? numberedAs(chosen, answers) : chosen;
    if (resolved.origin("training.metrics").kind !== "checkpoint") {
      refuseMetrics({ data: { train: val, val }, pass });
    }
    const turn = openEventLoopTurn();
    const feed = openFeed([val]);
    const result = await evaluateAll(pass, val, feed, batchSize, async () => {
      if (turn.due()) await turn.take();
    });
    const replaced = feed.skipped();
    feed.close();
    if (replaced > 0) console.error(judgedTwice(replaced));
    if (result.halvedTo !== null) console.error(lessAtOnce(result.halvedTo, batchSize));
    if (undivided) console.error(judgedWhole(config.data.data_path, result.samples));
    const note = skillNote(val, result.metrics);
    if (note !== null) console.error(note);
    const files = { checkpoint: path, ...(others.length > 0 && { checkpoints: [path, ...others] }) };
    const scaled = val.targetScale !== undefined;
    report(files, part, { ...result, averaged, members: membersIn(ensemble), scaled }, config.output.json);
    return EXIT.done;
  } catch (error) {
    throw asUserError(error);
  }
}

const judgedWhole = (path: string, samples: number): string =>
  `${path} is other data than the run's own, so all of it is judged: ${formatPlural(samples, "sample")}.`;

const judgedTwice = (count: number): string =>
  `${
    formatPlural(count, "sample")
  } could not be used, and the next one was judged once more in the place of each (--bad-samples skip).`;

const LABEL: Record<PartName, string> = { test: "Test", validation: "Val", train: "Train", all: "All" };

const membersIn = ({ others, passes }: EnsembleOptions): number => (others.length + 1) * Math.max(1, passes);

function report(
  wanted: { readonly checkpoint: string; readonly checkpoints?: readonly string[] },
  part: PartName,
  result: Evaluation & { averaged: boolean; members: number; scaled: boolean },
  json: boolean,
): void {
  const { valLoss, metrics, samples, seconds, averaged, members, scaled } = result;
  if (json) {
    const on = part === "validation" ? {} : { on: part };
    const loss = part === "validation" ? { val_loss: valLoss } : { loss: valLoss };
    const ensemble = members > 1 ? { members } : {};
    const facts = { ...wanted, ...on, ...loss, metrics, samples, seconds, averaged, ...ensemble };
    return console.log(JSON.stringify(facts));
  }
  const of = LABEL[part];
  const all = Object.entries(metrics);
  const parts = all.filter(([name]) => !name.includes("/"))
    .map(([name, value]) => `${of} ${labelOf(name)}: ${formatValue(value)}`);
  const weights = [...(averaged ? ["averaged weights"] : []), ...(members > 1 ? [`${members} members`] : [])];
  console.log(
    [`${of} Loss: ${lossText(valLoss, scaled)}`, ...parts, `${samples} samples`, ...weights].join(" | "),
  );
  if ("within_1_sigma" in metrics) console.log(CALIBRATION);
  if (all.some(([name]) => name.startsWith("below_q"))) console.log(QUANTILES);
  for (const line of byName(all.filter(([name]) => name.includes("/")))) console.log(line);
}

const CALIBRATION =
  "Of calibrated predictions 0.683 of the targets lie within 1 sigma and 0.954 within 2, and the spread is the RMSE.";

const QUANTILES = "Of calibrated quantiles a share of 0.1 of the targets lies below q0.1, and so on.";

const labelOf = (name: string): string => LABELS[name] ?? name.replace(/^below_/, "Below ");

/** A line for each target or class: "r2/NAME" in a column of R2. */
function byName(measured: readonly (readonly [string, number])[]): string[] {
  const cut = measured.map(([name, value]) => {
    const at = name.indexOf("/");
    return { metric: name.slice(0, at), of: name.slice(at + 1), value };
  });
  const columns = [...new Set(cut.map(({ metric }) => metric))], rows = [...new Set(cut.map(({ of }) => of))];
  if (rows.length === 0) return [];
  const cell = (of: string, metric: string) => {
    const found = cut.find((one) => one.of === of && one.metric === metric);
    return found ? formatValue(found.value) : "";
  };
  const lines = [
    ["", ...columns.map(labelOf)],
    ...rows.map((of) => [of, ...columns.map((c) => cell(of, c))]),
  ];
  const widths = lines[0].map((_, i) => Math.max(...lines.map((line) => line[i].length)));
  return lines.map((line) =>
    "  " + line.map((text, i) => i === 0 ? text.padEnd(widths[i]) : text.padStart(widths[i])).join("  ")
  );
}
