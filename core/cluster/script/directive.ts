// Lines that a scheduler reads: #SBATCH and #PBS. May import errors.
import { UserError } from "../../errors.ts";

const PLAIN = /^[\w@%+=:,./()[\]*&|!<>~^-]*$/;

/** `#SBATCH --name=value`; sbatch takes quotes off, and a backslash before any letter. */
export function sbatchLine(name: string, value: string | number | true): string {
  if (value === true) return `#SBATCH --${name}`;
  const text = String(value);
  refuseLines(`--${name}`, text);
  return `#SBATCH --${name}=${PLAIN.test(text) ? text : `"${text.replace(/["\\]/g, "\\$&")}"`}`;
}

/** An option that is passed on untouched: "--gres=gpu:2" or "-p short". */
export function sbatchOption(option: string): string {
  refuseLines("--sbatch-arg", option);
  refuseWord("--sbatch-arg", option);
  const equals = option.indexOf("=");
  if (!option.startsWith("--") || equals < 0) return `#SBATCH ${option}`;
  return sbatchLine(option.slice(2, equals), option.slice(equals + 1));
}

/** `#PBS -x value`. PBS has no way to quote, so what it would cut in two is refused. */
export function pbsLine(option: string, value: string): string {
  refuseLines(option, value);
  if (PLAIN.test(value)) return `#PBS ${option} ${value}`;
  throw new UserError(
    "usage",
    `${option} ${
      JSON.stringify(value)
    } can't stand in a #PBS line, which ends at blanks, quotes and #. Give it without them.`,
  );
}

/** Passed on untouched; blanks part it into words, as PBS parts them. */
export function pbsOption(option: string): string {
  refuseLines("--qsub-arg", option);
  refuseWord("--qsub-arg", option);
  return `#PBS ${option}`;
}

function refuseLines(name: string, text: string): void {
  // deno-lint-ignore no-control-regex
  if (!/[\u0000-\u001f\u007f]/.test(text)) return;
  throw new UserError(
    "usage",
    `${name} ${
      JSON.stringify(text)
    }: the scheduler reads it from a comment line of the script, which can't hold a ` +
      "line break or another control character. Remove it.",
  );
}

function refuseWord(name: string, option: string): void {
  if (/^-{1,2}[A-Za-z]/.test(option)) return;
  throw new UserError(
    "usage",
    `${name} ${
      JSON.stringify(option)
    } is no option: ${name} takes one as it stands on the command line, with its ` +
      `dashes: ${name}=${name === "--qsub-arg" ? "'-l software=x'" : "--nice=100"}.`,
  );
}
