// YAML with the position of every node. Eemeli Aro's package; the standard library's tells no columns.
export {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  stringify,
  type YAMLMap,
} from "npm:yaml@2.9.1";
