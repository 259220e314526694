// NCCL, or RCCL, as the engine of ranks on GPUs.
import { entriesIn } from "../../base/files.ts";
import { BACKENDS, type GpuKind } from "../../../ffi/gpu/backends.ts";
import { findNccl, noNcclSentence } from "../../../ffi/nccl/find.ts";
import { openNccl } from "../../../ffi/nccl/nccl.ts";
import { messageOf, UserError } from "../../base/errors.ts";
import type { FoundEngine, GpuEngine, GpuEngineOptions, Network, Ras } from "../engines.ts";
import { join } from "../../../deps/path.ts";
import { currentStream, gpuBackend, gpuRuntime, poolStream } from "../../../ffi/cuda.ts";
import { openedLibtorch } from "../../../ffi/library.ts";
import { zeros } from "../../../ffi/make.ts";
import { keep } from "../../../ffi/tensor.ts";
import type { OpenedCollectives } from "../collectives.ts";
import { openNcclEngine } from "./engine.ts";

export const engine: GpuEngine = { open: openNcclCollectives, ask: (env) => queryRas(env), find };

function find(torch: string, kind: GpuKind, env: Record<string, string>): FoundEngine {
  let at: { path: string; from: string } | null = null;
  try {
    const { chosen, rejected } = findNccl(torch, env, BACKENDS[kind]);
    at = chosen;
    if (!at) {
      const why = rejected.map(({ dir, reason }) => `${dir}: ${reason}`).join("; ");
      return { path: null, from: "", version: null, against: null, why };
    }
    const { version, against } = openNccl(at.path, kind);
    return { ...at, version: /\d+(\.\d+)+/.exec(version)?.[0] ?? version, against, why: "" };
  } catch (error) {
    return {
      path: at?.path ?? null,
      from: at?.from ?? "",
      version: null,
      against: null,
      why: messageOf(error),
    };
  }
}

async function openNcclCollectives(
  { where, device, env, flight, timeout, share, network, logs }: GpuEngineOptions,
): Promise<OpenedCollectives> {
  const { rank, world, nodes } = where;
  const { chosen, rejected } = findNccl(openedLibtorch().dir, env, gpuBackend());
  if (!chosen) throw new UserError("environment", noNcclSentence(rejected, gpuBackend()));
  const debugFile = join(logs, `nccl-rank-${rank}.log`);
  const { set, notes } = networkVariables({
    network,
    env,
    nodes,
    adapters: entriesIn("/sys/class/infiniband"),
    debugFile,
  });
  for (const [name, value] of Object.entries(set)) Deno.env.set(name, value);
  if (set.NCCL_DEBUG_FILE) Deno.mkdirSync(logs, { recursive: true });
  const index = Number(device.slice("cuda:".length));
  const collectives = await openNcclEngine({
    path: chosen.path,
    runtime: gpuRuntime(),
    device: index,
    rank,
    world,
    flight,
    timeout,
    share,
    stream: poolStream(index, true),
    computing: () => currentStream(index),
    one: keep(zeros([1], { device })),
  });
  const { version, against } = collectives;
  const lines = [`Communication: ${version} (${chosen.path}, ${chosen.from}).`, ...notes];
  if (against !== null) {
    lines.push(`Known of ${version}: ${against}. Take a newer one, by HPCTRAIN_NCCL for example.`);
  }
  return { collectives, notes: lines };
}

// The variables are those that a user would set by hand. A variable that is already set stays.

export interface NetworkOptions {
  readonly network: Network;
  readonly env: Readonly<Record<string, string>>;
  readonly nodes: number;
  /** Names in /sys/class/infiniband. */
  readonly adapters: readonly string[];
  readonly debugFile: string;
}

export function networkVariables(
  { network, env, nodes, adapters, debugFile }: NetworkOptions,
): { set: Record<string, string>; notes: string[] } {
  const wanted: Record<string, string> = {
    ...(network === "infiniband" ? INFINIBAND : network === "ethernet" ? ETHERNET : {}),
    // One node may have nothing but the loopback.
    ...(network !== "auto" && nodes > 1 ? { NCCL_SOCKET_IFNAME: "^docker,lo" } : {}),
    ...(env.NCCL_DEBUG ? { NCCL_DEBUG_FILE: debugFile } : {}),
  };
  const names = Object.keys(wanted);
  const kept = names.filter((name) => env[name] !== undefined && env[name] !== wanted[name]);
  const set = Object.fromEntries(
    names.filter((name) => env[name] === undefined).map((name) => [name, wanted[name]]),
  );
  const notes: string[] = [];
  const list = (values: Readonly<Record<string, string>>, names: readonly string[]) =>
    names.map((name) => `${name}=${values[name]}`).join(" ");
  const mine = Object.keys(set);
  if (mine.length > 0) notes.push(`For NCCL: ${list(set, mine)}.`);
  if (kept.length > 0) notes.push(`From the environment, and kept: ${list(env, kept)}.`);
  if (network === "infiniband" && adapters.length === 0) {
    notes.push(
      "--network infiniband, but this node shows no InfiniBand adapter (/sys/class/infiniband): NCCL will use its sockets.",
    );
  }
  return { set, notes };
}

