// The first failure of a job: which rank failed, why, and what each rank ends with.
import { EXIT, type ExitKind, UserError } from "../../base/errors.ts";
import type { Beat, Hello } from "./messages.ts";

/** Why a job failed, for code that acts on it. Sentences are for people alone. */
export type FailureCause =
  /** The rank reported an error of its own. */
  | { readonly kind: "error" }
  /** The rank waited for longer than a measurement may take; these nodes may be at fault. */
  | { readonly kind: "time limit"; readonly suspects: readonly string[] }
  /** These ranks never arrived. */
  | { readonly kind: "missing"; readonly ranks: readonly number[] }
  /** The ranks can't work together. */
  | { readonly kind: "refused" }
  /** The rank is gone, silent, or holds up the others. */
  | { readonly kind: "lost" };

/** The first failure in the job: what ended it, whatever failed after it. */
export interface FirstError {
  readonly rank: number;
  readonly host: string;
  readonly step: number;
  readonly cause: FailureCause;
  /** The sentence of the rank that failed, and its exit code. */
  readonly sentence: string;
  readonly code: number;
  /** The sentence that the other ranks print, and the code that they end with. */
  readonly othersSentence: string;
  readonly othersCode: number;
  /** True where the sentence of the others begins with the name of the rank that failed. */
  readonly namesRank: boolean;
}

/** The first failure, as one of the job's ranks ends with it. */
export class JobFailed extends UserError {
  /** The rank that the message begins with the name of, or null. */
  readonly about: number | null;
  constructor(readonly first: FirstError, rank: number) {
    const own = first.rank === rank, code = own ? first.code : first.othersCode;
    const kind = (Object.keys(EXIT) as ExitKind[]).find((kind) => EXIT[kind] === code) ?? "communication";
    super(kind, own ? first.sentence : first.othersSentence);
    this.about = first.namesRank && this.message === first.othersSentence ? first.rank : null;
  }
}

/** A rank waited for longer than a measurement may take. */
export class TimeLimitError extends UserError {
  /** `suspects`: nodes that may be at fault. */
  constructor(sentence: string, readonly suspects: readonly string[] = []) {
    super("communication", sentence);
  }
}

type Rank = Pick<Hello, "rank" | "host">;

/** A failure that every rank ends with in the same way. */
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

/** A failure that the rank itself could still report. */
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

/** A rank that can't report anything: `why` completes "Rank 3 on node07". */
export function rankLost(
  { hello, beat }: { readonly hello: Rank; readonly beat: Beat | null },
  why: string,
): FirstError {
  const last = beat ? ` It was in ${beat.phase}, at step ${beat.step}.` : "";
  return commonFailure(hello, { kind: "lost" }, `${rankOnHost(hello)} ${why}.${last}`, { step: beat?.step });
}

/** "Rank 3 on node07". */
export const rankOnHost = ({ rank, host }: Rank): string => `Rank ${rank} on ${host}`;
