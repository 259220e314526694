// `--sandbox`, with real processes: what a stranger's code tries is refused in every thread, and a run that tries nothing
// has the bits that it has without.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { findTensors } from "../../core/checkpoint/named_tensors.ts";
import { tensorBytes } from "../../core/checkpoint/value.ts";
import { landlockVersion } from "../../ffi/sandbox.ts";
import {
  COMMAND,
  environment,
  filesIn,
  finish,
  inTemp,
  type Options,
  ROOT,
  run,
  succeed,
  TINY,
} from "./program.ts";
import { assertSentence } from "../sentences.ts";

const NONE = landlockVersion() === 0;
const NEEDS = "(needs a kernel with Landlock)";
const confined = (name: string, fn: () => Promise<void>) =>
  Deno.test({ name: NONE ? `${name} ${NEEDS}` : name, ignore: NONE, fn });

/** What a stranger's file might try: each is "done" where nothing keeps it, by Deno's functions or by the C library's. */
const ATTEMPTS = `
const libc = Deno.dlopen("libc.so.6", {
  system: { parameters: ["buffer"], result: "i32" },
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  socketpair: { parameters: ["i32", "i32", "i32", "buffer"], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  syscall: { parameters: ["i64", "i64", "buffer"], result: "i64" },
  open: { parameters: ["buffer", "i32", "i32"], result: "i32" },
}).symbols;
const text = (s) => new TextEncoder().encode(s + "\\0");
const fails = (code) => { if (Number(code) !== 0 && !(Number(code) > 0)) throw new Error("refused"); };

export function attempts(who, outside) {
  const mine = outside + "/" + who, victim = outside + "/" + who + ".victim";
  const tries = {
    writes: () => Deno.writeTextFileSync(mine, "x"),
    opens: () => fails(libc.open(text(mine + ".c"), 0o101, 0o600)),
    changes: () => Deno.writeTextFileSync(victim, "x"),
    truncates: () => Deno.truncateSync(victim, 1),
    chmods: () => Deno.chmodSync(victim, 0o600),
    touches: () => Deno.utimeSync(victim, 1, 1),
    "makes a folder": () => Deno.mkdirSync(mine + ".folder"),
    symlinks: () => Deno.symlinkSync("/etc/passwd", mine + ".symlink"),
    "links it inside": () => Deno.linkSync(victim, "logs/" + who + ".link"),
    "moves it inside": () => Deno.renameSync(victim, "logs/" + who + ".moved"),
    removes: () => Deno.removeSync(victim),
    "starts true": () => { if (!new Deno.Command("/bin/true").outputSync().success) throw new Error("refused"); },
    "starts this program": () => { new Deno.Command(Deno.execPath(), { args: ["--version"] }).outputSync(); },
    "starts a shell": () => { if (libc.system(text("touch " + mine + ".shell")) !== 0) throw new Error("refused"); },
    tcp: () => fails(libc.socket(2, 1, 0)),
    udp: () => fails(libc.socket(2, 2, 0)),
    "udp by IPv6": () => fails(libc.socket(10, 2, 0)),
    "a service of this machine": () => {
      const at = outside + "/../service", address = new Uint8Array(110);
      new DataView(address.buffer).setUint16(0, 1, true);
      address.set(text(at), 2);
      fails(libc.connect(libc.socket(1, 1, 0), address, address.length));
    },
    "unix datagrams": () => fails(libc.socket(1, 2, 0)),
    "datagram pair": () => fails(libc.socketpair(1, 2, 0, new Int32Array(2))),
    listens: () => Deno.listen({ hostname: "127.0.0.1", port: 0 }).close(),
    "signals another": () => Deno.kill(Deno.ppid, "SIGCONT"),
    "writes to the run": () => Deno.writeTextFileSync("logs/" + who, "x"),
    "writes a temporary file": () => Deno.removeSync(Deno.makeTempFileSync()),
    "reads another's file": () => Deno.readTextFileSync("/etc/passwd"),
    // The thread may end meanwhile, so it is the first one.
    "names a thread": () => Deno.writeTextFileSync("/proc/self/task/" + Deno.pid + "/comm", "named"),
    "writes to another process": () => {
      const at = "/proc/" + Deno.ppid + "/oom_score_adj";
      Deno.writeTextFileSync(at, Deno.readTextFileSync(at));
    },
  };
  const found = {};
  for (const [name, attempt] of Object.entries(tries)) {
    try {
      if (["changes", "links it inside"].includes(name)) Deno.statSync(victim);
      attempt();
      found[name] = "done";
    } catch (error) {
      found[name] = /refused|denied|not permitted|EACCES|Cross-device|EXDEV|os error (1|13|18)\\b|Requires/i.test(error.message)
        ? "refused" : "broken: " + error.message;
    }
  }
  const threads = [...Deno.readDirSync("/proc/self/task")].map(({ name }) =>
    Deno.readTextFileSync("/proc/self/task/" + name + "/status"));
  if (threads.length < 3) throw new Error("too few threads to judge by");
  found["has a free thread"] = threads.every((status) => /^Seccomp:\\s*2$/m.test(status)) ? "refused" : "done";
  Deno.writeTextFileSync("logs/" + who + ".json", JSON.stringify(found));
}
`;