/**
 * NCCL knows best how far adapters may read a GPU's memory and over how many queues: both hang some fabrics.
 */
const INFINIBAND = { NCCL_IB_DISABLE: "0" };
const ETHERNET = { NCCL_IB_DISABLE: "1" };

// Asks NCCL's RAS service (NCCL 2.24 and later) about a stall. It never waits for long, and never throws.

/** NCCL_RAS_ADDR names another place, to NCCL as to us. */
const ADDRESS = { hostname: "localhost", port: 28028 };
/** NCCL waits this long for all processes; dead ones don't answer. */
const PATIENCE_S = 3;
/** NCCL ends the conversation by itself a little after its own patience. */
const LIMIT_MS = 8000;
/** A job of thousands of ranks has outliers by the thousand. */
const MOST_BYTES = 256 * 1024;

type Env = Readonly<Record<string, string | undefined>>;

/** Null where nobody listens, as with an older NCCL, or the answer took too long. */
export async function queryRas(env: Env, limit = LIMIT_MS): Promise<Ras | null> {
  if (env.NCCL_RAS_ENABLE === "0") return null;
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), limit);
  try {
    const text = await converse(addressIn(env), timeout.signal);
    return text === "" ? null : { text, line: worstOf(text) };
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}

function addressIn({ NCCL_RAS_ADDR: address = "" }: Env): { hostname: string; port: number } {
  const found = /^(.+):(\d+)$/.exec(address.trim());
  if (!found) return ADDRESS;
  return { hostname: found[1].replace(/^\[(.*)\]$/, "$1"), port: Number(found[2]) };
}

/** A report that was cut off by `timeout` is an answer too; "" stands for no report. */
async function converse(address: { hostname: string; port: number }, timeout: AbortSignal): Promise<string> {
  const conn = await Promise.race([Deno.connect(address), aborted(timeout)]);
  const close = () => {
    try {
      conn.close();
    } catch {
      // it is closed already
    }
  };
  timeout.addEventListener("abort", close, { once: true });
  try {
    const words = openWords(conn);
    await words.say("CLIENT PROTOCOL 2");
    if (!/^SERVER PROTOCOL \d+$/i.test(await words.line())) return "";
    await words.say(`TIMEOUT ${PATIENCE_S}`);
    if (!/^OK$/i.test(await words.line())) return "";
    await words.say("VERBOSE STATUS");
    return await words.rest();
  } finally {
    timeout.removeEventListener("abort", close);
    close();
  }
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) =>
    signal.addEventListener("abort", () => reject(new Error("late")), { once: true })
  );

function openWords(conn: Deno.TcpConn) {
  const decoder = new TextDecoder(), encoder = new TextEncoder(), buffer = new Uint8Array(16 * 1024);
  let text = "", bytes = 0;
  /** False at the end, or when enough has come. */
  const more = async (): Promise<boolean> => {
    const count = bytes < MOST_BYTES ? await conn.read(buffer) : null;
    if (count === null) return false;
    bytes += count;
    text += decoder.decode(buffer.subarray(0, count), { stream: true });
    return true;
  };
  return {
    async say(line: string) {
      const out = encoder.encode(`${line}\n`);
      for (let at = 0; at < out.length;) at += await conn.write(out.subarray(at));
    },
    async line(): Promise<string> {
      while (!text.includes("\n")) if (!await more()) return "";
      const end = text.indexOf("\n"), line = text.slice(0, end).trim();
      text = text.slice(end + 1);
      return line;
    },
    async rest(): Promise<string> {
      try {
        while (await more()) { /* on */ }
      } catch {
        // closed because it is late, or cut off: what has come is better than nothing
      }
      return text.trim();
    },
  };
}

/** The report has an underlined "Errors" and "Warnings" section only where it has such lines. */
export function worstOf(text: string): string {
  for (const title of ["Errors", "Warnings"]) {
    const section = sectionOf(text.split("\n"), title);
    if (section.length > 0) return `NCCL's own report, ${title.toLowerCase()}: ${cut(section.join("; "))}`;
  }
  return "NCCL's own report has no errors";
}

const MOST_LINES = 4, MOST_LETTERS = 300;

function sectionOf(lines: readonly string[], title: string): string[] {
  const underline = (line: string | undefined) => /^=+$/.test(line?.trim() ?? "");
  const at = lines.findIndex((line, i) => line.trim() === title && underline(lines[i + 1]));
  if (at < 0) return [];
  const next = lines.findIndex((_, i) => i > at + 1 && underline(lines[i + 1]));
  const own = lines.slice(at + 2, next < 0 ? undefined : next).map((line) => line.trim());
  return own.filter((line) => line !== "").slice(0, MOST_LINES);
}

const cut = (text: string): string =>
  (text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS)}...` : text).replace(/[.:;]+$/, "");
