// Settings that change a step, one by one, on a CPU: steps are compiled with it, but for what docs/reference/speed.md names.
import { assert, assertEquals } from "@std/assert";
import { machineIsa } from "../../../ffi/machine.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { eventsIn, started } from "./started.ts";
import { settings } from "./rig.ts";

const ignore = machineIsa() === null;

const SMALL = "--train-samples 24 --val-samples 4 --batch-size 4 --epochs 1 ";
const ROWS = SMALL + "--data-type synthetic --model mlp --hidden-size 16 ";
const WORDS = SMALL + "--model gpt --layers 2 --embed 16 --heads 2 --context 12 ";

/** By their place among the settings: those of `training` are all here, or do not change a step. */
const CHANGES: Readonly<Record<string, string>> = {
  "training.grad_accum": ROWS + "--grad-accum 2",
  "training.global_batch_size": ROWS + "--global-batch-size 10",
  "training.label_smoothing": WORDS + "--label-smoothing 0.1",
  "training.loss": ROWS + "--loss 0.8*mse+0.3*smooth_l1(0.5)",
  "training.layer_decay": WORDS + "--layer-decay 0.9",
  "training.lr_for": ROWS + "--lr-for 0.*=0.1",
  "training.param_groups": WORDS + "--param-group biases:lr=1e-3,eps=1e-6",
  "training.no_decay": ROWS + "--no-decay biases",
  "training.clip_norm": ROWS + "--clip-norm 0.5",
  "training.clip_value": ROWS + "--clip-value 0.5",
  "training.clip_adaptive": ROWS + "--clip-adaptive 0.01",
  "training.gradient_noise": ROWS + "--gradient-noise 0.01",
  "training.ema": ROWS + "--ema 0.9",
  "training.swa_start": ROWS + "--swa-start 1",
  "training.scheduler": ROWS + "--scheduler onecycle",
  "training.amp bf16": ROWS + "--amp bf16",
  "training.amp fp64": ROWS + "--amp fp64",
  "training.deterministic": ROWS + "--deterministic=world",
  "training.gradient_checkpointing": WORDS + "--gradient-checkpointing",
  "training.on_spike": ROWS + "--on-spike skip",
  "training.logits_mib": WORDS + "--set training.logits_mib=1 --context 1200 --batch-size 5 --grad-accum 2",
  "training.freeze": ROWS + "--freeze 0.*",
  "training.freeze_until": ROWS + "--freeze 0.* --freeze-until 2",
  "training.unfreeze": ROWS + "--freeze 0.* --unfreeze 0.*:2",
  "training.profile_training": ROWS + "--profile-training",
  "model.dropout": ROWS + "--dropout 0.1",
};

/** They have to do with more than one batch of a step, with the device, or with what stands around steps. */
const OTHERS =
  /^(epochs|max_steps|batch_size|fit_batch|eval_.*|monitor.*|early_.*|metrics?|optimizer|clip_sums|lr_scaling|base_batch_size|swa_(lr|anneal_.*)|tf32|channels_last|loss_scale_.*|max_skipped_steps|device|threads|seed|sync_bn|virtual_shards|compile|memory_check|log_.*|save_interval|spike_.*|peak_tflops|profile_steps|resume|init_from|new_head|force|ignore_index|loss_weight|huber_delta|class_weights|focal_gamma|spectral_weight|quantiles)$/;

/** Rows of the table: a setting, and how steps are with `exact` and with `fast`. */
function documented(): Map<string, readonly string[]> {
  const page = Deno.readTextFileSync(new URL("../../../docs/reference/speed.md", import.meta.url));
  const [table] = /^\| steps on a CPU with[^]*?\n\n/m.exec(page)!;
  const rows = table.trim().split("\n").slice(2).map((row) =>
    row.split("|").slice(1, -1).map((cell) => cell.trim())
  );
  return new Map(rows.map(([name, ...ways]) => [/`([^`]+)`/.exec(name)![1], ways]));
}

/** What the run says of it. */
const compiling = (folder: string, flags: string, mode: string) =>
  started(folder, [...flags.trim().split(/ +/), `--compile=${mode}`], async (run) => {
    await trainLoop(run);
    const told = (await eventsIn(run)).filter(({ kind, message }) =>
      kind === "compiled" || kind === "warning" && /compiled|op by op/.test(message)
    ).map(({ message }) => String(message));
    return [...run.compiling, ...told];
  });

Deno.test("every setting of training is walked here, or does not change a step", () => {
  const known = new Set(Object.keys(CHANGES).map((key) => /^(?:training\.)?(\S+)/.exec(key)![1]));
  for (const key of Object.keys(settings().training)) {
    assert(known.has(key) || OTHERS.test(key), `training.${key} has no place in this test.`);
  }
});

for (const [i, mode] of ["exact", "fast"].entries()) {
  Deno.test({
    name: `steps are compiled with every setting but those that the page names: ${mode}`,
    ignore,
    async fn() {
      const page = documented(), folder = Deno.makeTempDirSync();
      try {
        for (const [name, flags] of Object.entries(CHANGES)) {
          const told = await compiling(`${folder}/${name}`, flags, mode);
          const compiled = told.some((line) => line.startsWith("Steps are compiled: "));
          const how = compiled && !told.some((line) => /so steps run op by op/.test(line))
            ? "compiled"
            : "op by op";
          const row = page.get(name.replace(/^training\.(?!logits)/, "--").replaceAll(/(?<=^--.*)_/g, "-"));
          assertEquals(how, row?.[i] ?? "compiled", `${name}: ${told.join("\n")}`);
        }
      } finally {
        Deno.removeSync(folder, { recursive: true });
      }
    },
  });
}
