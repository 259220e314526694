// This rank among the others: first the control plane, by which a rank that fails can say so, then what moves data.
import type { Libtorch } from "../../ffi/libraries/find.ts";
import { cudaUuid } from "../../ffi/cuda.ts";
import type { Device } from "../../ffi/tensor.ts";
import { boundGpu } from "../ranks/job/layout.ts";
import { parseDuration } from "../settings/setting.ts";
import { ALL_SETTINGS, type Config, readSetting } from "../settings/settings.ts";
import { join } from "../../deps/path.ts";
import { type Control, openControl } from "../ranks/control/control.ts";
import { BACKENDS, checked, openCollectives } from "../ranks/collectives.ts";
import { openFlightRecorder } from "../ranks/flight_recorder.ts";
import { openTeam, type Team } from "../ranks/team.ts";
import type { RankContext } from "../ranks/context.ts";
import { EXIT, UserError } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import { asUserError } from "./device.ts";

/** This rank, in touch with the others. */
export interface Joined {
  /** What ranks tell each other, and how they add up tensors. */
  readonly team: Team;
  /** Hears when another rank fails; close it at the end. */
  readonly control: Control;
  /** Lines about how ranks found each other. */
  readonly notes: readonly string[];
}

/** @internal */
interface Rank {
  readonly where: RankContext;
  readonly config: Config;
  readonly device: Device;
  readonly libtorch: Libtorch;
  readonly env: Record<string, string>;
}

/** Every rank calls it, and it comes to its end when all have. */
export async function joinRanks({ where, config, device, libtorch, env }: Rank): Promise<Joined> {
  const timeout = parseDuration(config.distributed.timeout, "seconds")!.count;
  const logs = join(config.output.save_dir, "logs");
  const flight = openFlightRecorder();
  const control = await openControl({
    where,
    folder: logs,
    runFolder: logs,
    device: ownGpu(device, config.training.device, env),
    versions: { hpctrain: VERSION, libtorch: libtorch.versionText },
    settings: common(config),
    timeout,
    flight: flight.shared,
  });
  try {
    const { backend, network } = config.distributed;
    const nccl = { share: control.broadcastBytes, network, logs };
    const { collectives, said } = await openCollectives({
      where,
      device,
      backend,
      env,
      flight,
      timeout,
      nccl,
      meeting: control,
      failed: () => control.error()?.told ?? null,
    });
    const { debug } = config.distributed;
    if (debug !== "off") {
      const { rank, world, localRank, localWorld, said: found } = where;
      console.error(
        `hpctrain: rank ${rank} of ${world}, ${localRank} of ${localWorld} on ${Deno.hostname()}: process ${Deno.pid} on ${device}, ` +
          `libtorch ${libtorch.versionText}, by ${BACKENDS[collectives.backend]}. ${found}`,
      );
    }
    return {
      team: openTeam(debug === "detail" ? checked(collectives, device) : collectives, device, flight),
      control,
      notes: [where.said, control.met, ...said.split("\n")],
    };
  } catch (error) {
    throw await failed(control, error);
  }
}

/** What no other rank may use: the device itself, as launchers number them differently. */
function ownGpu(device: Device, asked: string, env: Record<string, string>): string | null {
  if (env.NCCL_MULTI_RANK_GPU_ENABLE === "1" || asked === "cpu") return null;
  if (device === "cpu") return boundGpu(env); // which is not to be used, for a reason that comes later
  return cudaUuid(Number(device.slice("cuda:".length)));
}

/** Tells the others why this rank ends. Gives the error that this rank's user should see. */
export async function failed(control: Control, error: unknown): Promise<unknown> {
  const first = control.error(); // what another rank said before
  const known = asUserError(error);
  const [sentence, code] = known instanceof UserError
    ? [known.message, known.exitCode]
    : [known instanceof Error ? known.message : String(known), EXIT.internal];
  if (first === null) control.fail(sentence, code);
  try {
    control.here(); // throws what this rank has to say of the first failure
  } catch (told) {
    // What every rank finds, a loss that is no number, is nobody's alone.
    return control.error()?.sentence === sentence ? known : told;
  } finally {
    await control.close();
  }
  return known;
}

/** These are each rank's own. */
const OWN =
  /^(environment|cluster|wandb)\.|^distributed\.(rank|local_rank|master_addr|master_port)$|^output\.quiet$/;

/** What must be the same on every rank. */
const common = (config: Config) =>
  Object.fromEntries(
    ALL_SETTINGS.map(({ path }) => path).filter((path) => !OWN.test(path)).map((
      path,
    ) => [path, readSetting(config, path)]),
  );

/** What `decide` gives on rank 0. */
export function asFirst<T>(team: Team, decide: () => T): T {
  return team.hear(team.rank === 0 ? decide() : null, "rank 0's choice")[0] as T;
}
