// Writes a file of Prometheus's text format, in the writing thread: the newest numbers, for the textfile collector of a
// node exporter.
import { writeAll, writeAtomically } from "../../base/atomic.ts";
import { type Event, EVENT_FIELDS, type EventField } from "../../run/events.ts";
import type { Sink } from "../../run/output.ts";
import { eachScalar, hasScalars } from "../scalars.ts";
import { onceBegun, type TrackedRun } from "../tracked_run.ts";

/** Prometheus asks about as often. */
const EVERY_S = 5;

export const openSink = (run: unknown): Sink => onceBegun(() => openGauges(run as TrackedRun));

interface Gauge {
  readonly help: string;
  /** A number for each set of labels. */
  readonly values: Map<string, number>;
}

export function openGauges(run: TrackedRun): Sink {
  const { path } = run, gauges = new Map<string, Gauge>();
  let wroteAt = -Infinity, now = 0;
  const set = (name: string, value: number, more: Readonly<Record<string, string>> = {}, help = name) => {
    const family = `hpctrain_${name.replaceAll(/[^a-zA-Z0-9_]/g, "_")}`;
    let gauge = gauges.get(family);
    if (gauge === undefined) gauges.set(family, gauge = { help, values: new Map() });
    gauge.values.set(labelsOf({ run: run.run, ...more }), value);
  };
  const write = () => {
    set("time_seconds", now, {}, "when this was written, in Unix seconds");
    const text = textOf(gauges);
    writeAtomically(path, (out) => writeAll(out, new TextEncoder().encode(text)), { sync: false });
    wroteAt = now;
  };
  set("running", 1, {}, "1 while the run trains, 0 after its end");

  return {
    write(event: Event) {
      now = event.t;
      if (hasScalars(event)) {
        set("step", event.step, {}, "steps done");
        eachScalar(event, (name, value) => {
          const [, family = name, of] = /^([^/]+\/[^/]+)\/(.*)$/s.exec(name) ?? [];
          set(family, value, of === undefined ? {} : { of }, HELP.get(family));
        });
      } else if (event.kind === "system") putSystem(event, set);
      else return;
      if (now - wroteAt >= EVERY_S || now < wroteAt) write();
    },
    close(exitCode) {
      set("running", 0);
      if (exitCode !== undefined) {
        set("exit_code", exitCode, {}, "0: done, 75: stopped with a checkpoint, others: failed");
      }
      now = Date.now() / 1000;
      write();
    },
  };
}

function putSystem(
  { t: _, step: __, rank = 0, ...event }: Event & { kind: "system" },
  set: (name: string, value: number, more: Readonly<Record<string, string>>, help?: string) => void,
): void {
  for (const [field, { about }] of Object.entries<EventField>(EVENT_FIELDS.system)) {
    const value = event[field as keyof typeof EVENT_FIELDS.system];
    if (value !== undefined) set(`system_${field}`, value, { rank: String(rank) }, about);
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
