import { join } from "../../../../deps/path.ts";
import type { Format } from "../../format.ts";

export const FOLDERS = ["", "raw", "MNIST/raw", "FashionMNIST/raw", "KMNIST/raw"];
export const IDX_NAME = /idx(\d)-ubyte(\.gz)?$/;

export function find(root: string, name: string, dimensions: number): string | undefined {
  return candidates(root, name, dimensions).find(isFile);
}

/** Some mirrors have a dot where torchvision has a dash; files may be gzipped. */
function candidates(root: string, name: string, dimensions: number): string[] {
  return FOLDERS.flatMap((folder) =>
    ["-", "."].flatMap((mark) =>
      ["", ".gz"].map((ending) => join(root, folder, `${name}${mark}idx${dimensions}-ubyte${ending}`))
    )
  );
}

/** A forbidden file counts as existing: reading it then says why it fails. */
function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    return error instanceof Deno.errors.PermissionDenied;
  }
}

export const mnist: Format = {
  endings: [],
  folder: {
    has: "train-images-idx3-ubyte",
    detect: (root) => find(root, "train-images", 3) !== undefined,
  },
  path: "the folder with train-images-idx3-ubyte",
  previews: IDX_NAME,
  load: () => import("./mnist.ts").then(({ reader }) => reader),
};
