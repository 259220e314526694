// Markdown to HTML, for the site of the documents (scripts/site). The program itself does not import it.
export { Marked, type Token, type Tokens } from "npm:marked@18.2.1";
