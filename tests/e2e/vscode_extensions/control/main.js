// A loopback channel into the extension host: a test posts JavaScript, which runs with `vscode`, `args` and `kept`.
// The port is written beside the workspace's folder, so that windows of one server do not meet.
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const vscode = require('vscode');

exports.activate = (context) => {
  const folder = vscode.workspace.workspaceFile ?? vscode.workspace.workspaceFolders?.[0]?.uri;
  if (folder === undefined) return;
  const kept = {};
  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { code, args } = JSON.parse(Buffer.concat(chunks).toString());
    let reply;
    try {
      const run = new Function('vscode', 'args', 'kept', `return (async () => { ${code} })()`);
      reply = { result: (await run(vscode, args, kept)) ?? null };
    } catch (error) {
      reply = { error: String(error?.stack ?? error), code: error?.code ?? null, data: error?.data ?? null };
    }
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(reply));
  });
  server.listen(0, '127.0.0.1', () => {
    const file = path.join(path.dirname(folder.fsPath), 'control-port');
    fs.writeFileSync(`${file}.new`, String(server.address().port));
    fs.renameSync(`${file}.new`, file);
  });
  context.subscriptions.push({ dispose: () => server.close() });
};
