// An authenticated connection: both sides prove that they have the job's secret, then send JSON messages in
// frames.
import { createHmac, timingSafeEqual } from "node:crypto";
import { UserError } from "../../base/errors.ts";

// A frame is four letters, a length, a payload and a MAC. Nothing is read before its length is known to be
// within the limit.

const MAGIC = new TextEncoder().encode("HPC1");
const HEADER = 8;
export const MAC_BYTES = 32;

/**
 * The largest payload before the other side has proved itself, and after. A table of 100,000 ranks has 5 MB.
 */
const STRANGER_LIMIT = 256, MEMBER_LIMIT = 16 << 20;

export type Fault = "stranger" | "oversized" | "slow" | "secret" | "cut" | "silent";

export class FrameError extends Error {
  constructor(readonly fault: Fault) {
    super(fault);
  }
}

interface Frame {
  readonly payload: Uint8Array;
  readonly mac: Uint8Array;
}

export function frame({ payload, mac }: Frame): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER + payload.length + MAC_BYTES);
  bytes.set(MAGIC);
  new DataView(bytes.buffer).setUint32(MAGIC.length, payload.length);
  bytes.set(payload, HEADER);
  bytes.set(mac, HEADER + payload.length);
  return bytes;
}

/** Null where the other side has closed between two frames. */
export async function readFrame(from: Reader, limit: number): Promise<Frame | null> {
  const header = await readExactly(from, HEADER);
  if (!header) return null;
  if (MAGIC.some((byte, i) => header[i] !== byte)) throw new FrameError("stranger");
  const length = new DataView(header.buffer).getUint32(MAGIC.length);
  if (length > limit) throw new FrameError("oversized");
  const rest = await readExactly(from, length + MAC_BYTES);
  if (!rest) throw new FrameError("cut");
  return { payload: rest.subarray(0, length), mac: rest.subarray(length) };
}

interface Reader {
  read(into: Uint8Array): Promise<number | null>;
}

/** Null where the other side has closed before the first byte. */
async function readExactly(from: Reader, count: number): Promise<Uint8Array<ArrayBuffer> | null> {
  const bytes = new Uint8Array(count);
  for (let have = 0; have < count;) {
    const more = await from.read(bytes.subarray(have));
    if (more === null && have === 0) return null;
    if (more === null) throw new FrameError("cut");
    have += more;
  }
  return bytes;
}

export type Secret = Uint8Array;

export const NONCE_BYTES = 32;
const SHORTEST = 16;

export const MAKE_SECRET = "export HPCTRAIN_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')";

export function secretIn(env: { readonly HPCTRAIN_SECRET?: string }): Secret | null {
  const text = env.HPCTRAIN_SECRET?.trim();
  if (!text) return null;
  if (text.length < SHORTEST) {
    throw new UserError(
      "usage",
      `HPCTRAIN_SECRET has ${text.length} characters, and ${SHORTEST} at least are expected. In the job script, before ` +
        `the ranks start: ${MAKE_SECRET}.`,
    );
  }
  return new TextEncoder().encode(text);
}

export const newSecret = (): string =>
  [...randomBytes(32)].map((b) => b.toString(16).padStart(2, "0")).join("");

export const newNonce = (): Uint8Array => randomBytes(NONCE_BYTES);

/** Each direction has its own key, so that no message can be sent back to its sender. */
export function keysOf(secret: Secret, ofClient: Uint8Array, ofServer: Uint8Array) {
  const key = (direction: string) =>
    createHmac("sha256", secret).update(`hpctrain ${direction}`).update(ofClient).update(ofServer).digest();
  return { toServer: key("to server"), toClient: key("to client") };
}

/** Derives a key for other connections of ranks; its owner can't derive the secret from it. */
export const keyOf = (secret: Secret): Uint8Array =>
  new Uint8Array(createHmac("sha256", secret).update("hpctrain ranks' own connections").digest());

/** The counter makes a repeated, missing or moved message as wrong as a changed one. */
export function macOf(key: Uint8Array, counter: number, payload: Uint8Array): Uint8Array {
  const number = new Uint8Array(8);
  new DataView(number.buffer).setBigUint64(0, BigInt(counter));
  return createHmac("sha256", key).update(number).update(payload).digest();
}

export const sameMac = (a: Uint8Array, b: Uint8Array): boolean => timingSafeEqual(a, b);

