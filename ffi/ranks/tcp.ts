import {
  type ElementType,
  type FixedBytes,
  fixedBytes,
  openArithmetic,
  type ReduceOp,
  type Transport,
  TYPE_BYTES,
} from "./transport.ts";

// Sockets are descriptors: another thread can take them, and they move bytes straight from and to native
// memory. No call waits but `poll`.

/** AGAIN: the call could do nothing yet; LOST: it never will again. */
const WOULD_BLOCK = -1;
export const LOST = -2;
export const READABLE = 1, WRITABLE = 4, ENDED = 8 | 16 | 32;

const SYMBOLS = {
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
  getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
  bind: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  listen: { parameters: ["i32", "i32"], result: "i32" },
  accept4: { parameters: ["i32", "buffer", "buffer", "i32"], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  getsockname: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  inet_pton: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  inet_ntop: { parameters: ["i32", "buffer", "buffer", "u32"], result: "pointer" },
  send: { parameters: ["i32", "usize", "usize", "i32"], result: "isize" },
  recv: { parameters: ["i32", "usize", "usize", "i32"], result: "isize" },
  sendBytes: { name: "send", parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
  recvBytes: { name: "recv", parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
  poll: { parameters: ["buffer", "usize", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  __errno_location: { parameters: [], result: "pointer" },
} as const;

// Numbers of Linux, the same on x86-64 and aarch64.
const AF_INET = 2, AF_INET6 = 10;
const SOCK_STREAM = 1, SOCK_NONBLOCK = 0o4000, SOCK_CLOEXEC = 0o2000000;
const KIND = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
const SOL_SOCKET = 1, SO_ERROR = 4, IPPROTO_TCP = 6, TCP_NODELAY = 1, IPPROTO_IPV6 = 41, IPV6_V6ONLY = 26;
const MSG_DONTWAIT = 0x40, MSG_NOSIGNAL = 0x4000;
const EINTR = 4, EAGAIN = 11, EINPROGRESS = 115;
const BACKLOG = 1024;

let libc: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | undefined;
const native = () => libc ??= Deno.dlopen("libc.so.6", SYMBOLS).symbols;

const errno = (): number => new Deno.UnsafePointerView(native().__errno_location()!).getInt32();

const NAME = 28;

export function listen(loopback: boolean): { readonly descriptor: number; readonly port: number } | null {
  const { socket, setsockopt, bind, listen, getsockname, close } = native();
  for (const host of loopback ? ["127.0.0.1"] : ["::", "0.0.0.0"]) {
    const [name, length] = nameOf(host, 0)!;
    const descriptor = socket(name[0], KIND, 0);
    if (descriptor < 0) continue; // a host without IPv6
    if (host === "::") setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, new Int32Array([0]), 4);
    const own = new Uint8Array(NAME);
    const works = bind(descriptor, name, length) === 0 && listen(descriptor, BACKLOG) === 0 &&
      getsockname(descriptor, own, new Uint32Array([NAME])) === 0;
    if (works) return { descriptor, port: new DataView(own.buffer).getUint16(2) };
    close(descriptor);
  }
  return null;
}

/** Begins a connection: it is there when it is writable and has no `failure`. Null for an invalid address. */
export function connect(host: string, port: number): number | null {
  const { socket, connect, close } = native();
  const name = nameOf(host, port);
  const descriptor = name ? socket(name[0][0], KIND, 0) : -1;
  if (!name || descriptor < 0) return null;
  if (connect(descriptor, ...name) === 0 || errno() === EINPROGRESS) return descriptor;
  close(descriptor);
  return null;
}

export function hasFailed(descriptor: number): boolean {
  const code = new Int32Array(1);
  return native().getsockopt(descriptor, SOL_SOCKET, SO_ERROR, code, new Uint32Array([4])) !== 0 ||
    code[0] !== 0;
}

/** The next connection and its source; null where there is none. */
export function accept(listener: number): { readonly descriptor: number; readonly from: string } | null {
  const { accept4, inet_ntop } = native();
  const name = new Uint8Array(NAME);
  const descriptor = accept4(listener, name, new Uint32Array([NAME]), SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) return null;
  const text = new Uint8Array(64);
  inet_ntop(name[0], name.subarray(name[0] === AF_INET ? 4 : 8), text, text.length);
  const from = new TextDecoder().decode(text.subarray(0, text.indexOf(0))).replace("::ffff:", "");
  return { descriptor, from };
}

export function withoutDelay(descriptor: number): void {
  native().setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, new Int32Array([1]), 4);
}

const send = (descriptor: number, from: bigint, bytes: number): number =>
  moved(native().send(descriptor, from, BigInt(bytes), MSG_DONTWAIT | MSG_NOSIGNAL));

/** LOST at the other side's end too. */
const receive = (descriptor: number, into: bigint, bytes: number): number =>
  moved(native().recv(descriptor, into, BigInt(bytes), MSG_DONTWAIT)) || LOST;

export const sendBytes = (descriptor: number, bytes: Uint8Array<ArrayBuffer>): number =>
  moved(native().sendBytes(descriptor, bytes, BigInt(bytes.length), MSG_DONTWAIT | MSG_NOSIGNAL));

export const receiveBytes = (descriptor: number, into: Uint8Array<ArrayBuffer>): number =>
  moved(native().recvBytes(descriptor, into, BigInt(into.length), MSG_DONTWAIT)) || LOST;

function moved(count: number | bigint): number {
  if (count >= 0) return Number(count);
  const code = errno();
  return code === EAGAIN || code === EINTR ? WOULD_BLOCK : LOST;
}

export function closeSocket(descriptor: number): void {
  native().close(descriptor);
}

interface Poll {
  clear(): void;
  add(descriptor: number, events: number): void;
  wait(ms: number): void;
  happened(place: number): number;
}

export function openPoll(most: number): Poll {
  const words = new Int32Array(2 * most); // of each: the descriptor; events, and above them what happened
  let count = 0;
  return {
    clear: () => void (count = 0),
    add(descriptor, events) {
      words[2 * count] = descriptor;
      words[2 * count + 1] = events;
      count++;
    },
    wait: (ms) => void native().poll(words, BigInt(count), ms),
    happened: (place) => words[2 * place + 1] >>> 16,
  };
}

/** struct sockaddr_in or sockaddr_in6, and its size; null for a host that is no numeric address. */
function nameOf(host: string, port: number): readonly [Uint8Array<ArrayBuffer>, number] | null {
  const family = host.includes(":") ? AF_INET6 : AF_INET;
  const name = new Uint8Array(NAME), at = family === AF_INET ? 4 : 8;
  name[0] = family;
  new DataView(name.buffer).setUint16(2, port);
  const text = new TextEncoder().encode(`${host}\0`);
  if (native().inet_pton(family, text, name.subarray(at)) !== 1) return null;
  return [name, family === AF_INET ? 16 : NAME];
}

// Each rank is connected with each other: numbers go straight to the rank that adds them up, and their sums
// straight back, so that they are added in the order of ranks whatever comes first.

/** The connections of one rank: numbers, so that another thread can use them. */
export interface Connections {
  readonly rank: number;
  readonly descriptors: readonly number[];
  readonly names: readonly string[];
}

/**
 * The other end of a connection is gone, or sends something unexpected. The control plane may know more of
 * it.
 */
export class LostRank extends Error {}

/** Bytes that are added up at a time. */
const PIECE = 2 << 20;
/** Up to here every rank sends all to all and adds up for itself: one way in place of two. */
const SMALL = 32 * 1024;
const HEADER = 16;
/** Slices let a thread that must end do so. */
const SLICE_MS = 200;

interface Message {
  readonly peer: number;
  readonly at: bigint;
  readonly bytes: number;
}

export class TcpTransport implements Transport {
  readonly version = "TCP";
  readonly rank: number;
  readonly size: number;
  readonly #descriptors: readonly number[];
  readonly #wire: Wire;
  readonly #combine = openArithmetic();
  /** For what comes from other ranks. */
  readonly #buffer = fixedBytes(PIECE);
  readonly #everybody: readonly number[];
  /** All-reduces and barriers are among these. */
  #group: readonly number[];

  constructor(connections: Connections) {
    this.rank = connections.rank;
    this.#descriptors = connections.descriptors;
    this.size = this.#descriptors.length;
    this.#wire = openWire(connections);
    this.#everybody = Array.from({ length: this.size }, (_, of) => of);
    this.#group = this.#everybody;
  }

  allReduce(at: bigint, count: number, type: ElementType, op: ReduceOp): void {
    if (this.#group.length === 1) return;
    const wide = TYPE_BYTES[type];
    if (count * wide * this.#group.length <= SMALL) return this.#reduceAtAll(at, count, type, op);
    inPieces(count, PIECE / wide, (done, piece) => {
      this.#reduceByShares(at + BigInt(done * wide), piece, type, op);
    });
  }

  /**
   * All ranks pass shares on, so that the root sends each byte once or twice, whatever the number of ranks.
   */
  broadcast(at: bigint, bytes: number, root: number): void {
    const { rank } = this;
    inPieces(bytes, PIECE, (done, piece) => {
      const each = Math.ceil(piece / this.size);
      const share = (of: number, peer: number): Message => {
        const from = Math.min(of * each, piece);
        return { peer, at: at + BigInt(done + from), bytes: Math.min(each, piece - from) };
      };
      const rest = this.#others(this.#everybody).filter((of) => of !== root);
      if (rank === root) this.#wire.exchange(rest.map((peer) => share(peer, peer)), []);
      else this.#wire.exchange([], [share(rank, root)]);
      const toMe = rank === root ? [] : [...rest.map((peer) => share(peer, peer)), share(root, root)];
      this.#wire.exchange(rest.map((peer) => share(rank, peer)), toMe);
    });
  }

  allGather(into: bigint, own: bigint, bytes: number): void {
    const place = (of: number) => into + BigInt(of * bytes), others = this.#others(this.#everybody);
    this.#combine([own], [place(this.rank)], bytes, "u8", "sum"); // a copy
    this.#wire.exchange(
      others.map((peer) => ({ peer, at: place(this.rank), bytes })),
      others.map((peer) => ({ peer, at: place(peer), bytes })),
    );
  }

  reduceScatter(own: bigint, from: bigint, count: number, type: ElementType): void {
    const wide = TYPE_BYTES[type], others = this.#others(this.#everybody);
    inPieces(count, Math.floor(PIECE / wide / this.size), (done, piece) => {
      const part = (of: number) => from + BigInt((of * count + done) * wide), bytes = piece * wide;
      const all = this.#sources(this.#everybody, part(this.rank), bytes);
      this.#wire.exchange(
        others.map((peer) => ({ peer, at: part(peer), bytes })),
        others.map((peer) => ({ peer, at: all[peer], bytes })),
      );
      this.#combine(all, [own + BigInt(done * wide)], piece, type, "sum");
    });
  }

  barrier(): void {
    this.#barrierAmong(this.#group);
  }

  split(colour: number): void {
    const { bytes, address } = fixedBytes(4 * this.size), colours = new DataView(bytes.buffer);
    colours.setInt32(4 * this.rank, colour);
    this.allGather(address, address + BigInt(4 * this.rank), 4);
    this.#group = colour < 0
      ? this.#everybody
      : this.#everybody.filter((of) => colours.getInt32(4 * of) === colour);
  }

  share(): bigint {
    return 0n;
  }

  finalize(): void {
    this.#barrierAmong(this.#everybody);
    this.#descriptors.forEach((descriptor, of) => of !== this.rank && closeSocket(descriptor));
  }

  #barrierAmong(ranks: readonly number[]): void {
    const me = ranks.indexOf(this.rank), count = ranks.length;
    for (let far = 1; far < count; far *= 2) {
      const to = ranks[(me + far) % count], from = ranks[(me - far + count) % count];
      this.#wire.exchange([{ peer: to, at: 0n, bytes: 0 }], [{ peer: from, at: 0n, bytes: 0 }]);
    }
  }

  /** Each rank of the group gets the numbers of all, and adds them up. */
  #reduceAtAll(at: bigint, count: number, type: ElementType, op: ReduceOp): void {
    const ranks = this.#group, bytes = count * TYPE_BYTES[type], from = this.#sources(ranks, at, bytes);
    this.#wire.exchange(
      this.#others(ranks).map((peer) => ({ peer, at, bytes })),
      ranks.flatMap((peer, i) => peer === this.rank ? [] : [{ peer, at: from[i], bytes }]),
    );
    this.#combine(from, [at], count, type, op);
  }

  /** Each rank of the group adds up a share of the numbers, and sends its sums to all. */
  #reduceByShares(at: bigint, count: number, type: ElementType, op: ReduceOp): void {
    const ranks = this.#group, wide = TYPE_BYTES[type], each = Math.ceil(count / ranks.length);
    const shares = ranks.map((peer, i) => {
      const from = Math.min(i * each, count);
      const own = Math.min(each, count - from);
      return { peer, at: at + BigInt(from * wide), bytes: own * wide, count: own };
    });
    const mine = shares[ranks.indexOf(this.rank)];
    const theirs = shares.filter(({ peer }) => peer !== this.rank);
    const from = this.#sources(ranks, mine.at, mine.bytes);
    this.#wire.exchange(
      theirs,
      ranks.flatMap((peer, i) => peer === this.rank ? [] : [{ peer, at: from[i], bytes: mine.bytes }]),
    );
    this.#combine(from, [mine.at], mine.count, type, op);
    this.#wire.exchange(theirs.map(({ peer }) => ({ ...mine, peer })), theirs);
  }

  #others(ranks: readonly number[]): number[] {
    return ranks.filter((of) => of !== this.rank);
  }

  /** The places of these ranks' data, in their order; this rank's own stays in place. */
  #sources(ranks: readonly number[], own: bigint, bytes: number): readonly bigint[] {
    let before = 0;
    return ranks.map((of) => of === this.rank ? own : this.#buffer.address + BigInt(bytes * before++));
  }
}

function inPieces(count: number, most: number, each: (done: number, piece: number) => void): void {
  for (let done = 0; done < count; done += most) each(done, Math.min(most, count - done));
}

interface Moving {
  readonly peer: number;
  readonly header: FixedBytes;
  at: bigint;
  bytes: number;
  done: number;
}

type Wire = ReturnType<typeof openWire>;

function openWire({ descriptors, names }: Connections) {
  const poll = openPoll(2 * descriptors.length);
  const ends = () =>
    descriptors.map((_, peer): Moving => {
      return { peer, header: fixedBytes(HEADER), at: 0n, bytes: 0, done: 0 };
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
      if (count === WOULD_BLOCK) return false;
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
    const [sequence, length] = [view.getUint32(0, true), view.getFloat64(8, true)];
    if (sequence === number && length === bytes) return;
    throw lost(
      peer,
      `brings message ${sequence} of ${length} bytes where number ${number} of ${bytes} is due: ranks must do the same in ` +
        "the same order",
    );
  };
  return {
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
