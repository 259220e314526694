// Refuses settings that can't work or that differ from a checkpoint's.
import { type Resolved, savedValue } from "../settings/resolve.ts";
import { ALL_SETTINGS, type Config, type Declared, readSetting } from "../settings/settings.ts";
import type { RankContext } from "../ranks/context.ts";
import { UserError } from "../base/errors.ts";
import { valuesWithoutSecrets } from "../base/secrets.ts";
import { pathExists } from "../base/files.ts";
import { formatPlural } from "../base/format.ts";
import { resolve } from "../../deps/path.ts";
import { asWritten, fromData, isTyped } from "../settings/values.ts";
import { isExported } from "../models/exported/model.ts";
import type { Model } from "../models/model.ts";
import { isMade } from "../data/open/formats.ts";
import { optimizersThat, traitsOf } from "./optimizers.ts";
import { settingsOf } from "../settings/sections/optimizer.ts";
import { checkedDuration } from "../settings/setting.ts";
import { checkScheduler, type Course } from "./schedules/course.ts";
import type { Grouping } from "./trained_parameters.ts";
import type { Resume } from "./resume.ts";
import type { Launch } from "./launch.ts";

/** A run for many nodes that finds itself on fewer was started wrongly. */
export function refuseLayout(
  { config, originText }: Resolved,
  { world, nodes, description }: RankContext,
): void {
  const wanted = config.distributed.nodes;
  if (wanted === 0 || wanted === nodes) return;
  throw new UserError(
    "usage",
    `${originText("distributed.nodes")} asks for ${formatPlural(wanted, "node")}, and this is ${
      formatPlural(world, "rank")
    } on ` +
      `${
        formatPlural(nodes, "node")
      }. ${description} Start it in the whole allocation (srun ./hpctrain ..., mpirun ./hpctrain ...), ` +
      "or leave the setting out.",
  );
}

/** There is one average of the weights, and schedule-free AdamW has its own, in place of a falling rate. */
export function refuseOptimizer(config: Config): void {
  const { training } = config;
  checkScheduler(config);
  const { ema, swa_start, swa_lr, epochs } = training;
  const average = swa_start === 0
    ? swa_lr > 0
      ? `--swa-lr ${swa_lr} is the rate while weights are averaged: say from which epoch on with --swa-start.`
      : null
    : ema > 0
    ? `--swa-start ${swa_start} and --ema ${ema} are two averages of the weights, of which one can be judged: leave one out.`
    : swa_start > epochs
    ? `--swa-start ${swa_start} is behind the last epoch, ${epochs}, so nothing would be averaged: let it begin earlier, such ` +
      `as at ${Math.max(1, Math.ceil(0.75 * epochs))}.`
    : null;
  if (average) throw new UserError("usage", average);
  refuseBesideOptimizer(training);
}

export function refuseBesideOptimizer(training: Config["training"]): void {
  const { optimizer } = training, wrong = traitsOf(optimizer).refuses?.(training) ?? null;
  if (wrong) {
    throw new UserError("usage", `--optimizer ${optimizer.type} does not go together with ${wrong}.`);
  }
}

/** The advice where a loss is no number, or jumps: nobody is told to give what the optimizer refuses. */
export function remediesOf(training: Config["training"]): string {
  const clips = !traitsOf(training.optimizer).refuses?.({ ...training, clip_norm: 1 });
  return `Checkpoints from before it are kept. Try a lower --lr, ${
    clips ? "--clip-norm 1, " : ""
  }a longer --warmup, ` +
    "or look at the data.";
}

/** Before the first step: a plateau that no evaluation tells of, and momentum that an optimizer can't move. */
export function refuseCourse(
  { plateau, moves }: Course,
  { training }: Pick<Config, "training">,
  { evaluates, moving }: { readonly evaluates: boolean; readonly moving: boolean },
): void {
  const never = checkedDuration(training.eval_interval).count === 0;
  if (plateau && (!evaluates || never)) {
    throw new UserError(
      "usage",
      `--scheduler ${training.scheduler.type} goes by evaluations, and this run has ${
        evaluates ? "one at its end alone (--eval-interval 0)" : "no validation data"
      }: ${
        evaluates ? "evaluate more often (--eval-interval 1ep)" : "hold some out (--validation-split 0.1)"
      }, or take another.`,
    );
  }
  if (moves === null) return;
  const { type, momentum } = training.optimizer;
  const what = moves.momentum ? "momentum (cycle_momentum=false leaves it alone)" : "weight decay";
  const why = !moving
    ? `which --optimizer ${type} can't change from step to step: take ${
      optimizersThat(({ moves }) => moves === true).join(", ")
    }.`
    : moves.momentum && settingsOf(type).includes("momentum") && momentum === 0
    ? "and --momentum 0 has none: give one above 0."
    : null;
  if (why !== null) throw new UserError("usage", `The schedule moves the ${what}, ${why}`);
}

