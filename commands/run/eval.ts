// `hpctrain eval CHECKPOINT`: the model and data of a checkpoint, every validation sample once.
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { environmentLines } from "../../core/settings/environment.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { openEventLoopTurn } from "../../core/train/pauses.ts";
import { loadForEvaluation } from "../../core/predict/load.ts";
import { savedAnswers } from "../../core/train/build.ts";
import { numberedAs } from "../../core/data/classes.ts";
import { asUserError, openDevice } from "../../core/train/device.ts";
import { evaluate as evaluateAll, type Evaluation, lessAtOnce } from "../../core/train/evaluate.ts";
import { hasColumns } from "../../core/data/open.ts";
import { savedConfig, withOwnStatistics } from "../../core/train/resume.ts";
import { formatValue } from "../../core/base/format.ts";
import { withUserCode } from "../user_code.ts";
import { otherSplit, type PartName, partNamed, partOf, whole, withItsOwnFiles } from "./parts.ts";
import { OPTIONS, SETTINGS, USAGE } from "../eval.ts";
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";

const LABELS: Record<string, string> = {
  accuracy: "Acc",
  top5: "Top-5",
  r2: "R2",
  mae: "MAE",
  rmse: "RMSE",
  bias: "Bias",
  mean_iou: "Mean IoU",
  mae_in_units: "MAE in its units",
  rmse_in_units: "RMSE in its units",
  bias_in_units: "Bias in its units",
  iou: "IoU",
  perplexity: "Perplexity",
  skill_persistence: "Skill over persistence",
  skill_climatology: "Skill over climatology",
};

export async function evaluate(argv: string[]): Promise<number> {
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const part = partNamed(parseOptions(own, OPTIONS, USAGE).options.on ?? "validation");
  const env = Deno.env.toObject();
  const request = { argv: rest, env, positionals: 1, usage: USAGE, takes: SETTINGS };
  const [path] = resolveSettings(request).positionals;
  if (path === undefined) {
    throw new UserError(
      "usage",
      `Which checkpoint? Usage: ${USAGE}, e.g. hpctrain eval checkpoints/quickstart_best.pt.`,
    );
  }
  const saved = savedConfig(path);
  const resolved = await withUserCode(
    resolveSettings({ ...request, checkpoint: saved }),
  );
  for (const line of environmentLines(resolved)) console.error(line);
  const other = part === "train" || part === "all" ? null : otherSplit(resolved, saved);
  if (other !== null) console.error(other);
  try {
    using file = openCheckpoint(path);
    const own = withOwnStatistics(withItsOwnFiles(resolved, saved), file.root), unsplit = part === "all";
    if (unsplit && !hasColumns(own.data)) {
      throw new UserError("usage", "--on all is for tables and grids: other data has its own parts.");
    }
    const config = unsplit ? whole(own, resolved) : own;
    const answers = savedAnswers(file.root);
    const options = { config, resolved, ...openDevice(config), answers, unsplit };
    const { data, pass, averaged, batchSize, openFeed } = await loadForEvaluation(file, options);
    const chosen = partOf(data, part);
    const val = answers ? numberedAs(chosen, answers) : chosen;
    const turn = openEventLoopTurn();
    const feed = openFeed([val]);
    const result = await evaluateAll(pass, val, feed, batchSize, async () => {
      if (turn.due()) await turn.take();
    });
    feed.close();
    if (result.halvedTo !== null) console.error(lessAtOnce(result.halvedTo, batchSize));
    report(path, part, { ...result, averaged }, config.output.json);
    return EXIT.done;
  } catch (error) {
    throw asUserError(error);
  }
}

const LABEL: Record<PartName, string> = { test: "Test", validation: "Val", train: "Train", all: "All" };

function report(
  path: string,
  part: PartName,
  result: Evaluation & { averaged: boolean },
  json: boolean,
): void {
  const { valLoss, metrics, samples, seconds, averaged } = result;
  if (json) {
    const on = part === "validation" ? {} : { on: part };
    const loss = part === "validation" ? { val_loss: valLoss } : { loss: valLoss };
    const facts = { checkpoint: path, ...on, ...loss, metrics, samples, seconds, averaged };
    return console.log(JSON.stringify(facts));
  }
  const of = LABEL[part];
  const all = Object.entries(metrics);
  const parts = all.filter(([name]) => !name.includes("/"))
    .map(([name, value]) => `${of} ${labelOf(name)}: ${formatValue(value)}`);
  const weights = averaged ? ["averaged weights"] : [];
  console.log(
    [`${of} Loss: ${formatValue(valLoss)}`, ...parts, `${samples} samples`, ...weights].join(" | "),
  );
  for (const line of byName(all.filter(([name]) => name.includes("/")))) console.log(line);
}

const labelOf = (name: string): string => LABELS[name] ?? name;

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
