// `hpctrain predict CHECKPOINT --out FILE`: what a model says of each sample, on one rank or several.
import { environmentLines } from "../../core/settings/environment.ts";
import { type CheckpointFile, openCheckpoint } from "../../core/checkpoint/open.ts";
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import type { Resolved } from "../../core/settings/resolve.ts";
import type { Config } from "../../core/settings/settings.ts";
import { MissingColumnError } from "../../core/data/tables/choose.ts";
import { lacksTargets } from "../../core/data/open/formats.ts";
import type { Opened } from "../../core/data/open/open.ts";
import { ownPaths, relabelled } from "../../core/data/open/own_files.ts";
import { openProgress } from "../../core/base/progress.ts";
import type { GridTarget } from "../../core/data/arrays/grid.ts";
import type { Source } from "../../core/data/source/source.ts";
import { withRanks } from "../../core/ranks/session.ts";
import type { Team } from "../../core/ranks/team.ts";
import { placeFlags, rankContext } from "../../core/ranks/context.ts";
import { commandWithoutSecrets } from "../../core/base/secrets.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";
import { type ColumnRole, outputNames } from "../../core/predict/columns.ts";
import { checkOut, mayHaveGrid } from "../../core/predict/file.ts";
import { checkClassMaps, isMapFolder } from "../../core/predict/class_maps.ts";
import type { GridJob } from "../../core/predict/fields.ts";
import { type EnsembleOptions, loadForEvaluation } from "../../core/predict/load.ts";
import { predictToFile } from "../../core/predict/predict.ts";
import type { Loss } from "../../core/models/losses.ts";
import type { Pass } from "../../core/train/blocks.ts";
import { openEventLoopTurn } from "../../core/train/pauses.ts";
import { type Answers, savedAnswers, withOwnStatistics } from "../../core/train/data_facts.ts";
import { asUserError, openDevice } from "../../core/train/device.ts";
import { ranksSharingCores, shareThreads } from "../../core/train/rank_group.ts";
import { checkpointsIn, resolvedFor } from "./its_model.ts";
import { membersOf } from "./members.ts";
import { isOtherData, type PartName, partNamed, sourceOfPart, whole } from "./parts.ts";
import { OPTIONS, SETTINGS, USAGE } from "../predict.ts";

export async function predict(argv: string[]): Promise<number> {
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { options } = parseOptions(own, OPTIONS, USAGE);
  const env = Deno.env.toObject();
  const words = { argv: rest, env, positionals: Infinity, usage: USAGE };
  const { positionals: [path, ...others], config: { distributed } } = checkpointsIn(words, SETTINGS);
  if (path === undefined || options.out === undefined) {
    const what = path === undefined ? "Which checkpoint should predict?" : "Where should the predictions go?";
    throw new UserError("usage", `${what} Usage: ${USAGE}`);
  }
  const where = rankContext(env, placeFlags(distributed));
  checkOut(options.out);
  const { resolved, saved } = await resolvedFor(path, { ...words, ranks: where.world }, SETTINGS);
  if (where.rank === 0) environmentLines(resolved).forEach((line) => console.error(line));
  const request = {
    path,
    out: options.out,
    all: options.all || options.on === "all",
    on: options.on === undefined || options.on === "all" ? null : partNamed(options.on),
    targets: !options["no-targets"],
    masked: !options["no-mask"],
    probabilities: options.probabilities,
    ensemble: await membersOf(others, { ...words, ranks: where.world, takes: SETTINGS }, options),
    saved,
    argv,
  };
  try {
    if (where.world === 1) {
      return await toFile(request, resolved, { ...openDevice(resolved.config), team: null });
    }
    const { config } = resolved;
    const opened = openDevice(config, where.localRank);
    const backendFrom = resolved.origin("distributed.backend");
    const session = { where, config, env, backendFrom, ...opened, end: "the end of predicting" };
    return await withRanks(session, ({ team }) => {
      const sharing = ranksSharingCores(team);
      if (opened.device === "cpu") shareThreads(sharing, config.training.threads, env);
      return toFile(request, resolved, { ...opened, team, sharing });
    });
  } catch (error) {
    throw asUserError(error);
  }
}

interface PredictRequest {
  readonly path: string;
  readonly out: string;
  readonly all: boolean;
  readonly on: PartName | null;
  readonly targets: boolean;
  readonly masked: boolean;
  readonly probabilities: boolean;
  readonly ensemble: EnsembleOptions;
  /** The run's own settings. */
  readonly saved: unknown;
  readonly argv: readonly string[];
}

interface Place extends ReturnType<typeof openDevice> {
  readonly team: Team | null;
  /** Ranks that use the same cores as this one. */
  readonly sharing?: number;
}

