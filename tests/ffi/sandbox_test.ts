// The sandbox's structures as the kernel takes them, whatever this machine's kernel can do; the filter is run here as the
// kernel would run it.
import { assert, assertEquals } from "@std/assert";
import { filterBytes, handledRights, loaderOf, ruleBytes, rulesetBytes } from "../../ffi/sandbox.ts";

Deno.test("a ruleset asks each version of Landlock for what it knows, in the length that it knows", () => {
  const words = (version: number) => [...new BigUint64Array(rulesetBytes(version).buffer)];
  // From linux/landlock.h: execute, write, remove a folder or file, make seven kinds; refer, truncate, ioctl.
  const first = 0b1_1111_1111_0011n;
  assertEquals(words(1), [first]);
  assertEquals(words(2), [first | 1n << 13n]);
  assertEquals(words(3), [first | 3n << 13n]);
  assertEquals(words(4), [first | 3n << 13n, 3n]);
  for (const version of [5, 6, 7, 20]) assertEquals(words(version), [first | 7n << 13n, 3n]);
  // Reading is free: neither files nor folders.
  assertEquals(handledRights(7).files & 0b1100n, 0n);
});

Deno.test("a rule is packed into 12 bytes: rights, then the descriptor", () => {
  assertEquals([...ruleBytes(0x8001n, 7)], [1, 0x80, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
});

Deno.test("the loader of a dynamic program is found among what is mapped", () => {
  const maps = "7f00-7f01 r--p 00000000 08:01 1  /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n" +
    "7f01-7f02 r-xp 00001000 08:01 1  /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n" +
    "7f02-7f03 r--p 00000000 08:01 2  /usr/lib/x86_64-linux-gnu/libc.so.6\n" +
    "7f03-7f04 r--p 00000000 08:01 3  /lib64/ld-2.28.so\n";
  const found = ["/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "/lib64/ld-2.28.so"];
  assertEquals(loaderOf(maps), found);
  const own = loaderOf(Deno.readTextFileSync("/proc/self/maps"));
  assertEquals(own.length, 1);
  assert(Deno.statSync(own[0]).isFile);
});

interface Call {
  readonly nr: number;
  readonly audit?: number;
  readonly args?: readonly number[];
}

/** Classic BPF, as far as the filter uses it. */
function judge(filter: Uint8Array, { nr, audit = X86, args = [] }: Call): number {
  const view = new DataView(filter.buffer);
  const data = new Map([[0, nr], [4, audit], ...[0, 1, 2].map((i) => [16 + 8 * i, args[i] ?? 0] as const)]);
  let a = 0;
  for (let at = 0, steps = 0; steps < 1000; steps++) {
    const [code, yes, no] = [view.getUint16(8 * at, true), filter[8 * at + 2], filter[8 * at + 3]];
    const k = view.getUint32(8 * at + 4, true);
    at++;
    if (code === 0x06) return k;
    if (code === 0x20) a = data.get(k)!;
    else if (code === 0x54) a &= k;
    else if (code === 0x15) at += a === k ? yes : no;
    else if (code === 0x35) at += a >= k ? yes : no;
    else throw new Error(`unknown code ${code}`);
  }
  throw new Error("without an end");
}

const X86 = 0xc000003e, ARM = 0xc00000b7, I386 = 0x40000003;
const ALLOWED = 0x7fff0000, DENIED = 0x0005000d, KILLED = 0x80000000;

Deno.test("the filter of x86-64 refuses programs, sockets, other processes and files' attributes, and nothing else", () => {
  const filter = filterBytes("x86_64", 4711);
  const said = (nr: number, ...args: number[]) => judge(filter, { nr, args });
  const refused = {
    ...{
      execve: 59,
      execveat: 322,
      bind: 49,
      listen: 50,
      io_uring_setup: 425,
      ptrace: 101,
    },
    ...{ process_vm_writev: 311, pidfd_getfd: 438, pidfd_send_signal: 424, tkill: 200, rt_sigqueueinfo: 129 },
    ...{
      truncate: 76,
      chmod: 90,
      fchmod: 91,
      fchmodat: 268,
      fchmodat2: 452,
      chown: 92,
      utimensat: 280,
      setxattr: 188,
    },
  };
  for (const [name, nr] of Object.entries(refused)) assertEquals(said(nr), DENIED, name);
  const free = {
    read: 0,
    write: 1,
    open: 2,
    mmap: 9,
    clone: 56,
    clone3: 435,
    fork: 57,
    openat: 257,
    futex: 202,
  };
  for (const [name, nr] of Object.entries(free)) assertEquals(said(nr), ALLOWED, name);
  const rename = 82, ftruncate = 77;
  for (const nr of [rename, ftruncate]) assertEquals(said(nr), ALLOWED);
  const [kill, tgkill, ioctl, socketpair] = [62, 234, 16, 53];
  for (const nr of [kill, tgkill]) {
    assertEquals([said(nr, 4711), said(nr, 4712), said(nr, 0), said(nr, -1 >>> 0)], [
      ALLOWED,
      DENIED,
      DENIED,
      DENIED,
    ]);
  }
  assertEquals([said(ioctl, 0, 0x5401), said(ioctl, 0, 0x5412), said(ioctl, 0, 0x541c)], [
    ALLOWED,
    DENIED,
    DENIED,
  ]);
  const STREAM = 1, DATAGRAM = 2, RAW = 3, IN_ORDER = 5, CLOEXEC_NONBLOCK = 0o2004000;
  const [socket, connect, UNIX, INTERNET, NETLINK, NOBODY] = [41, 42, 1, 2, 16, 0x00050002];
  for (const kind of [STREAM, IN_ORDER]) {
    assertEquals(said(socket, UNIX, kind | CLOEXEC_NONBLOCK), ALLOWED);
    assertEquals([said(socket, INTERNET, kind), said(socket, 10, kind)], [DENIED, DENIED]);
  }
  for (const kind of [DATAGRAM, RAW]) assertEquals(said(socket, UNIX, kind), DENIED);
  assertEquals(said(socket, NETLINK, RAW), DENIED);
  assertEquals(said(connect), NOBODY);
  assertEquals(said(socketpair, 1, STREAM | CLOEXEC_NONBLOCK), ALLOWED);
  assertEquals(said(socketpair, 1, DATAGRAM | CLOEXEC_NONBLOCK), DENIED);
  // The same numbers under other conventions are other calls.
  assertEquals(said(0x40000000 + 520), DENIED);
  assertEquals(judge(filter, { nr: 11, audit: I386 }), KILLED);
});

Deno.test("the filter of aarch64 has that architecture's numbers", () => {
  const filter = filterBytes("aarch64", 12);
  const said = (nr: number, ...args: number[]) => judge(filter, { nr, audit: ARM, args });
  for (const nr of [221, 281, 198, 200, 201, 425, 117, 271, 438, 130, 45, 52, 53, 54, 88, 5]) {
    assertEquals(said(nr), DENIED, `${nr}`);
  }
  for (const nr of [63, 64, 56, 222, 220, 435, 98, 59, 42]) assertEquals(said(nr), ALLOWED, `${nr}`);
  assertEquals([said(129, 12), said(129, 13), said(131, 12), said(131, 13)], [
    ALLOWED,
    DENIED,
    ALLOWED,
    DENIED,
  ]);
  assertEquals([said(29, 0, 0x5412), said(29, 0, 0x5401), said(199, 1, 2), said(199, 1, 1)], [
    ...[DENIED, ALLOWED, DENIED, ALLOWED],
  ]);
  assertEquals(judge(filter, { nr: 221, audit: X86 }), KILLED);
});
