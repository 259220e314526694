// The lines, scripts and YAML that users of other programs hold, as they type them: `hpctrain` in place of `python train.py`,
// and `hpctrain launch` in place of `torchrun`. A line that ends otherwise than there has its reason beside it.
//
// Some are changed for the machine: epochs and samples are fewer where a line would take minutes; the test bed has two nodes of
// 8 cores, 4 GPUs that compute nothing and 64 GB, so 8 ranks, 4 nodes and 200 GB are 2, 2 and 20; the YAML's NetCDF file is a
// table. `wandb login` is W&B's own program; WANDB_MODE=online, `sync-wandb` and `wandb sync` without a run upload to a
// server, and tests/integration/sync_wandb_test.ts types them beside a stand-in for it.
import { assert, assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import { join } from "paths";
import { prepareJob } from "../../commands/run/job.ts";
import { COMMAND, environment, eventsOf, filesIn, finish, inTemp, type Result } from "./program.ts";
import { type Bed, MISSING, NEEDS, startBed } from "./slurm/bed.ts";
import { assertSentence } from "../sentences.ts";

let bed: Bed;
if (!MISSING) {
  Deno.test.beforeAll(async () => void (bed = await startBed()));
  Deno.test.afterAll(() => bed.stop());
}

/** A run of these takes a second; a line that says otherwise counts more. */
const SMALL = {
  ...{ TRAIN_SAMPLES: "256", HPCTRAIN_VAL_SAMPLES: "16", HPCTRAIN_DEVICE: "cpu", HPCTRAIN_THREADS: "1" },
  ...{ HPCTRAIN_NUM_WORKERS: "0", HPCTRAIN_SYSTEM_INTERVAL: "0" },
};

/** In a shell where `hpctrain` is the program under test. */
async function typed(line: string, cwd: string, env: Record<string, string> = {}): Promise<Result> {
  const bin = join(cwd, "bin");
  Deno.mkdirSync(bin, { recursive: true });
  const program = join(bin, "hpctrain");
  const words = COMMAND.map((word) => `'${word}'`).join(" ");
  Deno.writeTextFileSync(program, `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
  const child = new Deno.Command("bash", {
    args: ["-c", line],
    cwd,
    env: environment({ ...SMALL, PATH: `${bin}:${Deno.env.get("PATH")}`, ...env }),
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  return await finish(child, 240);
}

async function trains(line: string, cwd: string, env?: Record<string, string>): Promise<string> {
  const { code, stdout, stderr } = await typed(line, cwd, env);
  assertEquals(code, 0, `${line}\n${stdout}${stderr}`);
  return stdout + stderr;
}

const runsIn = (cwd: string): string[] =>
  filesIn(join(cwd, "logs")).filter((path) => path.endsWith("events.jsonl")).map((path) =>
    path.split("/")[0]
  );

for (
  const line of [
    "hpctrain --epochs 100 --batch-size 128",
    "hpctrain --debug --no-wandb",
    "hpctrain --wandb-offline --epochs 2",
    "hpctrain --data-type synthetic --epochs 2",
    "hpctrain --data-type des --epochs 1 --batch-size 4 --train-samples 8",
    "hpctrain generate-data --data-type 2lpt --samples 8 --val-samples 4 --out maps && hpctrain --data-type 2lpt --data-path maps " +
    "--epochs 1 --batch-size 4 --train-samples 8",
    "hpctrain --gradient-checkpointing --num-workers 12 --compile --amp --use-amp --epochs 2",
    "hpctrain --no-compile --amp --epochs 2",
    "hpctrain --use-amp --epochs 2",
    "hpctrain --preset debug",
    "WANDB_MODE=dryrun hpctrain --epochs 2",
    "WANDB_MODE=disabled hpctrain --epochs 2",
    "WANDB_MODE=offline hpctrain --epochs 2",
  ]
) {
  Deno.test(`typed: ${line}`, () =>
    inTemp(async (cwd) => {
      assertMatch(await trains(line, cwd), /^Finished after .*: \d+ epochs?/m);
      assertEquals(runsIn(cwd).length, 1);
    }));
}

Deno.test("typed: hpctrain --help", () =>
  inTemp(async (cwd) => {
    assertMatch(await trains("hpctrain --help", cwd), /hpctrain --preset/);
  }));

Deno.test("typed: hpctrain --model SimpleConvNet --epochs 10 --batch-size 64 --lr 0.01 --save-every-epoch", () =>
  inTemp(async (cwd) => {
    const line = "hpctrain --model SimpleConvNet --epochs 10 --batch-size 64 --lr 0.01 --save-every-epoch";
    const said = await trains(line, cwd);
    assertMatch(said, /^\[Epoch 10\/10\] Loss: \S+ \| Acc: \S+ \| Val Loss: \S+ \| Val Acc: \S+ \| LR: /m);
    const names = filesIn(join(cwd, "checkpoints"));
    const [latest] = names.filter((name) => name.endsWith("_latest.pt"));
    for (let epoch = 1; epoch <= 10; epoch++) {
      assert(names.includes(latest.replace("latest", `epoch_${epoch}`)), names.join(" "));
    }
    const inside = await trains(`hpctrain inspect --json checkpoints/${latest}`, cwd);
    for (
      const key of [
        ...["epoch", "model_state_dict", "optimizer_state_dict", "scheduler_state_dict", "scaler_state_dict"],
        ...["val_loss", "config"],
      ]
    ) assert(inside.includes(`"${key}`), `${key} in ${inside.slice(0, 500)}`);
  }));