/** A whole number below `below` that everyone who has the secret finds too. */
export function numberFrom(secret: Secret, about: string, below: number): number {
  return new DataView(new Uint8Array(createHmac("sha256", secret).update(about).digest()).buffer).getUint32(
    0,
  ) %
    below;
}

const randomBytes = (count: number) => crypto.getRandomValues(new Uint8Array(count));

export interface Channel {
  /** Queues, and never throws. A peer that has stopped reading is found by its silence. */
  send(payload: Uint8Array): void;
  receive(): Promise<unknown>;
  flushed(): Promise<void>;
  close(): void;
}

/** A peer that reads nothing is cut off when this many bytes wait for it. */
const MOST_QUEUED = 4 * MEMBER_LIMIT;

/**
 * The other side must prove itself within this. The listener waits for longer: a rank whose proof lies here
 * unread, because a thousand came at once or this node is slow, believes that it is in and has no second try.
 */
const CONNECTS_MS = 5000, LISTENS_MS = 15_000;

export const encode = (message: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(message));

const NO_MAC = new Uint8Array(MAC_BYTES);
const PROOF = encode({ is: "proof" });

/** The connecting side sends nothing of its own before the server has proved itself. */
export function greetServer(conn: Deno.TcpConn, secret: Secret): Promise<Channel> {
  return inTime(conn, CONNECTS_MS, async () => {
    const mine = newNonce();
    await write(conn, frame({ payload: mine, mac: NO_MAC }));
    const { toServer, toClient } = keysOf(secret, mine, await nonceFrom(conn));
    const channel = open(conn, toServer, toClient);
    channel.send(PROOF); // also to a server with another secret: it should log that
    await channel.receive().catch(async (error) => {
      await channel.flushed();
      throw error;
    });
    return channel;
  });
}

export function greetClient(conn: Deno.TcpConn, secret: Secret): Promise<Channel> {
  return inTime(conn, LISTENS_MS, async () => {
    const theirs = await nonceFrom(conn);
    const mine = newNonce();
    await write(conn, frame({ payload: mine, mac: NO_MAC }));
    const { toServer, toClient } = keysOf(secret, theirs, mine);
    const channel = open(conn, toClient, toServer);
    channel.send(PROOF);
    if (await channel.receive() === null) throw new FrameError("silent");
    return channel;
  });
}

async function nonceFrom(conn: Deno.TcpConn): Promise<Uint8Array> {
  const first = await readFrame(conn, STRANGER_LIMIT);
  if (!first) throw new FrameError("silent");
  if (first.payload.length !== NONCE_BYTES) throw new FrameError("stranger");
  return first.payload;
}

function open(conn: Deno.TcpConn, sendKey: Uint8Array, receiveKey: Uint8Array): Channel {
  conn.setNoDelay(true);
  let sent = 0, received = 0, queued = 0;
  let tail: Promise<void> = Promise.resolve();
  return {
    send(payload) {
      const bytes = frame({ payload, mac: macOf(sendKey, sent++, payload) });
      queued += bytes.length;
      if (queued > MOST_QUEUED) return close(conn);
      tail = tail.then(() => write(conn, bytes)).catch(() => close(conn)).then(() =>
        void (queued -= bytes.length)
      );
    },
    async receive() {
      const next = await readFrame(conn, received === 0 ? STRANGER_LIMIT : MEMBER_LIMIT);
      if (!next) return null;
      return parsed(next, receiveKey, received++);
    },
    flushed: () => tail,
    close: () => close(conn),
  };
}

export function close(conn: Deno.TcpConn): void {
  try {
    conn.close();
  } catch {
    // closed before
  }
}

function parsed({ payload, mac }: Frame, key: Uint8Array, counter: number): unknown {
  if (!sameMac(mac, macOf(key, counter, payload))) throw new FrameError("secret");
  return JSON.parse(new TextDecoder().decode(payload));
}

async function write(conn: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length;) done += await conn.write(bytes.subarray(done));
}

async function inTime(conn: Deno.TcpConn, ms: number, greet: () => Promise<Channel>): Promise<Channel> {
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    close(conn);
  }, ms);
  try {
    return await greet();
  } catch (error) {
    if (timedOut) throw new FrameError("slow");
    close(conn);
    throw error instanceof FrameError ? error : new FrameError("cut");
  } finally {
    clearTimeout(timer);
  }
}
