// Kinds of files that are not read, each with the line that makes a kind of it that is.

interface Conversion {
  readonly name: RegExp;
  readonly what: string;
  /** `from` is the file, `to` its name without the ending. */
  line(from: string, to: string): string;
}

/** Names that HDF5 files go by as well. */
const MAYBE_HDF5 = /\.(hdf4?|he5|h4|mat|jld2|nxs)$/;
const HDF5_MARK = "\x89HDF\r\n\x1a\n";

const python = (code: string): string => `python -c "${code}"`;
const arrays = (code: string, values: string) => (from: string, to: string): string =>
  python(`import numpy as n; ${code}; n.savez('${to}.npz', ${values})`.replaceAll("FROM", `'${from}'`));
const pillow = (from: string, to: string): string =>
  python(`from PIL import Image as i; i.open('${from}').convert('RGB').save('${to}.png')`);
const pandas = (call: (from: string) => string) => (from: string, to: string): string =>
  python(`import pandas as p; ${call(`'${from}'`)}.to_parquet('${to}.parquet')`);

const CONVERSIONS: readonly Conversion[] = [
  {
    name: /\.(grib|grb)2?$/,
    what: "GRIB",
    line: (from, to) =>
      python(`import xarray as x; x.open_dataset('${from}', engine='cfgrib').to_netcdf('${to}.nc')`),
  },
  {
    name: /\.(bufr|bfr)$/,
    what: "BUFR",
    line: (from, to) =>
      python(`import pdbufr as b; b.read_bufr('${from}', columns='all').to_parquet('${to}.parquet')`),
  },
  {
    name: /\.(hdf4?|h4)$/,
    what: "HDF4",
    line: arrays("from pyhdf.SD import SD; d = SD(FROM)", "**{k: d.select(k).get() for k in d.datasets()}"),
  },
  {
    name: /\.root$/,
    what: "a file of ROOT",
    line: (from, to) =>
      python(
        `import uproot as u; u.open('${from}')['TREE'].arrays(library='pd').to_parquet('${to}.parquet')`,
      ),
  },
  {
    name: /\.(tfrecords?|tfrec)$/,
    what: "TFRecord",
    line: arrays(
      "from tfrecord import tfrecord_loader as t; r = [*t(FROM, None)]",
      "**{k: n.stack([x[k] for x in r]) for k in r[0]}",
    ),
  },
  {
    name: /\.(pt|pth)$/,
    what: "a file of PyTorch",
    line: arrays(
      "import torch as t; d = t.load(FROM, weights_only=True)",
      "**{k: v.numpy() for k, v in d.items()}",
    ),
  },
  {
    name: /\.safetensors$/,
    what: "a file of safetensors",
    line: arrays("from safetensors.numpy import load_file as f", "**f(FROM)"),
  },
  {
    name: /\.joblib$/,
    what: "a pickle of joblib, which runs the code that is in it",
    line: pandas((from) => `import joblib as j; p.DataFrame(j.load(${from}))`),
  },
  {
    name: /\.nii(\.gz)?$/,
    what: "NIfTI",
    line: (from, to) =>
      python(
        `import numpy as n, nibabel as b; n.save('${
          to.replace(/\.nii$/, "")
        }.npy', b.load('${from}').get_fdata())`,
      ),
  },
  {
    name: /\.(dcm|dicom)$/,
    what: "DICOM",
    line: (from, to) =>
      python(`import numpy as n, pydicom as d; n.save('${to}.npy', d.dcmread('${from}').pixel_array)`),
  },
  {
    name: /\.mrcs?$/,
    what: "MRC",
    line: (from, to) => python(`import numpy as n, mrcfile as m; n.save('${to}.npy', m.read('${from}'))`),
  },
  {
    name: /\.(jp2|j2k|jxl|heic|avif|bmp|gif|tga|ppm|pgm)$/,
    what: "an image that is neither JPEG, PNG, WebP nor TIFF",
    line: pillow,
  },
  {
    name: /\.(sqlite3?|db)$/,
    what: "a data base",
    line: (from, to) =>
      python(
        `import pandas as p, sqlite3 as s; p.read_sql('select * from TABLE', s.connect('${from}')).to_parquet('${to}.parquet')`,
      ),
  },
  {
    name: /\.avro$/,
    what: "Avro",
    line: pandas((from) => `import fastavro as f; p.DataFrame(f.reader(open(${from}, 'rb')))`),
  },
  {
    name: /\.(rds|rdata)$/,
    what: "a file of R",
    line: (from, to) =>
      python(`import pyreadr as r; [*r.read_r('${from}').values()][0].to_parquet('${to}.parquet')`),
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
    what: "a file of MATLAB before version 7.3",
    line: (from, to) =>
      python(
        `import numpy as n, scipy.io as s; n.savez('${to}.npz', ` +
          `**{k: v for k, v in s.loadmat('${from}').items() if k[0] != '_'})`,
      ),
  },
  { name: /\.(tar\.\w+|tgz)$/, what: "an archive", line: (from) => `tar -xf '${from}'` },
  { name: /\.zip$/, what: "an archive", line: (from) => `python -m zipfile -e '${from}' .` },
  { name: /\.7z$/, what: "an archive", line: (from) => `7z x '${from}'` },
  { name: /\.rar$/, what: "an archive", line: (from) => `unrar x '${from}'` },
  { name: /\.lz4$/, what: "packed by LZ4", line: (from) => `unlz4 '${from}'` },
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
  if (MAYBE_HDF5.test(path.toLowerCase()) && beginsAsHdf5(path)) {
    return `${path} is HDF5 by another name: read it with --data-type hdf5.`;
  }
  const found = CONVERSIONS.find(({ name }) => name.test(path.toLowerCase()));
  if (!found) return null;
  return `${path} is ${found.what}, and that is not read. Convert it: ${
    found.line(path, path.replace(/\.[^./]*$/, ""))
  }`;
}

/** MATLAB since version 7.3 has a head of 512 bytes in front. */
function beginsAsHdf5(path: string): boolean {
  try {
    using file = Deno.openSync(path);
    const bytes = new Uint8Array(512 + HDF5_MARK.length);
    let count = 0;
    for (let more: number | null = 1; more && count < bytes.length; count += more ?? 0) {
      more = file.readSync(bytes.subarray(count));
    }
    const text = String.fromCharCode(...bytes.subarray(0, count));
    return text.startsWith(HDF5_MARK) || text.startsWith(HDF5_MARK, 512);
  } catch {
    return false; // the sentence about its name is as good
  }
}
