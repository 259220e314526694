// No secret that a command is given, or finds around it, comes out again: every command runs with secrets in its environment, its
// flags, ~/.netrc and the repository's remotes, and all that it prints and all files that it leaves are searched for them.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { COMMANDS } from "../../commands/mod.ts";
import { writtenBy } from "../core/data/formats/written.ts";
import { filesIn, inTemp, type Result, run, TINY } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const MARK = "canary";
const secret = (where: string): string => `${MARK}-${where}-4b1d`;

/** What sites' users have in their shells. */
const AROUND: Record<string, string> = {
  WANDB_API_KEY: secret("wandb"),
  HPCTRAIN_SECRET: secret("job").padEnd(64, "0"),
  AWS_ACCESS_KEY_ID: secret("aws-id"),
  AWS_SECRET_ACCESS_KEY: secret("aws"),
  GITHUB_TOKEN: secret("github"),
  HF_TOKEN: secret("hf"),
  PGPASSWORD: secret("pg"),
  https_proxy: `http://user:${secret("proxy")}@127.0.0.1:9`,
  HTTPS_PROXY: `http://user:${secret("proxy")}@127.0.0.1:9`,
  UNRELATED: secret("unrelated"),
  SLURM_JWT: secret("jwt"),
  SLURM_EXPORT_ENV: `ALL,UNRELATED=${secret("export")}`,
  WANDB_BASE_URL: "http://127.0.0.1:9",
  PIP_CONFIG_FILE: "/dev/null",
  PIP_INDEX_URL: `http://user:${secret("index")}@127.0.0.1:9/`,
  PIP_RETRIES: "0",
};

interface Place {
  readonly here: string;
  readonly home: string;
  /** Runs a command, and searches what it says and what lies around. */
  clean(words: string[], env?: Record<string, string>): Promise<Result>;
}

const inPlace = (body: (place: Place) => Promise<void>) =>
  inTemp(async (folder) => {
    const [here, home] = ["here", "home"].map((name) => join(folder, name));
    for (const path of [here, home, join(here, ".git")]) Deno.mkdirSync(path);
    const netrc = `machine 127.0.0.1 login user password ${secret("netrc")}\n`;
    Deno.writeTextFileSync(join(home, ".netrc"), netrc, { mode: 0o600 });
    gitRemote(
      here,
      `https://user:p@${secret("remote")}@example.org/mine.git?private_token=${secret("query")}`,
    );
    const clean = async (words: string[], env: Record<string, string> = {}) => {
      const all = { ...AROUND, HOME: home, XDG_CACHE_HOME: home, XDG_CONFIG_HOME: home, ...env };
      const result = await run(words, { cwd: here, env: all });
      const said = `${result.stdout}${result.stderr}`;
      assertEquals(linesWith(said), [], `${words.join(" ")} says`);
      assertEquals(found(here).concat(found(home)), [], `${words.join(" ")} leaves`);
      return result;
    };
    await body({ here, home, clean });
  });

function gitRemote(here: string, url: string): void {
  Deno.writeTextFileSync(join(here, ".git/HEAD"), "0123456789".repeat(4));
  Deno.writeTextFileSync(join(here, ".git/config"), `[remote "origin"]\n\turl = ${url}\n`);
}

const linesWith = (text: string): string[] =>
  text.split("\n").filter((line) => line.includes(MARK)).map((line) => line.slice(0, 300));

/** Where the secrets were put, and what the runtime keeps of packages, are left out. */
const found = (folder: string): string[] =>
  filesIn(folder).filter((name) => !/^(\.netrc$|\.git\/|deno\/)/.test(name)).flatMap((name) => {
    const text = new TextDecoder("latin1").decode(Deno.readFileSync(join(folder, name)));
    return linesWith(text).map((line) => `${name}: ${line}`);
  });

const STORE = `
import xarray as xr
a = r.normal(size=(64, 2)).astype("f4")
xr.Dataset({"a": (("time", "k"), a), "b": (("time", "j"), a[:, :1] * 2)}).to_zarr("data.zarr", zarr_format=2, consolidated=True)
`;

async function served(folder: string, use: (address: string) => Promise<void>): Promise<void> {
  const worker = new Worker(new URL("../core/data/file_server.ts", import.meta.url), {
    type: "module",
  });
  const port = await new Promise((resolve) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.postMessage(folder);
  });
  try {
    await use(`http://127.0.0.1:${port}/good`);
  } finally {
    worker.terminate();
  }
}

const RUN = [...TINY, "--model=mlp", "--run-name=r"];
/** They belong to a job, and to somebody who is told of events. */
const FLAGS = [
  `--set=cluster.env=WANDB_API_KEY=${secret("set")}`,
  `--on-event=true --token ${secret("event")} -H "Authorization: Bearer ${secret("bearer")}"`,
];

