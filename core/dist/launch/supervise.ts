// Ranks under one supervisor: started again after a failure, as often as was allowed.
// May import checkpoint, errors, its siblings.
import { join } from "../../../deps/path.ts";
import { indexOf } from "../../checkpoint/sharded/read.ts";
import { EXIT } from "../../errors.ts";
import { attempt, type Requests, type Stop } from "./attempt.ts";
import type { RunPlaces } from "./notes.ts";
import { openOutput } from "./output.ts";
import type { Job } from "./start.ts";

/** These would come to the same end again, or are what was asked for. */
const FINAL: readonly number[] = [EXIT.done, EXIT.usage, EXIT.data, EXIT.stopped];

export async function supervise(
  job: Job,
  words: readonly string[],
  maxRestarts: number,
  say: (line: string) => void,
): Promise<number> {
  const { requests, close } = listen(say);
  let code: number | null = null;
  try {
    let args = words;
    for (let restarts = 0;; restarts++) {
      const { verdict, run } = await attempt(job, args, openOutput(), requests);
      if (verdict.sentence) say(verdict.sentence);
      if (requests.stop || FINAL.includes(verdict.code) || restarts === maxRestarts) {
        return code = verdict.code;
      }
      const going = run && hasCheckpoint(run);
      if (going) args = [...words, "--resume", "auto", "--run-name", run.run];
      say(
        `Restart ${restarts + 1} of ${maxRestarts}: ${
          going
            ? `${run.run} goes on from its newest good checkpoint.`
            : "from the beginning, as there is no checkpoint yet."
        }`,
      );
    }
  } finally {
    // srun ends the other tasks when the first has ended with this code: by a signal that must not change our own.
    if (code !== EXIT.stopped) close();
  }
}

function hasCheckpoint({ run, checkpoints }: RunPlaces): boolean {
  try {
    return [...Deno.readDirSync(checkpoints)].some(({ name, isDirectory }) =>
      ["pt", "safetensors", "ckpt"].some((ending) =>
        [`${run}_latest.${ending}`, `${run}_best.${ending}`].includes(name)
      ) && (!isDirectory || indexOf(join(checkpoints, name)) !== undefined)
    );
  } catch {
    return false;
  }
}

/** The first request to stop is the ranks' to heed, in their own time; the second ends them. */
function listen(say: (line: string) => void): { requests: Requests; close(): void } {
  const requests: Requests = { stop: null, atOnce: false, passOn: [] };
  const onStop = (signal: Stop) => () => {
    if (requests.stop === null) return void (requests.stop = signal);
    if (!requests.atOnce) say("Asked to stop again: the ranks are killed.");
    requests.atOnce = true;
  };
  const handlers: [Deno.Signal, () => void][] = [
    ...(["SIGINT", "SIGTERM", "SIGHUP"] as const).map((
      name,
    ): [Deno.Signal, () => void] => [name, onStop(name)]),
    ...(["SIGUSR1", "SIGUSR2"] as const).map((name): [Deno.Signal, () => void] => [
      name,
      () => requests.passOn.push(name),
    ]),
  ];
  for (const [name, handler] of handlers) Deno.addSignalListener(name, handler);
  return {
    requests,
    close() {
      for (const [name, handler] of handlers) Deno.removeSignalListener(name, handler);
    },
  };
}