Deno.test("typed: hpctrain --wandb-run-name my_run, then --resume checkpoints/my_run_latest.pt", () =>
  inTemp(async (cwd) => {
    await trains("hpctrain --wandb-run-name my_run --epochs 1", cwd);
    const said = await trains("hpctrain --resume checkpoints/my_run_latest.pt --epochs 2", cwd);
    assertMatch(said, /^Resuming from checkpoints\/my_run_latest\.pt: epoch 1/m);
    assertEquals(runsIn(cwd), ["my_run"]);
    // Another run of the name keeps the first one's files, and a shell's name is of many runs.
    await trains("hpctrain --wandb-run-name my_run --epochs 1", cwd);
    await trains("WANDB_NAME=mine hpctrain --epochs 1", cwd);
    Deno.writeTextFileSync(join(cwd, "c.yaml"), 'wandb: { run_name: "U-Net: första, 2°" }\n');
    await trains("hpctrain --config c.yaml --epochs 1", cwd);
    await trains("hpctrain --wandb-run-name shown --run-name kept --epochs 1", cwd);
    assertEquals(runsIn(cwd).sort(), ["U-Net-forsta-2", "kept", "mlp", "my_run", "my_run-2"].sort());
    const { code, stderr } = await typed("hpctrain --resume checkpoints/my_run_last.pt", cwd);
    assertEquals(code, 8);
    assertMatch(stderr, /there is no such file\. In checkpoints there are my_run_(latest|best)\.pt, /);
  }));

for (
  const [preset, code, reason] of [
    ["single-gpu", 7, "no GPU is here, and these presets compute on GPUs"],
    ["single_gpu", 7, "the same"],
    ["multi-gpu", 2, "one process is no set of ranks: the sentence has the line that starts them"],
    ["multi-node", 2, "the same"],
  ] as const
) {
  Deno.test(`typed: hpctrain --preset ${preset} is refused here: ${reason}`, () =>
    inTemp(async (cwd) => {
      const { code: got, stderr } = await typed(`hpctrain --preset ${preset}`, cwd, { HPCTRAIN_DEVICE: "" });
      assertEquals(got, code, stderr);
      assertNotMatch(stderr, /unknown preset/);
      assertMatch(
        stderr,
        code === 7 ? /--device cpu/ : /Make one that fits with: \.\/hpctrain (launch|sbatch) /,
      );
    }));
}

Deno.test("typed: hpctrain --config config.yaml --world-size 2 --local-rank 0, with the variables of torchrun", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "config.yaml"), "training: { epochs: 2, batch_size: 8 }\n");
    const rank = (k: number) =>
      `MASTER_ADDR=localhost MASTER_PORT=0 WORLD_SIZE=2 RANK=${k} LOCAL_RANK=${k} hpctrain --config config.yaml ` +
      `--world-size 2 --local-rank ${k}`;
    const said = await trains(`${rank(1)} & ${rank(0)}; code=$?; wait $! && exit $code`, cwd);
    assertMatch(said, /^Starting distributed training on 2 CPU ranks$/m);
    assertMatch(said, /^Finished after .*: 2 epochs/m);
  }));

