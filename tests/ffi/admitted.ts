// Of the operations of a registry: those that a graph may hold. Test helper.
import { refusedName, refusedSchema } from "../../core/models/exported/admitted.ts";
import { operator, schemaText } from "../../ffi/operators.ts";
import type { Registered } from "./registry.ts";

export function admittedOf(all: readonly Registered[]): { name: string; overload: string; text: string }[] {
  return all.filter(({ namespace, name, overload }) => {
    if (refusedName(namespace, name, overload) !== "") return false;
    const op = operator(`${namespace}::${name}`, overload);
    return op !== null && refusedSchema(op.schema) === "";
  }).map(({ namespace, name, overload }) => ({
    name,
    overload,
    text: schemaText(`${namespace}::${name}`, overload)!,
  }));
}
