// Uploads a run while it trains (--wandb-online): whatever goes wrong is tried again later, and nothing waits for it. May import
// its siblings.
import { openApi } from "./api.ts";
import { caCertsOf, type Environment, findServer, type Server } from "./credentials.ts";
import { openHttp } from "./http.ts";
import { failureOf, uploadRun } from "./upload.ts";

/** Plain data: no key is in it, the thread looks for it itself. */
export interface GrowingRun {
  /** The .wandb file; it need not be there yet. */
  readonly path: string;
  readonly version: string;
  /** Milliseconds between two looks, and two requests. */
  readonly lookMs?: number;
  readonly requestMs?: number;
}

export interface GrowingOptions {
  readonly env: Environment;
  /** Training has ended, and the file has its last record. */
  readonly ended: AbortSignal;
  /** No more time: what is not uploaded is left for sync-wandb. */
  readonly giveUp: AbortSignal;
  readonly warn: (sentence: string) => void;
}

/** Between two tries, doubled up to the last. */
const FIRST_WAIT_MS = 5000, LONGEST_WAIT_MS = 5 * 60_000;
const RETRIES = 3;

/** Where it stands at the end; null when nothing could be uploaded. Throws never. */
export async function uploadAsItGrows(
  run: GrowingRun,
  { env, ended, giveUp, warn }: GrowingOptions,
): Promise<"synced" | "open" | null> {
  let server: Server, caCerts: string[];
  try {
    server = findServer(env);
    caCerts = caCertsOf(env, undefined);
  } catch (error) {
    warn(`Nothing is uploaded to W&B while training: ${failureOf(error).message} Later: hpctrain sync-wandb`);
    return null;
  }
  const http = openHttp({ retries: RETRIES, caCerts, signal: giveUp });
  try {
    for (let failures = 0; !giveUp.aborted;) {
      const last = ended.aborted;
      try {
        const { state } = await uploadRun(run.path, {
          ...run,
          api: openApi(server, http),
          server: server.url,
          grows: () => !ended.aborted,
          wake: ended,
          say: warn,
        });
        return state === "synced" || state === "was synced" ? "synced" : "open";
      } catch (error) {
        if (giveUp.aborted || (last && !isMissing(error))) break;
        if (!isMissing(error)) {
          // Not each of them: a network that is gone for hours is one warning an hour or so.
          if (Number.isInteger(Math.log2(++failures))) {
            warn(`The upload to W&B waits: ${server.key.hide(failureOf(error).message)} Training goes on.`);
          }
        } else if (ended.aborted) return null; // there never was a file
        const wait = failures === 0
          ? run.lookMs ?? 1000
          : Math.min(FIRST_WAIT_MS * 2 ** (failures - 1), LONGEST_WAIT_MS);
        await pause(wait, ended, giveUp);
      }
    }
    warn("Not all of the run is at the W&B server yet. Later: hpctrain sync-wandb");
    return "open";
  } finally {
    http.close();
  }
}

const isMissing = (error: unknown): boolean => error instanceof Deno.errors.NotFound;

function pause(ms: number, ended: AbortSignal, giveUp: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (giveUp.aborted) return resolve();
    const stop = ended.aborted ? giveUp : AbortSignal.any([ended, giveUp]);
    const done = () => {
      clearTimeout(timer);
      stop.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    stop.addEventListener("abort", done);
  });
}
