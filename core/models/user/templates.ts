// Reads the templates of users' files and the declarations that they import from the folder beside this file,
// which is embedded in the executable.
import { UserError } from "../../base/errors.ts";
import { isPython } from "../../base/files.ts";

export const TEMPLATE_KINDS = {
  model: "--model",
  data: "--data",
  loss: "--loss",
  metric: "--metric",
  optimizer: "--optimizer",
} as const;

export type TemplateKind = keyof typeof TEMPLATE_KINDS;

const read = (name: string): string => Deno.readTextFileSync(new URL(`./templates/${name}`, import.meta.url));

export const typeDeclarations = (): string => read("hpctrain.d.ts");

export const template = (kind: TemplateKind, file: string): string =>
  read(kind === "data" && isPython(file) ? "data.py" : `${kind}.ts`).replace(" FILE\n", ` ${file}\n`);

/** Files that exist stay as they are. */
export function writeTemplate(kind: TemplateKind, file: string): void {
  try {
    Deno.writeTextFileSync(file, template(kind, file), { createNew: true });
  } catch (cause) {
    if (cause instanceof Deno.errors.AlreadyExists) {
      throw new UserError(
        "usage",
        `${file} is there already, and is left as it is. Name another file: hpctrain new ${kind} FILE.`,
        { cause },
      );
    }
    const why = cause instanceof Error ? cause.message.split(" (os error")[0] : cause;
    throw new UserError("usage", `${file} can't be written: ${why}.`, { cause });
  }
}
