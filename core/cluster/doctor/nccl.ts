// The NCCL that ranks on GPUs would use, and what is known against its version. May import ffi/nccl, line.
import { findNccl } from "../../../ffi/nccl/find.ts";
import { openNccl } from "../../../ffi/nccl/nccl.ts";
import { bad, good, type Line, olderVersion, warn } from "./line.ts";

export interface NcclFacts {
  /** Null: no GPU here that libtorch can use, so none is needed. */
  readonly found: {
    readonly path: string | null;
    readonly from: string;
    /** "2.28.9"; null where it can't be opened. */
    readonly version: string | null;
    /** What is known against it on this machine, told by its own notes. */
    readonly against: string | null;
    /** Why there is none, or it can't be opened. */
    readonly why: string;
  } | null;
}

export function gatherNccl(torch: string | null, gpus: number, env: Record<string, string>): NcclFacts {
  if (torch === null || gpus === 0) return { found: null };
  let at: { path: string; from: string } | null = null;
  try {
    const { chosen, rejected } = findNccl(torch, env);
    at = chosen;
    if (!at) {
      const why = rejected.map(({ dir, reason }) => `${dir}: ${reason}`).join("; ");
      return { found: { path: null, from: "", version: null, against: null, why } };
    }
    const { version, against } = openNccl(at.path);
    return { found: { ...at, version: version.replace(/^NCCL /, ""), against, why: "" } };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { found: { path: at?.path ?? null, from: at?.from ?? "", version: null, against: null, why } };
  }
}

/** Faults of a range of versions whatever the machine, from their release notes. */
const KNOWN = [
  {
    from: "2.18.1",
    before: "2.18.3",
    what: "its Tree algorithm can corrupt data where one network card serves one GPU",
    instead: "NCCL_PROTO=^LL128 avoids it",
  },
  {
    from: "2.29.2",
    before: "2.29.3",
    what: "its ranks can wait for one another for ever",
    instead: "2.29.3 mends it",
  },
];

const NAME = "NCCL";
const ANOTHER = "name another with HPCTRAIN_NCCL=/path/to/libnccl.so.2";

export function judgeNccl({ found }: NcclFacts): Line[] {
  if (found === null) return [];
  const { path, from, version, against, why } = found;
  if (path === null) {
    const reasons = why ? ` (${why})` : "";
    return [warn(
      NAME,
      `none was found${reasons}: several ranks on GPUs could not communicate, one rank can train`,
      `Load the site's NCCL module, or ${ANOTHER}.`,
    )];
  }
  if (version === null) return [bad(NAME, `${path} can't be used: ${why}`, `To get on, ${ANOTHER}.`)];
  const which = `${version}, ${path} (${from})`;
  const known = KNOWN.find(({ from, before }) =>
    !olderVersion(version, from) && olderVersion(version, before)
  );
  if (against !== null) return [warn(NAME, `${which}: ${against}`, `Take a newer one: ${ANOTHER}.`)];
  if (known) {
    return [warn(
      NAME,
      `${which} has a known fault (${known.from} to before ${known.before}): ${known.what}`,
      `Take a newer one: ${ANOTHER}; ${known.instead}.`,
    )];
  }
  return [good(NAME, which)];
}