const MODEL = `
import { attempts } from "./attempts.ts";
attempts("model", ${"OUTSIDE"});
export default function ({ nn, outputs, facts }) {
  class Net extends nn.Module {
    out = this.child("out", new nn.Linear(facts.input.shape[0], outputs));
    forward(x) { return this.out.forward(x); }
  }
  return new Net();
}
`;

const DATA = `
import { attempts } from "./attempts.ts";
const thread = typeof WorkerGlobalScope !== "undefined" && self instanceof WorkerGlobalScope;
export default function ({ tensor }) {
  let tried = !thread;
  const part = (length) => ({
    length,
    batch(ids) {
      if (!tried) {
        tried = true;
        try {
          Deno.mkdirSync("logs/claimed"); // one of the threads does it
          attempts("thread", ${"OUTSIDE"});
        } catch (error) {
          if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
        }
      }
      const input = new Float32Array(3 * ids.length), target = new Float32Array(ids.length);
      ids.forEach((id, i) => { input.set([id % 5, id % 7, 1], 3 * i); target[i] = id % 3; });
      return { input: tensor(input, [ids.length, 3]), target: tensor(target, [ids.length, 1]) };
    },
  });
  return { task: "regression", outputs: 1, train: part(64), val: part(16) };
}
`;

/** A folder with a stranger's files; what they try to change lies beside it. */
async function withStranger(test: (cwd: string, outside: string) => Promise<void>): Promise<void> {
  await inTemp(async (top) => {
    const cwd = join(top, "run"), outside = join(top, "outside");
    for (const folder of [cwd, outside, join(cwd, "logs")]) Deno.mkdirSync(folder);
    for (const who of ["model", "thread"]) Deno.writeTextFileSync(join(outside, `${who}.victim`), "theirs");
    Deno.writeTextFileSync(join(cwd, "attempts.ts"), ATTEMPTS);
    for (const [name, source] of [["model.ts", MODEL], ["data.ts", DATA]]) {
      Deno.writeTextFileSync(join(cwd, name), source.replace("OUTSIDE", JSON.stringify(outside)));
    }
    using _service = Deno.listen({ transport: "unix", path: join(top, "service") });
    await test(cwd, outside);
  });
}

const STRANGE = [
  ...TINY,
  "--model=model.ts",
  "--data=data.ts",
  "--num-workers=2",
  "--loss=mse",
  "--run-name=r",
];
const foundBy = (cwd: string, who: string): Record<string, string> =>
  JSON.parse(Deno.readTextFileSync(join(cwd, "logs", `${who}.json`)));
const ALLOWED = ["writes to the run", "writes a temporary file", "reads another's file", "names a thread"];

Deno.test("without --sandbox a stranger's code does all that it tries, so each attempt is a real one", () =>
  withStranger(async (cwd) => {
    await succeed(STRANGE, { cwd });
    for (const who of ["model", "thread"]) {
      const found = foundBy(cwd, who);
      assertEquals(Object.entries(found).filter(([, how]) => how !== "done"), [
        ["removes", found.removes], // it was moved before
      ], who);
    }
  }));

confined(
  "--sandbox refuses programs, sockets and writes elsewhere in all threads, and lets the run do its own",
  () =>
    withStranger(async (cwd, outside) => {
      await succeed(["--sandbox", ...STRANGE], { cwd });
      for (const who of ["model", "thread"]) {
        const found = foundBy(cwd, who);
        const done = Object.entries(found).filter(([, how]) => how !== "refused").map((
          [name, how],
        ) => [name, how]);
        assertEquals(done, ALLOWED.map((name) => [name, "done"]), who);
      }
      assertEquals(filesIn(outside), ["model.victim", "thread.victim"]);
      assertEquals(Deno.readTextFileSync(join(outside, "model.victim")), "theirs");
      assert(filesIn(cwd).includes("checkpoints/r_latest.pt"));
    }),
);

