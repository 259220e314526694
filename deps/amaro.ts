// Erases types in place, as Node.js does. WebAssembly: import it when a file of a user's is given.
export { transformSync } from "npm:amaro@1.2.1";
