// Which ranks can work together: each introduction is judged against rank 0's and against those who came before.
// May import errors, messages.
import { EXIT } from "../../errors.ts";
import type { Hello, Settings } from "./messages.ts";

export interface Refusal {
  readonly sentence: string;
  readonly code: number;
}

/** What is wrong with a newcomer; its settings are looked at elsewhere. */
export function refusalOf(came: Hello, first: Hello, others: readonly Hello[]): Refusal | null {
  const { rank, world, host } = came;
  const usage = (sentence: string): Refusal => ({ sentence, code: EXIT.usage });
  if (world !== first.world) {
    return usage(
      `${at(came)} takes the job for one of ${world} ranks, ${
        at(first)
      } for one of ${first.world}: start all ranks ` +
        "by one command, and don't set WORLD_SIZE by hand.",
    );
  }
  if (!(Number.isInteger(rank) && rank >= 0 && rank < world)) {
    return usage(`A process on ${host} says that it is rank ${rank}: they go from 0 to ${world - 1}.`);
  }
  const twin = others.find((other) => other.rank === rank);
  if (twin) {
    return usage(
      `Two processes are rank ${rank}: process ${twin.pid} on ${twin.host} and process ${came.pid} on ${host}. Start ` +
        "each rank once: by srun, mpirun or hpctrain launch, without setting RANK by hand.",
    );
  }
  const sharer = came.device === null
    ? undefined
    : others.find((other) => other.device === came.device && other.host === host);
  if (sharer) {
    const [a, b] = [sharer, came].sort((a, b) => a.rank - b.rank);
    return usage(
      `Ranks ${a.rank} and ${b.rank} on ${host} both use ${came.device}: give each rank its own GPU, with as many ` +
        "tasks on a node as it has GPUs (#SBATCH --ntasks-per-node and --gpus-per-node the same), and without a " +
        "--gpu-bind that gives two tasks the same one.",
    );
  }
  return differentVersions(came, first);
}

function differentVersions(came: Hello, first: Hello): Refusal | null {
  const names = [...new Set([...Object.keys(first.versions), ...Object.keys(came.versions)])];
  const name = names.find((name) => first.versions[name] !== came.versions[name]);
  if (!name) return null;
  const of = (hello: Hello) =>
    hello.versions[name] === undefined ? `no ${name}` : `${name} ${hello.versions[name]}`;
  return {
    sentence: `${at(came)} runs ${of(came)}, ${at(first)} ${of(first)}: ${
      name === "hpctrain"
        ? "start the same executable on every node."
        : `let every node find the same (hpctrain doctor, run there, says what it finds and why).`
    }`,
    code: EXIT.environment,
  };
}

/** Most users have changed one thing. */
const MOST_NAMED = 5;

export function differentSettings(came: Hello, theirs: Settings, first: Hello, ours: Settings): Refusal {
  const paths = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])].sort()
    .filter((path) => JSON.stringify(ours[path]) !== JSON.stringify(theirs[path]));
  const value = (of: Settings, path: string) => path in of ? JSON.stringify(of[path]) : "not set";
  const named = paths.slice(0, MOST_NAMED)
    .map((path) => `${path} is ${value(theirs, path)} there and ${value(ours, path)} here`);
  const more = paths.length > MOST_NAMED ? `, and ${paths.length - MOST_NAMED} more` : "";
  return {
    sentence:
      `${at(came)} was started with other settings than ${at(first)}: ${
        named.join(", ")
      }${more}. Start every ` +
      "rank with the same flags, files and environment.",
    code: EXIT.usage,
  };
}

/** "Rank 3 on node07". */
export const at = ({ rank, host }: { readonly rank: number; readonly host: string }): string =>
  `Rank ${rank} on ${host}`;

/** "rank 3", "ranks 0-2, 7 and 9": never more than a line. */
export function ranksIn(ranks: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const rank of ranks.toSorted((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && last[1] === rank - 1) last[1] = rank;
    else runs.push([rank, rank]);
  }
  const parts = runs.slice(0, 12).map(([from, to]) => from === to ? `${from}` : `${from}-${to}`);
  if (runs.length > parts.length) parts.push("more");
  const list = parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : parts[0];
  return `rank${ranks.length === 1 ? "" : "s"} ${list}`;
}
