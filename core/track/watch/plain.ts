// What `watch` says where there is no terminal: a line now and then, each warning once, and the end. Pure. May import format,
// panels (types), text.
import { formatDuration, formatLearningRate, formatPlural, formatRate, formatValue } from "../../format.ts";
import { timeIn, type View } from "./panels.ts";
import { harmless } from "./text.ts";

export function plainLine({ data, standing, progress }: View): string {
  const { step, steps, epoch, epochs, secondsLeft } = progress;
  const last = (name: string) => data.curves.get(name)?.last;
  const part = (name: string, format: (value: number) => string, label = "", unit = "") => {
    const value = last(name);
    return value === undefined ? [] : [`${label}${format(value)}${unit}`];
  };
  return [
    `${harmless(data.name)}: ${standing.state}`,
    `Step ${step}${steps === null ? "" : `/${steps}`}`,
    `Epoch ${epoch}${epochs === null ? "" : `/${epochs}`}`,
    ...part("loss", formatValue, "Loss: "),
    ...part("val_loss", formatValue, "Val Loss: "),
    ...part("lr", formatLearningRate, "LR: "),
    ...part("samples_per_s", formatRate, "", " samples/s"),
    ...(secondsLeft === null ? [] : [`${formatDuration(secondsLeft)} left`]),
    ...slowest(data.ranks),
    ...timeIn(data),
  ].join(" | ");
}

function slowest(ranks: View["data"]["ranks"]): string[] {
  if (ranks === null || ranks.spread < 0.05) return [];
  return [`rank ${ranks.slowest} of ${ranks.data_s.length} slowest by ${(100 * ranks.spread).toFixed(0)}%`];
}

/** Warnings beyond the first `told` of the run. */
export function newWarnings({ data }: View, told: number): string[] {
  const fresh = Math.min(data.warnings.length, Math.max(0, data.warningCount - told));
  const missed = data.warningCount - told - fresh;
  return [
    ...(missed > 0 && !data.sampled ? [`${formatPlural(missed, "more warning")}`] : []),
    ...data.warnings.slice(data.warnings.length - fresh).map(({ message }) =>
      `warning: ${harmless(message)}`
    ),
  ];
}
