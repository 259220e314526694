// Ranks that communicate by TCP, each connected with each other: numbers go straight to the rank that adds them up, and their sums
// straight back, so that they are added in the order of ranks whatever comes first.
import { openArithmetic, type Room, roomOf } from "./arithmetic.ts";
import { AGAIN, close, LOST, openPoll, READABLE, receive, send, WRITABLE } from "./sockets.ts";
import { BYTES, type ElementType, type ReduceOp, type Transport } from "./transport.ts";

/** The connections of one rank: numbers, so that another thread can be told of them. */
export interface Connections {
  readonly rank: number;
  /** Of each rank; that of this one is none. */
  readonly descriptors: readonly number[];
  /** Each rank's name for people. */
  readonly names: readonly string[];
}

/** The other end of a connection is gone, or speaks of something else. Who watches the ranks may know more of it. */
export class LostRank extends Error {}

/** Bytes that are added up at a time. */
const PIECE = 2 << 20;
/** Up to here every rank sends all to all and adds up for itself: one way in place of two. */
const SMALL = 32 * 1024;
/** Before each message: its number between these two ranks, and its bytes. */
const HEADER = 16;
/** Slices, so that a thread that is to end does. */
const SLICE_MS = 200;

/** A message to or from a rank: native memory. */
interface Message {
  readonly peer: number;
  readonly at: bigint;
  readonly bytes: number;
}

export function openTcp({ rank, descriptors, names }: Connections): Transport {
  const size = descriptors.length;
  const combine = openArithmetic();
  const wire = openWire({ rank, descriptors, names });
  const everybody = Array.from({ length: size }, (_, of) => of);
  const room = roomOf(PIECE);
  let group: readonly number[] = everybody;

  const barrier = (ranks: readonly number[]) => {
    const me = ranks.indexOf(rank), count = ranks.length;
    for (let far = 1; far < count; far *= 2) {
      const to = ranks[(me + far) % count], from = ranks[(me - far + count) % count];
      wire.exchange([{ peer: to, at: 0n, bytes: 0 }], [{ peer: from, at: 0n, bytes: 0 }]);
    }
  };
  const others = (ranks: readonly number[]) => ranks.filter((of) => of !== rank);
  /** Where what each of these ranks sends is put, in their order; this rank's own is where it is. */
  const sources = (ranks: readonly number[], own: bigint, bytes: number): readonly bigint[] => {
    let before = 0;
    return ranks.map((of) => of === rank ? own : room.address + BigInt(bytes * before++));
  };
  const toAll = (ranks: readonly number[], at: bigint, count: number, type: ElementType, op: ReduceOp) => {
    const bytes = count * BYTES[type], from = sources(ranks, at, bytes);
    wire.exchange(
      others(ranks).map((peer) => ({ peer, at, bytes })),
      ranks.flatMap((peer, i) => peer === rank ? [] : [{ peer, at: from[i], bytes }]),
    );
    combine(from, [at], count, type, op);
  };
  /** Each rank adds up its share, and gives the sums to all. */
  const byShares = (ranks: readonly number[], at: bigint, count: number, type: ElementType, op: ReduceOp) => {
    const wide = BYTES[type], each = Math.ceil(count / ranks.length);
    const shares = ranks.map((peer, i) => {
      const from = Math.min(i * each, count);
      const own = Math.min(each, count - from);
      return { peer, at: at + BigInt(from * wide), bytes: own * wide, count: own };
    });
    const mine = shares[ranks.indexOf(rank)];
    const theirs = shares.filter(({ peer }) => peer !== rank);
    const from = sources(ranks, mine.at, mine.bytes);
    wire.exchange(
      theirs,
      ranks.flatMap((peer, i) => peer === rank ? [] : [{ peer, at: from[i], bytes: mine.bytes }]),
    );
    combine(from, [mine.at], mine.count, type, op);
    wire.exchange(theirs.map(({ peer }) => ({ ...mine, peer })), theirs);
  };
  const pieces = (count: number, most: number, each: (done: number, piece: number) => void) => {
    for (let done = 0; done < count; done += most) each(done, Math.min(most, count - done));
  };
  const allGather = (into: bigint, own: bigint, bytes: number) => {
    const place = (of: number) => into + BigInt(of * bytes);
    combine([own], [place(rank)], bytes, "u8", "sum"); // a copy
    wire.exchange(
      others(everybody).map((peer) => ({ peer, at: place(rank), bytes })),
      others(everybody).map((peer) => ({ peer, at: place(peer), bytes })),
    );
  };
  return {
    version: "TCP",
    rank,
    size,
    barrier: () => barrier(group),
    allReduce(at, count, type, op) {
      if (group.length === 1) return;
      const wide = BYTES[type];
      if (count * wide * group.length <= SMALL) return toAll(group, at, count, type, op);
      pieces(
        count,
        PIECE / wide,
        (done, piece) => byShares(group, at + BigInt(done * wide), piece, type, op),
      );
    },
    /** In shares that all pass on, so that the root sends each byte once or twice, whatever the number of ranks. */
    broadcast(at, bytes, root) {
      pieces(bytes, PIECE, (done, piece) => {
        const each = Math.ceil(piece / size);
        const share = (of: number, peer: number): Message => {
          const from = Math.min(of * each, piece);
          return { peer, at: at + BigInt(done + from), bytes: Math.min(each, piece - from) };
        };
        const rest = others(everybody).filter((of) => of !== root);
        if (rank === root) wire.exchange(rest.map((peer) => share(peer, peer)), []);
        else wire.exchange([], [share(rank, root)]);
        const toMe = rank === root ? [] : [...rest.map((peer) => share(peer, peer)), share(root, root)];
        wire.exchange(rest.map((peer) => share(rank, peer)), toMe);
      });
    },
    allGather,
    reduceScatter(own, from, count, type) {
      const wide = BYTES[type];
      pieces(count, Math.floor(PIECE / wide / size), (done, piece) => {
        const part = (of: number) => from + BigInt((of * count + done) * wide), bytes = piece * wide;
        const all = sources(everybody, part(rank), bytes);
        wire.exchange(
          others(everybody).map((peer) => ({ peer, at: part(peer), bytes })),
          others(everybody).map((peer) => ({ peer, at: all[peer], bytes })),
        );
        combine(all, [own + BigInt(done * wide)], piece, type, "sum");
      });
    },
    split(colour) {
      const { bytes, address } = roomOf(4 * size), colours = new DataView(bytes.buffer);
      colours.setInt32(4 * rank, colour);
      allGather(address, address + BigInt(4 * rank), 4);
      group = colour < 0 ? everybody : everybody.filter((of) => colours.getInt32(4 * of) === colour);
    },
    share: () => 0n,
    finalize() {
      barrier(everybody);
      descriptors.forEach((descriptor, of) => of !== rank && close(descriptor));
    },
  };
}

