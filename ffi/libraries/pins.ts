// The exact wheels that `hpctrain libtorch install` takes, by version and hash as pip reports them. Imports nothing.

export interface Pin {
  /** As pip's requirements files spell it. */
  requirement: string;
  sha256: string;
}

export interface Release {
  wheels: Pin[];
  /** To download, and to keep, in MB (of 10^6 bytes). */
  download: number;
  unpacked: number;
}

export const NEWEST = "2.15.0";

/** Releases by version and architecture. Both ends of the range that this program is tested on. */
export const RELEASES: Record<string, Record<string, Release>> = {
  "2.15.0": {
    x86_64: {
      download: 554,
      unpacked: 464,
      wheels: [
        pin("torch==2.15.0", "48c2d861134c0b5697c7602cb5ffa68f62a2989fdcd1717e593356f67996ca1e"),
        pin(
          "nvidia-cuda-runtime==13.2.86",
          "3498247680dfddce31bad102af7e3e26fc795342a3cac64722bb0fa95e7f60f0",
        ),
        pin("nvidia-cuda-cupti==13.2.86", "8fa29f15dd8336181f961764d9d95236fc6b931dd0c8fcf8cd70aab0c310b586"),
      ],
    },
    aarch64: {
      download: 500,
      unpacked: 385,
      wheels: [
        pin("torch==2.15.0", "58ce2ebfb3430941353109a85be63ee8e941da22f13daa2c43344eeb51c81e06"),
        pin(
          "nvidia-cuda-runtime==13.2.86",
          "37844957894bfdecf90243568d21a2cb251b66106915b71459a23c8e6ef2da69",
        ),
        pin("nvidia-cuda-cupti==13.2.86", "d9a5c133f73fcb9013f3ada0da6fb54d4117618d81f3f5a0419417ea6ee829d4"),
      ],
    },
  },
  "2.10.0": {
    x86_64: {
      download: 927,
      unpacked: 459,
      wheels: [
        pin("torch==2.10.0", "ac5bdcbb074384c66fa160c15b1ead77839e3fe7ed117d667249afce0acabfac"),
        pin(
          "nvidia-cuda-runtime-cu12==12.8.90",
          "adade8dcbd0edf427b7204d480d6066d33902cab2a4707dcfc48a2d0fd44ab90",
        ),
        pin(
          "nvidia-cuda-cupti-cu12==12.8.90",
          "ea0cb07ebda26bb9b29ba82cda34849e73c166c18162d3913575b0c9db9a6182",
        ),
      ],
    },
    // This version's aarch64 wheel is a CPU build: it needs nothing of CUDA.
    aarch64: {
      download: 146,
      unpacked: 304,
      wheels: [pin("torch==2.10.0", "3282d9febd1e4e476630a099692b44fdc214ee9bf8ee5377732d9d9dfe5712e4")],
    },
  },
};

/** The MPI for machines that have none, by architecture. */
export const MPICH_VERSION = "5.0.2";
export const MPICH: Record<string, Release> = {
  x86_64: {
    download: 14,
    unpacked: 36,
    wheels: [pin("mpich==5.0.2", "8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4")],
  },
  aarch64: {
    download: 11,
    unpacked: 32,
    wheels: [pin("mpich==5.0.2", "992ae6ebb0da97d49d7a67000ae8112da9a3825da1bb1e6f1d196428a0410f2d")],
  },
};

function pin(requirement: string, sha256: string): Pin {
  return { requirement, sha256 };
}
