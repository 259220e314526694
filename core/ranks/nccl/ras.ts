// Asks NCCL's RAS service (NCCL 2.24 and later) about a stall. It never waits for long, and never throws.
import type { Ras } from "../engines.ts";

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
