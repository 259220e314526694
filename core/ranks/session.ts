// A rank joins the control plane first, by which it can report a failure, and then the engine that moves
// data.
import { join } from "../../deps/path.ts";
import { cudaUuid } from "../../ffi/cuda.ts";
import type { Device } from "../../ffi/tensor.ts";
import { EXIT, messageOf, UserError } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import { asUserError } from "../models/user_error.ts";
import { parseDuration } from "../settings/setting.ts";
import { ALL_SETTINGS, type Config, readSetting } from "../settings/settings.ts";
import { BACKEND_NAMES, checked, openCollectives } from "./collectives.ts";
import type { RankContext } from "./context.ts";
import { type Control, type ControlOptions, openControl } from "./control/control.ts";
import { type FirstError, TimeLimitError } from "./control/failure.ts";
import { type Origin, settingChoice } from "../settings/values.ts";
import { type Env, LAUNCH_VARIABLE } from "./launchers.ts";
import { openFlightRecorder } from "./flight_recorder.ts";
import { boundGpu } from "./job/layout.ts";
import { openTeam, type Team } from "./team.ts";

/** This rank, in touch with the others. */
export interface Joined {
  /** The ranks exchange plain data and add up tensors through it. */
  readonly team: Team;
  /** It knows when another rank fails; the caller closes it at the end. */
  readonly control: Control;
  /** These lines describe how ranks found each other. */
  readonly notes: readonly string[];
}

/** @internal */
export interface JoinOptions {
  readonly where: RankContext;
  readonly config: Config;
  readonly device: Device;
  readonly libtorch: { readonly versionText: string };
  readonly env: Record<string, string>;
  /** A program's own configuration has no origins. */
  readonly backendFrom?: Origin;
  readonly control?: Partial<ControlOptions>;
  /** It runs before the engine that moves data is opened: a rank that can't go on throws here. */
  readonly checkRank?: (control: Control) => void;
  /** Gives the reason why the wait for the other ranks ends. */
  readonly timeLimit?: () => UserError | null;
}

/** @internal */
interface SessionOptions extends JoinOptions {
  /** Ranks meet at this barrier before the first of them leaves; without it each leaves when it is done. */
  readonly end?: string;
  /** Called when all ranks have met there. */
  readonly ended?: () => void;
  /** Wraps the wait for the other ranks: training lets an early signal end it. */
  readonly whileJoining?: (joining: Promise<Joined>) => Promise<Joined>;
}

/**
 * Joins the other ranks, runs `body`, and leaves. A failure on any rank ends all of them, with the first
 * reason.
 */
export async function withRanks<R>(
  options: SessionOptions,
  body: (joined: Joined) => Promise<R>,
): Promise<R> {
  const { end, ended, whileJoining = (joining) => joining } = options;
  const { team, control, notes } = await whileJoining(joinRanks(options));
  try {
    const result = await body({ team, control, notes });
    control.phase("ending");
    // A launcher may kill the other ranks when the first one ends with another code than 0: rank 0 may still
    // be saving.
    if (end !== undefined) control.barrier(end);
    ended?.();
    await team.collectives.close();
    await control.close();
    return result;
  } catch (error) {
    team.collectives.abort(messageOf(error)); // a GPU may be in the midst of one
    throw await reportFailure(control, error, options);
  }
}

/** Every rank calls it; it returns when all have. */
export async function joinRanks(options: JoinOptions): Promise<Joined> {
  const { where, config, device, libtorch, env, timeLimit = () => null } = options;
  const logs = join(config.output.save_dir, "logs");
  const flight = openFlightRecorder();
  const controlOptions: ControlOptions = {
    where,
    folder: logs,
    runFolder: logs,
    device: ownGpu(device, config.training.device, env),
    versions: { hpctrain: VERSION, architecture: Deno.build.arch, libtorch: libtorch.versionText },
    settings: commonSettings(config),
    timeout: parseDuration(config.distributed.timeout, "seconds")!.count,
    flight: flight.shared,
    ...options.control,
  };
  const control = await openControl(controlOptions);
  try {
    options.checkRank?.(control);
    const { backend, network, debug } = config.distributed;
    const { collectives, notes } = await openCollectives({
      where,
      device,
      backend,
      requested: settingChoice("distributed.backend", backend, options.backendFrom),
      env,
      flight,
      timeout: controlOptions.timeout,
      nccl: { share: control.broadcastBytes, network, logs },
      meeting: control,
      failed: () => control.failure() ?? timeLimit(),
    });
    if (debug !== "off") {
      const { rank, world, localRank, localWorld, description: found } = where;
      console.error(
        `hpctrain: rank ${rank} of ${world}, ${localRank} of ${localWorld} on ${Deno.hostname()}: process ${Deno.pid} on ${device}, ` +
          `libtorch ${libtorch.versionText}, by ${BACKEND_NAMES[collectives.backend]}. ${found}`,
      );
    }
    const team = openTeam(debug === "detail" ? checked(collectives, device) : collectives, device, flight);
    return { team, control, notes: [where.description, control.met, ...notes] };
  } catch (error) {
    throw await reportFailure(control, error, options);
  }
}

/** No other rank may use this device, unless NCCL takes them for hosts of their own; launchers number devices differently. */
function ownGpu(device: Device, setting: string, env: Record<string, string>): string | null {
  if (env.NCCL_HOSTID || env.NCCL_MULTI_RANK_GPU_ENABLE === "1" || setting === "cpu") return null;
  if (device === "cpu") return boundGpu(env); // it can't be used, for a reason that comes later
  return cudaUuid(Number(device.slice("cuda:".length)));
}

/** So long is a verdict waited for, which does not come where rank 0 is gone. */
const VERDICT_MS = 500;

async function reportFailure(
  control: Control,
  error: unknown,
  { where: { rank }, env }: JoinOptions,
): Promise<unknown> {
  const known = asUserError(error);
  const [sentence, code] = known instanceof UserError
    ? [known.message, known.exitCode]
    : [known instanceof Error ? known.message : String(known), EXIT.internal];
  const cause = known instanceof TimeLimitError
    ? { kind: "time limit", suspects: known.suspects } as const
    : { kind: "error" } as const;
  if (control.failure() === null) control.fail(sentence, code, cause);
  // Ranks may report at the same moment: rank 0 says whose was the first.
  for (const end = performance.now() + VERDICT_MS; control.failure() === null && performance.now() < end;) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const failure = control.failure();
  await control.close();
  // An error that every rank finds, such as a loss that is no number, is no single rank's.
  const own = failure === null || failure.first.sentence === sentence;
  const ends = own ? known : failure;
  if (ends instanceof UserError) {
    ends.printedElsewhere = failure !== null && isPrinted(failure.first, rank, own, env);
  }
  return ends;
}

/**
 * The rank that meets an error first prints why, and rank 0 whose it was: nobody wants to read it of each rank. `launch` has a
 * file for each, and sorts this out itself. A rank that is lost prints nothing.
 */
function isPrinted({ rank: first, cause }: FirstError, rank: number, own: boolean, env: Env): boolean {
  if (env[LAUNCH_VARIABLE] || rank === first || cause.kind !== "error") return false;
  return own || rank !== 0;
}

const OWN =
  /^(environment|cluster|wandb)\.|^distributed\.(rank|local_rank|master_addr|master_port)$|^output\.quiet$/;

const commonSettings = (config: Config) =>
  Object.fromEntries(
    ALL_SETTINGS.filter(({ path }) => !OWN.test(path)).map(({ path }) => [path, readSetting(config, path)]),
  );
