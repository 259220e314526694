// `doctor --full`: checks every node, then measures devices, network and storage.
import { cudaDevices } from "../../../../ffi/cuda.ts";
import type { Device } from "../../../../ffi/tensor.ts";
import type { Resolved } from "../../../settings/resolve.ts";
import type { Config } from "../../../settings/settings.ts";
import { usableCores } from "../../../base/topology.ts";
import { placeFlags, type RankContext, rankContext } from "../../../ranks/context.ts";
import { UserError } from "../../../base/errors.ts";
import { startThread, type Thread } from "../../../base/threads.ts";
import { formatDuration } from "../../../base/format.ts";
import { asUserError, openDevice } from "../../../train/device.ts";
import { examine, judgeFacts, type MachineFacts } from "../examine.ts";
import { bad, type Finding, good } from "../check.ts";
import { nearestFolder, probe } from "../storage.ts";
import { judgeResults, type RankResult, type Results } from "./judge.ts";
import { matmulSpeed } from "./speeds.ts";
import type { WatchdogOptions } from "./watchdog.ts";

type Env = Record<string, string>;

export interface MeasureOutcome {
  readonly rank: number;
  /** Rank 0 prints these; the other ranks' exit codes follow from theirs. */
  readonly lines: readonly Finding[];
  readonly facts: MachineFacts | null;
  readonly measured: Results | null;
  readonly exclude: readonly string[];
}

/** After these seconds the program ends whatever it is doing. */
const MOST_SECONDS = 57;
const WRITE_BYTES = 64 * 2 ** 20, WRITE_SECONDS = 5;
const MATMUL_SECONDS = 1.5;

export async function measureMachine(resolved: Resolved, env: Env, began: number): Promise<MeasureOutcome> {
  const { config } = resolved;
  const watchdog = startWatchdog(MOST_SECONDS - (performance.now() - began) / 1000);
  try {
    const where = whereOf(resolved, env);
    // All ranks of a node would find the same.
    const facts = where === null || where.localRank === 0 ? await examine(resolved, env) : null;
    const lines = facts ? judgeFacts(facts) : [];
    if (where === null) return { rank: 0, lines, facts, measured: null, exclude: [] };
    const ready = makeReady(config, where, lines);
    if (where.world === 1) return alone({ config, ready, lines, facts, began });
    const { measureRanks: measureTogether } = await import("./ranks.ts");
    return await measureTogether({
      config,
      backendFrom: resolved.origin("distributed.backend"),
      env,
      where,
      ready,
      lines,
      facts,
      began,
    });
  } catch (error) {
    throw asUserError(error);
  } finally {
    watchdog.end();
  }
}

/** The other ranks learn why a device can't compute. */
export interface Ready {
  readonly device: Device;
  readonly libtorch: string;
  readonly broken: string | null;
}

function makeReady(config: Config, where: RankContext, lines: readonly Finding[]): Ready {
  const cause = lines.find(({ name, state }) =>
    state === "bad" && /^(libtorch|allocation|glibc)$/.test(name)
  );
  if (cause) return { device: "cpu", libtorch: "", broken: `${cause.said}. ${cause.fix}` };
  const threads = config.training.threads || Math.max(1, Math.floor(usableCores() / where.localWorld));
  try {
    const training = { ...config.training, threads };
    const { device, libtorch } = openDevice({ ...config, training }, where.localRank);
    return { device, libtorch: libtorch.versionText, broken: null };
  } catch (error) {
    const known = asUserError(error);
    if (known instanceof UserError) return { device: "cpu", libtorch: "", broken: known.message };
    throw error;
  }
}

/** Returns null where the ranks are unclear; the check of the allocation says why. */
function whereOf({ config }: Resolved, env: Env): RankContext | null {
  try {
    return rankContext(env, placeFlags(config.distributed));
  } catch (error) {
    if (error instanceof UserError) return null;
    throw error;
  }
}

function startWatchdog(seconds: number): Thread<never> {
  const sentence =
    `hpctrain: doctor --full was not done after ${MOST_SECONDS} s on ${Deno.hostname()}: a device or a file ` +
    "system there does not answer. Try without --full, and --save-dir on another file system.";
  const options: WatchdogOptions = { milliseconds: Math.max(0, 1000 * seconds), sentence };
  return startThread(new URL("./watchdog.ts", import.meta.url), "watchdog", options);
}

export const writeProbe = (folder: string, ranks: number) =>
  probe(nearestFolder(folder), Math.max(2 ** 20, WRITE_BYTES / Math.min(ranks, 16)), WRITE_SECONDS);

export const deviceSpeed = (device: Device) => matmulSpeed(device, MATMUL_SECONDS);

interface Alone {
  readonly config: Config;
  readonly ready: Ready;
  readonly lines: readonly Finding[];
  readonly facts: MachineFacts | null;
  readonly began: number;
}

function alone({ config, ready: { device, broken }, lines, facts, began }: Alone): MeasureOutcome {
  if (broken !== null) {
    const lost = lines.some(({ state }) => state === "bad") ? [] : [lostFinding(broken, [])];
    return { rank: 0, lines: [...lines, ...lost], facts, measured: null, exclude: [] };
  }
  const devices: Device[] = device === "cpu"
    ? ["cpu"]
    : Array.from({ length: cudaDevices() }, (_, index): Device => `cuda:${index}`);
  const host = Deno.hostname(), writes = canWrite(facts);
  const ranks = devices.map((device, rank): RankResult => ({
    rank,
    host,
    device,
    ...deviceSpeed(device),
    write: rank === 0 && writes ? writeProbe(config.output.save_dir, 1) : null,
    ahead: 0,
    unsure: 0,
  }));
  const measured = { ranks, pairs: [], left: 0, all: [], seconds: (performance.now() - began) / 1000 };
  const judged = judgeResults(measured);
  return { rank: 0, lines: [...lines, ...judged.lines, timeFinding(measured)], facts, measured, exclude: [] };
}

export const canWrite = (facts: MachineFacts | null): boolean =>
  facts === null || facts.storage.places.every(({ probe }) => probe === null || probe.refused === null);

export const timeFinding = ({ seconds }: Results): Finding =>
  good("time", `measured in ${formatDuration(seconds)}`);

export const lostFinding = (said: string, exclude: readonly string[]): Finding =>
  bad(
    "ranks",
    said.replace(/\.$/, ""),
    exclude.length > 0
      ? `Leave it out: --exclude=${exclude.join(",")}.`
      : "See that every node can reach the others (docs/ranks.md), or take other nodes.",
  );
