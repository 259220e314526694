// Connects ranks with each other by TCP: each with all of lower number. Both sides first prove that they have
// the job's key.
import {
  accept,
  closeSocket,
  connect,
  ENDED,
  hasFailed,
  LOST,
  openPoll,
  READABLE,
  receiveBytes,
  sendBytes,
  withoutDelay,
  WRITABLE,
} from "../../../ffi/ranks/tcp.ts";
import { UserError } from "../../base/errors.ts";
import { keysOf, macOf, newNonce, NONCE_BYTES, sameMac } from "../control/channel.ts";
import { wholeSeconds } from "../control/hang.ts";

export interface TcpPeer {
  readonly name: string;
  readonly addresses: readonly string[];
  readonly port: number;
}

export interface TcpOptions {
  readonly rank: number;
  readonly peers: readonly TcpPeer[];
  /** A listening descriptor. It is closed at the end. */
  readonly listener: number;
  readonly key: Uint8Array;
  readonly patience: number;
  readonly failed: () => UserError | null;
  readonly say: (line: string) => void;
}

/**
 * The connector sends its rank and a proof that it has the key; the answer is the same proof; then one byte
 * confirms it.
 */
const MAGIC = new TextEncoder().encode("HPCT1\n\0\0");
const MAC_BYTES = 32, WORD = 4;
const CLAIM_BYTES = MAGIC.length + WORD + NONCE_BYTES + MAC_BYTES;
const GO = Uint8Array.of(71);

/** An address that has not answered or proved itself after so long gives way to the next. */
const CONNECT_MS = 2000, PROVE_MS = 5000;
/** The listener waits for longer: a rank that believes that it is in has no second try. */
const LISTEN_MS = 3 * PROVE_MS;
const PAUSE_MS = 100, POLL_MS = 100;
/** So many strangers may be connected at once, beside the ranks that still have to come. */
const STRANGERS = 64;

type Stage = "connecting" | "nonce" | "proof" | "claim" | "go";
const WANTED: Readonly<Record<Stage, number>> = {
  connecting: 0,
  nonce: NONCE_BYTES,
  proof: MAC_BYTES,
  claim: CLAIM_BYTES,
  go: GO.length,
};

interface Link {
  readonly descriptor: number;
  readonly since: number;
  readonly from: string;
  peer: number | null;
  stage: Stage;
  bytes: Uint8Array<ArrayBuffer>;
  have: number;
  /** Our own secret while the link waits for a claim; the expected proof while it waits for one. */
  secret: Uint8Array;
}

/** Descriptors of the connections, by rank; -1 for this one. */
export function connectTcp(options: TcpOptions): number[] {
  const { rank, peers, listener, patience, failed, say } = options;
  const began = performance.now();
  const met = peers.map(() => -1);
  const links = new Set<Link>();
  const tries = peers.map((): Try => ({ next: 0, notBefore: 0, under: null }));
  const poll = openPoll(1 + STRANGERS + 3 * peers.length);
  let reported = false;

  const drop = (link: Link) => {
    links.delete(link);
    closeSocket(link.descriptor);
    for (const one of tries) {
      if (one.under !== link) continue;
      one.under = null;
      one.next++;
      one.notBefore = performance.now() + PAUSE_MS;
    }
  };
  const refuse = (link: Link) => {
    drop(link);
    if (link.peer !== null || reported) return;
    reported = true;
    say(
      `The port by which ranks connect refused a connection from ${link.from}, which is no rank of this run.`,
    );
  };
  const missing = () => met.flatMap((descriptor, of) => of !== rank && descriptor < 0 ? [of] : []);
  try {
    while (missing().length > 0) {
      const why = failed();
      if (why !== null) throw why;
      if (performance.now() - began > patience) throw notMet(options, missing());
      for (const of of missing()) if (of < rank) begin(tries[of], peers[of], of, links);
      poll.clear();
      poll.add(listener, READABLE);
      const waiting = [...links];
      for (const { descriptor, stage } of waiting) {
        poll.add(descriptor, stage === "connecting" ? WRITABLE : READABLE);
      }
      poll.wait(POLL_MS);
      waiting.forEach((link, i) => {
        if (poll.happened(i + 1) === 0) return;
        const outcome = advance(link, poll.happened(i + 1), options);
        if (outcome === "wrong") return refuse(link);
        if (outcome !== "done") return;
        links.delete(link);
        const peer = link.peer!;
        if (met[peer] >= 0) closeSocket(met[peer]); // it has come again, and uses this one
        met[peer] = link.descriptor;
        withoutDelay(link.descriptor);
      });
      if (poll.happened(0) !== 0) takeIn(listener, links, peers.length, refuse);
      const now = performance.now();
      for (const link of [...links]) {
        if (now - link.since > patienceWith(link)) refuse(link);
      }
    }
    return met;
  } catch (error) {
    met.forEach((descriptor) => descriptor >= 0 && closeSocket(descriptor));
    throw error;
  } finally {
    links.forEach(({ descriptor }) => closeSocket(descriptor));
    closeSocket(listener);
  }
}

const patienceWith = ({ stage }: Link): number =>
  stage === "connecting" ? CONNECT_MS : stage === "claim" || stage === "go" ? LISTEN_MS : PROVE_MS;

