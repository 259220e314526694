// The C library, the kernel and the architecture: what the executable and libtorch are built on. May import ffi, line.
import { glibcVersion } from "../../../ffi/machine.ts";
import { bad, good, type Line, olderVersion } from "./line.ts";

export interface SystemFacts {
  readonly glibc: string | null;
  readonly kernel: string;
  readonly arch: string;
}

export const gatherSystem = (): SystemFacts => ({
  glibc: glibcVersion(),
  kernel: Deno.osRelease(),
  arch: Deno.build.arch,
});

/** What libtorch's own builds are made for: of the systems in use, RHEL 8 has the oldest. */
const OLDEST = "2.28";

export function judgeSystem({ glibc, kernel, arch }: SystemFacts): Line[] {
  const on = `Linux ${kernel} on ${arch}`;
  if (glibc === null) {
    return [
      bad("glibc", `${on} has no glibc (musl?)`, "Use a system or a container with glibc 2.28 or newer."),
    ];
  }
  if (olderVersion(glibc, OLDEST)) {
    return [bad(
      "glibc",
      `${glibc}, and libtorch needs ${OLDEST} or newer (${on})`,
      "Use a newer login image, or a container (apptainer, enroot) of RHEL 8, Debian 10, Ubuntu 20.04 or newer.",
    )];
  }
  return [good("glibc", `${glibc}, ${on}`)];
}
