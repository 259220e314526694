// Where this process stands among its ranks and nodes: from flags, else from what a launcher put into the
// environment. May import errors, launchers, node_list, place.
import { UserError } from "../errors.ts";
import { type Env, inSlurmStep, wholeNumber } from "./launchers.ts";
import { expandNodes, sameNode, uniqueNodes } from "./node_list.ts";
import { type Place, type PlaceFlags, placeIn } from "./place.ts";

/** This process's place among all ranks. */
export interface Where {
  /** From 0 to `world` - 1. */
  readonly rank: number;
  /** How many ranks there are. */
  readonly world: number;
  /** Its number among the ranks of its node. */
  readonly localRank: number;
  /** How many ranks its node has. */
  readonly localWorld: number;
  /** Number of this node, of `nodes`. */
  readonly node: number;
  /** How many nodes take part. */
  readonly nodes: number;
  /** In the launcher's order. Empty where several nodes take part and nothing names them. */
  readonly nodeNames: readonly string[];
  /** Where rank 0 is. No host: only MPI can tell. No port: rank 0 takes a free one. */
  readonly master: { readonly host: string | null; readonly port: number | null };
  /** Who numbered the ranks. */
  readonly launcher: Place["launcher"];
  /** Which it was, in a line: the first that a run prints. */
  readonly said: string;
}

/** What only the machine can tell of a place. */
export interface Surroundings {
  /** The lines of PBS_NODEFILE. */
  readonly pbsNodes?: readonly string[];
  /** This machine's name. */
  readonly hostname: string;
}

/** A function of what it is given; left out, `around` is asked of this process. */
export function whereAmI(env: Env, flags: PlaceFlags = {}, around: Surroundings = surroundings(env)): Where {
  const { pbsNodes = [], hostname } = around;
  const place = placeIn(env, flags);
  const { rank, world, launcher, said } = place;
  if (world === 1) {
    const master = { host: flags.masterAddr ?? hostname, port: flags.masterPort ?? null };
    const alone = {
      localRank: flags.localRank ?? 0,
      localWorld: 1,
      node: 0,
      nodes: 1,
      nodeNames: [hostname],
    };
    return { rank, world, ...alone, master, launcher, said };
  }
  const list = nodeList(env, pbsNodes, place);
  const host = flags.masterAddr ?? (env.MASTER_ADDR?.trim() || undefined);
  const port = flags.masterPort ?? portIn(env) ?? null;
  const local = localPlace(place, flags, list.length || (loopback(host) ? 1 : undefined));
  const { localRank, localWorld } = local;
  const nodes = place.nodes ?? Math.min(list.length || world, Math.ceil(world / localWorld));
  const nodeNames = nodes === 1 ? [hostname] : list.length >= nodes ? list.slice(0, nodes) : [];
  const mine = nodeNames.findIndex((name) => sameNode(name, hostname));
  const node = place.node ?? (mine >= 0 ? mine : Math.min(nodes - 1, Math.floor(rank / localWorld)));
  const master = { host: host ?? nodeNames[0] ?? null, port };
  return { rank, world, localRank, localWorld, node, nodes, nodeNames, master, launcher, said };
}

/** Settings of `distributed` that were left out hold numbers that no place has. */
export function placeFlags(
  { rank, world_size, local_rank, master_addr, master_port }: {
    rank: number;
    world_size: number;
    local_rank: number;
    master_addr: string;
    master_port: number;
  },
): PlaceFlags {
  return {
    rank: rank < 0 ? undefined : rank,
    world: world_size || undefined,
    localRank: local_rank < 0 ? undefined : local_rank,
    masterAddr: master_addr || undefined,
    masterPort: master_port || undefined,
  };
}

/** Where nobody says it, ranks fill one node after the other, each with the same number; or each has its own node. */
function localPlace(place: Place, flags: PlaceFlags, known: number | undefined) {
  const { rank, world } = place;
  const told = flags.localRank ?? place.localRank;
  const nodes = place.nodes ?? known;
  const least = (told ?? 0) + 1;
  const localWorld = place.localWorld ?? Math.max(least, nodes ? Math.ceil(world / nodes) : 1);
  return { localRank: told ?? rank % localWorld, localWorld };
}

/** Ranks that meet at a loopback address, or at none, are on one node. */
const loopback = (host: string | undefined) => host === undefined || /^(localhost|127\..*|::1)$/.test(host);

function nodeList(env: Env, pbsNodes: readonly string[], { launcher }: Place): string[] {
  // mpirun's own daemons can be a step of the job, without the node on which mpirun runs.
  const ofStep = inSlurmStep(env) && (launcher === "slurm" || launcher === "torchrun");
  const names = [...(ofStep ? ["SLURM_STEP_NODELIST"] : []), "SLURM_JOB_NODELIST", "SLURM_NODELIST"];
  const name = names.find((name) => env[name]);
  return name ? expandNodes(env[name]!, name) : uniqueNodes(pbsNodes);
}

function portIn(env: Env): number | undefined {
  const port = wholeNumber(env, "MASTER_PORT");
  // torchrun passes its own 0 on: any free port.
  if (port === undefined || port <= 65535) return port || undefined;
  throw new UserError("usage", `MASTER_PORT is ${port}: ports end at 65535. Unset it to have one chosen.`);
}

function surroundings({ PBS_NODEFILE: path }: Env): Surroundings {
  const hostname = Deno.hostname();
  if (!path) return { hostname };
  try {
    return { hostname, pbsNodes: Deno.readTextFileSync(path).split("\n") };
  } catch (cause) {
    // A job's variables outlive it in a shell that was opened inside; mpiexec tells the rest.
    if (cause instanceof Deno.errors.NotFound) return { hostname };
    throw new UserError(
      "usage",
      `PBS_NODEFILE names ${path}, which can't be read: ${(cause as Error).message}.`,
    );
  }
}
