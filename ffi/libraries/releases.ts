// The releases of PyTorch and MPICH that can be installed, each with the hashes of its wheels. The CPU library needs two of CUDA's
// wheels, too; the CUDA one needs everything that its libraries load.

export interface Pin {
  readonly requirement: string;
  readonly sha256: string;
}

export interface Release {
  readonly wheels: readonly Pin[];
  /** In MB (10^6 bytes). */
  readonly download: number;
  readonly unpacked: number;
}

export interface CudaRelease extends Release {
  /** The least CUDA that a driver must serve. */
  readonly driver: number;
}

export const NEWEST = "2.15.0";

export const RELEASES: Readonly<Record<string, Readonly<Record<string, Release>>>> = {
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

/** A driver serves every CUDA of its own major version. */
export const CUDA_RELEASES: Readonly<Record<string, Readonly<Record<string, CudaRelease>>>> = {
  "2.15.0": {
    x86_64: {
      driver: 13,
      download: 2691,
      unpacked: 3560,
      wheels: [
        pin("torch==2.15.0", "48c2d861134c0b5697c7602cb5ffa68f62a2989fdcd1717e593356f67996ca1e"),
        pin(
          "nvidia-cudnn-cu13==9.26.0.51",
          "9c976d539786698c71d6bcdbe2053b7485fae062ff7e1215d2f2ff67b1a2149a",
        ),
        pin(
          "nvidia-cusparselt-cu13==0.8.1",
          "786ce87568c303fadb5afcc7102d454cd3040d75f6f8626f5db460d1871f4dd0",
        ),
        pin("nvidia-nccl-cu13==2.30.7", "cefa7fdb9710efd0f39c5f1be1d61ff6fc9a996c451265bd7fbdcf9455ed4b50"),
        pin("nvidia-nvshmem-cu13==3.7.2", "b9a4f843c62b5dded8ad33fd6d220e007dcd39f06cee549292f5ba14ce4c235c"),
        pin("nvidia-cublas==13.4.1.3", "a5917cb642cfb07f4a0231ee16aec7e2e0357d8cb8b1b78a0c9c68dba3e6afc7"),
        pin("nvidia-cuda-cupti==13.2.86", "8fa29f15dd8336181f961764d9d95236fc6b931dd0c8fcf8cd70aab0c310b586"),
        pin("nvidia-cuda-nvrtc==13.2.86", "8111c5130e967b78222ea2124145f8efe9ce201b752b2579a2513100a53be1c5"),
        pin(
          "nvidia-cuda-runtime==13.2.86",
          "3498247680dfddce31bad102af7e3e26fc795342a3cac64722bb0fa95e7f60f0",
        ),
        pin("nvidia-cufft==12.2.0.57", "34da27fadf3979b0b042c43823f0530be8408b86df31ee0108e1ca0b621d4ef6"),
        pin("nvidia-cufile==1.17.1.22", "87feaf8c3ad20d3d03a01933181801ff6892bace5c8f0b1e4b48f319d3e62d36"),
        pin("nvidia-cusolver==12.2.0.11", "fab5778f6769947389a1a6abc07e635576825a08c0ffc68c3ae7f1392c794b42"),
        pin(
          "nvidia-cusparse==12.7.10.12",
          "25907c75e4db1581685f06f61cc6cdecc04611765516a52373e0a18ebd69fa00",
        ),
        pin("nvidia-nvjitlink==13.5.37", "280d7cb9649704145f074b8dbde500de04ce02d0872e066e20a83c17bcaa93eb"),
      ],
    },
    aarch64: {
      driver: 13,
      download: 2908,
      unpacked: 3900,
      wheels: [
        pin("torch==2.15.0", "58ce2ebfb3430941353109a85be63ee8e941da22f13daa2c43344eeb51c81e06"),
        pin(
          "nvidia-cudnn-cu13==9.26.0.51",
          "8e5b4f5eccff721416f70ecf4353172fc4d5cdd8ca869fe6f983a4a5b0147b20",
        ),
        pin(
          "nvidia-cusparselt-cu13==0.8.1",
          "4dca476c50bf4780d46cd0bfbd82e2bc10a08e4fef7950917ce8d7578d22a23f",
        ),
        pin("nvidia-nccl-cu13==2.30.7", "ca786ffa5a647c75d4d1f5cc72a6c4f537947e2ba8823d7c8aaf768e7a7b9f77"),
        pin("nvidia-nvshmem-cu13==3.7.2", "0e748308b9e0a8a8d81859353f3e6c98fbe85a85f652a915a2ba60149a0bd124"),
        pin("nvidia-cublas==13.4.1.3", "4eb1472bf92b741e7cf24da7978dde251b58ddec2092d9f6a04f3623eb4e9a15"),
        pin("nvidia-cuda-cupti==13.2.86", "d9a5c133f73fcb9013f3ada0da6fb54d4117618d81f3f5a0419417ea6ee829d4"),
        pin("nvidia-cuda-nvrtc==13.2.86", "1e5d7b411a2eb83f5c71c98d58133a763fc9fa86a4241ee320c5c4782d9ad1fd"),
        pin(
          "nvidia-cuda-runtime==13.2.86",
          "37844957894bfdecf90243568d21a2cb251b66106915b71459a23c8e6ef2da69",
        ),
        pin("nvidia-cufft==12.2.0.57", "1ed438568ae1088ba2c25789d10205d4104b8b140b7bd942e39a787947a0fb74"),
        pin("nvidia-cufile==1.17.1.22", "bec33d7f1f12691dce330275246587569c2ed90b1ce43b0f94b3e1ce9268744b"),
        pin("nvidia-cusolver==12.2.0.11", "8be097fca28de6be0990ab216ee9b804dd51077e1d1d83acf6c9850650bdc64d"),
        pin(
          "nvidia-cusparse==12.7.10.12",
          "597eff2cd83e3ab1d1e3a0dce9c9c879d77cf64ec2659bfdb5af6a5d02e7aaa9",
        ),
        pin("nvidia-nvjitlink==13.5.37", "893f6f9a55b2720ed94913b5ba3332e972da8c78dfa2863d0244403dbd528ffc"),
      ],
    },
  },
  "2.10.0": {
    x86_64: {
      driver: 12,
      download: 3918,
      unpacked: 5600,
      wheels: [
        pin("torch==2.10.0", "ac5bdcbb074384c66fa160c15b1ead77839e3fe7ed117d667249afce0acabfac"),
        pin(
          "nvidia-cublas-cu12==12.8.4.1",
          "8ac4e771d5a348c551b2a426eda6193c19aa630236b418086020df5ba9667142",
        ),
        pin(
          "nvidia-cuda-cupti-cu12==12.8.90",
          "ea0cb07ebda26bb9b29ba82cda34849e73c166c18162d3913575b0c9db9a6182",
        ),
        pin(
          "nvidia-cuda-nvrtc-cu12==12.8.93",
          "a7756528852ef889772a84c6cd89d41dfa74667e24cca16bb31f8f061e3e9994",
        ),
        pin(
          "nvidia-cuda-runtime-cu12==12.8.90",
          "adade8dcbd0edf427b7204d480d6066d33902cab2a4707dcfc48a2d0fd44ab90",
        ),
        pin(
          "nvidia-cudnn-cu12==9.10.2.21",
          "949452be657fa16687d0930933f032835951ef0892b37d2d53824d1a84dc97a8",
        ),
        pin(
          "nvidia-cufft-cu12==11.3.3.83",
          "4d2dd21ec0b88cf61b62e6b43564355e5222e4a3fb394cac0db101f2dd0d4f74",
        ),
        pin(
          "nvidia-cufile-cu12==1.13.1.3",
          "1d069003be650e131b21c932ec3d8969c1715379251f8d23a1860554b1cb24fc",
        ),
        pin(
          "nvidia-curand-cu12==10.3.9.90",
          "b32331d4f4df5d6eefa0554c565b626c7216f87a06a4f56fab27c3b68a830ec9",
        ),
        pin(
          "nvidia-cusolver-cu12==11.7.3.90",
          "4376c11ad263152bd50ea295c05370360776f8c3427b30991df774f9fb26c450",
        ),
        pin(
          "nvidia-cusparse-cu12==12.5.8.93",
          "1ec05d76bbbd8b61b06a80e1eaf8cf4959c3d4ce8e711b65ebd0443bb0ebb13b",
        ),
        pin(
          "nvidia-cusparselt-cu12==0.7.1",
          "f1bb701d6b930d5a7cea44c19ceb973311500847f81b634d802b7b539dc55623",
        ),
        pin("nvidia-nccl-cu12==2.27.5", "ad730cf15cb5d25fe849c6e6ca9eb5b76db16a80f13f425ac68d8e2e55624457"),
        pin(
          "nvidia-nvjitlink-cu12==12.8.93",
          "81ff63371a7ebd6e6451970684f916be2eab07321b73c9d244dc2b4da7f73b88",
        ),
        pin("nvidia-nvshmem-cu12==3.4.5", "042f2500f24c021db8a06c5eec2539027d57460e1c1a762055a6554f72c369bd"),
      ],
    },
  },
};

export const MPICH_VERSION = "5.0.2";
export const MPICH: Readonly<Record<string, Release>> = {
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

/** The newest PyTorch that a driver with this CUDA ("13.2") can run; null where it can run none of these. */
export function newestReleaseFor(cuda: string): string | null {
  const major = Number.parseInt(cuda);
  const fits = Object.entries(CUDA_RELEASES).find(([, { x86_64 }]) => x86_64.driver <= major);
  return fits ? fits[0] : null;
}

/** The cuDNN that a PyTorch is released with ("2.15.0" with "9.26.0"); null where that is not known here. */
export function cudnnOf(torch: string): string | null {
  const wheels = CUDA_RELEASES[torch]?.x86_64.wheels ?? [];
  return wheels.map(({ requirement }) => /^nvidia-cudnn-cu\d+==(\d+\.\d+\.\d+)/.exec(requirement)?.[1]).find(
    Boolean,
  ) ?? null;
}