for (
  const [line, ranks] of [
    ["hpctrain launch --nproc_per_node=4 -- --epochs 100 --batch-size 4", 4],
    ["hpctrain launch --nnodes=1 --nproc_per_node=2 -- --epochs 2 --batch-size 4", 2],
    ["hpctrain launch --config config.yaml --gpus-per-node 4", 4],
    ["hpctrain launch --config config.yaml -n 2", 2],
  ] as const
) {
  Deno.test(`typed: ${line}`, () =>
    inTemp(async (cwd) => {
      Deno.writeTextFileSync(join(cwd, "config.yaml"), "training: { epochs: 2, batch_size: 4 }\n");
      // A hundred epochs on four ranks, twice: of two steps each.
      const few = { TRAIN_SAMPLES: "32" };
      const said = await trains(line, cwd, few);
      assertMatch(said, new RegExp(`^Starting distributed training on ${ranks} CPU ranks$`, "m"));
      const [run] = runsIn(cwd);
      assertEquals(eventsOf(cwd, run).at(-1)?.code, 0);
      // What it says of going on is that line again.
      const more = /^ {2}train on +(.*)$/m.exec(said)![1];
      assertMatch(await trains(more, cwd, few), new RegExp(`on ${ranks} CPU ranks$`, "m"));
    }));
}

for (
  const [line, said] of [
    ["hpctrain wandb sync", /hpctrain sync-wandb\.$/],
    ["hpctrain wandb sync logs/wandb/offline-run-*", /hpctrain sync-wandb 'logs\/wandb\/offline-run-\*'\.$/],
    ["hpctrain sbatch --scheduler pbs", /`hpctrain qsub` does\.$/],
    ["hpctrain qsub --scheduler=slurm", /`hpctrain sbatch` does\.$/],
    ["hpctrain --scheduler slurm", /`hpctrain sbatch` makes a job for SLURM\.$/],
  ] as const
) {
  Deno.test(`typed: ${line} is refused with the line that does it`, () =>
    inTemp(async (cwd) => {
      const { code, stderr } = await typed(line, cwd);
      assertEquals(code, 2, stderr);
      assertMatch(stderr.trim(), said);
    }));
}

const JOB =
  "hpctrain sbatch --config config.yaml --nodes 4 --gpus-per-node 2 --time-limit 12:00:00 --scheduler slurm";

Deno.test(`typed: ${JOB}`, () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "config.yaml"), "training: { scheduler: { type: linear } }\n");
    const script = (await typed(JOB, cwd, { HPCTRAIN_DEVICE: "" })).stdout;
    for (const line of ["nodes=4", "gpus-per-node=2", "time=12:00:00"]) {
      assertMatch(script, RegExp(`^#SBATCH --${line}$`, "m"));
    }
    assertNotMatch(script, /scheduler slurm/m);
    const step = await trains(`${JOB} --scheduler step`, cwd, { HPCTRAIN_DEVICE: "" });
    assertMatch(step, /^ .* train .*--scheduler step /m);
    assertMatch(await trains("hpctrain qsub --scheduler PBS", cwd), /^#PBS -l select=1/m);
  }));

Deno.test("typed: hpctrain --epochs 100 --batch-size 128 says that no data was named, and what would name it", () =>
  inTemp(async (cwd) => {
    const said = await trains("hpctrain --epochs 2 --batch-size 128", cwd);
    assertMatch(
      said,
      /^No data was named, .*--data-path FILE .*--data-type des .*\nData: synthetic vectors: /m,
    );
    assertNotMatch(await trains("hpctrain --epochs 2 --data-type synthetic", cwd), /No data was named/);
  }));

Deno.test("typed: DATA_TYPE=des hpctrain names the variable before it generates", () =>
  inTemp(async (cwd) => {
    const said = await trains("DATA_TYPE=des TRAIN_SAMPLES=8 hpctrain --epochs 1 --batch-size 4", cwd);
    assertMatch(said, /^Generating \d+ samples .*: data\.type des \(env DATA_TYPE\)$/m);
  }));

