import { EXIT, type ExitKind, UserError } from "../../base/errors.ts";
import type { Beat, Hello } from "./messages.ts";

/** Code acts on this; sentences are for people alone. */
export type FailureCause =
  | { readonly kind: "error" }
  /** The rank waited for longer than a measurement may take; these nodes may be at fault. */
  | { readonly kind: "time limit"; readonly suspects: readonly string[] }
  | { readonly kind: "missing"; readonly ranks: readonly number[] }
  | { readonly kind: "refused" }
  /** The rank is gone, silent, or holds up the others. */
  | { readonly kind: "lost" };

export interface FirstError {
  readonly rank: number;
  readonly host: string;
  readonly step: number;
  readonly cause: FailureCause;
  readonly sentence: string;
  readonly code: number;
  readonly othersSentence: string;
  readonly othersCode: number;
  /** True where the sentence of the others begins with the name of the rank that failed. */
  readonly namesRank: boolean;
}

export class JobFailed extends UserError {
  /** Null where the message begins with no rank's name. */
  readonly about: number | null;
  constructor(readonly first: FirstError, rank: number) {
    const own = first.rank === rank, code = own ? first.code : first.othersCode;
    const kind = (Object.keys(EXIT) as ExitKind[]).find((kind) => EXIT[kind] === code) ?? "communication";
    super(kind, own ? first.sentence : first.othersSentence);
    this.about = first.namesRank && this.message === first.othersSentence ? first.rank : null;
  }
}

/** A rank waited for longer than a measurement may take; the nodes in `suspects` may be at fault. */
export class TimeLimitError extends UserError {
  constructor(sentence: string, readonly suspects: readonly string[] = []) {
    super("communication", sentence);
  }
}

type Rank = Pick<Hello, "rank" | "host">;

/** Every rank ends with it in the same way. */
export function commonFailure(
  { rank, host }: Rank,
  cause: FailureCause,
  sentence: string,
  { code = EXIT.communication, step = 0, namesRank = true }: {
    code?: number;
    step?: number;
    namesRank?: boolean;
  } = {},
): FirstError {
  return {
    rank,
    host,
    step,
    cause,
    sentence,
    code,
    othersSentence: sentence,
    othersCode: code,
    namesRank,
  };
}

export const reportedFailure = (
  { rank, host }: Rank,
  { cause, sentence, code, step }: Pick<FirstError, "cause" | "sentence" | "code" | "step">,
): FirstError => ({
  rank,
  host,
  step,
  cause,
  sentence,
  code,
  othersSentence: `${rankOnHost({ rank, host })} failed first, at step ${step}: ${sentence}`,
  othersCode: EXIT.communication,
  namesRank: true,
});

/** `why` completes "Rank 3 on node07". */
export function rankLost(
  { hello, beat }: { readonly hello: Rank; readonly beat: Beat | null },
  why: string,
): FirstError {
  const last = beat ? ` It was in ${beat.phase}, at step ${beat.step}.` : "";
  return commonFailure(hello, { kind: "lost" }, `${rankOnHost(hello)} ${why}.${last}`, { step: beat?.step });
}

/** "Rank 3 on node07". */
export const rankOnHost = ({ rank, host }: Rank): string => `Rank ${rank} on ${host}`;
