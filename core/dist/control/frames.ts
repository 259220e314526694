// A frame on the wire: four letters, a length, a payload, a MAC. Nothing is read before its length is known to be
// within the limit. Imports nothing.

/** The last letter is the protocol's version. */
const MAGIC = new TextEncoder().encode("HPC1");
const HEADER = 8;
export const MAC_BYTES = 32;

/** Of a payload, before the other side has proved itself and after. A table of 100,000 ranks has 5 MB. */
export const STRANGER_LIMIT = 256, MEMBER_LIMIT = 16 << 20;

/** What a connection can do wrong; each has its own line in the log. */
export type Fault = "stranger" | "oversized" | "slow" | "secret" | "cut" | "silent";

export class FrameError extends Error {
  constructor(readonly fault: Fault) {
    super(fault);
  }
}

export interface Frame {
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
  const header = await readExactly(from, HEADER, true);
  if (!header) return null;
  if (MAGIC.some((byte, i) => header[i] !== byte)) throw new FrameError("stranger");
  const length = new DataView(header.buffer).getUint32(MAGIC.length);
  if (length > limit) throw new FrameError("oversized");
  const rest = (await readExactly(from, length + MAC_BYTES, false))!;
  return { payload: rest.subarray(0, length), mac: rest.subarray(length) };
}

interface Reader {
  read(into: Uint8Array): Promise<number | null>;
}

async function readExactly(from: Reader, count: number, mayEnd: boolean) {
  const bytes = new Uint8Array(count);
  for (let have = 0; have < count;) {
    const more = await from.read(bytes.subarray(have));
    if (more === null && have === 0 && mayEnd) return null;
    if (more === null) throw new FrameError("cut");
    have += more;
  }
  return bytes;
}
