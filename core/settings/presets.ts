// The presets that are embedded in the executable, and the layouts they are for.
import { UserError } from "../base/errors.ts";
import { parseSettings } from "./yaml.ts";
import { type Assignment, Mistakes } from "./values.ts";
import { didYouMean, sameName } from "../base/suggest.ts";

export const PRESET_NAMES = [
  "quickstart",
  "debug",
  "cpu",
  "cpu-cluster",
  "single-gpu",
  "multi-gpu",
  "multi-node",
] as const;

/** "any" is [1, Infinity]. */
type Span = readonly [number, number];

interface PresetLayout {
  readonly nodes: Span;
  readonly ranks: Span;
  readonly device: "any" | "cpu" | "cuda";
  readonly fit: string;
}

export interface Preset {
  readonly name: string;
  readonly about: string;
  readonly layout: PresetLayout;
  readonly assignments: readonly Assignment[];
  readonly source: string;
}

export interface World {
  readonly nodes: number;
  readonly ranks: number;
  readonly device: "cpu" | "cuda";
}

export function loadPreset(given: string, from = "--preset"): Preset {
  const name = sameName(given, PRESET_NAMES);
  if (name === undefined) {
    const hint = didYouMean(given, PRESET_NAMES) || ` The presets are ${PRESET_NAMES.join(", ")}.`;
    throw new UserError("usage", `${from}: unknown preset "${given}".${hint}`);
  }
  const source = Deno.readTextFileSync(new URL(`../../presets/${name}.yaml`, import.meta.url));
  const mistakes = new Mistakes();
  const { assignments, extra } = parseSettings(source, `presets/${name}.yaml`, mistakes);
  mistakes.refuse();
  const layout = extra.layout() as Record<"nodes" | "ranks" | "device" | "fit", string | number>;
  return {
    name,
    about: String(extra.about()),
    layout: {
      nodes: span(layout.nodes),
      ranks: span(layout.ranks),
      device: layout.device as PresetLayout["device"],
      fit: String(layout.fit),
    },
    assignments: assignments.map(({ path, value }) => ({ path, value, origin: { kind: "preset", name } })),
    source,
  };
}

export function checkLayout(preset: Preset, world: World): void {
  const { nodes, ranks, device, fit } = preset.layout;
  const within = (count: number, [least, most]: Span) => count >= least && count <= most;
  const deviceFits = device === "any" || device === world.device;
  if (within(world.nodes, nodes) && within(world.ranks, ranks) && deviceFits) return;
  const unit = world.device === "cuda" ? "GPU" : "CPU rank";
  const layout = `${count(world.ranks, unit)} on ${count(world.nodes, "node")}`;
  throw new UserError(
    "usage",
    `Preset "${preset.name}" is for ${describeLayout(preset.layout)}, but this world has ${layout}. ` +
      `Make one that fits with: ${fit}. To train here all the same, add --any-layout.`,
  );
}

export function describeLayout({ nodes, ranks, device }: PresetLayout): string {
  if (device === "any" && ranks[1] === Infinity && nodes[1] === Infinity) return "any layout";
  const unit = device === "cuda" ? "GPU" : device === "cpu" ? "CPU rank" : "rank";
  return `${spanInWords(ranks, unit)} on ${spanInWords(nodes, "node")}`;
}

function span(text: string | number): Span {
  const match = /^(\d+)(\+?)$/.exec(String(text));
  if (!match) throw new Error(`internal: layout count "${text}" is neither N nor N+`);
  return [Number(match[1]), match[2] ? Infinity : Number(match[1])];
}

function spanInWords([least, most]: Span, unit: string): string {
  if (most !== Infinity) return count(least, unit);
  return least === 1 ? `any number of ${unit}s` : `${least} or more ${unit}s`;
}

function count(n: number, unit: string): string {
  return `${n} ${unit}${n === 1 ? "" : "s"}`;
}
