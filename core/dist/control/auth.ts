// The job's secret, and what proves that somebody has it: MACs under a key that both sides' random numbers go into.
// May import errors.
import { createHmac, timingSafeEqual } from "node:crypto";
import { UserError } from "../../errors.ts";

export type Secret = Uint8Array;

export const NONCE_BYTES = 32;
const SHORTEST = 16;

/** For a job script. */
export const MAKE_SECRET = "export HPCTRAIN_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')";

/** HPCTRAIN_SECRET, if it is set. */
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

/** One key for each direction, so that no message can be sent back to its sender. */
export function keysOf(secret: Secret, ofClient: Uint8Array, ofServer: Uint8Array) {
  const key = (direction: string) =>
    createHmac("sha256", secret).update(`hpctrain ${direction}`).update(ofClient).update(ofServer).digest();
  return { toServer: key("to server"), toClient: key("to client") };
}

/** Of the secret, for what else ranks connect by: who has one of its keys does not have the secret. */
export const keyOf = (secret: Secret): Uint8Array =>
  new Uint8Array(createHmac("sha256", secret).update("hpctrain ranks' own connections").digest());

/** The counter makes a message that is repeated, left out or moved as wrong as one that was changed. */
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
