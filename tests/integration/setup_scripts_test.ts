// The set-up scripts on a machine that has nothing: a fresh home, no Deno on PATH. What fails says so in a sentence.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { inTemp } from "../ffi/libraries/fake_libtorch.ts";
import { assertSentence } from "../sentences.ts";

interface Machine {
  folder: string;
  env: Record<string, string>;
}

// pip's own settings and the certificates say how this site reaches its package index; all else is left behind.
const KEPT = /^(PIP_|SSL_CERT|NODE_EXTRA_CA|REQUESTS_CA|https?_proxy$|no_proxy$|DENORT_BIN$)/i;

/** A checkout with a program that is quick to build, and a home with nothing in it. */
async function freshMachine(folder: string, hidden: string[] = ["deno"]): Promise<Machine> {
  await copy("scripts", join(folder, "checkout/scripts"));
  await Deno.writeTextFile(join(folder, "checkout/main.ts"), 'console.log("ran with", Deno.args.join(" "));');
  await Deno.writeTextFile(join(folder, "checkout/deno.json"), "{}");
  const env = Object.fromEntries(Object.entries(Deno.env.toObject()).filter(([name]) => KEPT.test(name)));
  const path = (Deno.env.get("PATH") ?? "").split(":").filter((dir) =>
    !hidden.some((name) => has(dir, name))
  );
  await Deno.mkdir(join(folder, "bin"));
  return {
    folder,
    env: { ...env, HOME: join(folder, "home"), PATH: [join(folder, "bin"), ...path].join(":") },
  };
}

function has(dir: string, name: string): boolean {
  try {
    return Deno.statSync(join(dir, name)).isFile;
  } catch {
    return false;
  }
}

async function copy(from: string, to: string): Promise<void> {
  await Deno.mkdir(to, { recursive: true });
  for await (const entry of Deno.readDir(from)) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory) await copy(source, target);
    else await Deno.copyFile(source, target);
  }
}

async function program(machine: Machine, name: string, body: string): Promise<void> {
  await Deno.writeTextFile(join(machine.folder, "bin", name), `#!/bin/bash\n${body}\n`, { mode: 0o755 });
}

function start({ folder, env }: Machine, args: string[]): Deno.ChildProcess {
  const script = join(folder, "checkout/scripts/hpctrain");
  const options = { args, env, clearEnv: true, stdin: "null", stdout: "piped", stderr: "piped" } as const;
  return new Deno.Command(script, options).spawn();
}

