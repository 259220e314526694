// `hpctrain export` of a model that was no program before: a .pt2 file or another form, from a recorded forward.
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { judgedWeights, loadWeights } from "../../core/checkpoint/training_state.ts";
import { field, type Value } from "../../core/checkpoint/value.ts";
import { writePt2 } from "../../core/export/pt2/file.ts";
import type { ProgramForm } from "../../core/export/programs.ts";
import { recordModel } from "../../core/export/recorded.ts";
import { inUnits } from "../../core/export/units.ts";
import { isExported } from "../../core/models/exported/model.ts";
import { ofPatches } from "../../core/models/patches.ts";
import type { Loss } from "../../core/models/losses.ts";
import type { Facts, Model } from "../../core/models/model.ts";
import { type Resolved, resolveSettings } from "../../core/settings/resolve.ts";
import type { Config } from "../../core/settings/settings.ts";
import { isTyped } from "../../core/settings/values.ts";
import { UserError } from "../../core/base/errors.ts";
import { build } from "../../core/train/build.ts";
import { modelAsTrained } from "../../core/train/fed_model.ts";
import {
  savedAnswers,
  savedClimatology,
  savedNormalisation,
  savedTrainedOn,
  withOwnStatistics,
} from "../../core/train/data_facts.ts";
import { asUserError, openDevice } from "../../core/train/device.ts";
import { savedConfig } from "../../core/train/resume.ts";
import { loadDataReader } from "../../core/data/open/open.ts";
import { withUserCode } from "../user_code.ts";
import { withItsOwnParts } from "./parts.ts";

type Request = Parameters<typeof resolveSettings>[0];

/** Gives what the file asks of those who use it. */
export async function writeRecorded(
  path: string,
  out: string,
  form: ProgramForm | null,
  request: Request,
  raw: boolean,
): Promise<string> {
  const saved = savedConfig(path);
  const given = resolveSettings({ ...request, checkpoint: saved });
  try {
    using file = openCheckpoint(path);
    // Whoever names other data, or another way to see it, wants a model for that.
    const wanted = Object.keys(given.config.data).some((name) => isTyped(given.origin(`data.${name}`)));
    const known = wanted ? null : savedTrainedOn(file.root);
    const resolved = await withUserCode(known ? withoutData(given) : given);
    const own = withOwnStatistics(withItsOwnParts(resolved, saved), file.root);
    const config = { ...own, training: { ...own.training, device: "cpu" as const } };
    if (isExported(config.model.name)) throw programAlready(path, config.model.name);
    openDevice(config);
    const { model, facts, loss } = known
      ? modelAsTrained(config, known, savedNormalisation(file.root))
      : await modelForData(config, file.root);
    const { root, averaged } = raw ? { root: file.root, averaged: false } : judgedWeights(file.root);
    loadWeights(model.root.stateDict(), root, path);
    const normalisation = savedNormalisation(file.root);
    const { model: program, within } = inUnits(model, config.data, facts, loss, normalisation);
    // The metadata tells what is left to those who use the file.
    const option = (name: typeof within[number]) =>
      JSON.stringify(within.includes(name) ? null : field(field(file.root, "hpctrain"), name) ?? null, plain);
    const notes = {
      normalisation: option("normalisation"),
      target_normalisation: option("target_normalisation"),
    };
    recordModel(program, facts, (recorded) => {
      if (form) form.write(out, model, recorded, notes);
      else writePt2(out, model, recorded);
    });
    return `${model.describe()}${averaged ? " (averages)" : ""}`;
  } catch (error) {
    throw asUserError(error);
  }
}

/** Neither the data nor code that gives it has to be there, nor what judges it. */
const withoutData = (resolved: Resolved): Resolved => {
  const { config, config: { data, training } } = resolved;
  const unnamed = { ...data, code: "", data_path: "", validation_path: "", test_path: "" };
  return { ...resolved, config: { ...config, data: unnamed, training: { ...training, metric: "" } } };
};

/** For what a checkpoint of an older version does not say, or not of this data. */
async function modelForData(
  config: Config,
  root: Value,
): Promise<{ model: Model; facts: Facts; loss: Loss }> {
  await loadDataReader(config.data);
  const choices = { answers: savedAnswers(root), silent: true, climatology: savedClimatology(root) };
  const { data, model, pass } = build(config, "cpu", 1, choices);
  return { model, facts: ofPatches(data.train.facts, pass.patches ?? null), loss: pass.loss };
}

const plain = (_: string, value: unknown): unknown =>
  value instanceof Map ? Object.fromEntries(value) : typeof value === "bigint" ? Number(value) : value;

const programAlready = (path: string, name: string): UserError =>
  new UserError(
    "usage",
    `${path} is of the exported program ${name}: write OUT.pt2, and make ONNX of it in Python (torch.onnx.export).`,
  );
