import { join } from "../../../deps/path.ts";
import { allowOpenFiles } from "../../../ffi/libc.ts";
import { remove } from "../../base/atomic.ts";
import { UserError } from "../../base/errors.ts";
import type { Env } from "../launchers.ts";
import { gpuEngine } from "../engines.ts";
import type { RankContext } from "../context.ts";
import {
  jobKey,
  likelyAddresses,
  listenForRanks,
  ownAddresses,
  publish,
  published,
  rendezvousFile,
} from "./address.ts";
import { MAKE_SECRET, newSecret, secretIn } from "./channel.ts";
import type { ServerCandidates } from "./client.ts";
import type { ControlTimeouts } from "./job.ts";
import type { Hello, Settings } from "./messages.ts";
import { openControlServer } from "./server.ts";

interface RendezvousOptions {
  readonly where: RankContext;
  readonly folder: string | null;
  readonly runFolder: string;
  readonly hello: Hello;
  readonly settings: Settings;
  readonly limits: ControlTimeouts;
}

export interface RankZero {
  find(): ServerCandidates;
  readonly met: string;
  keepIn(folder: string): void;
  close(): Promise<void>;
}

export function openRankZero(options: RendezvousOptions, env: Env = Deno.env.toObject()): RankZero {
  const { where, hello, settings, limits } = options;
  let { runFolder } = options;
  const path = fileOf(options, env);
  const given = secretIn(env), fresh = newSecret();
  const secret = given ?? new TextEncoder().encode(fresh);
  const { pid, host } = hello;
  if (path) remove(path); // of a job that could not tidy up
  let listener: Deno.TcpListener;
  try {
    checkOpenFiles(where.world);
    listener = listenForRanks(where, env, secret);
  } catch (error) {
    if (path && error instanceof UserError) {
      publish(path, { addresses: [], host, pid, secret: null, refused: error.message });
    }
    throw error;
  }
  const { port } = listener.addr as Deno.NetAddr;
  if (path) publish(path, { addresses: ownAddresses(where, port), host, pid, secret: given ? null : fresh });
  const server = openControlServer({
    listener,
    secret,
    own: hello,
    settings,
    limits,
    nodeOf: (rank) => where.nodeNames[Math.floor(rank / where.localWorld)] ?? null,
    say: (line) => console.error(line),
    keep: (name, report) => keep(runFolder, name, report),
    // NCCL's addresses may be set after this thread began.
    queryEngine: hello.device === null
      ? undefined
      : async () => await (await gpuEngine()).ask(Deno.env.toObject()),
  });
  return {
    find: () => ({ secret, addresses: [{ hostname: "127.0.0.1", port }], lacking: "" }),
    met: `Rank 0 on ${host} listens at port ${port}.`,
    keepIn: (folder) => void (runFolder = folder),
    async close() {
      await server.close();
      if (path && published(path)?.pid === pid) remove(path);
    },
  };
}

/** A process has others open as well: libraries, data, logs, and connections that are refused. */
const OTHER_FILES = 256;

/** @internal Rank 0 keeps a connection with each rank. */
export function checkOpenFiles(world: number): void {
  const needed = world + OTHER_FILES, allowed = allowOpenFiles(needed);
  if (allowed >= needed) return;
  throw new UserError(
    "environment",
    `Rank 0 keeps a connection with each of ${world} ranks, and may have ${allowed} open files on ${Deno.hostname()}: ` +
      `${needed} are needed. Raise the hard limit in the job script, before the ranks start (ulimit -Hn ${needed}), or ask ` +
      "the site for it.",
  );
}

export function findServers(
  options: RendezvousOptions,
  env: Env = Deno.env.toObject(),
): () => ServerCandidates {
  const { where } = options;
  const path = fileOf(options, env);
  const given = secretIn(env);
  return () => {
    const found = path ? published(path) : null;
    if (found?.refused) throw new UserError("communication", found.refused);
    const secret = given ?? (found?.secret ? new TextEncoder().encode(found.secret) : null);
    if (!secret) return { secret, addresses: [], lacking: `${path}, which rank 0 writes, is not there` };
    const all = [...found?.addresses ?? [], ...likelyAddresses(where, env, secret)];
    const addresses = [...new Map(all.map((address) => [JSON.stringify(address), address])).values()];
    return { secret, addresses, lacking: found || !path ? "" : `${path}, which rank 0 writes, is not there` };
  };
}

/** Without a folder and a secret, ranks of one host use this user's own temporary folder. */
function fileOf({ where, folder }: RendezvousOptions, env: Env): string | null {
  if (folder !== null) return rendezvousFile(folder, jobKey(where, env));
  if (where.nodes === 1) {
    return rendezvousFile(env.XDG_RUNTIME_DIR || env.TMPDIR || "/tmp", jobKey(where, env));
  }
  if (env.HPCTRAIN_SECRET) return null;
  throw new UserError(
    "communication",
    `${where.world} ranks on ${where.nodes} nodes need a secret of their own, or a folder that all of them see. In the ` +
      `job script, before the ranks start: ${MAKE_SECRET}.`,
  );
}

function keep(folder: string, name: string, report: unknown): string {
  const path = join(folder, name);
  Deno.mkdirSync(folder, { recursive: true });
  Deno.writeTextFileSync(path, JSON.stringify(report, null, 2));
  return path;
}
