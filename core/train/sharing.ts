// --checkpoint-format sharded: each rank writes its part of a checkpoint. Ranks agree on saves between two steps, so that their
// threads need only the folder.
import { join } from "../../deps/path.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { remove } from "../base/atomic.ts";
import { pathExists } from "../base/files.ts";
import { UserError } from "../base/errors.ts";
import { partContent, type SaveJob, type StoragePlace } from "../checkpoint/background/job.ts";
import { shareOut } from "../checkpoint/sharded_reader.ts";
import { ELSEWHERE } from "../checkpoint/sharded_writer.ts";
import { type StateParts, tensorsOf } from "../checkpoint/training_state.ts";
import { type Storage, TensorData, type Value } from "../checkpoint/value.ts";
import type { Control } from "../ranks/control/control.ts";
import type { Team } from "../ranks/team.ts";
import { checkedDuration } from "../settings/setting.ts";
import type { Launch } from "./launch.ts";
import type { RunPaths } from "./run_folder.ts";

export interface Sharing {
  readonly rank: number;
  /** This rank writes these tensors. */
  readonly owned: ReadonlySet<Tensor>;
  /** True where any rank is writing. Every rank calls it at the same saves. */
  busy(here: boolean): boolean;
  /** The parts of ranks that are gone are not waited for. */
  patiently(writing: Promise<void>): Promise<void>;
  /** From now on rank 0 waits only briefly for the others' parts. */
  end(): void;
  /** `data` is used for this rank's tensors alone. */
  open(data: (t: Tensor) => TensorData): Tree;
}

interface Tree {
  data(t: Tensor): TensorData;
  /** `place` puts the storages into the job. */
  partOf(
    tree: Value,
    path: string,
    place: (storage: Storage) => StoragePlace,
  ): Pick<SaveJob, "part" | "content" | "storages" | "finite">;
}

const POLL_MS = 250;

/** Seconds: a disk may be slow where ranks are quick. */
const LEAST_PATIENCE = 600;

export function shareSaves(
  { config, team = null, control = null }: Launch,
  { checkpoints }: RunPaths,
  parts: StateParts,
): Sharing {
  if (team) refuseSeparate(checkpoints, team);
  const timeout = checkedDuration(config.distributed.timeout, "seconds").count;
  return openSharing(parts, team, control, Math.max(timeout, LEAST_PATIENCE));
}

/** Rank 0 waits `patience` seconds for the others' parts. */
function openSharing(
  parts: StateParts,
  team: Team | null,
  control: Control | null,
  patience: number,
): Sharing {
  const { rank, world } = team ?? { rank: 0, world: 1 };
  const mine = crypto.randomUUID().slice(0, 8);
  const session = team?.gather(mine, "name of the saves")[0] ?? mine; // no file of another process is taken for one of ours
  const owners = ownersOf(parts, world);
  const ending = new SharedArrayBuffer(4);
  const end = () => Atomics.store(new Int32Array(ending), 0, 1);
  let saves = 0;
  return {
    rank,
    owned: new Set(owners.keys().filter((t) => owners.get(t) === rank)),
    busy(here) {
      if (team === null) return here;
      control?.phase("waiting for ranks"); // a rank that saves has more time to end when another has failed
      const [any] = team.reduce([here ? 1 : 0], "max", "saves under way");
      control?.phase("save");
      return any === 1;
    },
    end,
    async patiently(writing) {
      const timer = setInterval(() => control?.failure() && end(), POLL_MS);
      await writing.finally(() => clearInterval(timer));
    },
    open(data) {
      const ranks = new Map<TensorData, number>();
      return {
        data(t) {
          const owner = owners.get(t)!;
          const made = owner === rank ? data(t) : new TensorData(t.dtype, [...t.shape], ELSEWHERE);
          ranks.set(made, owner);
          return made;
        },
        partOf: (tree, path, place) => ({
          part: { rank, world, generation: `${session}-${++saves}`, patience, ending },
          // Only rank 0 writes the optimizer's step counts.
          ...partContent(tree, {
            path,
            parameters: parts.names,
            place,
            rank,
            rankOf: (data) => ranks.get(data) ?? 0,
          }),
        }),
      };
    },
  };
}

/** Buffers are rank 0's. */
function ownersOf(parts: StateParts, world: number): Map<Tensor, number> {
  const names = new Set(parts.names);
  const buffers = new Set(parts.stateDict.filter(([name]) => !names.has(name)).map(([, t]) => t));
  const all = [...new Set(tensorsOf(parts))];
  const common = all.filter((t) => !buffers.has(t));
  const shares = shareOut(common.map(({ byteLength }) => byteLength), world);
  return new Map([
    ...common.map((t, i) => [t, shares[i]] as const),
    ...buffers.values().map((t) => [t, 0] as const),
  ]);
}

/** Every rank calls it. */
function refuseSeparate(folder: string, team: Team): void {
  const name = `.probe-${crypto.randomUUID()}`;
  const probe = join(folder, team.gather(name, "folder of checkpoints")[0]);
  if (team.rank === 0) Deno.writeTextFileSync(probe, "");
  team.gather(null, "folder of checkpoints");
  const seen = team.gather(pathExists(probe) ? null : Deno.hostname(), "folder of checkpoints");
  if (team.rank === 0) remove(probe);
  const blind = seen.findIndex((host) => host !== null);
  if (blind < 0) return;
  throw new UserError(
    "usage",
    `With --checkpoint-format sharded all ranks write into one folder, and Rank ${blind} on ${
      seen[blind]
    } does not ` +
      `see what rank 0 writes to ${folder}. Name a folder on a file system that all nodes share, from its root: ` +
      "--save-dir /DIR (or --model-dir /DIR), or leave --checkpoint-format out.",
  );
}
