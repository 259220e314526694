// The linker's name of an op's C++ function, at::_ops::NAME_OVERLOAD::call, from its schema: the Itanium C++ ABI's names,
// in which what was named before is a number.
import type { Argument, Schema } from "./schema.ts";

/** "_ZN2at4_ops11mul_Scalar4call...", or null where an argument has a type that is not known here. */
export function callSymbol(schema: Schema): string | null {
  const struct = schema.overload === "" ? schema.name : `${schema.name}_${schema.overload}`;
  const names = new Names();
  const prefix = names.nested(["at", "_ops", struct]);
  const args = schema.args.map((a) => typeOf(a, names));
  if (args.includes(null)) return null;
  return `_ZN${prefix}4callE${args.join("") || "v"}`;
}

class Names {
  readonly #seen: string[] = [];

  /** What was named before as its number: S_, S0_, S1_ ... */
  once(key: string, spell: () => string): string {
    const at = this.#seen.indexOf(key);
    if (at >= 0) return at === 0 ? "S_" : `S${(at - 1).toString(36).toUpperCase()}_`;
    const text = spell();
    this.#seen.push(key);
    return text;
  }

  /** Scopes, from the outermost one: "2at4_ops". */
  nested(scopes: readonly string[]): string {
    if (scopes.length === 0) return "";
    const last = scopes.at(-1)!;
    return this.once(scopes.join("::"), () => `${this.nested(scopes.slice(0, -1))}${last.length}${last}`);
  }

  /** A class in a namespace, with what it is a template of. */
  class(scope: string, name: string, parameter?: () => string, of = ""): string {
    const whole = `${scope}::${name}${parameter ? `<${of}>` : ""}`;
    return this.once(whole, () => {
      if (!parameter) return `N${this.nested([scope])}${name.length}${name}E`;
      return `N${this.nested([scope, name])}I${parameter()}EE`;
    });
  }

  optional(of: string, inner: () => string): string {
    return this.once(`std::optional<${of}>`, () => {
      const template = this.once("std::optional", () => "St8optional");
      return `${template}I${inner()}E`;
    });
  }

  reference(of: string, inner: () => string, constant: boolean): string {
    const plain = () => constant ? this.once(`${of} const`, () => `K${inner()}`) : inner();
    return this.once(`${of}${constant ? " const" : ""}&`, () => `R${plain()}`);
  }

  text(): string {
    return this.once("std::string_view", () => {
      const template = this.once("std::basic_string_view", () => "St17basic_string_view");
      const traits = this.once("std::char_traits<char>", () => {
        return `${this.once("std::char_traits", () => "St11char_traits")}IcE`;
      });
      return `${template}Ic${traits}E`;
    });
  }
}

const PLAIN: Readonly<Record<string, string>> = { int: "l", float: "d", bool: "b" };
const OF_C10 = new Set(["ScalarType", "Layout", "Device", "MemoryFormat"]);

function typeOf(a: Argument, names: Names): string | null {
  const { base, list, optional, symbolic, gaps } = a;
  const tensor = () => names.class("at", "Tensor");
  const scalar = () => names.class("c10", "Scalar");
  if (list) {
    if (optional || gaps || base !== "int") return null;
    const item = symbolic ? () => names.class("c10", "SymInt") : () => "l";
    return names.class("c10", "ArrayRef", item, symbolic ? "SymInt" : "l");
  }
  if (base === "Tensor") {
    if (optional) return names.reference("Tensor?", () => names.optional("Tensor", tensor), true);
    return names.reference("Tensor", tensor, a.memory !== "written");
  }
  if (base === "Scalar") {
    if (optional) return names.reference("Scalar?", () => names.optional("Scalar", scalar), true);
    return names.reference("Scalar", scalar, true);
  }
  const inner = base === "int" && symbolic
    ? () => names.class("c10", "SymInt")
    : Object.hasOwn(PLAIN, base)
    ? () => PLAIN[base]
    : OF_C10.has(base)
    ? () => names.class("c10", base)
    : base === "Generator"
    ? () => names.class("at", "Generator")
    : base === "str"
    ? () => names.text()
    : null;
  if (inner === null) return null;
  return optional ? names.optional(`${base}${symbolic}`, inner) : inner();
}