/** A message on its way; its header goes first. */
interface Moving {
  readonly peer: number;
  readonly header: Room;
  at: bigint;
  bytes: number;
  /** Bytes of both that have moved. */
  done: number;
}

/** Messages between this rank and others, many at a time. */
function openWire({ descriptors, names }: Connections) {
  const poll = openPoll(2 * descriptors.length);
  const ends = () =>
    descriptors.map((_, peer): Moving => {
      return { peer, header: roomOf(HEADER), at: 0n, bytes: 0, done: 0 };
    });
  const outgoing = ends(), incoming = ends();
  const sent = new Uint32Array(descriptors.length), received = new Uint32Array(descriptors.length);
  const lost = (peer: number, how: string) => new LostRank(`the connection with ${names[peer]} ${how}`);

  const begin = (moving: Moving, { at, bytes }: Message) => {
    moving.at = at;
    moving.bytes = bytes;
    moving.done = 0;
    return moving;
  };
  /** As far as it goes now; true at its end. */
  const advance = (
    moving: Moving,
    move: (descriptor: number, at: bigint, bytes: number) => number,
    hasHeader: (moving: Moving) => void,
  ): boolean => {
    const { peer, bytes } = moving;
    while (moving.done < HEADER + bytes) {
      const inHeader = moving.done < HEADER;
      const at = inHeader
        ? moving.header.address + BigInt(moving.done)
        : moving.at + BigInt(moving.done - HEADER);
      const count = move(descriptors[peer], at, (inHeader ? HEADER : HEADER + bytes) - moving.done);
      if (count === AGAIN) return false;
      if (count === LOST) {
        throw lost(peer, moving.done > 0 ? "was cut in the middle of a message" : "was cut");
      }
      moving.done += count;
      if (inHeader && moving.done === HEADER) hasHeader(moving);
    }
    return true;
  };
  const nothing = () => {};
  const judge = ({ peer, header, bytes }: Moving) => {
    const view = new DataView(header.bytes.buffer);
    const number = received[peer]++;
    const [said, length] = [view.getUint32(0, true), view.getFloat64(8, true)];
    if (said === number && length === bytes) return;
    throw lost(
      peer,
      `brings message ${said} of ${length} bytes where number ${number} of ${bytes} is due: ranks must do the same in ` +
        "the same order",
    );
  };
  return {
    /** At most one message to and one from a rank at a time. */
    exchange(out: readonly Message[], into: readonly Message[]): void {
      let sending = out.map((message) => {
        const moving = begin(outgoing[message.peer], message);
        const view = new DataView(moving.header.bytes.buffer);
        view.setUint32(0, sent[message.peer]++, true);
        view.setFloat64(8, message.bytes, true);
        return moving;
      });
      let receiving = into.map((message) => begin(incoming[message.peer], message));
      for (;;) {
        sending = sending.filter((moving) => !advance(moving, send, nothing));
        receiving = receiving.filter((moving) => !advance(moving, receive, judge));
        if (sending.length + receiving.length === 0) return;
        poll.clear();
        for (const { peer } of sending) poll.add(descriptors[peer], WRITABLE);
        for (const { peer } of receiving) poll.add(descriptors[peer], READABLE);
        poll.wait(SLICE_MS);
      }
    },
  };
}
