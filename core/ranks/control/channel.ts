// An authenticated connection: both sides prove that they have the job's secret, then send JSON messages in
// frames.
import { createHmac, hash, timingSafeEqual } from "node:crypto";
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

export type ChannelFault = "stranger" | "oversized" | "slow" | "secret" | "cut" | "silent";

export class FrameError extends Error {
  constructor(readonly fault: ChannelFault) {
    super(fault);
  }
}

interface Frame {
  readonly payload: Uint8Array;
  readonly mac: Uint8Array;
}

export function frame({ payload, mac }: Frame): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER + payload.length + MAC_BYTES);
  bytes.set(headerOf(payload));
  bytes.set(payload, HEADER);
  bytes.set(mac, HEADER + payload.length);
  return bytes;
}

/** A frame goes out as one piece up to here. */
const SMALL = 1024;

/** A long payload is no copy: the same one may go to thousands of ranks. */
function piecesOf(whole: Frame): readonly Uint8Array[] {
  const { payload, mac } = whole;
  if (payload.length <= SMALL) return [frame(whole)];
  return [headerOf(payload), payload, mac];
}

function headerOf({ length }: Uint8Array): Uint8Array {
  const header = new Uint8Array(HEADER);
  header.set(MAGIC);
  new DataView(header.buffer).setUint32(MAGIC.length, length);
  return header;
}

interface Reader {
  read(into: Uint8Array): Promise<number | null>;
}

interface FrameReader {
  /** Null where the other side has closed between two frames. */
  next(limit: number): Promise<Frame | null>;
}

/** A message of every day, such as a heartbeat, comes with one read. */
const BUFFER_BYTES = 512;

/**
 * One function awaits what comes: rank 0 waits so for thousands of ranks at once, and each function that waits for
 * another one would be kept in memory as often.
 */
export function frameReader(from: Reader): FrameReader {
  let buffer = new Uint8Array(BUFFER_BYTES), have = 0;
  const take = (bytes: number) => {
    const taken = buffer.slice(0, bytes);
    buffer.copyWithin(0, bytes, have);
    have -= bytes;
    if (have === 0 && buffer.length > BUFFER_BYTES) buffer = new Uint8Array(BUFFER_BYTES);
    return taken;
  };
  return {
    async next(limit) {
      for (;;) {
        const whole = have < HEADER ? HEADER : wholeLength(buffer, limit);
        if (have >= HEADER && have >= whole) {
          const bytes = take(whole);
          return {
            payload: bytes.subarray(HEADER, whole - MAC_BYTES),
            mac: bytes.subarray(whole - MAC_BYTES),
          };
        }
        if (whole > buffer.length) {
          const more = new Uint8Array(whole);
          more.set(buffer.subarray(0, have));
          buffer = more;
        }
        const count = await from.read(buffer.subarray(have));
        if (count === null && have === 0) return null;
        if (count === null) throw new FrameError("cut");
        have += count;
      }
    },
  };
}

