// `hpctrain export` of a model that was no program before: ONNX, or a .pt2 file, from a recorded forward.
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { judgedWeights, loadWeights } from "../../core/checkpoint/training_state.ts";
import { field } from "../../core/checkpoint/value.ts";
import { writeOnnx } from "../../core/export/onnx/file.ts";
import { writePt2 } from "../../core/export/pt2/file.ts";
import { recordModel } from "../../core/export/recorded.ts";
import { isExported } from "../../core/models/exported/model.ts";
import { ofPatches } from "../../core/models/patches.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { UserError } from "../../core/base/errors.ts";
import { build, savedAnswers } from "../../core/train/build.ts";
import { asUserError, openDevice } from "../../core/train/device.ts";
import { savedClimatology, savedConfig, withOwnStatistics } from "../../core/train/resume.ts";
import { loadReader } from "../../core/data/open.ts";
import { withUserCode } from "../user_code.ts";
import { withItsOwnFiles } from "./parts.ts";

type Request = Parameters<typeof resolveSettings>[0];

/** Gives what the file asks of those who use it. */
export async function writeRecorded(
  path: string,
  out: string,
  request: Request,
  raw: boolean,
): Promise<string> {
  const saved = savedConfig(path);
  const resolved = await withUserCode(resolveSettings({ ...request, checkpoint: saved }));
  try {
    using file = openCheckpoint(path);
    const own = withOwnStatistics(withItsOwnFiles(resolved, saved), file.root);
    const config = { ...own, training: { ...own.training, device: "cpu" as const } };
    if (isExported(config.model.name)) throw programAlready(path, config.model.name);
    openDevice(config);
    await loadReader(config.data);
    const look = { answers: savedAnswers(file.root), untold: true, climatology: savedClimatology(file.root) };
    const { data, model, pass } = build(config, "cpu", 1, look);
    const { root, averaged } = raw ? { root: file.root, averaged: false } : judgedWeights(file.root);
    loadWeights(model.root.stateDict(), root, path);
    const facts = ofPatches(data.train.facts, pass.patches ?? null);
    const told = (name: string) => JSON.stringify(field(field(file.root, "hpctrain"), name) ?? null, plain);
    const notes = {
      normalisation: told("normalisation"),
      target_normalisation: told("target_normalisation"),
    };
    recordModel(model, facts, (recorded) => {
      if (/\.onnx$/i.test(out)) writeOnnx(out, model.name, recorded, notes);
      else writePt2(out, model, recorded);
    });
    return `${model.describe()}${averaged ? " (averages)" : ""}`;
  } catch (error) {
    throw asUserError(error);
  }
}

const plain = (_: string, value: unknown): unknown =>
  value instanceof Map ? Object.fromEntries(value) : typeof value === "bigint" ? Number(value) : value;

const programAlready = (path: string, name: string): UserError =>
  new UserError(
    "usage",
    `${path} is of the exported program ${name}: write OUT.pt2, and make ONNX of it in Python (torch.onnx.export).`,
  );
