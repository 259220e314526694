// The kinds of data, by name. A new one is a folder with its Format, and a line in core/parts.ts.
import { isFile } from "../../base/files.ts";
import { PARTS, type Parts } from "../../parts.ts";
import { DATA_KIND_NAMES, type DataKind } from "../../settings/formats.ts";
import type { Format } from "../format.ts";
import type { Config } from "../../settings/settings.ts";
import { filesNamed, filesText, isUrl } from "../arrays/paths.ts";
import { UserError } from "../../base/errors.ts";
import { conversionOf, remoteCopy } from "./conversions.ts";
import { isCode } from "../../models/user/file.ts";
import { didYouMean } from "../../base/suggest.ts";

const FILES: Parts<Readonly<Partial<Record<string, Format>>>> = PARTS.formats;

export const FORMATS: Readonly<Record<DataKind, Format>> = Object.assign(
  {},
  ...await Promise.all(Object.values(FILES).map(({ load }) => load())),
);

/** Its samples are made where no path names them. */
export const isMade = (kind: string): boolean =>
  Object.hasOwn(FORMATS, kind) && FORMATS[kind as DataKind].path === "";

export const hasColumns = (data: Config["data"]): boolean =>
  data.code === "" && formatOf(data).isTable === true;

export const hasTargets = (data: Config["data"]): boolean =>
  hasColumns(data) || (data.code === "" && formatOf(data).namesTargets === true);

export const lacksTargets = (data: Config["data"]): boolean =>
  data.code === "" && formatOf(data).lacksTargets?.(data.data_path) === true;

export const dataKindOf = ({ type, data_path }: Pick<Config["data"], "type" | "data_path">): DataKind =>
  type === "auto" ? detect(data_path) : type;

const formatOf = (data: Config["data"]): Format => formatNamed(dataKindOf(data));

export function formatNamed(kind: DataKind): Format {
  if (Object.hasOwn(FORMATS, kind)) return FORMATS[kind];
  throw new UserError(
    "usage",
    `Unknown data type "${kind}".${didYouMean(kind, DATA_KIND_NAMES)} Available: ${
      DATA_KIND_NAMES.join(", ")
    }.`,
  );
}

export function checkPath(kind: DataKind, { path: needed, many }: Format, path: string): void {
  if (needed === null && path !== "") {
    // A preset may have chosen the type: made-up data instead of the user's would surprise.
    throw new UserError(
      "usage",
      `data.type is ${kind}, which makes its own data, but --data-path is ${path}: ` +
        "name the kind of data that is there with --data-type, or leave --data-path out.",
    );
  }
  if (isUrl(path) && (!FORMATS[kind].onServer || /\.zip$/i.test(path))) throw notOnServer(path, kind);
  const files = needed && !many ? filesNamed(path) : null;
  if (files) {
    const several = DATA_KIND_NAMES.filter((kind) => FORMATS[kind].many);
    throw new UserError(
      "usage",
      `--data-path ${path} names ${filesText(files)}, and ${kind} data is one file or folder. Files of ` +
        `${several.join(", ")} are joined: others are packed one by one (hpctrain pack), or joined before.`,
    );
  }
  if (needed && path === "") {
    throw new UserError("usage", `data.type ${kind} needs --data-path: ${needed}.`);
  }
}

const endings = () => DATA_KIND_NAMES.flatMap((kind) => FORMATS[kind].endings);

export const isNamedAsData = (path: string): boolean =>
  endings().some((ending) => path.toLowerCase().endsWith(ending)) ||
  Object.values(FORMATS).some(({ previews }) => previews?.test(path));

export function detect(path: string): DataKind {
  if (path === "") return "synthetic";
  if (isUrl(path)) return kindOnServer(path);
  const elsewhere = remoteCopy(path);
  if (elsewhere) throw new UserError("data", elsewhere);
  const lower = path.toLowerCase();
  const kinds = Object.entries(FORMATS) as [DataKind, Format][];
  const byName = kinds.find(([, { claims }]) => claims?.(path)) ??
    kinds.find(([, { endings }]) => endings.some((ending) => lower.endsWith(ending)));
  if (byName) return byName[0];
  const files = filesNamed(path, endings());
  if (files) return kindOfAll(path, files);
  if (isCode(path)) {
    throw new UserError(
      "usage",
      `${path} is a program and not data: train with what it gives by --data ${path}.`,
    );
  }
  const inFolder = kinds.find(([, { folder }]) => folder?.detect(path));
  if (inFolder) return inFolder[0];
  const conversion = isFile(path) ? conversionOf(path) : null;
  if (conversion) throw new UserError("data", conversion);
  const folders = kinds.flatMap(([, { folder }]) => folder ? [folder.has] : []);
  throw new UserError(
    "data",
    exists(path)
      ? `${path} doesn't say by its name what kind of data it is: files end in ${endings().join(", ")}, ` +
        `and a folder has ${folders.slice(0, -1).join(", ")} or ${folders.at(-1)} in it. ` +
        "Name the kind with --data-type."
      : `There is no ${path}. Check data.data_path (--data-path).`,
  );
}

/** Whatever the name of a store is. */
function kindOnServer(path: string): DataKind {
  const name = path.toLowerCase().replace(/[?#].*$/, "");
  const other = DATA_KIND_NAMES.find((kind) => FORMATS[kind].endings.some((ending) => name.endsWith(ending)));
  const served = servedKind();
  if (!served || other && (other !== served || name.endsWith(".zip"))) throw notOnServer(path, other);
  return served;
}

const servedKind = (): DataKind | undefined => DATA_KIND_NAMES.find((kind) => FORMATS[kind].onServer);

function notOnServer(path: string, kind?: DataKind): UserError {
  const served = servedKind(), name = served && FORMATS[served].onServer;
  const what = kind && kind === served ? `${name} in a zip file` : kind ? `${kind} data` : path;
  const only = served ? `, and from a server only ${name} in a folder` : "";
  return new UserError(
    "usage",
    `${what} is read from files of this machine${only}. Copy it first (curl -LO '${path}').`,
  );
}

/** Globs such as era5/* tell the kind by their files. */
function kindOfAll(path: string, files: readonly string[]): DataKind {
  const found = files.map((file) =>
    DATA_KIND_NAMES.find((kind) =>
      FORMATS[kind].endings.some((ending) => file.toLowerCase().endsWith(ending))
    )
  );
  const [first] = found, odd = found.findIndex((kind) => kind === undefined || kind !== first);
  if (first !== undefined && odd < 0) return first;
  const [one, other] = [files[0], files[Math.max(odd, 0)]];
  throw new UserError(
    "data",
    first === undefined
      ? `${path} names ${one}, which doesn't say by its name what kind of data it is: files end in ` +
        `${endings().join(", ")}. Name the kind with --data-type.`
      : `${path} names files of several kinds, ${one} and ${other}: name those of one kind by their ending, ` +
        "such as '*.nc', or say which kind with --data-type.",
  );
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch (error) {
    return !(error instanceof Deno.errors.NotFound);
  }
}