function wholeLength(header: Uint8Array, limit: number): number {
  if (MAGIC.some((byte, i) => header[i] !== byte)) throw new FrameError("stranger");
  const length = new DataView(header.buffer).getUint32(MAGIC.length);
  if (length > limit) throw new FrameError("oversized");
  return HEADER + length + MAC_BYTES;
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
export const connectionKey = (secret: Secret): Uint8Array =>
  new Uint8Array(createHmac("sha256", secret).update("hpctrain ranks' own connections").digest());

/** The counter makes a repeated, missing or moved message as wrong as a changed one. */
export function macOf(key: Uint8Array, counter: number, payload: Uint8Array): Uint8Array {
  padWith(key, inner, INNER);
  new DataView(inner.buffer).setBigUint64(BLOCK, BigInt(counter));
  inner.set(sha256(payload), BLOCK + 8);
  padWith(key, outer, OUTER);
  outer.set(sha256(inner), BLOCK);
  return sha256(outer);
}

// HMAC for short contents. `createHmac` leaves an object in memory until V8 collects it, and with thousands of
// ranks thousands come a second.
const BLOCK = 64, INNER = 0x36, OUTER = 0x5c;
const inner = new Uint8Array(BLOCK + 8 + MAC_BYTES), outer = new Uint8Array(BLOCK + MAC_BYTES);

function padWith(key: Uint8Array, into: Uint8Array, pad: number): void {
  for (let i = 0; i < BLOCK; i++) into[i] = pad ^ (i < key.length ? key[i] : 0);
}

const sha256 = (bytes: Uint8Array): Uint8Array => hash("sha256", bytes, "buffer");

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

/**
 * So much longer for each rank of the job: rank 0 answers thousands that come at once one after the other, and
 * ranks that tried its next address meanwhile would be a crowd of their own.
 */
export const CROWD_MS = 2;

const encoder = new TextEncoder(), decoder = new TextDecoder();

export const encode = (message: unknown): Uint8Array => encoder.encode(JSON.stringify(message));

const NO_MAC = new Uint8Array(MAC_BYTES);
const PROOF = encode({ is: "proof" });

/** The connecting side sends nothing of its own before the server has proved itself. */
export function greetServer(conn: Deno.TcpConn, secret: Secret, crowdMs = 0): Promise<Channel> {
  return inTime(conn, CONNECTS_MS + crowdMs, async () => {
    const mine = newNonce(), from = frameReader(conn);
    await write(conn, frame({ payload: mine, mac: NO_MAC }));
    const { toServer, toClient } = keysOf(secret, mine, await nonceFrom(from));
    const channel = open(conn, from, toServer, toClient);
    channel.send(PROOF); // also to a server with another secret: it should log that
    await channel.receive().catch(async (error) => {
      await channel.flushed();
      throw error;
    });
    return channel;
  });
}

export function greetClient(conn: Deno.TcpConn, secret: Secret, crowdMs = 0): Promise<Channel> {
  return inTime(conn, LISTENS_MS + 3 * crowdMs, async () => {
    const from = frameReader(conn);
    const theirs = await nonceFrom(from);
    const mine = newNonce();
    await write(conn, frame({ payload: mine, mac: NO_MAC }));
    const { toServer, toClient } = keysOf(secret, theirs, mine);
    const channel = open(conn, from, toClient, toServer);
    channel.send(PROOF);
    if (await channel.receive() === null) throw new FrameError("silent");
    return channel;
  });
}

async function nonceFrom(from: FrameReader): Promise<Uint8Array> {
  const first = await from.next(STRANGER_LIMIT);
  if (!first) throw new FrameError("silent");
  if (first.payload.length !== NONCE_BYTES) throw new FrameError("stranger");
  return first.payload;
}

function open(conn: Deno.TcpConn, from: FrameReader, sendKey: Uint8Array, receiveKey: Uint8Array): Channel {
  conn.setNoDelay(true);
  let sent = 0, received = 0, queued = 0;
  const waiting: Uint8Array[] = [];
  let writing: Promise<void> | null = null;
  const writeAll = async () => {
    try {
      for (let piece; (piece = waiting.shift()) !== undefined; queued -= piece.length) {
        await write(conn, piece);
      }
    } catch {
      closeConnection(conn);
    }
    writing = null;
  };
  return {
    send(payload) {
      const pieces = piecesOf({ payload, mac: macOf(sendKey, sent++, payload) });
      for (const piece of pieces) queued += piece.length;
      if (queued > MOST_QUEUED) return closeConnection(conn);
      waiting.push(...pieces);
      writing ??= writeAll();
    },
    receive: () =>
      from.next(received === 0 ? STRANGER_LIMIT : MEMBER_LIMIT)
        .then((next) => next && parsed(next, receiveKey, received++)),
    flushed: () => writing ?? Promise.resolve(),
    close: () => closeConnection(conn),
  };
}

export function closeConnection(conn: Deno.TcpConn): void {
  try {
    conn.close();
  } catch {
    // closed before
  }
}

function parsed({ payload, mac }: Frame, key: Uint8Array, counter: number): unknown {
  if (!sameMac(mac, macOf(key, counter, payload))) throw new FrameError("secret");
  return JSON.parse(decoder.decode(payload));
}

async function write(conn: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length;) done += await conn.write(bytes.subarray(done));
}

async function inTime(conn: Deno.TcpConn, ms: number, greet: () => Promise<Channel>): Promise<Channel> {
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    closeConnection(conn);
  }, ms);
  try {
    return await greet();
  } catch (error) {
    if (timedOut) throw new FrameError("slow");
    closeConnection(conn);
    throw error instanceof FrameError ? error : new FrameError("cut");
  } finally {
    clearTimeout(timer);
  }
}
