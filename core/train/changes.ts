// The settings of a run that goes on, beside those of its checkpoint: harmless changes are told, others are refused.
// May import config, cosmology's options, errors, resume.
import { resolve } from "../../deps/path.ts";
import type { Resolved } from "../config/resolve.ts";
import { ALL, type Declared, read } from "../config/tree.ts";
import { fromData } from "../config/values.ts";
import { isSimulated } from "../cosmology/options.ts";
import { UserError } from "../errors.ts";
import type { Resume } from "./resume.ts";

/** With another value, what follows is another training, or the samples that were seen are not those of the cursor. */
const FIXED = [
  "data.type",
  "data.data_path",
  "data.code",
  "data.token_type",
  "data.features",
  "data.targets",
  "data.shuffle",
  "data.validation_split",
  "data.train_samples",
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
  "training.seed",
  "training.optimizer.type",
];
/** What is chosen from the data, or by the model: whether it is the same after all is seen when both are there. */
const CHOSEN = /^(model\..*|data\.type|training\.loss)$/;
/** About starting, not about training. */
const OF_THE_START = ["training.resume", "training.init_from", "training.force"];

/** Another file of the user's own may be the same model: whether the weights fit is seen when they are loaded. */
const FREE = ["model.dropout", "model.code"];

const isFixed = (path: string) => FIXED.includes(path) || (/^model\./.test(path) && !FREE.includes(path));

/** Lines about what has changed. A change that makes it another training is an error, unless --force is given. */
export function changesSince({ path, saved }: Resume, { config, origin }: Resolved): string[] {
  if (!saved) return [];
  const changes = ALL.filter(({ path }) =>
    /^(model|data|training)\./.test(path) && !OF_THE_START.includes(path)
  )
    .flatMap((declared) => change(declared, saved, config));
  const refused = changes.filter(({ harmless }) => !harmless);
  if (refused.length > 0 && !config.training.force) {
    const list = refused.map(({ said, path }) => `${said} (${origin(path)})`).join(", ");
    throw new UserError(
      "checkpoint",
      `A run that goes on from ${path} can't have other settings for its model, data, loss, seed or optimizer: ${list}. ` +
        `Leave that out, or start a new run from its weights with --init-from ${path}. ` +
        "If you know that it fits (the same data in another place, say), --force goes on all the same.",
    );
  }
  if (changes.length === 0) return [];
  const forced = refused.length > 0 ? " (--force: from here on it is another training)" : "";
  return [`Changed since the checkpoint: ${changes.map(({ said }) => said).join(", ")}${forced}`];
}

interface Change {
  readonly path: string;
  /** "training.epochs 10 -> 20". */
  readonly said: string;
  readonly harmless: boolean;
}

function change(declared: Declared, saved: unknown, config: unknown): Change[] {
  const { path, setting } = declared;
  const given = read(saved, path);
  if (given === undefined) return []; // a setting that the version before did not have
  const before = fromData(declared, given, "checkpoint").value, now = read(config, path);
  if (same(path, before, now)) return [];
  if (path === "data.data_path" && now === "" && isSimulated(read(config, "data.type") as string)) return []; // made there again
  const shown = (value: unknown) => {
    const text = Array.isArray(value) ? value.join(",") : String(value);
    return text === "" ? setting.empty ?? '""' : text;
  };
  const stands = (value: unknown) =>
    CHOSEN.test(path) && (value === "auto" || (setting.empty !== undefined && value === setting.default));
  const harmless = !isFixed(path) || stands(before) || stands(now);
  return [{ path, said: `${path} ${shown(before)} -> ${shown(now)}`, harmless }];
}

function same(path: string, before: unknown, now: unknown): boolean {
  if (JSON.stringify(before) === JSON.stringify(now)) return true;
  return path === "data.data_path" && before !== "" && now !== "" &&
    resolve(before as string) === resolve(now as string);
}
