// Starts `dragoman lsp` and connects the editor to it.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function activate(context) {
  const [command, ...args] = vscode.workspace.getConfiguration("dragoman").get("command");
  const options = { documentSelector: [{ language: "mdsl" }] };
  client = new LanguageClient("dragoman", "AsyncMDSL", { command, args }, options);
  context.subscriptions.push({ dispose: () => client.stop() });
  try {
    await client.start();
  } catch (error) {
    const help = "In a clone of Dragoman, run: pip install '.[lsp]'. Or set dragoman.command.";
    vscode.window.showErrorMessage(`The language server did not start: ${error.message}. ${help}`);
  }
}

function deactivate() {
  return client === undefined ? undefined : client.stop();
}

module.exports = { activate, deactivate };