/** The file of users, but for the two paths, which are theirs. */
const yaml = (data: string, models: string) => `
model: {input_size: 7, hidden_size: 64, output_size: 1}
data: {data_path: "${data}", validation_split: 0.1, num_workers: 4}
training: {epochs: 200, batch_size: 128, optimizer: {type: "adam", learning_rate: 0.001, weight_decay: 1e-5}, scheduler: {type: "cosine"},
           early_stopping_patience: 20, log_interval: 100, save_interval: 50, use_amp: true, profile_training: true, log_gpu_memory: true}
output: {model_dir: "${models}"}
`;

Deno.test("typed: the YAML of a sea-ice network trains as it stands, and says what has no effect on a CPU", () =>
  inTemp(async (cwd) => {
    const rows = Array.from(
      { length: 300 },
      (_, i) => Array.from({ length: 8 }, (_, j) => Math.sin(i * (j + 1)).toFixed(4)).join(),
    );
    Deno.writeTextFileSync(join(cwd, "ice.csv"), ["a,b,c,d,e,f,g,y", ...rows].join("\n"));
    Deno.writeTextFileSync(join(cwd, "config.yaml"), yaml("ice.csv", "models/"));
    const said = await trains("hpctrain --config config.yaml", cwd, { TRAIN_SAMPLES: "" });
    assertMatch(
      said,
      /^No effect on a CPU: training\.amp \(config\.yaml:5:\d+\), training\.log_gpu_memory \(config\.yaml:5:\d+\)\.$/m,
    );
    assertMatch(said, /^(Finished|Stopped early).* epochs?, /m);
    assert(filesIn(join(cwd, "models")).some((name) => name.endsWith("_best.pt")));
  }));

Deno.test("typed: a data file that the YAML names and that is not there is named with its line, in a dry run of the job too", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(
      join(cwd, "config.yaml"),
      yaml("/path/to/large_dataset.nc", "/scratch/user/icenet_models/"),
    );
    const missing =
      /config\.yaml:3:19: data\.data_path is \/path\/to\/large_dataset\.nc, and there is no such file or folder here\./;
    for (const line of ["hpctrain --config config.yaml", "hpctrain --config config.yaml --dry-run"]) {
      const { code, stderr } = await typed(line, cwd);
      assertEquals(code, 3, stderr);
      assertMatch(stderr, missing);
    }
    assertMatch(await trains("hpctrain sbatch --config config.yaml --dry-run", cwd), missing);
  }));

Deno.test("typed: train: {num_nodes: 2, batch_size: 32} is another spelling, and one process is not two nodes", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "config.yaml"), "train: {num_nodes: 2, batch_size: 32}\n");
    assertMatch(await trains("hpctrain config --config config.yaml", cwd), /nodes +2 +config\.yaml:1:20/);
    const { code, stderr } = await typed("hpctrain --config config.yaml", cwd);
    assertEquals(code, 2);
    assertMatch(stderr, /config\.yaml:1:20 asks for 2 nodes/);
  }));

Deno.test("typed under PBS: hpctrain alone is refused on several hosts, and several places of one host are a line", () =>
  inTemp(async (cwd) => {
    const pbs = (hosts: string) =>
      `printf '${hosts}' >nodes; PBS_JOBID=17.server PBS_NODEFILE=nodes hpctrain --epochs 1`;
    const several = await typed(pbs("n1\\nn1\\nn2\\n"), cwd);
    assertEquals(several.code, 2, several.stdout);
    assertSentence("integration/typed_lines: hpctrain pbs job", several.stderr);
    assertMatch(await trains(pbs("n1\\nn1\\n"), cwd), /^PBS job 17\.server has 2 places on this node /m);
    assertNotMatch(await trains(pbs("n1\\n"), cwd), /places on this node/);
    await trains(`${pbs("n1\\nn2\\n")} --world-size 1`, cwd);
  }));

