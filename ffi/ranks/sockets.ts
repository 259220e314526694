// TCP connections as the system has them, by their descriptors: they can be handed to another thread, and move bytes straight from
// and to native memory. No call waits but `poll`.

/** What a call gives that could not do anything yet, or never will again. */
export const AGAIN = -1, LOST = -2;
/** What one can wait for, or has come to be: bytes to read, room to write, an end. */
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

// Of Linux, the same on x86-64 and aarch64.
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

/** The size of either family's address, and where its parts are. */
const NAME = 28;

/** On this host alone, or on all its cards, at a port that the system chooses. Null where that can't be. */
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

/** Begun: it is there when it is writable and has no `failure`. Null where the address is none. */
export function connect(host: string, port: number): number | null {
  const { socket, connect, close } = native();
  const name = nameOf(host, port);
  const descriptor = name ? socket(name[0][0], KIND, 0) : -1;
  if (!name || descriptor < 0) return null;
  if (connect(descriptor, ...name) === 0 || errno() === EINPROGRESS) return descriptor;
  close(descriptor);
  return null;
}

/** Whether what was begun has failed. */
export function hasFailed(descriptor: number): boolean {
  const code = new Int32Array(1);
  return native().getsockopt(descriptor, SOL_SOCKET, SO_ERROR, code, new Uint32Array([4])) !== 0 ||
    code[0] !== 0;
}

/** The next that has come, and where it comes from; null where none has. */
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

/** Small messages go at once. */
export function withoutDelay(descriptor: number): void {
  native().setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, new Int32Array([1]), 4);
}

/** How many bytes went; AGAIN or LOST. */
export const send = (descriptor: number, from: bigint, bytes: number): number =>
  moved(native().send(descriptor, from, BigInt(bytes), MSG_DONTWAIT | MSG_NOSIGNAL));

/** How many bytes came; AGAIN, or LOST at the other side's end too. */
export const receive = (descriptor: number, into: bigint, bytes: number): number =>
  moved(native().recv(descriptor, into, BigInt(bytes), MSG_DONTWAIT)) || LOST;

export const sendBytes = (descriptor: number, bytes: Uint8Array<ArrayBuffer>): number =>
  moved(native().sendBytes(descriptor, bytes, BigInt(bytes.length), MSG_DONTWAIT | MSG_NOSIGNAL));

export const receiveBytes = (descriptor: number, into: Uint8Array<ArrayBuffer>): number =>
  moved(native().recvBytes(descriptor, into, BigInt(into.length), MSG_DONTWAIT)) || LOST;

function moved(count: number | bigint): number {
  if (count >= 0) return Number(count);
  const code = errno();
  return code === EAGAIN || code === EINTR ? AGAIN : LOST;
}

export function close(descriptor: number): void {
  native().close(descriptor);
}

/** Descriptors that are waited for together, in room that is kept. */
export interface Poll {
  clear(): void;
  add(descriptor: number, events: number): void;
  /** Until something has happened to one of them, or so many milliseconds. */
  wait(ms: number): void;
  /** What has happened to the one that was added so many before. */
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

/** struct sockaddr_in or sockaddr_in6, and its size; null for what is no number. */
function nameOf(host: string, port: number): readonly [Uint8Array<ArrayBuffer>, number] | null {
  const family = host.includes(":") ? AF_INET6 : AF_INET;
  const name = new Uint8Array(NAME), at = family === AF_INET ? 4 : 8;
  name[0] = family;
  new DataView(name.buffer).setUint16(2, port);
  const text = new TextEncoder().encode(`${host}\0`);
  if (native().inet_pton(family, text, name.subarray(at)) !== 1) return null;
  return [name, family === AF_INET ? 16 : NAME];
}