/** A step of several updates has one batch, and whole gradients on each rank. */
export function refuseTurns(
  { model: { turns }, plan, amp, config: { training, distributed } }: {
    readonly model: Pick<Model, "turns">;
    readonly plan: { readonly accumulation: number };
    readonly amp: string;
    readonly config: Config;
  },
): void {
  if (!turns) return;
  const other = plan.accumulation > 1
    ? "a step of several micro-batches (--grad-accum)"
    : amp === "fp16"
    ? "--amp fp16: take bf16"
    : distributed.zero > 0
    ? "--zero 1"
    : training.deterministic === "world"
    ? "--deterministic=world"
    : training.on_spike !== "off"
    ? `--on-spike ${training.on_spike}`
    : training.clip_norm > 0
    ? `--clip-norm, which would clip all that has a gradient: --param-group '${
      turns.names[0]
    }.*: clip_norm=1'`
    : null;
  if (other !== null) {
    throw new UserError(
      "usage",
      `The model's losses take turns (${turns.names.join("; ")}), which does not go together with ${other}.`,
    );
  }
}

/** Each GPU of a node is one rank. */
export function refuseGpus(
  { config, origin, originText }: Resolved,
  { localWorld }: RankContext,
  device: "cpu" | "cuda",
): void {
  const path = "distributed.gpus_per_node", wanted = config.distributed.gpus_per_node;
  if (wanted === 0 || config.distributed.any_layout || !isTyped(origin(path))) return;
  if (device === "cuda" && wanted === localWorld) return;
  const request = `${originText(path)} asks for ${formatPlural(wanted, "GPU")} on each node`;
  throw new UserError(
    "usage",
    device === "cpu"
      ? `${request}, and this run computes on CPUs. Leave it out, or see what \`hpctrain doctor\` says of GPUs here.`
      : `${request}, and this one has ${formatPlural(localWorld, "rank")}, with a GPU each. Start as many: ` +
        `\`hpctrain launch -n ${wanted} -- FLAGS\` on this machine, or a job by \`hpctrain sbatch --gpus-per-node ${wanted}\`.`,
  );
}

/** Data that has files of its own to validate with takes no share of the others. */
export function refuseShare(
  { config, origin, originText }: Pick<Resolved, "config" | "origin" | "originText">,
  { divided }: { readonly divided?: string },
): void {
  const path = "data.validation_split";
  if (divided === undefined || !isTyped(origin(path))) return;
  throw new UserError(
    "usage",
    `${
      originText(path)
    } ${config.data.validation_split} would hold out nothing, for ${divided} is there to validate with: ` +
      "leave it out (--val-samples says how many validate), or take that away, and a share of the others validates.",
  );
}

/** Scripts in Python often have a group without decay for these. */
export function decayNote(
  { config: { model, training }, origin, originText }: Pick<Resolved, "config" | "origin" | "originText">,
  parameters: readonly { readonly shape: readonly number[] }[],
  /** Groups with a decay of their own are told of by themselves. */
  grouping: Grouping | null = null,
): string[] {
  const path = "training.optimizer.weight_decay", decay = training.optimizer.weight_decay;
  const brought = isExported(model.name) || training.init_from !== "";
  if (decay === 0 || !isTyped(origin(path)) || !brought) return [];
  if (parameters.every(({ shape }) => shape.length > 1)) return [];
  if (grouping?.groups.some(({ optimizer }) => optimizer.weight_decay !== undefined)) return [];
  return [
    `Weight decay ${decay} (${
      originText(path)
    }) is on all weights, biases and norms included, as torch.optim.AdamW does ` +
    "with one group (--no-decay 'ndim<2' leaves them out)",
  ];
}

const DATA_PATHS = ["data.data_path", "data.validation_path", "data.test_path"];

/** Whoever opens these expands them. */
const PATTERN = /[*?[\]{},]|:\/\//;

/** Files of data that a file of settings or a variable names, and that are not here: sentences with who names them. */
export function missingData({ config, origin, originText }: Resolved): string[] {
  return DATA_PATHS.flatMap((path) => {
    const value = String(readSetting(config, path)), { kind } = origin(path);
    if (
      value === "" || PATTERN.test(value) || pathExists(value) || (kind !== "file" && kind !== "environment")
    ) return [];
    return [`${originText(path)}: ${path} is ${value}, and there is no such file or folder here.`];
  });
}

export function refuseMissingData(resolved: Resolved): void {
  const [first] = missingData(resolved);
  if (first !== undefined) throw new UserError("data", first);
}