/** A kernel without Landlock, as it answers: the system call is not there. The program is run under this one. */
const WITHOUT = `
import { filterBytes, refuseCalls } from "${ROOT}ffi/sandbox.ts";
const LOAD = 0x20, EQUAL = 0x15, RETURN = 0x06;
const lines = [[LOAD, 0, 0, 0], [EQUAL, 444, 0, 1], [RETURN, 0x00050000 | 38, 0, 0], [RETURN, 0x7fff0000, 0, 0]];
const bytes = new Uint8Array(8 * lines.length), view = new DataView(bytes.buffer);
lines.forEach(([code, value, yes, no], i) => {
  view.setUint16(8 * i, code, true);
  view.setUint8(8 * i + 2, yes);
  view.setUint8(8 * i + 3, no);
  view.setUint32(8 * i + 4, value, true);
});
refuseCalls(bytes);
const [program, ...args] = Deno.args;
Deno.exit((await new Deno.Command(program, { args }).output().then(async (end) => {
  await Deno.stdout.write(end.stdout);
  await Deno.stderr.write(end.stderr);
  return end;
})).code);
`;

Deno.test("where the kernel has no Landlock a line says what is not kept, and programs and sockets are refused all the same", () =>
  withStranger(async (cwd) => {
    const file = join(cwd, "without.ts");
    Deno.writeTextFileSync(file, WITHOUT);
    const through = [Deno.execPath(), "run", "--quiet", "--allow-all", "--no-check", file];
    const { stderr } = await succeed(["--sandbox", ...STRANGE], { cwd, through });
    assertMatch(
      stderr,
      /^hpctrain: --sandbox: this kernel has no Landlock .* nothing keeps a file's code from writing/m,
    );
    for (const who of ["model", "thread"]) {
      const found = foundBy(cwd, who);
      const done = Object.keys(found).filter((name) => found[name] === "done");
      assert(done.includes("writes"), who);
      for (
        const name of [
          "starts true",
          "starts a shell",
          "tcp",
          "udp",
          "a service of this machine",
          "unix datagrams",
          "listens",
          "signals another",
          "has a free thread",
        ]
      ) {
        assertEquals(found[name], "refused", `${who}: ${name}`);
      }
    }
  }));

function weightsOf(path: string): [string, string][] {
  using file = openCheckpoint(path);
  return findTensors(file.root, path).map(({ name, tensor }) => [name, tensorBytes(tensor).toHex()]);
}

confined(
  "a run with --sandbox ends with the bits of one without, and its files are judged, written and read with it too",
  () =>
    inTemp(async (cwd) => {
      const flags = [...TINY, "--data-type=synthetic", "--epochs=2", "--lr=0.01", "--num-workers=2"];
      await succeed([...flags, "--run-name=free"], { cwd });
      const { stdout } = await succeed(["--sandbox", ...flags, "--run-name=kept"], { cwd });
      const [free, kept] = ["free", "kept"].map((name) =>
        weightsOf(join(cwd, `checkpoints/${name}_latest.pt`))
      );
      assertEquals(kept, free);
      assertMatch(stdout, /^ {2}train on .* --sandbox /m);
      const path = "checkpoints/kept_best.pt";
      const judged = async (...more: string[]) =>
        JSON.parse((await succeed(["eval", path, "--threads=1", "--json", ...more], { cwd })).stdout).metrics;
      assertEquals(await judged("--sandbox"), await judged());
      await succeed(["predict", path, "--out=out/answers.npz", "--threads=1", "--sandbox"], { cwd });
      await succeed(["export", path, "weights/w.safetensors", "--sandbox"], { cwd });
      await succeed(["convert", "weights/w.safetensors", "weights/w.pt", "--sandbox"], { cwd });
      await succeed(["convert", "weights/w.pt", "shards", "--shards=2", "--sandbox"], { cwd });
      await succeed(["inspect", "shards", "--verify", "--sandbox"], { cwd });
      await succeed([
        "pack",
        "out/answers.npz",
        "packed",
        "--data-type=npz",
        "--features=prediction",
        "--targets=target",
        "--sandbox",
      ], { cwd });
      await succeed([...flags, "--sandbox", "--run-name=more", `--init-from=${path}`], { cwd });
    }),
);

