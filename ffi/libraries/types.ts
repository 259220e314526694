// What is known of a libtorch on this machine. Imports nothing.

/** A libtorch that this program can load. */
export interface Libtorch {
  /** The folder that holds libtorch_cpu.so. */
  dir: string;
  /** Major, minor, patch. */
  version: readonly [number, number, number];
  /** As the library's own files spell it, e.g. "2.15.0+cu132". */
  versionText: string;
  /** libtorch_cuda.so is there and finds what it needs; whether there is a driver is not asked here. */
  cuda: boolean;
  /** The place that named it, as the user would: "HPCTRAIN_LIBTORCH", "the active virtual environment", ... */
  from: string;
}

/** A place that was looked at and can't be used, with the reason as a clause: "it is too old: ...". */
export interface Rejected {
  dir: string;
  from: string;
  reason: string;
}

export interface Found {
  chosen: Libtorch | null;
  usable: Libtorch[];
  rejected: Rejected[];
}

export type Env = Record<string, string>;