interface Try {
  next: number;
  notBefore: number;
  under: Link | null;
}

function begin(one: Try, { addresses, port }: TcpPeer, peer: number, links: Set<Link>): void {
  const now = performance.now();
  if (one.under !== null || now < one.notBefore) return;
  const from = addresses[one.next % addresses.length];
  const descriptor = connect(from, port);
  if (descriptor === null) {
    one.next++;
    one.notBefore = now + PAUSE_MS;
    return;
  }
  const link: Link = {
    descriptor,
    since: now,
    from,
    peer,
    stage: "connecting",
    bytes: new Uint8Array(0),
    have: 0,
    secret: newNonce(),
  };
  one.under = link;
  links.add(link);
}

function takeIn(listener: number, links: Set<Link>, world: number, refuse: (link: Link) => void): void {
  for (let come; (come = accept(listener)) !== null;) {
    const strangers = [...links].filter(({ peer }) => peer === null);
    if (strangers.length >= STRANGERS + world) refuse(strangers[0]); // a rank proves itself in no time: the oldest is none
    const secret = newNonce();
    const link: Link = {
      ...come,
      since: performance.now(),
      peer: null,
      stage: "claim",
      bytes: new Uint8Array(CLAIM_BYTES),
      have: 0,
      secret,
    };
    links.add(link);
    if (sendBytes(come.descriptor, Uint8Array.from(secret)) !== NONCE_BYTES) refuse(link);
  }
}

function advance(link: Link, happened: number, options: TcpOptions): "more" | "done" | "wrong" {
  if (link.stage === "connecting") {
    if (hasFailed(link.descriptor) || (happened & ENDED) !== 0) return "wrong";
    expect(link, "nonce");
    return "more";
  }
  while (link.have < WANTED[link.stage]) {
    const count = receiveBytes(link.descriptor, link.bytes.subarray(link.have));
    if (count === LOST) return "wrong";
    if (count < 0) return "more";
    link.have += count;
  }
  return STEPS[link.stage](link, options);
}

const STEPS: Readonly<
  Record<Exclude<Stage, "connecting">, (link: Link, options: TcpOptions) => "more" | "done" | "wrong">
> = {
  nonce(link, { rank, key }) {
    const keys = keysOf(key, link.secret, link.bytes);
    const who = ranksOf(rank, link.peer!);
    const claim = join(MAGIC, who.subarray(0, WORD), link.secret, macOf(keys.toServer, 0, who));
    if (sendBytes(link.descriptor, claim) !== claim.length) return "wrong";
    link.secret = macOf(keys.toClient, 0, who);
    expect(link, "proof");
    return "more";
  },
  proof(link) {
    if (!sameMac(link.bytes, link.secret) || performance.now() - link.since > PROVE_MS) return "wrong";
    return sendBytes(link.descriptor, GO) === GO.length ? "done" : "wrong";
  },
  claim(link, { rank, key, peers }) {
    const { bytes } = link;
    if (MAGIC.some((byte, i) => bytes[i] !== byte)) return "wrong";
    const from = new DataView(bytes.buffer).getUint32(MAGIC.length);
    const nonceAt = MAGIC.length + WORD, macAt = nonceAt + NONCE_BYTES;
    const keys = keysOf(key, bytes.subarray(nonceAt, macAt), link.secret);
    const who = ranksOf(from, rank);
    if (!sameMac(bytes.subarray(macAt), macOf(keys.toServer, 0, who))) return "wrong";
    if (from <= rank || from >= peers.length) return "wrong";
    const proof = Uint8Array.from(macOf(keys.toClient, 0, who));
    if (sendBytes(link.descriptor, proof) !== MAC_BYTES) return "wrong";
    link.peer = from;
    expect(link, "go");
    return "more";
  },
  go: (link) => link.bytes[0] === GO[0] ? "done" : "wrong",
};

function expect(link: Link, stage: Stage): void {
  link.stage = stage;
  link.bytes = new Uint8Array(WANTED[stage]);
  link.have = 0;
}

/** It names both ranks, so that a proof is good for no other pair. */
function ranksOf(from: number, to: number): Uint8Array {
  const bytes = new Uint8Array(2 * WORD), view = new DataView(bytes.buffer);
  view.setUint32(0, from);
  view.setUint32(WORD, to);
  return bytes;
}

function join(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function notMet({ rank, peers, patience }: TcpOptions, missing: readonly number[]): UserError {
  const [first] = missing;
  const { name, addresses, port } = peers[first];
  const more = missing.length > 1 ? ` (nor ${missing.length - 1} more)` : "";
  const how = first < rank
    ? ` at ${addresses.join(", ")}, port ${port}`
    : `: it did not come to port ${peers[rank].port} of ${peers[rank].addresses.join(", ")}`;
  return new UserError(
    "communication",
    `${peers[rank].name[0].toUpperCase()}${
      peers[rank].name.slice(1)
    } could not connect with ${name}${more} within ` +
      `${
        wholeSeconds(patience)
      }${how}. Ranks on CPUs without MPI connect with each other by TCP, at ports that the system ` +
      "chooses: a firewall between the nodes must let them.",
  );
}
