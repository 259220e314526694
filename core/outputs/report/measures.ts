// The measures that a run is judged by: their names as people read them, the one that a report puts first, and
// the baseline that it has to beat.
import { formatValue } from "../../base/format.ts";
import type { Diagnostics } from "../../run/diagnostics.ts";
import type { RunData } from "../../run/run_data.ts";

interface Measure {
  readonly label: string;
  /** Null where neither is. */
  readonly higherIsBetter: boolean | null;
  /** It is a share from 0 to 1. */
  readonly share?: true;
}

const MEASURES: Readonly<Record<string, Measure>> = {
  accuracy: { label: "Accuracy", higherIsBetter: true, share: true },
  top5: { label: "Top-5 accuracy", higherIsBetter: true, share: true },
  mean_iou: { label: "Mean IoU", higherIsBetter: true, share: true },
  balanced_accuracy: { label: "Balanced accuracy", higherIsBetter: true, share: true },
  average_precision: { label: "Average precision", higherIsBetter: true },
  kappa: { label: "Cohen's kappa", higherIsBetter: true },
  mcc: { label: "Matthews correlation", higherIsBetter: true },
  pearson: { label: "Correlation", higherIsBetter: true },
  spearman: { label: "Rank correlation", higherIsBetter: true },
  f1: { label: "F1", higherIsBetter: true },
  auroc: { label: "AUROC", higherIsBetter: true },
  r2: { label: "R²", higherIsBetter: true },
  anomaly_r2: { label: "R² of anomalies", higherIsBetter: true },
  rmse: { label: "RMSE", higherIsBetter: false },
  mae: { label: "MAE", higherIsBetter: false },
  bias: { label: "Bias", higherIsBetter: null },
  perplexity: { label: "Perplexity", higherIsBetter: false },
  bits_per_byte: { label: "Bits per byte", higherIsBetter: false },
  skill_persistence: { label: "Skill over persistence", higherIsBetter: true },
  skill_climatology: { label: "Skill over climatology", higherIsBetter: true },
};

const IN_UNITS = "_in_units";
const plainName = (name: string): string => name.endsWith(IN_UNITS) ? name.slice(0, -IN_UNITS.length) : name;

const measureOf = (name: string): Measure | undefined =>
  Object.hasOwn(MEASURES, plainName(name)) ? MEASURES[plainName(name)] : undefined;

/** "accuracy" within a sentence or a name; "R²" and "RMSE" stay. */
export const lowered = (label: string): string =>
  label.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());

/** "R²", "RMSE, in the target's units", or the name as the run has it. */
export function measureLabel(name: string): string {
  const label = measureOf(name)?.label ?? name;
  return name.endsWith(IN_UNITS) ? `${label}, in the target's units` : label;
}

export const isShare = (name: string): boolean => measureOf(name)?.share ?? false;

/** Null where nobody knows. */
export const higherIsBetter = (name: string): boolean | null => measureOf(name)?.higherIsBetter ?? null;

export const measureText = (name: string, value: number): string =>
  isShare(name) ? `${(100 * value).toFixed(1)}%` : shortValue(value);

/** Three decimals are enough beside a name; small and large values keep four digits. */
export function shortValue(value: number): string {
  const size = Math.abs(value);
  if (!Number.isFinite(value) || size !== 0 && (size < 1e-3 || size >= 1e6)) return formatValue(value);
  if (size === 0 || size >= 100 && Number.isInteger(value)) return String(value);
  return size < 10 ? value.toFixed(3) : size < 1000 ? value.toFixed(1) : String(Math.round(value));
}

export interface Headline {
  readonly name: string;
  readonly label: string;
  readonly value: number;
  readonly text: string;
  /** "m", where the value is in the units of one target. */
  readonly units: string;
  readonly baseline: Baseline | null;
}

interface Baseline {
  readonly value: number;
  readonly text: string;
  /** It completes "which is 0.4 for": "always answering cat". */
  readonly of: string;
  readonly beaten: boolean;
}

/** The best evaluation's first measure of these. Users' own measures come last. */
const FIRST = ["rmse", "mean_iou", "accuracy", "anomaly_r2", "r2", "perplexity"];

