// Kinds of files that are not read, each with the line that makes a kind of it that is.

interface Conversion {
  readonly name: RegExp;
  readonly what: string;
  /** `from` is the file, `to` its name without the ending. */
  line(from: string, to: string): string;
}

const python = (code: string): string => `python -c "${code}"`;
const pandas = (call: (from: string) => string) => (from: string, to: string): string =>
  python(`import pandas as p; ${call(`'${from}'`)}.to_parquet('${to}.parquet')`);

const CONVERSIONS: readonly Conversion[] = [
  {
    name: /\.(grib|grb)2?$/,
    what: "GRIB",
    line: (from, to) =>
      python(`import xarray as x; x.open_dataset('${from}', engine='cfgrib').to_netcdf('${to}.nc')`),
  },
  { name: /\.orc$/, what: "an ORC table", line: pandas((from) => `p.read_orc(${from})`) },
  {
    name: /\.(jsonl|ndjson)$/,
    what: "a table of JSON lines",
    line: pandas((from) => `p.read_json(${from}, lines=True)`),
  },
  { name: /\.json$/, what: "JSON", line: pandas((from) => `p.read_json(${from})`) },
  { name: /\.(xlsx?|ods)$/, what: "a spreadsheet", line: pandas((from) => `p.read_excel(${from})`) },
  { name: /\.dta$/, what: "a table of Stata", line: pandas((from) => `p.read_stata(${from})`) },
  { name: /\.(sas7bdat|xpt)$/, what: "a table of SAS", line: pandas((from) => `p.read_sas(${from})`) },
  { name: /\.sav$/, what: "a table of SPSS", line: pandas((from) => `p.read_spss(${from})`) },
  {
    name: /\.(pkl|pickle)$/,
    what: "a pickle, which runs the code that is in it",
    line: pandas((from) => `p.read_pickle(${from})`),
  },
  {
    name: /\.mat$/,
    what: "a file of MATLAB",
    line: (from, to) =>
      python(
        `import numpy as n, scipy.io as s; n.savez('${to}.npz', ` +
          `**{k: v for k, v in s.loadmat('${from}').items() if k[0] != '_'})`,
      ),
  },
  { name: /\.(tar\.\w+|tgz)$/, what: "an archive", line: (from) => `tar -xf '${from}'` },
  { name: /\.zip$/, what: "an archive", line: (from) => `python -m zipfile -e '${from}' .` },
  { name: /\.gz$/, what: "packed by gzip", line: (from) => `gunzip '${from}'` },
  { name: /\.bz2$/, what: "packed by bzip2", line: (from) => `bunzip2 '${from}'` },
  { name: /\.xz$/, what: "packed by xz", line: (from) => `unxz '${from}'` },
  { name: /\.zst$/, what: "packed by zstd", line: (from) => `unzstd '${from}'` },
];

const REMOTE: readonly [scheme: RegExp, line: (path: string) => string][] = [
  [/^s3:/i, (path) => `aws s3 cp --recursive '${path}' .`],
  [/^gs:/i, (path) => `gcloud storage cp --recursive '${path}' .`],
  [/^(ssh|sftp|scp):/i, (path) => `scp -r '${path}' .`],
];

/** Null means no address of another machine. */
export function remoteCopy(path: string): string | null {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(path)) return null;
  const line = REMOTE.find(([scheme]) => scheme.test(path))?.[1] ?? ((path) => `curl -LO '${path}'`);
  return `${path} is on another machine: only Zarr stores are read there, by http:// or https://. Copy it first: ` +
    line(path);
}

/** Null means a file of no kind that is known. */
export function conversionOf(path: string): string | null {
  const found = CONVERSIONS.find(({ name }) => name.test(path.toLowerCase()));
  if (!found) return null;
  return `${path} is ${found.what}, and that is not read. Convert it: ${
    found.line(path, path.replace(/\.[^./]*$/, ""))
  }`;
}