async function toFile(request: PredictRequest, resolved: Resolved, place: Place): Promise<number> {
  const { path, out, saved, argv } = request;
  const { team } = place;
  using file = openCheckpoint(path);
  const others = isOtherData(resolved.config, saved);
  const targets = request.targets && !lacksTargets(resolved.config.data);
  const own = withOwnStatistics(resolved.config, file.root);
  const config = unweighted(others ? whole(own, resolved) : own);
  const { quiet, json } = config.output;
  const answers = others || !targets ? knownFrom(file, targets) : null;
  const options = {
    config,
    resolved,
    ...place,
    answers,
    silent: !targets,
    unsplit: others,
    predicts: true,
    ensemble: request.ensemble,
  };
  const { data, pass, batchSize, openFeed } = await withAdvice(
    targets && others,
    () => loadForEvaluation(file, options),
  );
  if ((team?.rank ?? 0) === 0) { for (const line of pass.model.drawing ?? []) console.error(line); }
  const roles = rolesOf(data, request, others, ownPaths(config.data).length > 0);
  checkClassMaps(out, roles.map(({ source }) => source));
  const feed = openFeed(roles.map(({ source }) => source));
  const first = (team?.rank ?? 0) === 0;
  const progress = openProgress("Predicting", { quiet: quiet || json || !first });
  const turn = openEventLoopTurn();
  const samples = roles.reduce((sum, { source }) => sum + source.length, 0);
  const total = Math.ceil(samples / (team?.world ?? 1));
  const poll = async (done: number) => {
    progress.update({ done: Math.min(done, total), kept: 0, total });
    if (turn.due()) await turn.take();
  };
  const oneTable = roles.every(({ source }) => source.indices);
  const target = roles[0].source.names ?? [], named = answers?.names ?? target;
  const predicted = data.rollout && named.length !== data.train.facts.outputs ? target : named;
  const grid = mayHaveGrid(out) ? gridJob(request, roles[0].source, pass, predicted, answers) : null;
  const columns = await predictToFile({
    ...{ out, roles, team },
    order: { oneTable, split: !others || !oneTable },
    names: { predicted: outputNames(pass.loss, predicted, data.train.facts.outputs), target },
    grid,
    job: {
      pass,
      feed,
      batchSize,
      targets,
      relabel: relabelled(target, predicted),
      segments: grid?.segments || isMapFolder(out),
      probabilities: request.probabilities,
      poll,
    },
    command: ["hpctrain predict", ...commandWithoutSecrets(argv)].join(" "),
  });
  progress.clear();
  feed.close();
  if (!columns) return EXIT.done;
  const sides = ({ shape, dimensions }: typeof columns[number]) =>
    shape.map((size, i) => dimensions ? `${dimensions[i]}=${size}` : size).join(", ");
  const written = columns.map((column) => `${column.name} [${sides(column)}]`).join(", ");
  if (json) {
    console.log(JSON.stringify({ checkpoint: path, out, samples, columns }));
  } else console.log(`Wrote ${written} of ${formatPlural(samples, "sample")} to ${out}.`);
  return EXIT.done;
}

/** Null where the data is on no grid. */
function gridJob(
  { path, masked }: PredictRequest,
  { grid: gridOf, units, facts: { task, outputs } }: Source,
  { loss }: Pass,
  names: readonly string[],
  answers: Answers | null,
): (GridJob & { readonly segments: boolean }) | null {
  const found = gridOf?.() ?? null;
  if (!found) return null;
  const grid = { ...found, targets: found.targets.map((target) => described(target, answers)) };
  const segments = task === "segmentation", classes = segments || task === "classification";
  return {
    ...{ grid, units, masked, checkpoint: path, segments },
    classes: classes ? Array.from({ length: outputs }, (_, i) => names[i] ?? "") : null,
    parts: partsOf(loss),
    ignored: loss.ignored ?? null,
  };
}

/** The run knows the units of a target that the data lacks. */
const described = (target: GridTarget, answers: Answers | null): GridTarget =>
  target.dtype === null
    ? { ...target, attributes: new Map(Object.entries(answers?.about?.[target.name] ?? {})) }
    : target;

const partsOf = ({ levels, point = 0 }: Loss): GridJob["parts"] =>
  levels ? { count: levels.length, point, quantiles: levels } : { count: 1, point: 0 };

/** Nothing is judged, and other data may not have what the loss was weighted by. */
const unweighted = (config: Config): Config => ({
  ...config,
  training: { ...config.training, loss_weight: "" },
});

/** Data without targets is what many have to predict from. */
async function withAdvice<R>(useful: boolean, open: () => Promise<R>): Promise<R> {
  try {
    return await open();
  } catch (error) {
    if (!useful || !(error instanceof MissingColumnError) || error.setting !== "--targets") throw error;
    throw new UserError(
      error.kind,
      `${error.message} For data that nobody has the answers to: --no-targets.`,
    );
  }
}

/** The model's answers, from its checkpoint. Only data without targets can't do without them. */
function knownFrom(file: CheckpointFile, targets: boolean): Answers | null {
  const known = savedAnswers(file.root);
  if (known || targets) return known;
  throw new UserError(
    "usage",
    `${file.path} does not say what its model answers, as checkpoints of hpctrain do since 0.1: give data that has targets, and ` +
      "leave out --no-targets.",
  );
}

const ROLES = { test: "test", validation: "val", train: "train", all: "train" } as const;

function rolesOf(
  data: Opened,
  { all, on }: Pick<PredictRequest, "all" | "on">,
  others: boolean,
  ownFiles: boolean,
): { readonly role: ColumnRole; readonly source: Source }[] {
  if (on !== null && (all || others)) {
    throw new UserError(
      "usage",
      `--on ${on} takes a part of the run's own data, and ${
        all ? "--all" : "another --data-path"
      } takes everything: leave one of them out.`,
    );
  }
  if (on !== null) return [{ role: ROLES[on], source: sourceOfPart(data, on) }];
  const { train, val, test } = data;
  if (all && !others && ownFiles) {
    throw new UserError(
      "usage",
      "--all puts the samples of one data set in their order, and here those to validate or to test with have files of " +
        "their own: give --on train, --on validation or --on test.",
    );
  }
  const role = (role: ColumnRole, source: Source | null) => source ? [{ role, source }] : [];
  if (all || others) return [...role("train", train), ...role("val", val), ...role("test", test)];
  if (val) return [{ role: "val", source: val }];
  throw new UserError(
    "data",
    "There is no validation data: give --all for all samples, or --data-path for others.",
  );
}
