// Turns errors of libtorch, of libraries, of the system and of users' TypeScript into sentences with an exit
// code.
import { gpuBackend, heldByOthers } from "../../ffi/cuda.ts";
import { deviceHelp, LibraryError, NativeError } from "../../ffi/errors.ts";
import { refused, UserError } from "../base/errors.ts";
import { formatBytes } from "../base/format.ts";
import { asMistake } from "./user/file.ts";

export function asUserError(error: unknown): unknown {
  if (error instanceof LibraryError) return new UserError("environment", error.message, { cause: error });
  error = refused(asMistake(error), "environment");
  if (!(error instanceof NativeError)) return error;
  if (error.outOfMemory) {
    return new UserError(
      "memory",
      `Out of memory before the first step (${error.native.slice(0, 300)}). ` +
        `Take a smaller model or less data, or a device with more memory.${othersHeld()}`,
      { cause: error },
    );
  }
  if (error.ofDevice) return deviceFailed(error);
  if (/modified by an inplace operation/.test(error.native)) return writtenOver(error);
  const op = /(\S+) does not have a deterministic implementation/.exec(error.native)?.[1];
  return op === undefined ? error : new UserError(
    "usage",
    `--deterministic, but this model needs ${op}, which has no deterministic form on this device. ` +
      "Leave out --deterministic, choose another model, or use --device cpu.",
    { cause: error },
  );
}

const writtenOver = (error: NativeError): UserError =>
  new UserError(
    "usage",
    `Backward needs what forward has written over, as it would in PyTorch (${
      error.native.split(" Hint:")[0].slice(0, 300)
    }). Write that operation without the "_" behind its name. In an exported program it may stand in the forward of a ` +
      "torch.autograd.Function, whose backward torch.export drops: torch.export.save(program.run_decompositions(), path) " +
      "writes nothing over.",
    { cause: error },
  );

/** It is put behind a sentence about memory. */
export function othersHeld(): string {
  const held = heldByOthers();
  if (held === 0) return "";
  return ` Other processes held ${
    formatBytes(held)
  } of this GPU when the run began: ${gpuBackend().words.tool} names them.`;
}

function deviceFailed(error: NativeError): UserError {
  const { words } = gpuBackend();
  const why = /device-side assert/.test(error.native)
    ? "An index was outside of its table: a class or a token that the model has no place for. The same run with --device cpu says which."
    : deviceHelp(error.native, words) ??
      `Look at ${words.tool} and the system's log (${words.log}) for this GPU, and run hpctrain doctor; ` +
        `${words.blocking} names the op that failed first.`;
  return new UserError(
    "environment",
    `The GPU failed in ${error.op}: ${
      error.native.slice(0, 300)
    }. ${why} Checkpoints from before it are kept.`,
    { cause: error },
  );
}
