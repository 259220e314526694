// Confines this process for good, by the kernel: Landlock keeps writes to some folders, and a filter of system
// calls (seccomp) refuses programs, sockets and what reaches other processes. Neither can be taken back, and all that
// the process starts has both.

const SYMBOLS = {
  __errno_location: { parameters: [], result: "pointer" },
  execve: { parameters: ["buffer", "buffer", "buffer"], result: "i32" },
  open: { parameters: ["buffer", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  prctl: { parameters: ["i32", "u64", "u64", "u64", "u64"], result: "i32" },
  createRuleset: { name: "syscall", parameters: ["i64", "buffer", "usize", "u32"], result: "i64" },
  addRule: { name: "syscall", parameters: ["i64", "i32", "u32", "buffer", "u32"], result: "i64" },
  restrictSelf: { name: "syscall", parameters: ["i64", "i32", "u32"], result: "i64" },
  seccomp: { name: "syscall", parameters: ["i64", "u32", "u32", "buffer"], result: "i64" },
} as const;

let libc: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | undefined;
const native = () => libc ??= Deno.dlopen("libc.so.6", SYMBOLS).symbols;

/** Places that a confined process may use. */
interface SandboxPaths {
  /** It may do all but link into them from elsewhere. */
  readonly folders: readonly string[];
  /** It may write to these files and devices. */
  readonly files: readonly string[];
  /** It may start these, to start itself again. */
  readonly programs: readonly string[];
}

// The same numbers on both architectures.
const CREATE_RULESET = 444n, ADD_RULE = 445n, RESTRICT_SELF = 446n;
const ASK_VERSION = 1, PATH_BENEATH = 1;
const O_PATH = 0o10000000, O_CLOEXEC = 0o2000000;
/** A CUDA driver names its threads here, and does not start where it may not; nothing of another process lies below. */
const OWN_THREADS = "/proc/self/task";
const NO_NEW_PRIVS = 38;

const EXECUTE = 1n << 0n, WRITE_FILE = 1n << 1n, TRUNCATE = 1n << 14n, IOCTL_DEVICE = 1n << 15n;
const REMOVE_FOLDER = 1n << 4n, REMOVE_FILE = 1n << 5n, MAKE_FOLDER = 1n << 7n, MAKE_FILE = 1n << 8n;
const MAKE_LINK = 1n << 12n, REFER = 1n << 13n;
/** Devices, sockets and pipes are made nowhere. */
const MAKE_OTHERS = 1n << 6n | 1n << 9n | 1n << 10n | 1n << 11n;
const BIND_TCP = 1n << 0n, CONNECT_TCP = 1n << 1n;

const IN_FOLDER = WRITE_FILE | TRUNCATE | REMOVE_FOLDER | REMOVE_FILE | MAKE_FOLDER | MAKE_FILE | MAKE_LINK |
  REFER;
const IN_FILE = WRITE_FILE | TRUNCATE | IOCTL_DEVICE;

/** The version of the kernel's Landlock; 0 where it has none, or where it was not turned on. */
export const landlockVersion = (): number =>
  Math.max(0, Number(native().createRuleset(CREATE_RULESET, null, 0n, ASK_VERSION)));

/** An older version is not asked for what it does not know. */
export function handledRights(version: number): { readonly files: bigint; readonly network: bigint } {
  let files = EXECUTE | WRITE_FILE | REMOVE_FOLDER | REMOVE_FILE | MAKE_FOLDER | MAKE_FILE | MAKE_LINK |
    MAKE_OTHERS;
  if (version >= 2) files |= REFER;
  if (version >= 3) files |= TRUNCATE;
  if (version >= 5) files |= IOCTL_DEVICE;
  return { files, network: version >= 4 ? BIND_TCP | CONNECT_TCP : 0n };
}

/** struct landlock_ruleset_attr, as long as the version knows it. */
export function rulesetBytes(version: number): Uint8Array<ArrayBuffer> {
  const { files, network } = handledRights(version);
  return new Uint8Array(BigUint64Array.from(version >= 4 ? [files, network] : [files]).buffer);
}

/** struct landlock_path_beneath_attr, which is packed. */
export function ruleBytes(rights: bigint, descriptor: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(12), view = new DataView(bytes.buffer);
  view.setBigUint64(0, rights, true);
  view.setInt32(8, descriptor, true);
  return bytes;
}

/** Confines this thread, and the threads and programs that it starts from here on. A missing place is left out. */
function confineThread(version: number, { folders, files, programs }: SandboxPaths): void {
  const { createRuleset, addRule, restrictSelf, prctl, open, close } = native();
  const bytes = rulesetBytes(version), known = handledRights(version).files;
  const ruleset = Number(createRuleset(CREATE_RULESET, bytes, BigInt(bytes.length), 0));
  if (ruleset < 0) throw refusedCall("landlock_create_ruleset");
  const allow = (path: string, rights: bigint, flags = O_CLOEXEC) => {
    const descriptor = open(cString(path), O_PATH | flags);
    if (descriptor < 0) return;
    const done = addRule(ADD_RULE, ruleset, PATH_BENEATH, ruleBytes(rights & known, descriptor), 0);
    if (done < 0n) throw refusedCall(`landlock_add_rule of ${path}`);
    if (flags === O_CLOEXEC) close(descriptor);
  };
  for (const path of folders) allow(path, IN_FOLDER);
  for (const path of files) allow(path, IN_FILE);
  for (const path of programs) allow(path, EXECUTE);
  // It stays open: the kernel may forget a folder of /proc that nobody has open, and the rule with it.
  allow(OWN_THREADS, WRITE_FILE | TRUNCATE, 0);
  if (prctl(NO_NEW_PRIVS, 1n, 0n, 0n, 0n) < 0) throw refusedCall("prctl");
  if (restrictSelf(RESTRICT_SELF, ruleset, 0) < 0n) throw refusedCall("landlock_restrict_self");
  close(ruleset);
}

/**
 * Other threads of this process would stay free, so the program starts again from its first instruction, in the same
 * process: then it is confined before it has a second thread. Returns only by an exception.
 */
export function startAgainConfined(
  places: SandboxPaths,
  words: readonly string[],
  env: Readonly<Record<string, string>>,
): never {
  confineThread(landlockVersion(), places);
  const texts = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const [argv, environment] = [words, texts].map(cStrings);
  native().execve(cString(places.programs[0]), argv.pointers, environment.pointers);
  throw refusedCall("execve");
}

/** The program that loads this one, as the kernel starts it first. */
export function loaderOf(maps: string): string[] {
  return [...new Set(maps.match(/\/\S*\/ld-(linux\S*|[\d.]+)\.so(\.\d+)?$/gm) ?? [])];
}

/** Numbers of x86-64 and aarch64; -1 where there is no such call. */
const REFUSED: Readonly<Record<string, readonly [number, number]>> = {
  // programs
  execve: [59, 221],
  execveat: [322, 281],
  // the network, and sockets of other programs on this machine
  bind: [49, 200],
  listen: [50, 201],
  io_uring_setup: [425, 425], // its queue would get round this filter
  // other processes
  ptrace: [101, 117],
  process_vm_writev: [311, 271],
  pidfd_getfd: [438, 438],
  pidfd_send_signal: [424, 424],
  tkill: [200, 130],
  rt_sigqueueinfo: [129, 138],
  rt_tgsigqueueinfo: [297, 240],
  // files by path, which Landlock can't or which its first versions could not refuse
  truncate: [76, 45],
  chmod: [90, -1],
  fchmod: [91, 52],
  fchmodat: [268, 53],
  fchmodat2: [452, 452],
  chown: [92, -1],
  fchown: [93, 55],
  lchown: [94, -1],
  fchownat: [260, 54],
  utime: [132, -1],
  utimes: [235, -1],
  futimesat: [261, -1],
  utimensat: [280, 88],
  setxattr: [188, 5],
  lsetxattr: [189, 6],
  fsetxattr: [190, 7],
  removexattr: [197, 14],
  lremovexattr: [198, 15],
  fremovexattr: [199, 16],
  setxattrat: [463, 463],
  removexattrat: [466, 466],
};

/** Calls that are refused with some arguments only. */
const WATCHED = {
  ioctl: [16, 29],
  kill: [62, 129],
  tgkill: [234, 131],
  socket: [41, 198],
  socketpair: [53, 199],
} as const;
/** A CUDA driver looks so for a server that shares GPUs, and does without where nobody answers. */
const CONNECT = [42, 203] as const;

/** AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64. */
const ARCHITECTURES: Readonly<Record<string, { readonly audit: number; readonly column: 0 | 1 }>> = {
  x86_64: { audit: 0xc000003e, column: 0 },
  aarch64: { audit: 0xc00000b7, column: 1 },
};

/** The calls of x86-64 with 32-bit pointers, which are others under the same architecture. */
const X32 = 0x40000000;
/** These put words into the terminal, which the shell would run afterwards. */
const TIOCSTI = 0x5412, TIOCLINUX = 0x541c;
const AF_UNIX = 1, SOCK_STREAM = 1, SOCK_SEQPACKET = 5, SOCK_TYPE = 0xf;

// Classic BPF over struct seccomp_data: the call's number, the architecture, and the low halves of its arguments.
const LOAD = 0x20, EQUAL = 0x15, AT_LEAST = 0x35, AND = 0x54, RETURN = 0x06;
const NUMBER = 0, ARCHITECTURE = 4, FIRST = 16, SECOND = 24;
const ALLOW = 0x7fff0000, KILL = 0x80000000, FAIL = 0x00050000, EACCES = FAIL | 13, ENOENT = FAIL | 2;

type Line = readonly [code: number, value: number, then?: Target, otherwise?: Target];
type Target = "next" | "allow" | "refuse" | "nobody" | number;

/** The filter of a process with this number: its lines as the kernel takes them. */
export function filterBytes(architecture: string, pid: number): Uint8Array<ArrayBuffer> {
  const { audit, column } = ARCHITECTURES[architecture];
  const watch = (call: keyof typeof WATCHED, test: readonly Line[]): Line[] => [
    [EQUAL, WATCHED[call][column], "next", test.length],
    ...test,
  ];
  const own: Line[] = [[LOAD, FIRST], [EQUAL, pid, "allow", "refuse"]];
  const lines: Line[] = [
    [LOAD, ARCHITECTURE],
    [EQUAL, audit, 1, "next"],
    [RETURN, KILL],
    [LOAD, NUMBER],
    ...(architecture === "x86_64" ? [[AT_LEAST, X32, "refuse", "next"] as const] : []),
    ...Object.values(REFUSED).map((numbers) => numbers[column]).filter((number) => number >= 0)
      .map((number) => [EQUAL, number, "refuse", "next"] as const),
    [EQUAL, CONNECT[column], "nobody", "next"],
    ...watch("kill", own),
    ...watch("tgkill", own),
    ...watch("ioctl", [
      [LOAD, SECOND],
      [EQUAL, TIOCSTI, "refuse", "next"],
      [EQUAL, TIOCLINUX, "refuse", "allow"],
    ]),
    // A socket of this machine that has to be connected first, which it can't be, reaches nobody.
    ...watch("socket", [
      [LOAD, FIRST],
      [EQUAL, AF_UNIX, "next", "refuse"],
      [LOAD, SECOND],
      [AND, SOCK_TYPE],
      [EQUAL, SOCK_STREAM, "allow", "next"],
      [EQUAL, SOCK_SEQPACKET, "allow", "refuse"],
    ]),
    // A pair of datagram sockets could be sent to others by name.
    ...watch("socketpair", [[LOAD, SECOND], [AND, SOCK_TYPE], [EQUAL, SOCK_STREAM, "allow", "refuse"]]),
  ];
  const ends = { allow: ALLOW, refuse: EACCES, nobody: ENOENT };
  const all = [...lines, ...Object.values(ends).map((value): Line => [RETURN, value])];
  const bytes = new Uint8Array(8 * all.length), view = new DataView(bytes.buffer);
  all.forEach(([code, value, ...targets], i) => {
    const away = (target: Target = "next") =>
      typeof target === "number"
        ? target
        : target === "next"
        ? 0
        : lines.length + Object.keys(ends).indexOf(target) - i - 1;
    view.setUint16(8 * i, code, true);
    view.setUint8(8 * i + 2, away(targets[0]));
    view.setUint8(8 * i + 3, away(targets[1]));
    view.setUint32(8 * i + 4, value, true);
  });
  return bytes;
}

const SECCOMP: Readonly<Record<string, bigint>> = { x86_64: 317n, aarch64: 277n };
const SET_FILTER = 1, ALL_THREADS = 1;

/** Puts the filter on all threads of this process, those that run already too. */
export function refuseCalls(filter: Uint8Array<ArrayBuffer>): void {
  const { prctl, seccomp } = native();
  const program = new Uint8Array(16), view = new DataView(program.buffer);
  view.setUint16(0, filter.length / 8, true);
  view.setBigUint64(8, BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(filter))), true);
  if (prctl(NO_NEW_PRIVS, 1n, 0n, 0n, 0n) < 0) throw refusedCall("prctl");
  const done = seccomp(SECCOMP[Deno.build.arch], SET_FILTER, ALL_THREADS, program);
  if (done !== 0n) throw refusedCall("seccomp");
}

function refusedCall(call: string): Error {
  const number = new Deno.UnsafePointerView(native().__errno_location()!).getInt32();
  return new Error(`${call}: system error ${number}`);
}

const cString = (text: string) => new TextEncoder().encode(`${text}\0`);

/** The texts stay where they are as long as the result is kept. */
function cStrings(texts: readonly string[]) {
  const kept = texts.map(cString);
  const addresses = kept.map((text) => BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(text))));
  return { kept, pointers: new Uint8Array(BigUint64Array.from([...addresses, 0n]).buffer) };
}
