// Jobs to render, and a place where a rendered script runs: programs of a scheduler that only start what they are
// told to, and an executable that writes down its arguments.
import { join } from "paths";
import type { ScriptJob } from "../../../../core/cluster/script/job.ts";

export const JOB: ScriptJob = {
  jobFlags: [],
  made: { version: "0.1.0", command: ["hpctrain", "sbatch"], architecture: Deno.build.arch },
  name: "run",
  program: ["./hpctrain"],
  words: ["train"],
  overrides: [["EPOCHS", "epochs"], ["LR", "lr"]],
  useless: [],
  gaveWay: [],
  inherited: [],
  layout: {
    nodes: 2,
    ranksPerNode: 2,
    tasks: "per-rank",
    gpusPerNode: 2,
    gpuType: "",
    gres: "",
    cpusPerRank: 4,
    mpi: false,
  },
  limits: {
    time: "",
    mem: "",
    partition: "",
    account: "",
    qos: "",
    constraint: "",
    exclude: "",
    reservation: "",
    exclusive: false,
    more: [],
  },
  site: {
    modules: [],
    env: [],
    passed: [],
    setup: [],
    mail: "",
    mailType: "END,FAIL",
    mpi: "auto",
    srun: [],
    pbs: { dialect: "pro", launch: "mpiexec", place: "" },
  },
  errFile: false,
  ending: { signal: "USR1@120", requeue: true, maxRequeues: 3, openMode: "append" },
  logs: "logs",
};

/** Takes its own words off, and becomes the rest. */
const STARTER =
  '#!/bin/sh\nprintf "%s\\n" "$*" >>"$CALLS"\nwhile [ "${1#-}" != "$1" ]; do TAKES; shift; done\nexec "$@"\n';
const OF_TWO = 'case $1 in -n | --ppn | --hostfile) shift ;; --) shift; exec "$@" ;; esac';
const STUB = `#!/bin/sh
for word in "$@"; do printf "%s\\0" "$word"; done >"$WORDS"
env -0 >"$WORDS.env"
[ -z "\${STUB_ENDED:-}" ] || printf %s "$STUB_ENDED" >"$HPCTRAIN_ENDED"
exit "\${STUB_CODE:-0}"
`;
const STAND_INS: Readonly<Record<string, string>> = {
  srun: STARTER.replace("TAKES", ":"),
  mpiexec: STARTER.replace("TAKES", OF_TWO),
  pbsdsh: STARTER.replace("TAKES", OF_TWO),
  scontrol: '#!/bin/sh\necho "scontrol $*" >>"$CALLS"\n[ "$1" != show ] || echo node1\n',
  qsub: '#!/bin/sh\necho "qsub $*" >>"$CALLS"\necho 43.server\n',
  module: '#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done >"$MODULES"\n',
};

export interface Place {
  readonly folder: string;
  /** Writes a stub under this name, below the folder. */
  stub(path: string): string;
  run(script: string, env?: Record<string, string>, args?: string[]): Promise<Outcome>;
}

export interface Outcome {
  readonly code: number;
  readonly said: string;
  /** What the stub was given. */
  readonly words: string[];
  readonly env: Readonly<Record<string, string>>;
  /** What the stand-ins were called with, one line each. */
  readonly calls: string[];
}

/** A folder with stand-ins in its bin/. */
export async function inPlace(body: (place: Place) => Promise<void>): Promise<void> {
  const folder = Deno.realPathSync(Deno.makeTempDirSync());
  try {
    Deno.mkdirSync(join(folder, "bin"));
    for (const [name, text] of Object.entries(STAND_INS)) write(join(folder, "bin", name), text);
    Deno.writeTextFileSync(join(folder, "nodes"), "node1\nnode1\nnode2\nnode2\n");
    await body({
      folder,
      stub: (path) => write(join(folder, path), STUB),
      run: (script, env = {}, args = []) => runIn(folder, script, env, args),
    });
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

function write(path: string, text: string): string {
  Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  Deno.writeTextFileSync(path, text);
  Deno.chmodSync(path, 0o755);
  return path;
}

async function runIn(
  folder: string,
  script: string,
  env: Record<string, string>,
  args: string[],
): Promise<Outcome> {
  const [file, words, calls] = ["job.sh", "words", "calls"].map((name) => join(folder, name));
  Deno.writeTextFileSync(file, script);
  for (const path of [words, calls, `${words}.env`]) Deno.writeTextFileSync(path, "");
  const { code, stdout, stderr } = await new Deno.Command("bash", {
    args: [file, ...args],
    cwd: folder,
    env: {
      PATH: `${join(folder, "bin")}:/usr/bin:/bin`,
      WORDS: words,
      CALLS: calls,
      MODULES: join(folder, "modules"),
      ...{
        SLURM_JOB_ID: "7",
        SLURM_JOB_NUM_NODES: "2",
        SLURM_CPUS_PER_TASK: "4",
        SLURM_JOB_NODELIST: "node[1-2]",
      },
      ...{ PBS_JOBID: "42.server", PBS_O_WORKDIR: folder, PBS_NODEFILE: join(folder, "nodes") },
      ...env,
    },
    clearEnv: true,
    stdin: "null",
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  const pairs = Deno.readTextFileSync(`${words}.env`).split("\0").slice(0, -1);
  return {
    code,
    env: Object.fromEntries(pairs.map((pair) => [pair.split("=")[0], pair.slice(pair.indexOf("=") + 1)])),
    said: text(stdout) + text(stderr),
    words: Deno.readTextFileSync(words).split("\0").slice(0, -1),
    calls: Deno.readTextFileSync(calls).split("\n").slice(0, -1),
  };
}