async function run(machine: Machine, ...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const { code, stdout, stderr } = await start(machine, args).output();
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

const cached = (machine: Machine) => {
  try {
    return [...Deno.readDirSync(join(machine.folder, "home/.cache/hpctrain"))]
      .map((entry) => entry.name).filter((name) => !name.startsWith(".lock")).sort();
  } catch {
    return [];
  }
};

// pip fetching a small package is the one sure sign that a package index can be reached from here.
const index = await (async () => {
  const dest = await Deno.makeTempDir();
  const args = [
    "-m",
    "pip",
    "download",
    "--quiet",
    "--no-deps",
    "--retries=0",
    "--dest",
    dest,
    "filelock==3.20.0",
  ];
  const { success } = await new Deno.Command("python3", { args, stdout: "null", stderr: "null" }).output();
  await Deno.remove(dest, { recursive: true });
  return success;
})();

Deno.test({
  name:
    "from nothing: killed once, then two at once set up and run, and later runs download nothing (needs a package index)",
  ignore: !index,
  fn: () =>
    inTemp(async (folder) => {
      const machine = await freshMachine(folder);
      const killed = start(machine, ["--help"]);
      const reader = killed.stderr.getReader();
      assertMatch(new TextDecoder().decode((await reader.read()).value), /Downloading Deno/);
      killed.kill("SIGKILL");
      await Promise.all([killed.status, killed.stdout.cancel(), reader.cancel()]);
      assertEquals(cached(machine).filter((name) => !name.startsWith(".partial")), []);

      const both = await Promise.all([run(machine, "--help"), run(machine, "config", "a b")]);
      assertEquals(
        both.map((b) => [b.code, b.out]),
        [[0, "ran with --help\n"], [0, "ran with config a b\n"]],
        both[0].err,
      );
      assertEquals(cached(machine).filter((name) => name.startsWith(".partial")), []);

      await program(machine, "python3", "exit 1");
      assertEquals(await run(machine, "--help"), { code: 0, out: "ran with --help\n", err: "" });

      await new Promise((resolve) => setTimeout(resolve, 20)); // a file's time must move on
      await Deno.writeTextFile(join(folder, "checkout/main.ts"), 'console.log("rebuilt");');
      const again = await run(machine, "--help");
      assertEquals([again.out, again.err], ["rebuilt\n", "Building dist/hpctrain.\n"]);

      await Deno.writeTextFile(join(folder, "checkout/main.ts"), "import './missing.ts';");
      const broken = await run(machine, "--help");
      assertEquals(broken.code, 7);
      assertStringIncludes(broken.err, "could not be built; the reason is above");
    }),
});

Deno.test({
  name: "a wheel that is not the pinned one is refused (needs a package index)",
  ignore: !index,
  fn: () =>
    inTemp(async (folder) => {
      const machine = await freshMachine(folder);
      const pins = join(folder, "checkout/scripts/pins/deno.txt");
      await Deno.writeTextFile(
        pins,
        (await Deno.readTextFile(pins)).replaceAll(/sha256:\w{4}/g, "sha256:0000"),
      );
      const { code, err } = await run(machine, "--help");
      assertEquals([code, cached(machine)], [7, []]);
      assertSentence("integration/setup_scripts: deno could downloaded", err);
    }),
});

const refusals: [name: string, spoil: (machine: Machine) => Promise<void> | void, sentence: RegExp][] = [
  [
    "an unsupported architecture",
    (m) => program(m, "uname", "case $1 in -s) echo Linux;; *) echo riscv64;; esac"),
    /x86_64 or aarch64; this machine is Linux on riscv64/,
  ],
  [
    "an old glibc",
    (m) => program(m, "getconf", "echo glibc 2.17"),
    /glibc 2\.28 or newer.*this system has 2\.17/,
  ],
  ["another C library", (m) => program(m, "getconf", "exit 1"), /this system has another C library/],
  ["a Python without pip", (m) => program(m, "python3", "exit 1"), /python3 has no pip.*ensurepip/],
  [
    "a full disk",
    (m) => program(m, "df", "printf 'h\\nd 1 1 20 1 /\\n'"),
    /350 MB are needed in .* and 20 MB are free/,
  ],
  [
    "an unwritable cache",
    (m) => void (m.env.HPCTRAIN_CACHE = "/dev/null/cache"),
    /\/dev\/null\/cache can't be made.*HPCTRAIN_CACHE/,
  ],
  ["an index that can't be reached", (m) => {
    for (const name of Object.keys(m.env)) if (/^(PIP_|https?_proxy)/i.test(name)) delete m.env[name];
    Object.assign(m.env, {
      PIP_CONFIG_FILE: "/dev/null",
      PIP_INDEX_URL: "http://127.0.0.1:9/",
      PIP_RETRIES: "0",
    });
  }, /Deno 2\.6\.10 could not be downloaded: the package index can't be reached/],
];
for (const [name, spoil, sentence] of refusals) {
  Deno.test(`set-up on a machine with ${name} ends with a sentence and nothing half-made`, () =>
    inTemp(async (folder) => {
      const machine = await freshMachine(folder);
      await spoil(machine);
      const { code, out, err } = await run(machine, "--help");
      assertEquals([code, out, cached(machine)], [7, "", []], err);
      assertMatch(err, sentence);
      assert(err.trim().split("\n").length <= 2, err);
    }));
}

Deno.test("set-up on a machine without python3 says that it is needed", () =>
  inTemp(async (folder) => {
    const machine = await freshMachine(folder);
    for (const tool of "bash dirname uname getconf sort head mkdir rm df awk find flock".split(" ")) {
      const where = machine.env.PATH.split(":").find((dir) => has(dir, tool));
      if (where) await Deno.symlink(join(where, tool), join(folder, "bin", tool));
    }
    machine.env.PATH = join(folder, "bin");
    const script = join(folder, "checkout/scripts/hpctrain");
    const { code, stderr } = await new Deno.Command(join(folder, "bin/bash"), {
      args: [script, "--help"],
      env: machine.env,
      clearEnv: true,
    }).output();
    assertEquals(code, 7);
    assertMatch(new TextDecoder().decode(stderr), /no python3 on PATH.*needed to download Deno/);
  }));
