// Paths of files, by the runtime itself: the standard library's are 73 modules, which each thread would load.
export { basename, dirname, isAbsolute, join, normalize, relative, resolve } from "node:path/posix";
export { fileURLToPath as fromFileUrl, pathToFileURL as toFileUrl } from "node:url";
