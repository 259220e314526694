// Writes a file of Prometheus's text format, in the writing thread: the newest numbers, for the textfile collector of a
// node exporter.
import { writeAll, writeAtomically } from "../../core/base/atomic.ts";
import { type Event, EVENT_FIELDS, type EventField, type SystemEvent } from "../../core/run/events.ts";
import type { Sink } from "../../core/run/output.ts";
import { eachScalar, hasScalars } from "../../core/outputs/scalars.ts";
import { onceBegun, type TrackedRun } from "../../core/outputs/tracked.ts";

/** Prometheus asks about as often. */
const EVERY_S = 5;

export const openSink = (run: unknown): Sink => onceBegun(() => openGauges(run as TrackedRun));

interface Gauge {
  readonly help: string;
  /** A number for each set of labels. */
  readonly values: Map<string, number>;
}

function openGauges({ run, path }: TrackedRun): Sink {
  const scalars = new Map<string, number>(), machines = new Map<number, SystemEvent>();
  let step = 0, now = 0, wroteAt = -Infinity, code: number | null = null;

  const write = (running: boolean) => {
    const gauges = new Map<string, Gauge>();
    const set: SetGauge = (name, value, help = name, more = {}) => {
      const family = `hpctrain_${name.replaceAll(/[^a-zA-Z0-9_]/g, "_")}`;
      let gauge = gauges.get(family);
      if (gauge === undefined) gauges.set(family, gauge = { help, values: new Map() });
      gauge.values.set(labelsOf({ run, ...more }), value);
    };
    set("running", Number(running), "1 while the run trains, 0 after its end");
    if (code !== null) set("exit_code", code, "0: done, 75: stopped with a checkpoint, others: failed");
    set("time_seconds", now, "when this was written, in Unix seconds");
    set("step", step, "steps done");
    for (const [name, value] of scalars) {
      const [, family = name, of] = /^([^/]+\/[^/]+)\/(.*)$/s.exec(name) ?? [];
      set(family, value, HELP.get(family), of === undefined ? {} : { of });
    }
    for (const event of machines.values()) putSystem(event, set);
    const text = new TextEncoder().encode(textOf(gauges));
    wroteAt = now;
    writeAtomically(path, (out) => writeAll(out, text), { sync: false });
  };

  return {
    write(event: Event) {
      if (hasScalars(event)) {
        step = event.step;
        eachScalar(event, (name, value) => scalars.set(name, value));
      } else if (event.kind === "system") machines.set(event.rank ?? 0, event);
      else return;
      now = event.t;
      if (now - wroteAt >= EVERY_S || now < wroteAt) write(true);
    },
    close(exitCode) {
      code = exitCode ?? null;
      now = Date.now() / 1000;
      write(false);
    },
  };
}

type SetGauge = (name: string, value: number, help?: string, more?: Readonly<Record<string, string>>) => void;

function putSystem({ rank = 0, ...event }: SystemEvent, set: SetGauge): void {
  for (const [field, { about }] of Object.entries<EventField>(EVENT_FIELDS.system)) {
    const value = event[field as keyof typeof EVENT_FIELDS.system];
    if (value !== undefined) set(`system_${field}`, value, about, { rank: String(rank) });
  }
}

const HELP: ReadonlyMap<string, string> = new Map([
  ...[EVENT_FIELDS.step, EVENT_FIELDS.times].flatMap((fields) =>
    Object.entries<EventField>(fields).map(([field, { wandb, about }]): [string, string] => [
      wandb ?? field,
      wandb?.endsWith("_ms") ? `${about}, milliseconds a step` : about,
    ])
  ),
  ["epoch", "the epoch that is under way"],
  ["val/loss", "loss of the validation data"],
]);

/** All lines of a name follow one another. */
function textOf(gauges: ReadonlyMap<string, Gauge>): string {
  let text = "";
  for (const [family, { help, values }] of gauges) {
    text += `# HELP ${family} ${escaped(help, /[\\\n]/g)}\n# TYPE ${family} gauge\n`;
    for (const [labels, value] of values) text += `${family}${labels} ${numberText(value)}\n`;
  }
  return text;
}

const labelsOf = (labels: Readonly<Record<string, string>>): string =>
  `{${Object.entries(labels).map(([name, value]) => `${name}="${escaped(value, /[\\\n"]/g)}"`).join(",")}}`;

const escaped = (text: string, what: RegExp): string =>
  text.replaceAll(what, (found) => found === "\n" ? "\\n" : `\\${found}`);

const numberText = (value: number): string =>
  value === Infinity ? "+Inf" : value === -Infinity ? "-Inf" : String(value);
