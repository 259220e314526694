// Which part of a checkpoint is whose, where every rank writes its own (--checkpoint-format sharded), and what ranks
// agree on about saves: between two steps, so that their threads need only the folder.
// May import ffi (types), checkpoint, dist (types), errors.
import { join } from "../../../deps/path.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Entry, PartJob } from "../../checkpoint/background/job.ts";
import { remove } from "../../checkpoint/atomic.ts";
import { flatten } from "../../checkpoint/safetensors_tree.ts";
import { ELSEWHERE } from "../../checkpoint/sharded/part.ts";
import { shareOut } from "../../checkpoint/sharded/plan.ts";
import { type Parts, tensorsOf } from "../../checkpoint/training_state.ts";
import { type Storage, TensorData, type Value } from "../../checkpoint/value.ts";
import type { Control } from "../../dist/control/control.ts";
import type { Team } from "../../dist/team.ts";
import { UserError } from "../../errors.ts";

export interface Sharing {
  readonly rank: number;
  /** What this rank writes. */
  readonly owned: ReadonlySet<Tensor>;
  /** Whether any rank is still writing. Every rank asks at the same saves. */
  busy(here: boolean): boolean;
  /** Waits for a save, though not for the parts of ranks that are gone. */
  patiently(writing: Promise<void>): Promise<void>;
  /** From now on rank 0 waits for the others' parts for moments only. */
  end(): void;
  /** `data` for the tree that becomes a part: of what this rank writes, `data` itself. */
  open(data: (t: Tensor) => TensorData): Tree;
}

interface Tree {
  data(t: Tensor): TensorData;
  /** The part of this tree, whose storages `place` puts into the job. */
  partOf(
    tree: Value,
    path: string,
    place: (storage: Storage) => PartJob["storages"][number],
  ): Pick<PartJob, "part" | "tensors" | "metadata" | "storages" | "finite">;
}

const LOOK_MS = 250;

/** `patience`: seconds that rank 0 waits for the others' parts. Every rank calls it. */
export function openSharing(
  parts: Parts,
  team: Team | null,
  control: Control | null,
  patience: number,
): Sharing {
  const { rank, world } = team ?? { rank: 0, world: 1 };
  const mine = crypto.randomUUID().slice(0, 8);
  const session = team?.hear(mine, "name of the saves")[0] ?? mine; // no file of another process is taken for one of ours
  const owners = ownersOf(parts, world);
  const weights = new Set(parts.names.map((name) => `model.${name}`));
  const ending = new SharedArrayBuffer(4);
  const end = () => Atomics.store(new Int32Array(ending), 0, 1);
  let saves = 0;
  return {
    rank,
    owned: new Set(owners.keys().filter((t) => owners.get(t) === rank)),
    busy(here) {
      if (team === null) return here;
      control?.phase("waiting for ranks"); // one that saves is given more time to end when another has failed
      const [any] = team.reduce([here ? 1 : 0], "max", "saves under way");
      control?.phase("save");
      return any === 1;
    },
    end,
    async patiently(writing) {
      const timer = setInterval(() => control?.error() && end(), LOOK_MS);
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
        partOf(tree, path, place) {
          const { tensors, metadata } = flatten(tree, path);
          const storages = new Map<Storage, number>();
          const entry = ([name, data]: [string, TensorData]): Entry => {
            const { dtype, shape, storage } = data;
            const of = ranks.get(data) ?? 0; // the optimizer's step counts, which no rank has as tensors
            if (of === rank && !storages.has(storage)) storages.set(storage, storages.size);
            return { name, dtype, shape, rank: of, storage: storages.get(storage) ?? null };
          };
          const entries = [...tensors].map(entry);
          return {
            part: { rank, world, generation: `${session}-${++saves}`, patience, ending },
            tensors: entries,
            metadata,
            storages: [...storages.keys()].map(place),
            finite: entries.flatMap(({ name, dtype, storage }) =>
              storage !== null && dtype === "f32" && weights.has(name)
                ? [{ name: name.slice("model.".length), storage }]
                : []
            ),
          };
        },
      };
    },
  };
}

/** All ranks have the same weights, averages and optimizer's state; buffers are rank 0's, as in what one rank saves. */
function ownersOf(parts: Parts, world: number): Map<Tensor, number> {
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

/** Found out now, not when the first epoch is over and the parts do not come together. Every rank calls it. */
export function refuseSeparate(folder: string, team: Team): void {
  const name = `.probe-${crypto.randomUUID()}`;
  const probe = join(folder, team.hear(name, "folder of checkpoints")[0]);
  if (team.rank === 0) Deno.writeTextFileSync(probe, "");
  team.hear(null, "folder of checkpoints");
  const seen = team.hear(isThere(probe) ? null : Deno.hostname(), "folder of checkpoints");
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

function isThere(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}
