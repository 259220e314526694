// The lines, scripts and YAML that users of other programs hold, as they type them: `hpctrain` in place of `python train.py`,
// and `hpctrain launch` in place of `torchrun`. A line that ends otherwise than there has its reason beside it.
import { assert, assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import { join } from "@std/path";
import { COMMAND, environment, eventsOf, filesIn, finish, inTemp, type Result } from "./program.ts";

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
      assertMatch(await trains(line, cwd), /^Finished after .*: \d+ epochs/m);
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
      const said = await trains(line, cwd);
      assertMatch(said, new RegExp(`^Starting distributed training on ${ranks} CPU ranks$`, "m"));
      const [run] = runsIn(cwd);
      assertEquals(eventsOf(cwd, run).at(-1)?.code, 0);
      // What it says of going on is that line again.
      const more = /^ {2}train on +(.*)$/m.exec(said)![1];
      assertMatch(await trains(more, cwd), new RegExp(`on ${ranks} CPU ranks$`, "m"));
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
