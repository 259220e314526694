import { basename, dirname, join } from "../../../deps/path.ts";
import { allowOpenFiles } from "../../../ffi/libc.ts";
import { remove, temporaryFor } from "../../base/atomic.ts";
import { messageOf, UserError } from "../../base/errors.ts";
import { type Env, LAUNCH_VARIABLE } from "../launchers.ts";
import { gpuEngine } from "../engines.ts";
import type { RankContext } from "../context.ts";
import { MAKE_SECRET, newSecret, numberFrom, type Secret, secretIn } from "./channel.ts";
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

export interface Address {
  readonly hostname: string;
  readonly port: number;
}

/** These lie below the ports that systems give to outgoing connections, so a free one stays free. */
const FIRST_PORT = 20_000, PORTS = 12_000, TRIES = 8;

const derivedPorts = (secret: Secret): number[] =>
  Array.from({ length: TRIES }, (_, i) => FIRST_PORT + numberFrom(secret, `port ${i}`, PORTS));

/** torchrun's own store listens at the port that it gives to its ranks. */
export const givenPort = ({ master, launcher }: RankContext, env: Env): number | null =>
  launcher === "torchrun" && env.TORCHELASTIC_RUN_ID ? null : master.port;

const onOneHost = ({ nodes }: RankContext) => nodes === 1;

/** So many ranks may knock at once; the system may allow fewer, and then the others knock again after a second. */
const LEAST_BACKLOG = 511;

export function listenForRanks(where: RankContext, env: Env, secret: Secret): Deno.TcpListener {
  const given = givenPort(where, env);
  // Ranks of one host need no port that other hosts can reach. "::" takes both families where there are both.
  const hostnames = onOneHost(where) ? ["127.0.0.1"] : ["::", "0.0.0.0"];
  for (const port of given === null ? [...derivedPorts(secret), 0] : [given]) {
    for (const hostname of hostnames) {
      try {
        return Deno.listen({ hostname, port, tcpBacklog: Math.max(LEAST_BACKLOG, where.world) });
      } catch (error) {
        if (error instanceof Deno.errors.AddrInUse) break;
        if (error instanceof Deno.errors.PermissionDenied && given !== null) throw notAllowed(given);
        if (hostname === hostnames.at(-1)) throw error;
      }
    }
  }
  throw taken(given!);
}

const taken = (port: number) =>
  new UserError(
    "communication",
    `Rank 0 was told to listen at port ${port} (MASTER_PORT, --master-port) on ${Deno.hostname()}, which another ` +
      "program has taken. Leave the port out, and rank 0 takes a free one and tells the others; or name another " +
      `(ss -ltnp 'sport = :${port}' says who has it).`,
  );

const notAllowed = (port: number) =>
  new UserError(
    "communication",
    `Rank 0 was told to listen at port ${port} (MASTER_PORT, --master-port), which needs root. Name one above 1023, ` +
      "or leave it out to have one chosen.",
  );

export function ownAddresses(where: RankContext, port: number): Address[] {
  const at = (hostname: string) => ({ hostname, port });
  if (onOneHost(where)) return [at("127.0.0.1")];
  const named = [where.master.host, Deno.hostname()].filter((name) => name !== null);
  return [...new Set([...named, ...ownIps()])].map(at);
}

export const ownIps = (): string[] =>
  Deno.networkInterfaces()
    .filter(({ address }) => !/^(127\.|::1$|fe80:|169\.254\.)/.test(address))
    .toSorted((a, b) => likelihood(a) - likelihood(b))
    .map(({ address }) => address);

/** Bridges of containers and virtual machines have the same addresses on every host. */
const likelihood = ({ name, family }: Deno.NetworkInterfaceInfo) =>
  (/^(docker|br-|virbr|veth|cni|podman)/.test(name) ? 2 : 0) + (family === "IPv6" ? 1 : 0);

export function likelyAddresses(where: RankContext, env: Env, secret: Secret): Address[] {
  const { master, nodeNames } = where;
  const hosts = onOneHost(where) ? ["127.0.0.1"] : [master.host, nodeNames[0]];
  const known = [...new Set(hosts.filter((host) => host !== null && host !== undefined))];
  const given = givenPort(where, env);
  const ports = given === null ? derivedPorts(secret) : [given];
  return known.flatMap((hostname) => ports.map((port) => ({ hostname, port })));
}

/** Each rank of a job computes the same key, and other jobs of the same folder have other keys. */
export function jobKey(where: RankContext, env: Env): string {
  const launch = env[LAUNCH_VARIABLE];
  if (launch && onOneHost(where)) return basename(dirname(launch)); // its folder's name is its own
  const { SLURM_JOB_ID, SLURM_STEP_ID, PBS_JOBID, PALS_APID, PMIX_NAMESPACE, TORCHELASTIC_RUN_ID } = env;
  const scheduler = SLURM_JOB_ID
    ? `slurm-${SLURM_JOB_ID}.${SLURM_STEP_ID ?? ""}`
    : PBS_JOBID
    ? `pbs-${PBS_JOBID}`
    : "";
  const launcher = where.launcher === "openmpi"
    ? PMIX_NAMESPACE ?? ""
    : where.launcher === "pals"
    ? PALS_APID ?? ""
    : where.launcher === "torchrun" || where.launcher === "flags"
    ? [TORCHELASTIC_RUN_ID, where.master.host, where.master.port].filter((part) => part).join("-")
    : "";
  // On one host a launcher's ranks have the launcher as their parent.
  const parent = onOneHost(where) && scheduler === "" && launcher === ""
    ? `${Deno.hostname()}-${Deno.ppid}`
    : "";
  return [scheduler, launcher, parent].filter((part) => part !== "").join("-").replace(/[^\w.-]+/g, "_") ||
    "job";
}

export const addressText = ({ hostname, port }: Address): string =>
  `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;

interface Published {
  readonly addresses: readonly Address[];
  readonly host: string;
  readonly pid: number;
  /** Null where HPCTRAIN_SECRET has it. */
  readonly secret: string | null;
  readonly refused?: string;
}

export const rendezvousFile = (folder: string, job: string): string =>
  join(folder, `.rendezvous-${job}.json`);

export function publish(path: string, published: Published): void {
  const temporary = temporaryFor(path);
  try {
    Deno.mkdirSync(dirname(path), { recursive: true });
    Deno.writeTextFileSync(temporary, JSON.stringify(published), { mode: 0o600, createNew: true });
    Deno.renameSync(temporary, path);
  } catch (cause) {
    remove(temporary);
    throw new UserError(
      "communication",
      `${path}: rank 0 can't tell the other ranks there where it is: ${messageOf(cause)}. ` +
        "Name a folder that this user may write to with --save-dir.",
    );
  }
}

/** Null where the file is missing or not whole. */
export function published(path: string): Published | null {
  let info: Deno.FileInfo, text: string;
  try {
    info = Deno.statSync(path);
    text = Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw unreadable(path, messageOf(error));
  }
  // Another user's file would lead to another user's server.
  if (info.uid !== Deno.uid()) throw unreadable(path, "it belongs to another user");
  if (((info.mode ?? 0) & 0o077) !== 0) {
    throw unreadable(
      path,
      `other users may read or write it (mode ${((info.mode ?? 0) & 0o777).toString(8)})`,
    );
  }
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const unreadable = (path: string, why: string) =>
  new UserError(
    "communication",
    `${path}: rank 0 writes there where it is, but ${why}. Remove it, or give all ranks HPCTRAIN_SECRET, MASTER_ADDR ` +
      "and MASTER_PORT.",
  );
