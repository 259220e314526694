// The sink of a made-up output: a line for each event, each note and the end.
import type { Sink } from "../../../../core/run/output.ts";

export function openSink(setup: unknown): Sink {
  const { path, resumed, failing } = setup as { path: string; resumed: number | null; failing: boolean };
  const line = (value: unknown) =>
    Deno.writeTextFileSync(path, JSON.stringify(value) + "\n", { append: true });
  line({ opened: resumed });
  return {
    write({ kind, ...event }) {
      line({ event: kind, step: "step" in event ? event.step : undefined });
      if (failing) throw new Error("it refuses");
    },
    note: ({ kind }) => line({ note: kind }),
    close: (code) => line({ closed: code ?? null }),
  };
}