Deno.test("typed: EPOCHS=abc is one mistake, as a variable and as a job's", () =>
  inTemp(async (cwd) => {
    for (const line of ["EPOCHS=abc hpctrain --wandb-offline", "EPOCHS=abc hpctrain --epochs=abc"]) {
      const { code, stderr } = await typed(line, cwd);
      assertEquals([code, stderr.trim().split("\n").length], [2, 1], stderr);
    }
  }));

// On a cluster. Its nodes have 8 cores, 4 GPUs that compute nothing, and 64 GB; so the ranks of a job for GPUs are a stub that
// prints its words, and the memory of users' scripts is less.

const ENV = { ...SMALL, HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH") ?? "" };

function place(name: string): string {
  const cwd = join(bed.folder, name.replace(/\W+/g, "-"));
  Deno.mkdirSync(join(cwd, "logs/slurm"), { recursive: true });
  Deno.writeTextFileSync(join(cwd, "hpctrain"), `#!/bin/sh\nexec ${COMMAND.join(" ")} "$@"\n`, {
    mode: 0o755,
  });
  return cwd;
}

/** Types the line on the login node; the outcomes of the jobs that it submits. */
async function jobsOf(line: string, cwd: string) {
  const told = await bed.done(["bash", "-euc", line], { cwd, env: { ...ENV, USER: "root" } });
  const ids = [...told.matchAll(/^Submitted (?:batch )?job (\d+)/gm)].map(([, id]) => Number(id));
  return await Promise.all(ids.map(async (id) => {
    const { state, code } = await bed.end(id, 120);
    const said = ["logs/slurm", "logs", "."].flatMap((folder) =>
      [...Deno.readDirSync(join(cwd, folder))].filter(({ name, isFile }) =>
        isFile && RegExp(`[_-]${id}\\.(out|err)$`).test(name)
      )
        .map(({ name }) => Deno.readTextFileSync(join(cwd, folder, name)))
    ).join("");
    return { state, code, said };
  }));
}

for (
  const [line, words] of [
    ["sbatch single_gpu.sh --export=EPOCHS=200,DATA_TYPE=2lpt", ["--epochs=200", "--data-type=2lpt"]],
    ["sbatch multi_gpu.sh --export=BATCH_SIZE=128,LR=1e-4", ["--batch-size=128", "--lr=1e-4"]],
    ["sbatch single_gpu.sh --export=EPOCHS=200,TRAIN_SAMPLES=200000", [
      "--epochs=200",
      "--train-samples=200000",
    ]],
    ["sbatch multi_gpu.sh --export=GPUS=8", null], // the job has four: it ends with the line that submits one with eight
    ["sbatch --nodes=2 --gpus-per-node=4 multi_node.sh", []], // not --nodes=4 and 8 GPUs, which the cluster has not got
  ] as const
) {
  Deno.test({
    name: `typed: ${line} ${NEEDS}`,
    ignore: MISSING,
    fn: async () => {
      const cwd = place(line), stub = join(cwd, "stub");
      Deno.writeTextFileSync(stub, '#!/bin/sh\necho "ranks: $SLURM_NTASKS words: $*"\n', { mode: 0o755 });
      const scripts = [["single_gpu", "single-gpu", 1, 1], ["multi_gpu", "multi-gpu", 1, 4], [
        "multi_node",
        "multi-node",
        2,
        2,
      ]] as const;
      for (const [file, preset, nodes, gpus] of scripts) {
        const made =
          `--preset ${preset} --nodes ${nodes} --gpus-per-node ${gpus} --cpus-per-task 2 --job-name ${file}`;
        const { script } = await prepareJob(made.split(" "), "slurm", { env: {}, program: [stub] });
        Deno.writeTextFileSync(join(cwd, `${file}.sh`), script);
      }
      const [job] = await jobsOf(`unset \${!HPCTRAIN_*} TRAIN_SAMPLES; ${line}`, cwd);
      if (words === null) {
        assertEquals([job.state, job.code], ["FAILED", 2], job.said);
        assertSentence("integration/typed_lines: gpus job gpus", job.said);
        return;
      }
      assertEquals(job.state, "COMPLETED", job.said);
      for (const word of words) assert(job.said.includes(word), `${word} in ${job.said}`);
      const ranks = line.includes("single") ? 1 : line.includes("multi_gpu") ? 4 : 8;
      assertEquals(
        job.said.match(/^ranks: \d+/gm)?.map((text) => Number(text.slice(7))),
        Array(ranks).fill(ranks),
      );
    },
  });
}

Deno.test({
  name:
    `typed: for lr in 1e-4 3e-4 1e-3; do sbatch job.sh --export=LR=$lr; done: each keeps its own checkpoints ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const cwd = place("loop");
    const made = "./hpctrain sbatch --preset debug --epochs 2 --cpus-per-task 1 --time 5 --output job.sh";
    const line = `${made} >&2; for lr in 1e-4 3e-4 1e-3; do sbatch job.sh --export=LR=$lr; done`;
    const jobs = await jobsOf(line, cwd);
    assertEquals(
      jobs.map(({ state }) => state),
      Array(3).fill("COMPLETED"),
      jobs.map(({ said }) => said).join("\n"),
    );
    assertEquals(
      jobs.flatMap(({ said }) =>
        said.match(/^Changed for this job: .*--lr=\S+/m)?.[0].split("--lr=")[1] ?? []
      ),
      [
        ...["1e-4", "3e-4", "1e-3"],
      ],
    );
    assertEquals(runsIn(cwd).sort(), ["debug", "debug-2", "debug-3"]);
  },
});

const OWN_SCRIPT = `#!/bin/bash
#SBATCH --job-name=own
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=TASKS
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:2
#SBATCH --mem=20GB
#SBATCH --time=48:00:00
#SBATCH --partition=gpu
#SBATCH --output=logs/slurm-%j.out
#SBATCH --error=logs/slurm-%j.err
export NCCL_TIMEOUT=1800 NCCL_SOCKET_IFNAME=ib0 NCCL_IB_DISABLE=0 NCCL_NET_GDR_LEVEL=3 NCCL_IB_QPS_PER_CONNECTION=1 NCCL_DEBUG=INFO TORCH_DISTRIBUTED_DEBUG=DETAIL
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT=$((20000 + SLURM_JOB_ID))
`;
const TORCHRUN =
  "srun ./hpctrain launch --nnodes=2 --nproc_per_node=2 --rdzv_id=$RANDOM --rdzv_backend=c10d " +
  "--rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT -- --epochs 2 --batch-size 4";

for (
  const [line, tasks] of [
    ["srun ./hpctrain --config config_hpc.yaml --world-size $SLURM_NTASKS --local-rank $SLURM_LOCALID", 2],
    [TORCHRUN, 1],
    [TORCHRUN, 2],
  ] as const
) {
  Deno.test({
    name: `typed in a script of ${tasks} task${tasks > 1 ? "s" : ""} a node: ${line} ${NEEDS}`,
    ignore: MISSING,
    fn: async () => {
      const cwd = place(`own ${tasks} ${line.slice(0, 20)}`);
      Deno.writeTextFileSync(join(cwd, "config_hpc.yaml"), "training: { epochs: 2, batch_size: 4 }\n");
      Deno.writeTextFileSync(join(cwd, "own.sh"), `${OWN_SCRIPT.replace("TASKS", String(tasks))}${line}\n`);
      const [job] = await jobsOf("sbatch own.sh", cwd);
      assertEquals(job.state, "COMPLETED", job.said);
      assertMatch(job.said, /^Starting distributed training on 4 CPU ranks\nMaster node: node1$/m);
      assertEquals(job.said.match(/^Finished after /gm)?.length, 1, job.said);
    },
  });
}

Deno.test({
  name: `typed: hpctrain sbatch generate-data, then squeue and tail of logs/slurm/NAME_JOBID.out ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const cwd = place("generates");
    const line =
      "./hpctrain sbatch generate-data --data-type 2lpt --samples 8 --val-samples 4 --out maps --cpus-per-task 2 --time 5 " +
      "--submit; squeue -u $USER >&2; test -d logs/slurm";
    const [job] = await jobsOf(`unset TRAIN_SAMPLES; ${line}`, cwd);
    assertEquals(job.state, "COMPLETED", job.said);
    assertMatch(job.said, /^Wrote \d+ shards /m);
    assert(filesIn(join(cwd, "maps")).length > 0);
  },
});
