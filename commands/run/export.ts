// `hpctrain export CHECKPOINT OUT`: weights for Python, or an exported program with the trained weights in it.
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { writePt } from "../../core/checkpoint/pt.ts";
import { writeSafetensors } from "../../core/checkpoint/safetensors_writer.ts";
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { type ExportedWeights, stateDictOf, weightsOf } from "../../core/checkpoint/weights.ts";
import { writeProgram } from "../../core/export/export.ts";
import { formOf } from "../../core/export/programs.ts";
import { formatBytes, formatChoices, formatPlural } from "../../core/base/format.ts";
import { isExported } from "../../core/models/user/file.ts";
import { refuseForeign } from "../../core/models/user/code.ts";
import { settingsIn } from "../../core/train/run_folder.ts";
import { savedConfig } from "../../core/train/resume.ts";
import { OPTIONS, PROGRAMS, SETTINGS, USAGE } from "../export.ts";

export async function exportWeights(argv: string[]): Promise<number> {
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { options } = parseOptions(own, OPTIONS, USAGE);
  const request = {
    argv: rest,
    env: Deno.env.toObject(),
    positionals: Infinity,
    usage: USAGE,
    takes: SETTINGS,
  };
  const { positionals } = resolveSettings(request);
  if (positionals.length !== 2) {
    throw new UserError(
      "usage",
      `export takes a checkpoint and the file to write, but got ${positionals.length}. Usage: ${USAGE}`,
    );
  }
  const [path, out] = positionals;
  const form = await formOf(out);
  if (form || /\.pt2$/i.test(out) && options.model === undefined && !isOfProgram(path)) {
    refuseOverwrite(out, options.force);
    const { writeRecorded } = await import("./export_program.ts");
    const what = await writeRecorded(path, out, form, request, options.raw === true);
    const opens = form ? `In Python: ${form.inPython(out)}` : inPython(out);
    console.log(`Wrote ${what} to ${out} (${formatBytes(Deno.statSync(out).size)}). ${opens}`);
    return EXIT.done;
  }
  const write = await writerFor(out, path, options.model);
  using file = openCheckpoint(path);
  refuseOverwrite(out, options.force);
  const weights = weightsOf(file.root, path, options.raw);
  write(weights);
  const { tensors, averaged } = weights;
  const what = `${formatPlural(tensors.size, "tensor")}${averaged ? " (averages)" : ""}`;
  console.log(`Wrote ${what} to ${out} (${formatBytes(Deno.statSync(out).size)}). ${inPython(out)}`);
  const { normalise, normalise_targets: targets } = (settingsIn(file.root) as Saved)?.data ?? {};
  if (normalise === "measured" || targets === "on" || targets === true) console.log(OF_SCALED);
  return EXIT.done;
}

const OF_SCALED =
  "Weights scale nothing: they are of inputs and targets less the means and divided by the deviations that the " +
  'checkpoint has in ["hpctrain"], in "normalisation" and "target_normalisation". A built-in model\'s ' +
  `${["pt2", ...PROGRAMS].map((ending) => `OUT.${ending}`).join(" or ")} does that itself.`;

/** The ending chooses the format; a wrong one is refused before anything is read. */
async function writerFor(
  out: string,
  path: string,
  model: string | undefined,
): Promise<(weights: ExportedWeights) => void> {
  if (/\.pt2$/i.test(out)) {
    const program = model ?? await programOf(path);
    return ({ tensors }) => {
      writeProgram(program, out, tensors, path);
    };
  }
  if (model !== undefined) {
    throw new UserError(
      "usage",
      `--model names the program for a .pt2 file, and ${out} is none: leave it out.`,
    );
  }
  if (/\.safetensors$/i.test(out)) {
    return ({ tensors }) => writeSafetensors(out, tensors, { metadata: { format: "pt" }, sums: true });
  }
  if (/\.(pt|pth|bin)$/i.test(out)) {
    return (weights) => {
      writePt(out, stateDictOf(weights), { verify: true });
    };
  }
  throw new UserError(
    "usage",
    `${out}: its ending must say the format: .pt (or .pth, .bin), ${
      formatChoices(["safetensors", "pt2", ...PROGRAMS].map((ending) => `.${ending}`))
    }.`,
  );
}

type Saved = {
  readonly model?: { readonly name?: unknown; readonly code?: unknown };
  readonly data?: { readonly normalise?: unknown; readonly normalise_targets?: unknown };
} | null;

/** True where the run trained an exported program. */
function isOfProgram(path: string): boolean {
  const name = (savedConfig(path) as Saved)?.model?.name;
  return typeof name !== "string" || isExported(name);
}

/** The exported program that the run trained. */
async function programOf(path: string): Promise<string> {
  const saved = savedConfig(path) as Saved;
  const name = saved?.model?.name;
  if (typeof name !== "string" || !isExported(name)) {
    throw new UserError(
      "usage",
      `${path} is of a model unknown here: write its weights to OUT.pt or OUT.safetensors, or name the program with ` +
        "--model my.pt2.",
    );
  }
  try {
    Deno.statSync(name);
  } catch {
    throw new UserError(
      "usage",
      `${name}, which ${path} was trained from, is not there: say where with --model FILE.`,
    );
  }
  const code = saved?.model?.code;
  await refuseForeign(name, "--model", typeof code === "string" ? code.split("-") : []);
  return name;
}

function refuseOverwrite(out: string, force: boolean): void {
  let found: Deno.FileInfo;
  try {
    found = Deno.statSync(out);
  } catch {
    return; // not there; anything else that is wrong shows when it is written
  }
  if (found.isDirectory) throw new UserError("usage", `${out} is a folder: name a file in it.`);
  if (!force) {
    throw new UserError("usage", `${out} exists already; name another file, or replace it with --force.`);
  }
}

function inPython(out: string): string {
  if (/\.pt2$/i.test(out)) return `In Python: torch.export.load("${out}").module()`;
  return /\.safetensors$/i.test(out)
    ? `In Python: model.load_state_dict(safetensors.torch.load_file("${out}"))`
    : `In Python: model.load_state_dict(torch.load("${out}", weights_only=True))`;
}