const REFUSED: Record<string, [string[], RegExp]> = {
  "several ranks": [["--world-size=2", "--rank=0", "--local-rank=0"], /goes without other ranks/],
  "several nodes": [["--nodes=2"], /goes without other ranks/],
  "uploading to W&B": [["--wandb-online"], /goes without the network, and --wandb-online uploads/],
  "data in Python": [["--data=d.py"], /goes without a data set in Python/],
  "data on a server": [
    ["--data-path=https://example.org/x.zarr"],
    /goes without the network, and https:\/\/example\.org/,
  ],
  "a command for events": [["--on-event=cat"], /goes without other programs, and --on-event starts one/],
  "data copied elsewhere": [
    ["--data-path=x", "--stage=/scratch"],
    /goes without a copy of the data elsewhere/,
  ],
};

for (const [what, [flags, sentence]] of Object.entries(REFUSED)) {
  Deno.test(`--sandbox refuses ${what} by name, before anything is written`, () =>
    inTemp(async (cwd) => {
      const { code, stderr } = await run(["--sandbox", ...TINY, ...flags], { cwd });
      assertEquals(code, 2, stderr);
      assertMatch(stderr, sentence);
      assertEquals(filesIn(cwd), []);
    }));
}

Deno.test("launch and other commands say which commands --sandbox is for, and launched ranks refuse it", () =>
  inTemp(async (cwd) => {
    for (const argv of [["launch", "-n", "2", "--sandbox", "--", ...TINY], ["report", "r", "--sandbox"]]) {
      const { code, stderr } = await run(argv, { cwd });
      assertEquals(code, 2, stderr);
      assertSentence("integration/sandbox: sandbox commands read", stderr);
    }
    const { code, stderr } = await run(["launch", "-n", "2", "--", "--sandbox", ...TINY], { cwd });
    assertEquals(code, 2, stderr);
    assertStringIncludes(stderr, "goes without other ranks");
  }));

confined(
  "what the sandbox refused is a sentence with the places that it leaves, and a home is no such place",
  () =>
    inTemp(async (cwd) => {
      const strange = 'Deno.writeTextFileSync("elsewhere", "x");\nexport default () => null;\n';
      Deno.writeTextFileSync(join(cwd, "model.ts"), strange);
      const { code, stderr } = await run(["--sandbox", ...TINY, "--model=model.ts"], { cwd });
      assertEquals(code, 2, stderr);
      assertMatch(stderr, /model\.ts:1:\d+: .*elsewhere/);
      const [, places] = /--sandbox: nothing is written but below (.*); no program/.exec(stderr) ?? [];
      assertStringIncludes(places, `${cwd}/checkpoints, ${cwd}/logs, `);
      await succeed([...TINY, "--data-type=synthetic", "--run-name=r"], { cwd });
      const home = join(cwd, "home/of/mine");
      Deno.mkdirSync(home, { recursive: true });
      for (
        const out of ["w.safetensors", "home/w.safetensors", "home/of/mine/w.safetensors", "/w.safetensors"]
      ) {
        const { code, stderr } = await run(["convert", "checkpoints/r_latest.pt", out, "--sandbox"], {
          cwd,
          env: { HOME: home },
        });
        assertEquals(code, 2, stderr);
        assertStringIncludes(stderr, "which holds your home: name a folder of its own");
      }
      await succeed(["convert", "checkpoints/r_latest.pt", "home/of/mine/out/w.pt", "--sandbox"], {
        cwd,
        env: { HOME: home },
      });
    }),
);

confined(
  "--sandbox leaves no temporary folder behind, and Ctrl-C ends a confined run as any other",
  () =>
    inTemp(async (cwd) => {
      const TMPDIR = join(cwd, "tmp");
      Deno.mkdirSync(TMPDIR);
      const options: Options = { cwd, env: { TMPDIR } };
      await succeed(["--sandbox", ...TINY, "--data-type=synthetic", "--run-name=r"], options);
      assertEquals(filesIn(TMPDIR), []);
      const [program, ...args] = COMMAND;
      const child = new Deno.Command(program, {
        args: [...args, "--sandbox", ...TINY, "--data-type=synthetic", "--epochs=1000000", "--run-name=s"],
        ...{
          cwd,
          env: environment({ TMPDIR }),
          clearEnv: true,
          stdin: "null",
          stdout: "piped",
          stderr: "piped",
        },
      }).spawn();
      const end = finish(child);
      while (!filesIn(cwd).includes("checkpoints/s_latest.pt")) await new Promise((r) => setTimeout(r, 50));
      child.kill("SIGINT");
      assertEquals((await end).code, 75);
    }),
);
