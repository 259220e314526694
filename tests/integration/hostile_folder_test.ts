// A folder whose files are called as Python's own modules, and pip's: none of them runs where Python is started for ourselves.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { dirname, join } from "paths";
import { fakeTorch } from "../ffi/libraries/fake_libtorch.ts";
import { bareMachine, inTemp, ROOT, run } from "./program.ts";

/** Without encodings, at whose lack Python does not start. */
const MODULES = (
  "codecs hashlib importlib io json numpy os pathlib pip platform re runpy shutil site sitecustomize ssl struct " +
  "subprocess sys sysconfig tempfile torch traceback typing urllib usercustomize venv warnings zipfile"
).split(" ");

interface Place {
  /** Where the user stands. */
  readonly here: string;
  readonly home: string;
  /** Its python3 is the machine's own, but for `-m pip download`, which copies `wheel`. */
  readonly bin: string;
  readonly wheel: string;
  /** The modules that were run. */
  ran(): string;
}

/** As pyenv's program, the first on PATH may look at the folder that it is started in. */
const PYTHON = await ask("python3", ["-c", "import sys; print(sys.executable)"]);
const PATH = `${dirname(PYTHON)}:/usr/bin:/bin`;

async function ask(program: string, args: string[], cwd = "/"): Promise<string> {
  const { stdout } = await new Deno.Command(program, { args, cwd }).output();
  return new TextDecoder().decode(stdout).trim();
}

const inPlace = (body: (place: Place) => Promise<void>) =>
  inTemp(async (folder) => {
    const [here, home, bin] = ["here", "home", "bin"].map((name) => join(folder, name));
    const mark = join(folder, "ran"), wheel = join(folder, "one.whl");
    for (const name of [here, home, bin]) Deno.mkdirSync(name);
    Deno.writeTextFileSync(mark, "");
    for (const name of MODULES) {
      const body = `open(${JSON.stringify(mark)}, "a").write(${JSON.stringify(`${name} `)})\n`;
      Deno.writeTextFileSync(join(here, `${name}.py`), body);
      Deno.mkdirSync(join(here, name));
      for (const file of ["__init__.py", "__main__.py"]) Deno.writeTextFileSync(join(here, name, file), body);
    }
    Deno.writeTextFileSync(
      join(bin, "python3"),
      `#!/bin/bash\nif [[ $* != "-m pip download"* ]]; then exec ${PYTHON} "$@"; fi\n` +
        `dest="\${@: -1}"; mkdir -p "$dest"; cp ${wheel} "$dest/"\n`,
      { mode: 0o755 },
    );
    await body({ here, home, bin, wheel, ran: () => Deno.readTextFileSync(mark) });
  });

/** All ways in which the working folder can stand in PYTHONPATH, beside one that stays. */
const paths = ({ here }: Place, other: string) => ["", ".", here, `:${other}`, `${other}:${here}:./`];

const NO_INDEX = { PIP_CONFIG_FILE: "/dev/null", PIP_NO_INDEX: "1" };

Deno.test("Python that is started here runs what lies in the working folder: the test can fail", () =>
  inPlace(async ({ here, ran }) => {
    await ask(PYTHON, ["-c", "import json"], here);
    assertEquals(ran(), "json ");
  }));

for (
  const words of [
    ["libtorch", "list"],
    ["libtorch", "install"],
    ["libtorch", "install", "mpich"],
    ["doctor"],
    ["train", "--epochs=1"],
    ["find-lr"],
    ["models"],
  ]
) {
  Deno.test(`hpctrain ${words.join(" ")} runs no module of the working folder`, () =>
    inPlace(async (place) => {
      const { here, home, ran } = place;
      const machine = { ...bareMachine(home), ...NO_INDEX, PATH, TMPDIR: home };
      for (const PYTHONPATH of paths(place, "/nowhere")) {
        const { stderr } = await run(words, { cwd: here, env: { ...machine, PYTHONPATH } });
        assertEquals(ran(), "", `with PYTHONPATH="${PYTHONPATH}"`);
        if (words[1] === "install") assertMatch(stderr, /No matching distribution found for (torch|mpich)/); // pip has run
      }
      assertEquals([...Deno.readDirSync(home)].filter(({ name }) => name.startsWith("hpctrain-python-")), []);
    }));
}

