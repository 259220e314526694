// The user's TypeScript files that the settings name, opened with the library.
import { withKnownNames } from "../core/models/user/named.ts";
import type { Resolved } from "../core/settings/resolve.ts";
import {
  codeHash,
  openUserCode,
  refuseForeignCode,
  type TrainingCode,
  trainingCode,
} from "../core/models/user/code.ts";
import { isCode, isExported } from "../core/models/user/file.ts";
import { isPython } from "../core/base/files.ts";
import type { Library } from "../core/models/user/library.ts";

/** Notes the files' hash in the settings, so that ranks and checkpoints are compared by it. Without such files it is nothing. */
export const withUserCode = (resolved: Resolved): Promise<Resolved> => withFiles(resolved, []);

/** With those of an optimizer and a schedule, too, of a run that trains. */
export const withTrainingCode = (resolved: Resolved): Promise<Resolved> =>
  withFiles(resolved, trainingCode(resolved.config));

async function withFiles(resolved: Resolved, more: readonly TrainingCode[]): Promise<Resolved> {
  const { config } = resolved;
  const { model, training, data } = config;
  await refuseForeignCode(resolved, more);
  const program = isExported(model.name) ? await codeHash(model.name) : "";
  const named = [model.name, training.loss, training.metric, data.code, ...more.map(({ path }) => path)];
  if (!named.some(isCode) && !isPython(data.code)) {
    return program === ""
      ? resolved
      : { ...resolved, config: { ...config, model: { ...model, code: program } } };
  }
  const { address } = await import("./user_reader.ts");
  const files = await openUserCode(
    config,
    withKnownNames({ ...await import("../mod.ts") } satisfies Library),
    address,
    more,
  );
  const code = program === "" ? files : `${program}-${files}`;
  return { ...resolved, config: { ...config, model: { ...model, code } } };
}
