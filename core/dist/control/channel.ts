// A connection on which both sides have proved that they have the secret: JSON messages, each with its MAC. May
// import auth, frames.
import { keysOf, macOf, newNonce, NONCE_BYTES, sameMac, type Secret } from "./auth.ts";
import {
  type Frame,
  frame,
  FrameError,
  MAC_BYTES,
  MEMBER_LIMIT,
  readFrame,
  STRANGER_LIMIT,
} from "./frames.ts";

export interface Channel {
  /** Queued; never throws. Who has stopped reading is found by its silence. */
  send(payload: Uint8Array): void;
  /** Null when the other side has closed. */
  receive(): Promise<unknown>;
  /** When all that was sent has gone to the system. */
  flushed(): Promise<void>;
  close(): void;
}

/** A peer that reads nothing is cut off when this many bytes wait for it. */
const MOST_QUEUED = 4 * MEMBER_LIMIT;

/**
 * Within this the other side must have proved itself. Who listens waits for longer: a rank whose proof lies here unread,
 * because a thousand came at once or this node is slow, believes that it is in, and has no second try.
 */
const CONNECTS_MS = 5000, LISTENS_MS = 15_000;

export const encode = (message: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(message));

const NO_MAC = new Uint8Array(MAC_BYTES);
const PROOF = encode({ is: "proof" });

/** The side that connects. It sends nothing of its own before the server has proved itself. */
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

/** The side that listens. */
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

/** However often. */
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

/** Whoever is too slow finds the connection closed. */
async function inTime(conn: Deno.TcpConn, ms: number, greet: () => Promise<Channel>): Promise<Channel> {
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    close(conn);
  }, ms);
  try {
    return await greet();
  } catch (error) {
    if (late) throw new FrameError("slow");
    close(conn);
    throw error instanceof FrameError ? error : new FrameError("cut");
  } finally {
    clearTimeout(timer);
  }
}
