// Reads AsyncAPI documents and prints what the official parser says of them, as JSON.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";

const [, , folder, ...files] = process.argv;
const require = createRequire(path.join(folder, "package.json"));
const { Parser } = require("@asyncapi/parser");
const parser = new Parser();
const results = {};
for (const file of files) {
  const { document, diagnostics } = await parser.parse(await readFile(file, "utf8"));
  const errors = diagnostics.filter((each) => each.severity === 0);
  results[file] = {
    errors: errors.map((each) => `${each.path.join("/")}: ${each.message}`),
    operations: document === undefined ? null : document.operations().all().map((each) => ({
      id: each.id(),
      action: each.action(),
      address: each.channels().all().map((channel) => channel.address()),
      messages: each.messages().all().map((message) => message.id()),
      reply: each.reply()?.channel()?.address() ?? null,
    })),
  };
}
console.log(JSON.stringify(results));