/** What each command is run with, after a training; the last line of it is enough for none to be forgotten. */
const LINES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  train: [["train", ...RUN, ...FLAGS, "--resume=auto", "--epochs=2", "--track=csv,mlflow,tensorboard"]],
  adopt: [["adopt", "--", "python3", "none.py", `--token=${secret("script")}`]],
  eval: [["eval", "checkpoints/r_latest.pt", ...FLAGS.slice(1)]],
  predict: [["predict", "checkpoints/r_latest.pt", "--out=p.npz"], [
    "predict",
    "checkpoints/r_latest.pt",
    "--out=p.csv",
  ]],
  generate: [["generate", "checkpoints/r_latest.pt", "--prompt=a"]],
  "find-lr": [["find-lr", ...RUN, ...FLAGS]],
  "find-batch": [["find-batch", ...RUN, ...FLAGS]],
  schedule: [["schedule", ...RUN, ...FLAGS]],
  launch: [["launch", "-n", "1", "--", ...RUN, ...FLAGS, "--run-name=launched"]],
  watch: [["watch", "--once"]],
  sbatch: [["sbatch", ...RUN, "--env", `ANY=${secret("refused")}`, "--epochs=many"], [
    "sbatch",
    "--env",
    `=${secret("nameless")}`,
  ]],
  qsub: [["qsub", ...RUN, "--env", "WANDB_API_KEY"], ["qsub", "--dry-run", ...FLAGS]],
  sweep: [["sweep", ...RUN, FLAGS[0], "--lr=1e-3,1e-4", "--name=local", "--local"], ["sweep", "status"], [
    "sweep",
    "report",
    "local",
  ]],
  status: [["status"]],
  runs: [["runs", "--json"], ["runs", "--html", "runs.html"]],
  logs: [["logs"]],
  cancel: [["cancel"]],
  report: [["report", "r"]],
  "generate-data": [[
    "generate-data",
    "--data-type=synthetic",
    "--samples=4",
    "--out=made",
    `--api-key=${secret("unknown")}`,
  ]],
  "sync-wandb": [
    ["sync-wandb", "--retries=0"],
    ["sync-wandb", `--base-url=https://user:p@${secret("base")}@example.org`],
    ["sync-wandb", "--dry-run", "--json"],
  ],
  python: [["python", "package"]],
  inspect: [["inspect", "checkpoints/r_latest.pt", "--json"]],
  convert: [["convert", "checkpoints/r_latest.pt", "r.safetensors", "--whole"]],
  export: [["export", "checkpoints/r_latest.pt", "weights.pt"]],
  pack: [["pack", "none", "packed", `--token=${secret("pack")}`]],
  doctor: [["doctor", "--json"], ["doctor"]],
  bench: [["bench", "allreduce", "--sizes=4KiB"]],
  new: [["new", "model", "mine.ts"], ["new", "optimizer", "own.ts"]],
  types: [["types"]],
  config: [
    ["config", "--json", ...FLAGS],
    ["config", "--yaml", ...FLAGS],
    [
      "config",
      "--changed",
      ...FLAGS,
      `--data-path=https://u:p@${secret("path")}@example.org/x.zarr?sig=${secret("sig")}`,
    ],
    ["config", `--epochs=https://u:${secret("wrong")}@example.org`],
  ],
  models: [["models"]],
  presets: [["presets"]],
  libtorch: [["libtorch", "list"], ["libtorch", "install"]],
  completions: [["completions", "bash"]],
};

Deno.test("no command prints or writes a secret of its environment, its flags, ~/.netrc or a remote", () =>
  inPlace(async ({ here, clean }) => {
    const trained = await clean([...RUN, ...FLAGS]);
    assertEquals(trained.code, 0, trained.stderr);
    assertMatch(
      trained.stdout,
      /--set=cluster\.env=WANDB_API_KEY=\*\*\*|'--set=cluster\.env=WANDB_API_KEY=\*\*\*'/,
    );
    assertEquals(Object.keys(LINES), COMMANDS.map(({ name }) => name));
    for (const words of Object.values(LINES).flat()) await clean([...words]);
    const wandb = filesIn(here).find((name) => name.endsWith(".wandb"))!;
    assertStringIncludes(Deno.readTextFileSync(join(here, wandb)), "https://example.org/mine.git");
  }));

for (
  const [url, told] of [
    [`${secret("user")}@example.org:group/mine`, "example.org:group/mine"],
    [`ssh://${secret("user")}@example.org/mine`, "ssh://example.org/mine"],
    [`"https://u:p/${secret("quoted")}@example.org/mine"`, "https://example.org/mine"],
    ["git@example.org:group/mine", "git@example.org:group/mine"],
  ]
) {
  Deno.test(`W&B is told of the remote ${url} as ${told}`, () =>
    inPlace(async ({ here, clean }) => {
      gitRemote(here, url);
      assertEquals((await clean(RUN)).code, 0);
      const wandb = filesIn(here).find((name) => name.endsWith(".wandb"))!;
      assertStringIncludes(Deno.readTextFileSync(join(here, wandb)), told);
    }));
}