/** Null where a run was not evaluated, or its loss is all that it has. */
export function headlineOf(data: RunData, found: Diagnostics | null): Headline | null {
  const metrics = data.bestMetrics;
  const number = (name: string): number | null => {
    const value = Object.hasOwn(metrics, name) ? metrics[name] : null;
    return typeof value === "number" && Number.isFinite(value) ? value : null;
  };
  // Errors of forecasts come first only beside the forecast that they have to beat.
  const isForecast = number("skill_persistence") !== null || number("skill_climatology") !== null;
  const name = [...FIRST.slice(isForecast ? 0 : 1), ...data.metrics].find((one) => number(one) !== null);
  if (name === undefined) return null;
  if (name === "rmse" && isForecast) return forecastHeadline(number, Object.keys(metrics), found);
  const value = number(name)!, made = baselineOf(name, data, found);
  const better = higherIsBetter(name);
  return {
    ...{ name, label: measureLabel(name), value, text: measureText(name, value), units: "" },
    baseline: made && better !== null
      ? {
        ...made,
        text: measureText(name, made.value),
        beaten: better ? value > made.value : value < made.value,
      }
      : null,
  };
}

/** "" where targets have several. */
function commonUnits(found: Diagnostics | null): string {
  const [units = "", ...others] = new Set(found?.outputs.map(({ units }) => units));
  return others.length > 0 ? "" : units;
}

/** One output's, in the target's own units where the run knows them. */
export function scoreOf({ metrics, names, outputs }: Diagnostics, name: string, k: number): number | null {
  const of = outputs.length > 1 ? `/${names[k]}` : "";
  return metrics[`${name}${IN_UNITS}${of}`] ?? metrics[`${name}${of}`] ?? null;
}

export interface LeadsOver {
  /** Ascending, as the others; all targets beat persistence here. */
  readonly beaten: readonly number[];
  readonly others: readonly number[];
}

/** The leads at which a forecast beats persistence; null where it has one lead, or no such skill. */
export function leadsOverPersistence(found: Diagnostics | null): LeadsOver | null {
  const skills = (found?.outputs ?? []).flatMap(({ lead }, k) => {
    const skill = scoreOf(found!, "skill_persistence", k);
    return lead === null || skill === null ? [] : [{ lead, skill }];
  });
  const leads = [...new Set(skills.map(({ lead }) => lead))].sort((a, b) => a - b);
  if (leads.length < 2) return null;
  const isBeaten = (lead: number) => skills.every((one) => one.lead !== lead || one.skill > 0);
  return { beaten: leads.filter(isBeaten), others: leads.filter((lead) => !isBeaten(lead)) };
}

/** The better one of persistence and climatology is what a forecast has to beat. */
function forecastHeadline(
  number: (name: string) => number | null,
  names: readonly string[],
  found: Diagnostics | null,
): Headline {
  const inUnits = number("rmse_in_units"), value = inUnits ?? number("rmse")!;
  const baselines = (["persistence", "climatology"] as const).flatMap((of) => {
    const skill = number(`skill_${of}`);
    return skill === null || skill >= 1 ? [] : [{ of, value: value / (1 - skill) }];
  }).sort((a, b) => a.value - b.value);
  // The mean over several targets is of numbers as the model sees them.
  const isScaled = inUnits === null && names.some((name) => name.startsWith(`rmse${IN_UNITS}/`));
  const [first] = baselines, units = isScaled ? "" : commonUnits(found);
  return {
    name: inUnits === null ? "rmse" : `rmse${IN_UNITS}`,
    ...{ label: isScaled ? "RMSE (normalised)" : "RMSE", value, text: shortValue(value), units },
    baseline: first ? { ...first, text: shortValue(first.value), beaten: value < first.value } : null,
  };
}

function baselineOf(
  name: string,
  { config }: RunData,
  found: Diagnostics | null,
): Pick<Baseline, "value" | "of"> | null {
  const confusion = found?.confusion ?? null;
  if (name === "anomaly_r2") return { value: 0, of: "always predicting the mean anomaly" };
  if (name === "r2") return { value: 0, of: "always predicting the mean" };
  if (name === "perplexity") {
    const { model, data } = config as { model?: { vocab_size?: unknown }; data?: { token_type?: unknown } };
    const known = Number(model?.vocab_size) || (data?.token_type === "uint8" ? 256 : 0);
    return known > 1 ? { value: known, of: "a model that knows nothing" } : null;
  }
  if (confusion === null) return null;
  const each = confusion.map((row) => row.reduce((a, b) => a + b, 0)), all = each.reduce((a, b) => a + b, 0);
  const most = each.indexOf(Math.max(...each));
  if (all === 0) return null;
  const share = each[most] / all, of = `always answering “${found?.names[most] ?? most}”`;
  if (name === "accuracy") return { value: share, of };
  // Where one class is everywhere, its IoU is its share, and that of the others 0.
  if (name === "mean_iou") return { value: share / each.filter((count) => count > 0).length, of };
  return null;
}