Deno.test("libtorch install unpacks with Python's own modules, and the torch of PYTHONPATH is found as before", () =>
  inPlace(async (place) => {
    const { here, home, bin, wheel, ran } = place, made = join(home, "made"), site = join(home, "site");
    fakeTorch(made, "2.15.0+cpu");
    await ask(PYTHON, ["-m", "zipfile", "-c", wheel, "torch"], made);
    const env = { ...bareMachine(home), PATH: `${bin}:${PATH}`, HPCTRAIN_CACHE: "cache" };
    const installed = await run(["libtorch", "install"], { cwd: here, env });
    assertEquals([installed.code, ran()], [0, ""], installed.stderr);
    assert(Deno.statSync(join(here, "cache/libtorch")).isDirectory); // a cache that is named from the working folder
    fakeTorch(site, "2.14.0+cpu");
    Deno.writeTextFileSync(join(site, "torch/__init__.py"), "");
    for (const PYTHONPATH of paths(place, site).slice(3)) {
      const { stdout } = await run(["libtorch", "list"], { cwd: here, env: { ...env, PYTHONPATH } });
      assertMatch(stdout, /2\.14\.0\+cpu.*python3's torch|python3's torch.*2\.14\.0\+cpu/s);
      assertEquals(ran(), "");
    }
  }));

const bash = async (script: string, { here, home }: Place, env: Record<string, string>) => {
  const { code, stdout, stderr } = await new Deno.Command("bash", {
    args: ["-euc", script],
    cwd: here,
    clearEnv: true,
    env: { HOME: home, HOSTNAME: "host", ...env },
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, stdout: text(stdout), stderr: text(stderr) };
};

Deno.test("the set-up scripts run no module of the working folder, and take PYTHONPATH's", () =>
  inPlace(async (place) => {
    const { home, bin, wheel, ran } = place, site = join(home, "site");
    Deno.mkdirSync(site);
    Deno.writeTextFileSync(join(site, "of_the_site.py"), "print('found')\n");
    const setup = `source ${ROOT}scripts/lib/setup.sh; mkdir -p "$CACHE"`;
    const ways =
      `own_python python3 -c 'import json, zipfile, of_the_site'; own_python python3 - <<<'import json, re, of_the_site'; ` +
      `own_python python3 -m of_the_site; own_python python3 -m pip --version; own_python python3 -m venv --without-pip "$CACHE/v"`;
    for (const PYTHONPATH of paths(place, site).slice(3)) {
      const { code, stdout, stderr } = await bash(`${setup}; ${ways}`, place, { PATH, PYTHONPATH });
      assertEquals([code, ran()], [0, ""], stderr);
      assertMatch(stdout, /^found\nfound\nfound\npip /);
    }
    // A whole set-up: pip's answer is given, and all else is the machine's.
    Deno.mkdirSync(join(home, "deno-2.6.10.data/scripts"), { recursive: true });
    Deno.writeTextFileSync(join(home, "deno-2.6.10.data/scripts/deno"), "#!/bin/sh\necho deno 2.6.10\n");
    await ask(PYTHON, ["-m", "zipfile", "-c", wheel, "deno-2.6.10.data"], home);
    const deno = await bash(
      `${setup}; source ${ROOT}scripts/lib/deno.sh; ensure_deno; "$DENO"; ls "$CACHE"`,
      place,
      { PATH: `${bin}:${PATH}`, HPCTRAIN_CACHE: "cache" },
    );
    assertEquals([deno.code, ran()], [0, ""], deno.stderr);
    assertEquals(deno.stdout, "deno 2.6.10\ndeno-2.6.10\n");
  }));

Deno.test("no script starts Python but through own_python, and the program through ownPython alone", () => {
  const starts = /("?\$\{?(python|name|1|2|HPCTRAIN_\w*PYTHON)\}?"?|\bpython3?) (-c|-m|-) /;
  for (const file of [...filesBelow("scripts"), ...filesBelow("scripts/lib")]) {
    const lines = Deno.readTextFileSync(join(ROOT, file)).split("\n").filter((line) =>
      !/^\s*(#|fail|say)/.test(line)
    );
    const own = file === "scripts/lib/setup.sh" ? lines.filter((line) => !/ensurepip/.test(line)) : lines;
    assertEquals(own.filter((line) => starts.test(line) && !/own_python /.test(line)), [], file);
  }
  const code = ["commands", "core", "extensions", "ffi"].flatMap(sources);
  const naming = code.filter((file) => /Deno\.Command\([^;]*python3/s.test(Deno.readTextFileSync(file)));
  assertEquals(naming.filter((file) => !file.endsWith("ffi/libraries/python.ts")), []);
});

const filesBelow = (folder: string): string[] =>
  [...Deno.readDirSync(join(ROOT, folder))].filter(({ name, isFile }) => isFile && !/\.(ts|json)$/.test(name))
    .map(({ name }) => join(folder, name));

const sources = (folder: string): string[] =>
  [...Deno.readDirSync(join(ROOT, folder))].flatMap(({ name, isDirectory }) =>
    isDirectory ? sources(join(folder, name)) : name.endsWith(".ts") ? [join(ROOT, folder, name)] : []
  );