Deno.test("a store's key is in no record of a run, which goes on when it is given again", () =>
  inPlace(async ({ here, home, clean }) => {
    writtenBy(home, STORE);
    await served(home, async (address) => {
      const path = `--data-path=${address}/data.zarr?private_token=${secret("store")}`;
      const train = [
        ...RUN.filter((word) => !/samples/.test(word)),
        "--features=a",
        "--targets=b",
        "--validation-split=0.5",
      ];
      assertEquals((await clean([...train, path])).code, 0);
      const again = await clean([...train, path, "--resume=auto", "--epochs=2"]);
      assertEquals([again.code, /Changed since the checkpoint: [^\n]*data_path/.test(again.stdout)], [
        0,
        false,
      ], again.stderr);
      assertEquals((await clean(["eval", "checkpoints/r_latest.pt", path])).code, 0);
      const without = await clean(["eval", "checkpoints/r_latest.pt"]);
      assertEquals(without.code, 2);
      assertSentence("integration/secrets: key left out", without.stderr);
      const gone = await clean(["eval", "checkpoints/r_latest.pt", path.replace("/good/", "/down/")]);
      assertMatch(gone.stderr, /answered 500/);
      assertEquals(filesIn(here).some((name) => name.endsWith("_latest.pt")), true);
    });
  }));

/** Writes down what it was called with, and which variables it has. */
function withSubmitter(here: string, name: string): Record<string, string> {
  Deno.mkdirSync(join(here, "bin"), { recursive: true });
  const body = `#!/bin/sh\necho "$*" >"${here}/called"\nenv | grep -c '^OWN_KEY=' >"${here}/has"\necho 17\n`;
  Deno.writeTextFileSync(join(here, "bin", name), body, { mode: 0o755 });
  return { PATH: `${join(here, "bin")}:${Deno.env.get("PATH")}` };
}

for (const [scheduler, script] of [["sbatch", "logs/slurm/r.sh"], ["qsub", "logs/pbs/r.sh"]]) {
  Deno.test(`${scheduler} writes --env NAME=VALUE once, where its owner alone can read it, and --env NAME not at all`, () =>
    inPlace(async ({ here, clean }) => {
      const env = { ...withSubmitter(here, scheduler), OWN_KEY: secret("own") };
      const named = await clean([scheduler, ...RUN, "--env", "OWN_KEY", "--submit"], env);
      assertMatch(named.stdout, /^Submitted job 17 /);
      assertEquals(Deno.readTextFileSync(join(here, "has")), "1\n");
      const lost = await run([scheduler, ...RUN, "--env", "OWN_KEY", "--submit"], {
        cwd: here,
        env: withSubmitter(here, scheduler),
      });
      assertEquals(lost.code, 2);
      assertSentence("integration/secrets: env own_key hands", lost.stderr);
      Deno.chmodSync(join(here, script), 0o755); // as an older version wrote it
      const given = await run([scheduler, ...RUN, "--env", `OWN_KEY=${secret("given")}`, "--submit"], {
        cwd: here,
        env,
      });
      assertEquals([given.code, linesWith(given.stdout + given.stderr)], [0, []], given.stderr);
      assertEquals(found(here), [`${script}: export OWN_KEY=${secret("given")}`]);
      for (const name of [script, `${script}~`]) {
        assertEquals(Deno.statSync(join(here, name)).mode! & 0o777, 0o700, name);
      }
      assert(!Deno.readTextFileSync(join(here, "called")).includes(MARK));
    }));
}

Deno.test("a sweep's own file has no variable of its jobs, and where it has another secret, others can't read it", () =>
  inPlace(async ({ here }) => {
    const env = withSubmitter(here, "sbatch");
    const words = [
      "sweep",
      ...RUN.slice(0, -1),
      "--lr=1e-3,1e-4",
      `--set=cluster.env=ANY=${secret("swept")}`,
      "--submit",
    ];
    const { code, stderr } = await run(words, { cwd: here, env });
    assertEquals(code, 0, stderr);
    assertEquals(found(here), [`sweeps/sweep/sweep.sh: export ANY=${secret("swept")}`]);
    const mode = (name: string) => Deno.statSync(join(here, "sweeps", name, "sweep.json")).mode! & 0o077;
    assert(mode("sweep") !== 0);
    const told = await run(
      ["sweep", ...RUN.slice(0, -1), FLAGS[1], "--lr=1e-3,1e-4", "--name=told", "--submit"],
      { cwd: here, env },
    );
    assertEquals([told.code, mode("told")], [0, 0], told.stderr);
  }));