// A run that goes on may change harmless settings, which get a line; others are refused.

/** Another value makes it another training. */
const FIXED = [
  "data.type",
  "data.data_path",
  "data.validation_path",
  "data.test_path",
  "data.code",
  "data.token_type",
  "data.features",
  "data.targets",
  "data.sel",
  "data.resample",
  "data.coarsen",
  "data.sample_dim",
  "data.shuffle",
  "data.sampling",
  "data.validation_split",
  "data.split",
  "data.folds",
  "data.fold",
  "data.validate_on",
  "data.test_on",
  "data.history",
  "data.lead",
  "data.rollout",
  "data.train_samples",
  "data.missing",
  "data.fill",
  "data.mask_channel",
  "data.anomaly",
  "data.normalise_targets",
  "data.climatology",
  "data.climatology_channel",
  "data.normalise",
  "data.mean",
  "data.std",
  "data.scaling",
  "data.softening",
  "data.resize",
  "data.centre_crop",
  "data.random_crop",
  "data.one_hot",
  "training.loss",
  "training.loss_weight",
  "training.seed",
  "training.optimizer.type",
  "training.freeze",
];

const CHOSEN = /^(model\..*|data\.type|training\.loss)$/;

const OF_THE_START = ["training.resume", "training.init_from", "training.new_head", "training.force"];

/** Another file may hold the same model. */
const FREE = ["model.dropout", "model.stochastic_depth", "model.code"];

const isFixed = (path: string) => FIXED.includes(path) || (/^model\./.test(path) && !FREE.includes(path));

/** --force allows another training. */
export function changesSince({ path, saved }: Resume, { config, originText }: Resolved): string[] {
  if (!saved) return [];
  const changes = ALL_SETTINGS.filter(({ path }) =>
    /^(model|data|training)\./.test(path) && !OF_THE_START.includes(path)
  )
    .flatMap((declared) => change(declared, saved, config));
  const refused = changes.filter(({ harmless }) => !harmless);
  if (refused.length > 0 && !config.training.force) {
    const list = refused.map(({ text, path }) => `${text} (${originText(path)})`).join(", ");
    throw new UserError(
      "checkpoint",
      `A run that goes on from ${path} can't have other settings for its model, data, loss, seed or optimizer: ${list}. ` +
        `Leave that out, or start a new run from its weights with --init-from ${path}. ` +
        "If you know that it fits (the same data in another place, say), --force goes on all the same.",
    );
  }
  if (changes.length === 0) return [];
  const forced = refused.length > 0 ? " (--force: from here on it is another training)" : "";
  return [`Changed since the checkpoint: ${changes.map(({ text }) => text).join(", ")}${forced}`];
}

interface Change {
  readonly path: string;
  /** "training.epochs 10 -> 20". */
  readonly text: string;
  readonly harmless: boolean;
}

function change(declared: Declared, saved: unknown, config: unknown): Change[] {
  const { path, setting } = declared;
  const given = savedValue(declared, saved);
  if (given === undefined) return []; // an older version lacks the setting
  const before = valuesWithoutSecrets(fromData(declared, given, { kind: "checkpoint" }).value);
  const now = valuesWithoutSecrets(readSetting(config, path));
  if (same(path, before, now)) return [];
  if (path === "data.data_path" && now === "" && isMade(String(readSetting(config, "data.type")))) {
    return []; // made there again
  }
  const shown = (value: unknown) => {
    const text = Array.isArray(value)
      ? value.join(setting.separator ?? ",")
      : String(asWritten(declared, value));
    return text === "" ? setting.empty ?? '""' : text;
  };
  const stands = (value: unknown) =>
    CHOSEN.test(path) && (value === "auto" || (setting.empty !== undefined && value === setting.default));
  const harmless = !isFixed(path) || stands(before) || stands(now);
  return [{ path, text: `${path} ${shown(before)} -> ${shown(now)}`, harmless }];
}

function same(path: string, before: unknown, now: unknown): boolean {
  if (JSON.stringify(before) === JSON.stringify(now)) return true;
  return /^data\.(data|validation|test)_path$/.test(path) && typeof before === "string" &&
    typeof now === "string" &&
    before !== "" && now !== "" && resolve(before) === resolve(now);
}

/** Adapters of random weights would learn what the layers beside them never do. */
export function refuseUnknownWeights({ config: { model, training }, resume }: Launch): void {
  if (model.lora_rank === 0 || resume !== null || training.init_from !== "" || isExported(model.name)) return;
  throw new UserError(
    "usage",
    "--lora-rank trains adapters beside weights that somebody has trained: name their file with --init-from.",
  );
}
